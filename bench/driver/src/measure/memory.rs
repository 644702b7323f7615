//! Memory: what a kept task, a held stream and a long life cost.

use std::time::Duration;

use super::held::{HELD, Held};
use super::{Bench, Turn};
use crate::load;
use crate::process::Server;
use crate::request::Request;

const GROUP: &str = "Memory";
const BATCH: u64 = 10_000;
/// Longer than a server may take to sweep what has ended.
const SWEPT: Duration = Duration::from_secs(12);

pub(crate) async fn all(bench: &mut Bench) {
    for turn in bench.turns(bench.options.pick(3, 1)) {
        if turn.contender.keeps {
            bench.progress("memory per task", turn);
            let outcome = per_task(bench, turn).await;
            bench.keep_failure("memory per task", turn, outcome);
        }
        bench.progress("held streams", turn);
        let outcome = held(bench, turn).await;
        bench.keep_failure("held streams", turn, outcome);
    }
    for turn in bench.turns(1) {
        if turn.contender.compacts {
            bench.progress("memory per compacted task", turn);
            let outcome = compacted(bench, turn).await;
            bench.keep_failure("memory per compacted task", turn, outcome);
        }
        bench.progress("memory over a long life", turn);
        let outcome = long_life(bench, turn).await;
        bench.keep_failure("memory over a long life", turn, outcome);
    }
}

/// What 50,000 more tasks add, with everything kept.
async fn per_task(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &["--unbounded"])?;
    load::count(&server, 16, 10_000).await?;
    let before = server.resident()?;
    load::count(&server, 16, 50_000).await?;
    let grown = server.resident()? as f64 - before as f64;
    bench.add(GROUP, "bytes per kept task", turn, grown / 50_000.0);
    Ok(())
}

/// What a task adds once its events are gone. Batches, each given the time to be swept: memory that
/// one batch's events leave is what the next batch uses.
async fn compacted(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &["--compact"])?;
    let batches = bench.options.pick(5, 2);
    load::count(&server, 16, BATCH).await?;
    tokio::time::sleep(SWEPT).await;
    let before = server.resident()?;
    for _ in 0..batches {
        load::count(&server, 16, BATCH).await?;
        tokio::time::sleep(SWEPT).await;
    }
    let grown = server.resident()? as f64 - before as f64;
    bench.add(GROUP, "bytes per compacted task", turn, grown / (batches * BATCH) as f64);
    Ok(())
}

/// What a thousand open streams add, each with an event a second.
async fn held(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    load::count(&server, 16, 1_000).await?;
    let before = server.resident()?;
    let request = Request::stream(server.address, 100_000, 1_000);
    let mut streams = Held::open(&server, vec![request; HELD]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    streams.ensure_open()?;
    let grown = server.resident()? as f64 - before as f64;
    bench.add(GROUP, "bytes per held stream", turn, grown / HELD as f64);
    Ok(())
}

/// Whether a server that forgets as it does by default stays as large as it is.
async fn long_life(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    let (some, many) = bench.options.pick((50_000, 200_000), (5_000, 20_000));
    load::count(&server, 16, some).await?;
    let early = server.resident()? as f64;
    load::count(&server, 16, many - some).await?;
    let late = server.resident()? as f64;
    bench.add(GROUP, format!("MB resident after {some} tasks, default retention"), turn, early / 1e6);
    bench.add(GROUP, format!("MB resident after {many} tasks, default retention"), turn, late / 1e6);
    Ok(())
}
