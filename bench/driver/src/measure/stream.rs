//! Streams: CPU of the server for each event of short and long bursts, and the wait for the first event.

use super::{Bench, Turn};
use crate::load;
use crate::process::Server;
use crate::request::Request;

const GROUP: &str = "Streams";

/// Chunks, milliseconds between them, connections. Bursts show whether the cost of an event grows
/// with the stream; the paced ones are what tokens of a model look like.
const SHAPES: [(u32, u32, usize); 10] = [
    (10, 0, 1),
    (100, 0, 1),
    (1000, 0, 1),
    (10, 0, 16),
    (100, 0, 16),
    (1000, 0, 16),
    (100, 1, 1),
    (10, 1, 16),
    (100, 1, 16),
    (1000, 1, 16),
];

pub(crate) async fn all(bench: &mut Bench) {
    for (chunks, pause_ms, width) in SHAPES {
        let plural = if width == 1 { "" } else { "s" };
        let paced = if pause_ms == 0 { "at once" } else { "1 ms apart" };
        let shape = format!("{chunks} chunks {paced}, {width} connection{plural}");
        for turn in bench.turns(bench.options.rounds) {
            bench.progress(&format!("streams of {shape}"), turn);
            let outcome = events(bench, turn, (chunks, pause_ms, width), &shape).await;
            bench.keep_failure("streaming", turn, outcome);
        }
    }
    for turn in bench.turns(bench.options.rounds) {
        bench.progress("first event", turn);
        let outcome = first_event(bench, turn).await;
        bench.keep_failure("first event", turn, outcome);
    }
}

async fn events(
    bench: &mut Bench,
    turn: Turn,
    (chunks, pause_ms, width): (u32, u32, usize),
    shape: &str,
) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    let request = Request::stream(server.address, chunks, pause_ms);
    let timed = load::streams(&server, width, &request, bench.options.window()).await?;
    bench.add(GROUP, format!("{shape}: CPU µs/event"), turn, timed.cpu_micros_each());
    if timed.cut > 0 {
        let (name, cut) = (turn.contender.name, timed.cut_percent());
        bench.figures.note(format!(
            "{name} cut {cut:.0} % of the streams of {shape} short (round {}); CPU/event is over events that arrived",
            turn.round + 1
        ));
    }
    Ok(())
}

/// Chunks that come slowly, so that no later event can hurry the first one along.
async fn first_event(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    let request = Request::stream(server.address, 2, 20);
    let timed = load::streams(&server, 1, &request, bench.options.window()).await?;
    bench.add(GROUP, "first event, 1 connection: p50 ms", turn, timed.latency_ms(0.50));
    Ok(())
}
