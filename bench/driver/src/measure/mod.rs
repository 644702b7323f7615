//! The measures, each in its own file, and the order in which servers take their turns.

mod boot;
pub(crate) mod client;
mod held;
mod instructions;
mod memory;
pub(crate) mod product;
mod same;
mod stream;
mod syscalls;
mod unary;

use crate::contender::Contender;
use crate::figures::Figures;
use crate::options::{Measure, Options};

/// One run of the benchmark.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) figures: Figures,
}

/// A server's turn in a round.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) round: usize,
    pub(crate) contender: &'static Contender,
}

pub(crate) async fn all(bench: &mut Bench) -> anyhow::Result<()> {
    // The gateways are checked each time they are started.
    if bench.options.measures != [Measure::Product] {
        for contender in bench.options.contenders.clone() {
            same::check(contender).await?;
        }
    }
    for measure in bench.options.measures.clone() {
        match measure {
            Measure::Product => product::all(bench).await?,
            Measure::Unary => unary::send(bench).await,
            Measure::Get => unary::get(bench).await,
            Measure::Stream => stream::all(bench).await,
            Measure::Held => held::all(bench).await,
            Measure::Memory => memory::all(bench).await,
            Measure::Boot => boot::all(bench).await,
            Measure::Client => client::all(bench).await,
            Measure::Instructions => instructions::all(bench).await,
            Measure::Syscalls => syscalls::all(bench).await,
        }
    }
    Ok(())
}

// === impl Bench ===

impl Bench {
    /// Every server once a round, each round starting with another one.
    pub(crate) fn turns(&self, rounds: usize) -> Vec<Turn> {
        let contenders = &self.options.contenders;
        let round = |round: usize| {
            (0..contenders.len())
                .map(move |at| Turn { round, contender: contenders[(round + at) % contenders.len()] })
        };
        (0..rounds).flat_map(round).collect()
    }

    /// Says what is going on; the table comes at the end.
    pub(crate) fn progress(&self, what: &str, turn: Turn) {
        eprintln!("{what}, round {}: {}", turn.round + 1, turn.contender.name);
    }

    pub(crate) fn add(&mut self, group: &'static str, label: impl Into<String>, turn: Turn, value: f64) {
        self.figures.add(group, label, turn.contender.name, turn.round, value);
    }

    /// Keeps a failure as a note: one server's fault must not cost the others their figures.
    pub(crate) fn keep_failure(&mut self, what: &str, turn: Turn, outcome: anyhow::Result<()>) {
        self.keep_failure_of(turn.contender.name, what, outcome);
    }

    pub(crate) fn keep_failure_of(&mut self, name: &str, what: &str, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            eprintln!("failed: {error:#}");
            let reason: String = format!("{error:#}").chars().take(200).collect();
            self.figures.note(format!("{name}: {what} failed: {reason}"));
        }
    }
}
