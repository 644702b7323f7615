//! Builds the programs, one cargo call each.
//!
//! One call for all would unify features: the official SDK would get `uuid`'s fast generator,
//! or our `serde_json` features, only because a neighbour asked for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::contender::{self, CHANCERY, LIMIT};
use crate::measure::client;
use crate::options::{Measure, Options};

pub(crate) fn programs(options: &Options) -> anyhow::Result<()> {
    let mut packages: BTreeSet<&str> = options.contenders.iter().map(|contender| contender.package).collect();
    if options.measures.contains(&Measure::Client) {
        packages.extend([client::PACKAGE, contender::named(CHANCERY)?.package]);
    }
    if options.measures == [Measure::Product] {
        packages.clear();
    }
    if options.measures.contains(&Measure::Product) {
        packages.insert(contender::named(LIMIT)?.package);
        build(&product(), "chancery")?;
    }
    packages.into_iter().try_for_each(|package| build(&root(), package))
}

/// Builds a package as the workspace in a folder does it.
fn build(workspace: &Path, package: &str) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(workspace)
        .args(["build", "--release", "--package", package])
        .status()
        .context("could not start cargo")?;
    ensure!(status.success(), "cargo could not build {package}");
    Ok(())
}

/// Where the product's own workspace puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| product().join("target"), PathBuf::from)
}

/// The folder of the product's workspace, in which this one lies.
pub(crate) fn product() -> PathBuf {
    let mut folder = root();
    folder.pop();
    folder
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
