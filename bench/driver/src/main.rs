//! `bench`: builds the servers, runs them side by side and writes what they cost.
//!
//! One run measures everything in rounds: each round visits every server with a fresh process,
//! in rotating order, so that whatever else the machine does falls on all of them alike.
//! Figures are medians over rounds; ratios are medians of each round's own ratio.

mod compile;
mod contender;
mod family;
mod figures;
mod folder;
mod gateway;
mod load;
mod machine;
mod measure;
mod options;
mod process;
mod readme;
mod report;
mod request;
mod response;
mod sse;

use anyhow::Context as _;

use crate::figures::Figures;
use crate::machine::Ticks;
use crate::measure::Bench;
use crate::options::Options;

fn main() -> anyhow::Result<()> {
    let Some(options) = Options::parse(std::env::args().skip(1))? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    if let Some(results) = &options.readme {
        return readme::update(results);
    }
    if options.build {
        compile::programs(&options)?;
    }
    let mut bench = Bench { options, figures: Figures::default() };
    // One thread: enough to load two cores of server, and cheap enough not to fight them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = Ticks::now();
    runtime.block_on(measure::all(&mut bench))?;
    if let (Some(before), Some(after)) = (before, Ticks::now()) {
        let percent = after.stolen_since(before) * 100.0;
        bench.figures.note(format!("{percent:.1} % of the machine went to others of its host meanwhile"));
    }
    report::write(&bench.options, &bench.figures).context("could not write the results")
}
