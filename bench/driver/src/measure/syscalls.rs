//! System calls for each SendMessage, counted by strace on the running server.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};

use super::{Bench, Turn};
use crate::compile;
use crate::load;
use crate::process::{self, Server};

const GROUP: &str = "Work per SendMessage";
const WIDTH: usize = 16;
/// Tasks until every server that forgets has begun to, so that what is counted is not its growing up.
const SETTLED: u64 = 30_000;

pub(crate) async fn all(bench: &mut Bench) {
    for turn in bench.turns(bench.options.pick(3, 1)) {
        bench.progress("system calls", turn);
        let outcome = once(bench, turn).await;
        bench.keep_failure("counting system calls", turn, outcome);
    }
}

async fn once(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let requests = bench.options.pick(4_000, 1_000);
    let server = Server::start(turn.contender, &[])?;
    load::count(&server, WIDTH, SETTLED).await?;

    let file = compile::scratch()?.join(format!("{}.strace", turn.contender.name));
    let mut strace = attach(&server, &file)?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let outcome = load::count(&server, WIDTH, requests).await;
    kill(process::pid(&strace)?, Signal::SIGINT)?;
    strace.wait()?;
    outcome?;

    let counts = parse(&std::fs::read_to_string(file)?);
    ensure!(!counts.is_empty(), "strace counted nothing");
    let each = |calls: u64| calls as f64 / requests as f64;
    let total = counts.iter().map(|(_, calls)| calls).sum();
    bench.add(GROUP, "system calls, 16 connections", turn, each(total));
    let most: Vec<String> =
        counts.iter().take(6).map(|(name, calls)| format!("{name} {:.2}", each(*calls))).collect();
    if turn.round == 0 {
        bench.figures.note(format!("{}: system calls per request: {}", turn.contender.name, most.join(", ")));
    }
    Ok(())
}

fn attach(server: &Server, file: &std::path::Path) -> anyhow::Result<Child> {
    Command::new("strace")
        .args(["-c", "-f", "-p", &server.id().to_string(), "-o"])
        .arg(file)
        .stderr(Stdio::null())
        .spawn()
        .context("could not start strace; it is Debian's package of that name")
}

/// Calls by name from strace's summary, most frequent first.
fn parse(summary: &str) -> Vec<(String, u64)> {
    let rows = summary.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = *fields.last()?;
        let calls = fields.get(3)?.parse().ok()?;
        (name != "total").then(|| (name.to_owned(), calls))
    });
    let mut counts: Vec<(String, u64)> = rows.collect();
    counts.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_summary_of_strace() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n \
                       60.00    0.060000           6     10000       120 recvfrom\n \
                       40.00    0.040000           4     12000           writev\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       100.00    0.100000           4     22000       120 total\n";
        assert_eq!(parse(summary), [("writev".to_owned(), 12_000), ("recvfrom".to_owned(), 10_000)]);
    }
}
