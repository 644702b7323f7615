//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::contender::{self, Contender};

pub(crate) const USAGE: &str = "\
Usage: cargo run --release -p bench -- [OPTIONS]

  --quick            fewer and shorter rounds: minutes become seconds, figures become rough
  --only LIST        of product,unary,get,stream,held,memory,boot,client,instructions,
                     syscalls (default: all); product is `chancery serve` beside other gateways
  --servers LIST     of limit,limit+store,official,protocol,chancery,chancery+sqlite,
                     chancery+sqlite-power (default: all)
  --rounds N         rounds of each timed measure (default 5, quick 2)
  --complete         fail if a gateway beside ours cannot be had, instead of leaving it out
  --no-build         build and install nothing
  --no-save          print the table, write no result file
  --readme FILE      run nothing: put the product's figures of a result file (JSON) into the front README";

/// What can be asked for with `--only`, in the order it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measure {
    Product,
    Unary,
    Get,
    Stream,
    Held,
    Memory,
    Boot,
    Client,
    Instructions,
    Syscalls,
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    /// Whether every gateway must be there.
    pub(crate) complete: bool,
    pub(crate) build: bool,
    pub(crate) save: bool,
    pub(crate) rounds: usize,
    pub(crate) measures: Vec<Measure>,
    pub(crate) contenders: Vec<&'static Contender>,
    /// A result file to show in the front README, instead of a run.
    pub(crate) readme: Option<PathBuf>,
    /// The words after the program's name, for the result file.
    pub(crate) words: Vec<String>,
}

// === impl Measure ===

impl Measure {
    const ALL: [(&str, Self); 10] = [
        ("product", Self::Product),
        ("unary", Self::Unary),
        ("get", Self::Get),
        ("stream", Self::Stream),
        ("held", Self::Held),
        ("memory", Self::Memory),
        ("boot", Self::Boot),
        ("client", Self::Client),
        ("instructions", Self::Instructions),
        ("syscalls", Self::Syscalls),
    ];

    fn parse(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, measure)| measure).with_context(|| format!("no such measure: {name}"))
    }
}

// === impl Options ===

impl Options {
    /// Reads the command line; nothing when it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let words: Vec<String> = words.collect();
        let mut options = Self {
            quick: false,
            complete: false,
            build: true,
            save: true,
            rounds: 0,
            measures: Measure::ALL.into_iter().map(|(_, measure)| measure).collect(),
            contenders: contender::ALL.iter().collect(),
            readme: None,
            words: words.clone(),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--complete" => options.complete = true,
                "--no-build" => options.build = false,
                "--no-save" => options.save = false,
                "--rounds" => options.rounds = value()?.parse().context("--rounds takes a number")?,
                "--readme" => options.readme = Some(PathBuf::from(value()?)),
                "--only" => {
                    options.measures = value()?.split(',').map(Measure::parse).collect::<Result<_, _>>()?;
                }
                "--servers" => {
                    options.contenders =
                        value()?.split(',').map(contender::named).collect::<Result<_, _>>()?;
                }
                "--help" | "-h" => return Ok(None),
                other => bail!("unknown argument: {other}\n\n{USAGE}"),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 2 } else { 5 };
        }
        Ok(Some(options))
    }

    /// `full`, or `quick` in a quick run.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// How long one timed window lasts.
    pub(crate) fn window(&self) -> Duration {
        self.pick(Duration::from_millis(2000), Duration::from_millis(500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Option<Options>> {
        Options::parse(line.split_ascii_whitespace().map(str::to_owned))
    }

    #[test]
    fn reads_lists_and_defaults() {
        let options = parse("--quick --only get,memory --servers limit,official").unwrap().unwrap();
        assert_eq!(options.measures, [Measure::Get, Measure::Memory]);
        assert_eq!(
            options.contenders.iter().map(|server| server.name).collect::<Vec<_>>(),
            ["limit", "official"]
        );
        assert_eq!((options.rounds, options.complete), (2, false));
        assert_eq!(parse("").unwrap().unwrap().rounds, 5);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(parse("--only speed").is_err());
        assert!(parse("--servers nobody").is_err());
        assert!(parse("--fast").is_err());
        assert!(parse("--help").unwrap().is_none());
    }
}
