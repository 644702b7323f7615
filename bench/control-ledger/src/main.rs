//! The ledger beside that of rvagent-a2a: how long it takes to let a call through and to charge it.
//!
//! All contenders are timed in turn, a batch at a time, for many rounds; a figure is the median over the rounds.

mod ledger;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use chancery_protocol::Timestamp;

/// Something to time: does a batch of calls, and says how many nanoseconds one took.
struct Contender {
    name: String,
    batch: Box<dyn FnMut() -> f64>,
}

const ROUNDS: usize = 300;

fn main() -> Result<()> {
    let mut contenders = ledger::contenders()?;
    let mut figures = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for (contender, figures) in contenders.iter_mut().zip(&mut figures) {
            figures.push((contender.batch)());
        }
    }
    let table = table(&contenders, &mut figures)?;
    println!("{table}");
    let path = results().join(format!("{}-control-ledger.md", file_name(Timestamp::now())));
    std::fs::write(&path, &table).with_context(|| format!("writing {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

fn table(contenders: &[Contender], figures: &mut [Vec<f64>]) -> Result<String> {
    let mut text = format!(
        "# The ledger, {}\n\nCommand: `cargo run --release -p bench-control-ledger`, {ROUNDS} rounds, all in turn. \
         Nanoseconds for one call, one thread.\n\n| | median | fastest | 90th percentile |\n|---|---:|---:|---:|\n",
        Timestamp::now()
    );
    for (contender, figures) in contenders.iter().zip(figures) {
        figures.sort_by(f64::total_cmp);
        let at = |share: f64| figures[(share * (figures.len() - 1) as f64) as usize];
        writeln!(text, "| {} | {:.0} | {:.0} | {:.0} |", contender.name, at(0.5), at(0.0), at(0.9))?;
    }
    Ok(text)
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results")
}

/// A time as it stands in the names of results.
fn file_name(now: Timestamp) -> String {
    let text = now.to_string();
    format!("{}T{}Z", &text[..10], text[11..16].replace(':', ""))
}
