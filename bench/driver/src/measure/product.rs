//! The product: what a governed call costs `chancery serve`, beside what a user would put there instead, before the same agent.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::Bench;
use crate::contender::{self, LIMIT};
use crate::gateway::{self, Gateway, Tools};
use crate::load;
use crate::process::Server;
use crate::request::{Door, Request, TEXT};
use crate::response::Connection;

/// Its columns are the gateways, not the servers.
pub(crate) const GROUP: &str = "Product";
pub(crate) const SEND: &str = "SendMessage";

const WIDTH: usize = 16;
/// Chunks of the streams, which come as fast as they can.
const STREAMS: [u32; 2] = [10, 100];

/// A turn that others disturbed is taken again after the others, which counts in its place; so often at most.
const MOST_TURNS: usize = 2;
/// Until the checks of a gateway are done, which may still be starting.
const MOST_TO_ANSWER: Duration = Duration::from_secs(120);

/// What is asked for: a message, or a stream of so many chunks.
#[derive(Clone, Copy)]
enum Shape {
    Unary,
    Stream(u32),
}

pub(crate) async fn all(bench: &mut Bench) -> anyhow::Result<()> {
    let tools = Tools::prepare(bench.options.build)?;
    for note in tools.notes() {
        bench.figures.note(note);
    }
    let mut absent = gateway::ALL.iter().filter(|gateway| !tools.has(gateway));
    if let Some(gateway) = absent.next().filter(|_| bench.options.complete) {
        bail!("{} cannot be had; {}", gateway.name, tools.notes().join("; "));
    }
    let gateways: Vec<_> = gateway::ALL.iter().filter(|gateway| tools.has(gateway)).collect();
    let gateways = &gateways;
    for shape in [Shape::Unary].into_iter().chain(STREAMS.map(Shape::Stream)) {
        let in_round =
            |round| (0..gateways.len()).map(move |at| (round, gateways[(round + at) % gateways.len()]));
        let mut turns: Vec<(usize, &Gateway)> = (0..bench.options.rounds).flat_map(in_round).collect();
        for _ in 0..MOST_TURNS {
            let mut again = Vec::new();
            for (round, gateway) in turns {
                eprintln!("product, {}, round {}: {}", shape.name(), round + 1, gateway.name);
                match once(bench, &tools, (round, gateway), shape).await {
                    Ok(lost) if lost > load::MOST_LOST[1] => again.push((round, gateway)),
                    Err(error) if bench.options.complete => {
                        return Err(error).with_context(|| format!("{}: {}", shape.name(), gateway.name));
                    }
                    outcome => bench.keep_failure_of(gateway.name, &shape.name(), outcome.map(drop)),
                }
            }
            turns = again;
        }
    }
    Ok(())
}

/// A fresh agent and a fresh gateway, checked before they are timed. Gives the share of the machine that others had.
async fn once(
    bench: &mut Bench,
    tools: &Tools,
    (round, gateway): (usize, &'static Gateway),
    shape: Shape,
) -> anyhow::Result<f64> {
    let agent = Server::start(contender::named(LIMIT)?, &[])?;
    let (server, door) = gateway.start(tools, agent.address)?;
    tokio::time::timeout(MOST_TO_ANSWER, check(gateway, &door)).await??;
    server.wait_until_idle()?;
    let window = bench.options.window();
    let (timed, unit, waited) = match shape {
        Shape::Unary => {
            let requests = vec![Request::send_message_through(&door); WIDTH];
            (load::calls(&server, requests, None, window).await?, "call", "")
        }
        Shape::Stream(chunks) => {
            let request = Request::stream_through(&door, chunks);
            (load::streams(&server, WIDTH, &request, window).await?, "event", "first event ")
        }
    };
    ensure!(timed.cut == 0, "{:.0} % of the streams were cut short", timed.cut_percent());
    let figures = [
        (format!("CPU µs/{unit}"), timed.cpu_micros_each()),
        (format!("{unit}s/s"), timed.per_second()),
        (format!("{waited}p50 ms"), timed.latency_ms(0.50)),
        (format!("{waited}p99 ms"), timed.latency_ms(0.99)),
        ("% of the machine that others had".to_owned(), timed.lost * 100.0),
    ];
    for (figure, value) in figures {
        bench.figures.add(GROUP, format!("{}: {figure}", shape.name()), gateway.name, round, value);
    }
    Ok(timed.lost)
}

/// Does the agent answer, was it asked in the exchange that the column names, and is nobody let in with another key?
async fn check(gateway: &Gateway, door: &Door) -> anyhow::Result<()> {
    let mut connection = Connection::open(door.address).await?;
    let reply = connection.call(Request::send_message_through(door).numbered(1)).await?;
    let reply: Value = serde_json::from_slice(reply)?;
    let (task, exchange) = (&reply["result"]["task"], gateway.exchange());
    let artifact = &task["artifacts"][0];
    ensure!(task["status"]["state"] == "TASK_STATE_COMPLETED", "not completed: {reply}");
    ensure!(artifact["parts"][0]["text"] == TEXT, "no echo: {reply}");
    ensure!(
        artifact["artifactId"] == exchange.artifact(),
        "the agent was not asked by {exchange:?}: {reply}"
    );

    let end = connection.stream(Request::stream_through(door, STREAMS[0]).numbered(2), |_| {}).await?;
    let fewest = u64::from(STREAMS[0]) + 2;
    ensure!(end.complete && (fewest..=fewest + 1).contains(&end.events), "a stream of {} events", end.events);

    if let Some(stranger) = door.with_another_key() {
        let connection = Connection::open(door.address).await?;
        let status = connection.status(Request::send_message_through(&stranger).numbered(3)).await?;
        ensure!((400..500).contains(&status), "a wrong key gets {status}");
    }
    Ok(())
}

// === impl Shape ===

impl Shape {
    fn name(self) -> String {
        match self {
            Self::Unary => SEND.to_owned(),
            Self::Stream(chunks) => format!("stream of {chunks} chunks"),
        }
    }
}
