//! Where a command finds the tasks: flags that several commands share.

use std::path::{Path, PathBuf};

use anyhow::Context;
use chancery_store::{Store, StoreLimits};
use clap::Args;

/// The file in the data directory that holds the tasks.
const FILE: &str = "chancery.db";

#[derive(Debug, Args)]
pub(super) struct Storage {
    /// The directory that everything is kept in; made if it is not there
    #[arg(long, env = "CHANCERY_DATA", default_value = "chancery-data", value_name = "DIR")]
    data: PathBuf,

    /// Where tasks are kept, if not in the data directory: `memory:`, `sqlite:PATH` or
    /// `sqlite:PATH?durability=power`
    #[arg(long, env = "CHANCERY_STORE", value_name = "URL")]
    store: Option<String>,
}

impl Storage {
    /// The directory.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Where tasks are kept, if that was said.
    pub(super) fn named(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// The URL of the store.
    pub(super) fn url(&self) -> anyhow::Result<String> {
        if let Some(url) = &self.store {
            return Ok(url.clone());
        }
        let path = self.data.join(FILE);
        let path = path.to_str().with_context(|| format!("{} is not valid UTF-8", path.display()))?;
        Ok(format!("sqlite:{path}"))
    }

    /// Opens the store, in a directory that is made if need be.
    pub(super) fn open(&self) -> anyhow::Result<Store> {
        if self.store.is_none() {
            std::fs::create_dir_all(&self.data)
                .with_context(|| format!("cannot make the data directory {}", self.data.display()))?;
        }
        let url = self.url()?;
        Store::open(&url, StoreLimits::for_url(&url)).context("cannot open the store")
    }
}
