//! How long a server with many tasks takes until it answers.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::{Bench, Turn};
use crate::contender::Contender;
use crate::folder::Folder;
use crate::process::{Server, binary, flags_in};
use crate::request::Request;
use crate::response::Connection;

const GROUP: &str = "Boot";

pub(crate) async fn all(bench: &mut Bench) {
    let tasks = bench.options.pick(1_000_000, 100_000);
    for contender in bench.options.contenders.clone().into_iter().filter(|contender| contender.fills) {
        eprintln!("filling a store with {tasks} tasks: {}", contender.name);
        let outcome = one(bench, contender, tasks).await;
        bench.keep_failure("booting", Turn { round: 0, contender }, outcome);
    }
}

/// One store for all rounds: making it takes long. Each round kills the server, so the next one finds what a
/// crash leaves.
async fn one(bench: &mut Bench, contender: &'static Contender, tasks: usize) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let last = fill(contender, &folder, tasks)?;
    for round in 0..bench.options.rounds {
        let turn = Turn { round, contender };
        bench.progress("boot", turn);
        boot(bench, turn, &folder, &last, tasks).await?;
    }
    Ok(())
}

/// Fills a store and gives the id of a task in it.
fn fill(contender: &Contender, folder: &Folder, tasks: usize) -> anyhow::Result<String> {
    let output = Command::new(binary(contender)?)
        .args(flags_in(folder.path(), contender))
        .args(["--fill", &tasks.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the store could not be filled: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

async fn boot(
    bench: &mut Bench,
    turn: Turn,
    folder: &Folder,
    task: &str,
    tasks: usize,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let server = Server::start_in(folder.path(), turn.contender, &["--unbounded"])?;
    let mut connection = Connection::open(server.address).await?;
    connection.call(Request::get_task(server.address, task).numbered(0)).await?;
    let got = started.elapsed();
    let reply = connection.call(Request::list_tasks(server.address).numbered(0)).await?;
    let listed = started.elapsed();
    let reply: serde_json::Value = serde_json::from_slice(reply)?;
    let total = reply["result"]["totalSize"].as_u64().context("ListTasks without a total")?;
    ensure!(total >= tasks as u64, "only {total} of {tasks} tasks are there");
    let figures = [("GetTask", got), ("ListTasks after it", listed)];
    for (what, time) in figures {
        let label = format!("{tasks} tasks: ms from start to the first {what}");
        bench.add(GROUP, label, turn, time.as_secs_f64() * 1e3);
    }
    bench.add(GROUP, format!("{tasks} tasks: MB resident then"), turn, server.resident()? as f64 / 1e6);
    Ok(())
}
