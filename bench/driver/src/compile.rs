//! Builds the programs, one cargo call each.
//!
//! One call for all would unify features: the official SDK would get `uuid`'s fast generator,
//! or our `serde_json` features, only because a neighbour asked for them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::contender::{self, CHANCERY, LIMIT};
use crate::measure::{client, relay};
use crate::nginx;
use crate::options::{Measure, Options};

pub(crate) fn programs(options: &Options) -> anyhow::Result<()> {
    let mut packages: BTreeSet<&str> = options.contenders.iter().map(|contender| contender.package).collect();
    if options.measures.contains(&Measure::Client) {
        packages.extend([client::PACKAGE, contender::named(CHANCERY)?.package]);
    }
    if options.measures == [Measure::Relay] {
        packages.clear();
    }
    if options.measures.contains(&Measure::Relay) {
        packages.insert(contender::named(LIMIT)?.package);
        packages.extend(relay::BETWEEN.iter().map(|between| between.package));
        packages.remove(nginx::PROGRAM);
    }
    for package in packages {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(root())
            .args(["build", "--release", "--package", package])
            .status()
            .context("could not start cargo")?;
        ensure!(status.success(), "cargo could not build {package}");
    }
    Ok(())
}

/// The folder of the benchmark's workspace.
pub(crate) fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

/// A folder for profiles and traces, kept out of version control.
pub(crate) fn scratch() -> anyhow::Result<PathBuf> {
    let folder = root().join(".work");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    Ok(folder)
}
