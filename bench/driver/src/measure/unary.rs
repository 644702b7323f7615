//! SendMessage and GetTask: throughput, latency and CPU of the server for each call.

use anyhow::Context as _;

use super::{Bench, Turn, same};
use crate::load::{self, Timed};
use crate::process::Server;
use crate::request::Request;
use crate::response::Connection;

/// The rate that every server can serve, at which all are asked alike.
const SAME_RATE: u32 = 4_000;

pub(crate) async fn send(bench: &mut Bench) {
    for (width, rate) in [(1, None), (16, None), (64, None), (16, Some(SAME_RATE))] {
        for turn in bench.turns(bench.options.rounds) {
            bench.progress(&format!("SendMessage, {}", shape(width, rate)), turn);
            let outcome = send_once(bench, turn, width, rate).await;
            bench.keep_failure("SendMessage", turn, outcome);
        }
    }
}

async fn send_once(bench: &mut Bench, turn: Turn, width: usize, rate: Option<u32>) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    let requests = vec![Request::send_message(server.address); width];
    let timed = load::calls(&server, requests, rate, bench.options.window()).await?;
    record(bench, "SendMessage", turn, &shape(width, rate), &timed);
    Ok(())
}

pub(crate) async fn get(bench: &mut Bench) {
    for rate in [None, Some(SAME_RATE)] {
        for turn in bench.turns(bench.options.rounds) {
            bench.progress(&format!("GetTask, {}", shape(16, rate)), turn);
            let outcome = get_once(bench, turn, 16, rate).await;
            bench.keep_failure("GetTask", turn, outcome);
        }
    }
}

async fn get_once(bench: &mut Bench, turn: Turn, width: usize, rate: Option<u32>) -> anyhow::Result<()> {
    let server = Server::start(turn.contender, &[])?;
    let mut connection = Connection::open(server.address).await?;
    let mut requests = Vec::new();
    for number in 0..width {
        let task = same::send(&mut connection, &server, number as u64).await?;
        requests.push(Request::get_task(server.address, task["id"].as_str().context("a task without id")?));
    }
    let timed = load::calls(&server, requests, rate, bench.options.window()).await?;
    record(bench, "GetTask", turn, &shape(width, rate), &timed);
    Ok(())
}

fn shape(width: usize, rate: Option<u32>) -> String {
    let connections = if width == 1 { "1 connection".to_owned() } else { format!("{width} connections") };
    rate.map_or(connections.clone(), |rate| format!("{connections} at {rate}/s"))
}

fn record(bench: &mut Bench, group: &'static str, turn: Turn, shape: &str, timed: &Timed) {
    bench.add(group, format!("{shape}: CPU µs/request"), turn, timed.cpu_micros_each());
    bench.add(group, format!("{shape}: requests/s"), turn, timed.per_second());
    bench.add(group, format!("{shape}: p50 ms"), turn, timed.latency_ms(0.50));
    bench.add(group, format!("{shape}: p99 ms"), turn, timed.latency_ms(0.99));
}
