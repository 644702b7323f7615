//! Which gateway a command is about: flags that all such commands share, beside the configuration that `chancery serve` reads.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::config::Source;
use crate::config::{BadConfig, Config, Flag, StoreSection};

/// A gateway, by its data directory.
#[derive(Clone, Debug, Args)]
pub(super) struct DataPlace {
    #[command(flatten)]
    pub(super) source: Source,

    /// The directory that everything is kept in, instead of the configured one
    #[arg(long, env = "CHANCERY_DATA", value_name = "DIR", global = true)]
    data: Option<PathBuf>,
}

/// A gateway, by its data directory and its store.
#[derive(Clone, Debug, Args)]
pub(super) struct Place {
    #[command(flatten)]
    pub(super) data: DataPlace,

    /// Where tasks are kept, if not in the data directory: `memory:`, `sqlite:PATH` or `sqlite:PATH?durability=power`
    #[arg(long, env = "CHANCERY_STORE", value_name = "URL", global = true)]
    store: Option<String>,
}

impl DataPlace {
    /// The directory.
    pub(super) fn find(&self) -> Result<PathBuf, BadConfig> {
        Ok(self.source.load_store(self.flags())?.data)
    }

    fn flags(&self) -> Vec<Flag> {
        let data = self.data.as_ref().map(|path| Value::from(path.display().to_string()));
        data.map(|data| ("--data", &["store", "data"] as &'static [&'static str], data)).into_iter().collect()
    }
}

impl Place {
    /// The whole configuration.
    pub(super) fn load(&self) -> Result<Config, BadConfig> {
        Ok(self.data.source.load(self.flags())?.config)
    }

    /// Where things are kept.
    pub(super) fn store(&self) -> Result<StoreSection, BadConfig> {
        self.data.source.load_store(self.flags())
    }

    pub(super) fn flags(&self) -> Vec<Flag> {
        let mut flags = self.data.flags();
        if let Some(url) = &self.store {
            flags.push(("--store", &["store", "url"], url.clone().into()));
        }
        flags
    }
}
