//! Instructions for each SendMessage, counted by callgrind: two runs that differ only in how many
//! calls they answer, so that start and end cancel out.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Bench, Turn};
use crate::compile;
use crate::load;
use crate::process::Server;

const GROUP: &str = "Work per SendMessage";

/// Instructions in all, and in functions that only move bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    all: u64,
    moving: u64,
}

pub(crate) async fn all(bench: &mut Bench) {
    for turn in bench.turns(1) {
        bench.progress("instructions", turn);
        let outcome = once(bench, turn).await;
        bench.keep_failure("counting instructions", turn, outcome);
    }
}

async fn once(bench: &mut Bench, turn: Turn) -> anyhow::Result<()> {
    let (few, many) = bench.options.pick((500, 2_500), (200, 700));
    let short = profile(turn, few).await?;
    let long = profile(turn, many).await?;
    let each = |short: u64, long: u64| long.saturating_sub(short) as f64 / (many - few) as f64;
    let (all, moving) = (each(short.all, long.all), each(short.moving, long.moving));
    bench.add(GROUP, "instructions without memcpy, 1 connection", turn, all - moving);
    bench.add(GROUP, "instructions in all, 1 connection", turn, all);
    Ok(())
}

async fn profile(turn: Turn, requests: u64) -> anyhow::Result<Count> {
    let file = compile::scratch()?.join(format!("{}.{requests}.callgrind", turn.contender.name));
    let server = Server::start_under(&valgrind(&file), turn.contender, &[])?;
    load::count(&server, 1, requests).await?;
    server.finish()?;
    read(&file)
}

/// The instructions in a profile.
pub(super) fn read(file: &Path) -> anyhow::Result<Count> {
    let profile = std::fs::read_to_string(file).context("valgrind wrote no profile")?;
    Ok(count(&profile))
}

pub(super) fn valgrind(file: &Path) -> Vec<OsString> {
    let with = |flag: &str, path: PathBuf| {
        let mut word = OsString::from(flag);
        word.push(path);
        word
    };
    vec![
        "valgrind".into(),
        "--tool=callgrind".into(),
        "--fair-sched=try".into(),
        with("--callgrind-out-file=", file.to_path_buf()),
        with("--log-file=", file.with_extension("log")),
    ]
}

/// Adds up the self cost of every function in a callgrind profile.
fn count(profile: &str) -> Count {
    let mut names: HashMap<&str, bool> = HashMap::new();
    let (mut count, mut moving, mut is_call) = (Count::default(), false, false);
    for line in profile.lines() {
        if let Some((key, name)) = line.split_once('=') {
            if key == "fn" || key == "cfn" {
                let moves = moves(&mut names, name);
                if key == "fn" {
                    moving = moves;
                }
            }
            // The line after `calls=` is what the callee cost, which the callee counts itself.
            is_call = key == "calls";
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split_ascii_whitespace().nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0);
            if !is_call {
                count.all += cost;
                count.moving += if moving { cost } else { 0 };
            }
            is_call = false;
        }
    }
    count
}

/// Whether the function of an entry like `(12) name`, or `(12)` once named, only moves bytes.
fn moves<'a>(names: &mut HashMap<&'a str, bool>, entry: &'a str) -> bool {
    match entry.split_once(' ') {
        Some((id, name)) => {
            let moves = ["memcpy", "memmove"].iter().any(|word| name.contains(word));
            names.insert(id, moves);
            moves
        }
        None => names.get(entry).copied().unwrap_or(false),
    }
}

// === impl Count ===

impl Count {
    pub(super) fn without_moving(self) -> u64 {
        self.all - self.moving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_self_cost_and_leaves_calls_out() {
        let profile = "events: Ir\nfn=(1) main\n0 5\n+3 7\ncfn=(2) __memcpy_avx_unaligned\ncalls=2 0\n* 40\n-1 1\n\n\
                       fn=(2)\n0 40\n\ntotals: 53\n";
        let Count { all, moving } = count(profile);
        assert_eq!((all, moving), (53, 40));
    }
}
