//! Who is cut off, written down: an agent that was contained for a reason is not let loose by a restart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;

use crate::identity::files;

const FILE: &str = "contained.json";

/// The record, in its file in the data directory.
#[derive(Debug)]
pub(crate) struct ContainedFile {
    path: PathBuf,
    /// Written by one at a time.
    writing: Mutex<()>,
}

impl ContainedFile {
    pub(crate) fn of(data: &Path) -> Self {
        Self { path: data.join(FILE), writing: Mutex::default() }
    }

    /// The agents that are contained, and why.
    pub(crate) fn read(&self) -> anyhow::Result<BTreeMap<String, String>> {
        match files::read(&self.path)? {
            Some(text) => {
                serde_json::from_slice(&text).with_context(|| format!("{} is damaged", self.path.display()))
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// Writes it, as a whole or not at all.
    pub(super) fn write(&self, contained: &BTreeMap<Arc<str>, Arc<str>>) -> anyhow::Result<()> {
        let _alone = self.writing.lock();
        let contained: BTreeMap<&str, &str> =
            contained.iter().map(|(agent, why)| (&**agent, &**why)).collect();
        files::write_private(&self.path, serde_json::to_string_pretty(&contained)?.as_bytes())
    }
}
