//! What has been recorded of calls, read beside a gateway that may be running.
//!
//! | file | holds |
//! |---|---|
//! | `tree` | the calls of a root, as the tree that they are |
//! | `chains` | how long calls take, by the chain of agents that leads to them |
//! | `table` | calls and sums as rows, for a spreadsheet |

mod chains;
mod table;
mod tree;

use std::path::Path;

use anyhow::{Context, bail};
use chancery_protocol::Edge;
use chancery_store::{EdgeQuery, Store, StoreLimits};
use tempfile::TempDir;

use crate::config::Config;
use crate::gateway::store_url;

pub(crate) use chains::{Chain, chains};
pub(crate) use table::{CALLS, SUMS, call_row, safe, sum_row, usd};
pub(crate) use tree::tree;

/// The records as they were a moment ago: a copy, since a gateway may be using the store.
pub(crate) struct Records {
    pub(crate) store: Store,
    _copy: TempDir,
}

impl Records {
    /// Copies what there is.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        match copy(config)? {
            (store, Some(copy)) => Ok(Self { store, _copy: copy }),
            (_, None) => bail!("nothing has been recorded at {}", store_url(&config.store)?),
        }
    }

    /// Calls, as many as are asked for at most. The second says whether there are more.
    pub(crate) async fn edges(&self, mut query: EdgeQuery, most: usize) -> anyhow::Result<(Vec<Edge>, bool)> {
        let mut edges = Vec::new();
        loop {
            let page = self.store.edges(&query).await?;
            edges.extend(page.edges);
            if edges.len() > most {
                edges.truncate(most);
                return Ok((edges, true));
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok((edges, false));
            }
        }
    }
}

/// What is kept, read from a copy of the store; nothing if there is none yet.
pub(crate) fn copy(config: &Config) -> anyhow::Result<(Store, Option<TempDir>)> {
    let url = store_url(&config.store)?;
    let path = url.strip_prefix("sqlite:").map(|rest| rest.split('?').next().unwrap_or(rest));
    if !path.is_some_and(|path| Path::new(path).exists()) {
        return Ok((Store::memory(), None));
    }
    let copy = tempfile::tempdir().context("cannot make a temporary directory")?;
    let file = copy.path().join("copy.db");
    Store::backup_of(&url, &file).context("cannot read the store")?;
    let url = format!("sqlite:{}", file.display());
    let store = Store::open(&url, StoreLimits::for_url(&url)).context("cannot open a copy of the store")?;
    Ok((store, Some(copy)))
}
