//! What it costs to stand between a caller and an agent: our relay beside plain proxies, in front of the same `limit`.

use std::net::SocketAddr;
use std::process::Command;

use super::{Bench, Turn};
use crate::contender::{self, BARE, Contender, DATABASE, LIMIT};
use crate::load;
use crate::nginx;
use crate::process::Server;
use crate::request::{Request, Speech};

/// Its columns are who stands between, not the servers.
pub(crate) const GROUP: &str = "Relay";
/// The one that ratios refer to.
pub(crate) const PROXY: &str = "proxy";
pub(crate) const NGINX: &str = "nginx";

pub(crate) const BETWEEN: [&Contender; 6] = [
    &Contender { name: PROXY, package: "bench-proxy", ..BARE },
    &Contender { name: NGINX, package: nginx::PROGRAM, ..BARE },
    &Contender { name: "relay", ..RELAY },
    &Contender { name: "relay from REST", speaks: Speech::Rest, ..RELAY },
    &Contender { name: "relay from v0.3", speaks: Speech::OldJsonRpc, ..RELAY },
    &Contender { name: "relay+sqlite", flags: &["--store", DATABASE], ..RELAY },
];
const RELAY: Contender = Contender { package: "bench-relay", of: "chancery-sdk", ..BARE };

const WIDTH: usize = 16;
/// A rate that all of them can serve.
const SAME_RATE: u32 = 2_000;
/// Chunks, and milliseconds between them.
const STREAMS: [(u32, u32); 3] = [(10, 0), (100, 0), (100, 1)];

pub(crate) async fn all(bench: &mut Bench) {
    let between: Vec<_> = BETWEEN.into_iter().filter(|one| one.name != NGINX || has_nginx()).collect();
    if between.len() < BETWEEN.len() {
        bench.figures.note("nginx is not installed, so it was not measured".to_owned());
    }
    for round in 0..bench.options.rounds {
        for at in 0..between.len() {
            let turn = Turn { round, contender: between[(round + at) % between.len()] };
            bench.progress("relay", turn);
            let outcome = once(bench, turn).await;
            bench.keep_failure("relaying", turn, outcome);
        }
    }
}

/// Every measure has processes of its own, so that none finds what another has left.
async fn once(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    for rate in [None, Some(SAME_RATE)] {
        let (_agent, server) = start(turn.contender)?;
        let requests = vec![Request::send_message_in(turn.contender.speaks, server.address); WIDTH];
        let timed = load::calls(&server, requests, rate, bench.options.window()).await?;
        let paced = rate.map_or("as fast as they can".to_owned(), |rate| format!("at {rate}/s"));
        let shape = format!("SendMessage, {WIDTH} connections {paced}");
        bench.add(GROUP, format!("{shape}: CPU µs/request"), turn, timed.cpu_micros_each());
        bench.add(GROUP, format!("{shape}: requests/s"), turn, timed.per_second());
        bench.add(GROUP, format!("{shape}: p99 ms"), turn, timed.latency_ms(0.99));
    }
    for (chunks, pause_ms) in STREAMS {
        let (_agent, server) = start(turn.contender)?;
        let request = Request::stream_in(turn.contender.speaks, server.address, chunks, pause_ms);
        let timed = load::streams(&server, WIDTH, &request, bench.options.window()).await?;
        let paced = if pause_ms == 0 { "at once" } else { "1 ms apart" };
        let label = format!("stream of {chunks} chunks {paced}, {WIDTH} connections: CPU µs/event");
        bench.add(GROUP, label, turn, timed.cpu_micros_each());
        if timed.cut > 0 {
            let name = turn.contender.name;
            bench.figures.note(format!("{name} cut {:.0} % of its streams short", timed.cut_percent()));
        }
    }
    Ok(())
}

/// The agent, and who stands before it.
fn start(contender: &Contender) -> anyhow::Result<(Server, Server)> {
    let agent = Server::start(contender::named(LIMIT)?, &[])?;
    let upstream: SocketAddr = agent.address;
    let server = match contender.name {
        NGINX => nginx::start(contender, upstream)?,
        _ => Server::start(contender, &["--upstream", &upstream.to_string()])?,
    };
    Ok((agent, server))
}

fn has_nginx() -> bool {
    Command::new(nginx::PROGRAM).arg("-v").output().is_ok_and(|output| output.status.success())
}
