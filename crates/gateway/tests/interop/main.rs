//! Chancery with software that we did not write: the clients of other SDKs against our server, our client against
//! their servers, and our relay between the two; one list of scenarios for all. `interop/README.md` says what the scenarios are.
//!
//! `interop/test` sets the other SDKs up and runs this. A word after `--` runs only the peers whose name has it in it,
//! and leaves the table in `docs/conformance.md` alone. With `--frameworks` the peers are what people write agents with: each behind
//! the gateway, and as its caller.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]
#![allow(clippy::print_stdout, reason = "this is a program of its own, and this is how it tells")]

mod caller;
mod cell;
mod fleet;
mod framework;
mod known;
mod ours;
mod peer;
mod process;
mod relay;
mod scenario;
mod signature;
mod table;
mod wire;

use std::process::ExitCode;
use std::time::Instant;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{self, StreamExt as _};

use cell::{Cell, Findings, Side, all_failed};
use known::Known;
use ours::Server;
use peer::{PEERS, Peer, Suite};
use wire::{SPOKEN, Wire};

/// How many peers are at work at a time; most of the time they wait.
const AT_A_TIME: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let begun = Instant::now();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |peer: &&Peer| wanted.iter().all(|word| peer.key.contains(word.as_str()));
    let of_frameworks = std::env::args().any(|word| word == "--frameworks");
    let takes_part = |peer: &&Peer| (peer.suite != Suite::Sdks) == of_frameworks;
    let peers: Vec<&'static Peer> = PEERS.iter().filter(takes_part).filter(is_wanted).collect();

    let server = Server::start();
    let mut work: Vec<LocalBoxFuture<'_, Vec<Findings>>> = Vec::new();
    for &peer in &peers {
        for side in [Side::Client, Side::Server] {
            work.push(match peer.suite {
                Suite::Sdks => Box::pin(meet(peer, side, &server)),
                Suite::Frameworks { called } => Box::pin(framework::meet(peer, side, called)),
            });
        }
    }
    for upstream in relay::upstreams(&peers) {
        work.push(Box::pin(relay::meet(upstream, &peers)));
    }
    let met = stream::iter(work).buffer_unordered(AT_A_TIME).collect::<Vec<_>>().await;
    let mut met: Vec<Findings> = met.concat();
    met.sort_by_key(|findings| findings.cell.place());

    let known = Known::read();
    let mut counts = known.judge(&met);
    if peers.iter().any(|peer| peer.key == "python-1.0") {
        signature::meet(&mut counts).await;
    }
    fleet::meet(&peers, &mut counts).await;
    if wanted.is_empty() {
        counts.failed += known.complain_of_idle(&peers);
        let (name, headings) = match of_frameworks {
            true => ("frameworks", ["The framework calls the gateway", "The gateway calls the framework"]),
            false => ("interop", ["Their client, our server", "Our client, their server"]),
        };
        counts.failed += table::publish(&met, &known, name, headings);
    }
    println!(
        "\nfinished in {:.0} s\n{} passed, {} failed",
        begun.elapsed().as_secs_f32(),
        counts.passed,
        counts.failed
    );
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Everything that a peer does on one side, on every wire that we both speak.
async fn meet(peer: &'static Peer, side: Side, ours: &Server) -> Vec<Findings> {
    let wires: Vec<Wire> = peer.wires.iter().copied().filter(|wire| SPOKEN.contains(wire)).collect();
    let Some(player) = peer.player(side) else { return Vec::new() };
    if wires.is_empty() {
        return Vec::new();
    }
    let theirs = match side {
        Side::Client => None,
        Side::Server => Some(player.program.serve().await),
    };
    let mut met = Vec::new();
    for wire in wires {
        let cell = Cell { peer, side, wire, upstream: None };
        let outcomes = match &theirs {
            None => player.program.run(ours.url(), wire).await,
            Some(Ok(theirs)) => caller::run(&theirs.url, wire, |scenario| cell.can(scenario)).await,
            Some(Err(why)) => all_failed(why),
        };
        met.push(Findings::new(cell, outcomes));
    }
    met
}
