//! Ours, set up as its documentation shows: an agent, a server, a store.
//!
//! `--store` names the store by its URL; without it tasks are kept in memory. `--unbounded` keeps every task, so
//! that memory per task can be told; `--compact` keeps every task too, but none of its events once it has ended.
//! `--fill N` serves nothing: it puts N tasks that have ended into the store, and prints the id of the last one.

mod fill;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chancery_sdk::store::{Retention, Store, StoreLimits};
use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, Server, Turn};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "usage: bench-chancery --listen ADDRESS [--store URL] [--unbounded] [--compact] | --fill N --store URL";

struct Echo;

// === impl Echo ===

impl Agent for Echo {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let Some((chunks, pause)) = plan(&turn.text()) else {
            return Ok(Outcome::text(turn.text()));
        };
        let mut artifact = turn.begin_artifact("stream");
        for number in 1..chunks {
            artifact.append(format!("chunk {number} ")).await?;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        artifact.finish(format!("chunk {chunks} ")).await?;
        Ok(Outcome::completed())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let value = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1);

    let url = value("--store").map_or("memory:", String::as_str);
    let mut limits = StoreLimits::for_url(url);
    if has("--unbounded") || has("--compact") || has("--fill") {
        limits.retention.max_tasks = usize::MAX;
    }
    if has("--compact") {
        limits.retention = Retention { events: Duration::ZERO, ..limits.retention };
    }
    let store = Arc::new(Store::open(url, limits)?);
    if let Some(tasks) = value("--fill") {
        let last = fill::fill(store, tasks.parse().context("--fill takes a number")?).await?;
        println!("{last}");
        return Ok(());
    }
    let listen = value("--listen").context(USAGE)?;
    Server::builder().agent(AgentSpec::new("echo", Echo)).store(store).bind(listen).await?.run().await;
    Ok(())
}

/// Reads `stream N MS`; both numbers may be left out.
fn plan(text: &str) -> Option<(u32, Duration)> {
    let mut words = text.strip_prefix("stream")?.split_ascii_whitespace();
    let chunks = words.next().map_or(Ok(100), str::parse).ok()?;
    let pause = words.next().map_or(Ok(10), str::parse).ok()?;
    Some((chunks, Duration::from_millis(pause)))
}
