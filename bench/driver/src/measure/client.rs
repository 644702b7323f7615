//! What a call costs the caller: our client beside a bare hyper client, against the same server.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Bench, instructions};
use crate::compile;
use crate::contender::{self, CHANCERY};
use crate::process::{self, Server};

/// Its columns are the ways to call, not the servers.
pub(crate) const GROUP: &str = "Client";
pub(crate) const PACKAGE: &str = "bench-client";
/// The way that ratios refer to.
pub(crate) const RAW: &str = "raw";
pub(crate) const WAYS: [&str; 3] = [RAW, "raw+parse", CHANCERY];

pub(crate) async fn all(bench: &mut Bench) {
    let rounds = bench.options.rounds;
    for (callers, plural) in [(1, ""), (16, "s")] {
        for round in 0..rounds {
            for at in 0..WAYS.len() {
                let way = WAYS[(round + at) % WAYS.len()];
                eprintln!("client, {callers} caller{plural}, round {}: {way}", round + 1);
                let calls = bench.options.pick(40_000, 10_000);
                let outcome = micros(way, callers, calls);
                let label = format!("SendMessage, {callers} caller{plural}: CPU µs/call");
                keep(bench, (label, way, round), outcome);
            }
        }
    }
    for way in WAYS {
        eprintln!("client, instructions: {way}");
        let outcome = instructions_each(bench, way);
        keep(bench, ("SendMessage: instructions without memcpy".to_owned(), way, 0), outcome);
    }
}

fn keep(bench: &mut Bench, (label, way, round): (String, &'static str, usize), outcome: anyhow::Result<f64>) {
    match outcome {
        Ok(value) => bench.figures.add(GROUP, label, way, round, value),
        Err(error) => bench.figures.note(format!("client {way}: {label} failed: {error:#}")),
    }
}

/// A server of its own each time, so that all find it alike.
fn micros(way: &str, callers: usize, calls: usize) -> anyhow::Result<f64> {
    let server = Server::start(contender::named(CHANCERY)?, &[])?;
    let nanos: f64 = run(&[], &server, way, callers, calls)?.trim().parse()?;
    Ok(nanos / 1e3)
}

fn instructions_each(bench: &Bench, way: &str) -> anyhow::Result<f64> {
    let (few, many) = bench.options.pick((500, 2_500), (200, 700));
    let server = Server::start(contender::named(CHANCERY)?, &[])?;
    let mut counts = Vec::new();
    for calls in [few, many] {
        let file = compile::scratch()?.join(format!("client-{way}.{calls}.callgrind"));
        run(&instructions::valgrind(&file), &server, way, 1, calls)?;
        counts.push(instructions::read(&file)?.without_moving());
    }
    // The warm-up grows with the calls.
    let calls = (many - few) as f64 * 1.1;
    Ok((counts[1] as f64 - counts[0] as f64) / calls)
}

fn run(
    wrapper: &[OsString],
    server: &Server,
    way: &str,
    callers: usize,
    calls: usize,
) -> anyhow::Result<String> {
    let binary = process::beside(PACKAGE)?;
    let mut words = wrapper.iter().cloned().chain([binary.into_os_string()]);
    let output = Command::new(words.next().context("a program to start")?)
        .args(words)
        .args([way, &format!("http://{}", server.address), &callers.to_string(), &calls.to_string()])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}
