//! Subscriptions that wait: what a thousand of them hold, and what they cost while nothing happens.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Bench, Turn};
use crate::load;
use crate::process::Server;
use crate::request::Request;
use crate::response::Connection;

const GROUP: &str = "Held subscriptions";
/// How many streams are held.
pub(crate) const HELD: usize = 1000;
const MOST_TO_START: Duration = Duration::from_secs(60);
/// Until what starting them left to be done is done.
const SETTLED: Duration = Duration::from_secs(3);

/// Open streams, each on a connection of its own.
pub(crate) struct Held {
    streams: JoinSet<anyhow::Result<()>>,
}

pub(crate) async fn all(bench: &mut Bench) {
    for turn in bench.turns(bench.options.pick(3, 1)) {
        if turn.contender.subscribes {
            bench.progress("held subscriptions", turn);
            let outcome = once(bench, turn).await;
            bench.keep_failure("held subscriptions", turn, outcome);
        }
    }
}

/// The tasks are there before memory is read, so that it is the subscriptions that are weighed.
async fn once(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    load::count(&server, 16, 1_000).await?;
    let mut connection = Connection::open(server.address).await?;
    let mut requests = Vec::with_capacity(HELD);
    for number in 0..HELD {
        let mut begin = Request::long_work(server.address);
        let reply = connection.call(begin.numbered(1_000_000 + number as u64)).await?;
        let reply: Value = serde_json::from_slice(reply)?;
        let id = reply["result"]["task"]["id"].as_str().context("a task without id")?;
        requests.push(Request::subscribe(server.address, id));
    }
    tokio::time::sleep(SETTLED).await;
    let before = server.resident()?;
    let mut held = Held::open(&server, requests).await?;
    tokio::time::sleep(SETTLED).await;
    let grown = server.resident()? as f64 - before as f64;
    bench.add(GROUP, "bytes per held subscription", turn, grown / HELD as f64);

    let idle = bench.options.pick(Duration::from_secs(20), Duration::from_secs(5));
    let cpu = server.cpu()?;
    tokio::time::sleep(idle).await;
    let cpu = server.cpu()? - cpu;
    held.ensure_open()?;
    bench.add(GROUP, "CPU ms per idle second, 1000 held", turn, cpu.as_secs_f64() * 1e3 / idle.as_secs_f64());
    Ok(())
}

// === impl Held ===

impl Held {
    /// Opens a stream for each request, and waits until each has had an event.
    pub(crate) async fn open(server: &Server, requests: Vec<Request>) -> anyhow::Result<Self> {
        let count = requests.len();
        let (started, mut waiting) = mpsc::channel(count);
        let mut streams = JoinSet::new();
        for (number, mut request) in (1_000_000..).zip(requests) {
            let mut connection = Connection::open(server.address).await?;
            let started = started.clone();
            streams.spawn(async move {
                let mut started = Some(started);
                let heard = |_| {
                    if let Some(started) = started.take() {
                        let _ = started.try_send(());
                    }
                };
                connection.stream(request.numbered(number), heard).await.map(drop)
            });
        }
        drop(started);
        let all_started = async {
            for number in 0..count {
                let started = waiting.recv().await;
                started.with_context(|| format!("only {number} of {count} streams began"))?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(MOST_TO_START, all_started).await??;
        Ok(Self { streams })
    }

    pub(crate) fn ensure_open(&mut self) -> anyhow::Result<()> {
        ensure!(self.streams.try_join_next().is_none(), "a held stream ended");
        Ok(())
    }
}
