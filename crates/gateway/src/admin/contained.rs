//! Who is cut off, written down: an agent that was contained for a reason is not let loose by a restart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use chancery_control::containment::Containment;
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
    fn read(&self) -> anyhow::Result<BTreeMap<String, String>> {
        match files::read(&self.path)? {
            Some(text) => {
                serde_json::from_slice(&text).with_context(|| format!("{} is damaged", self.path.display()))
            }
            None => Ok(BTreeMap::new()),
        }
    }

    /// Contains again who was contained when the last process ended.
    pub(crate) fn put_in_force(&self, containment: &Containment) -> anyhow::Result<()> {
        for (agent, reason) in self.read()? {
            tracing::warn!(agent, reason, "agent `{agent}` is still contained: {reason}");
            containment.contain(&agent, &reason);
        }
        Ok(())
    }

    /// Writes it, as a whole or not at all.
    pub(super) fn write(&self, contained: &BTreeMap<Arc<str>, Arc<str>>) -> anyhow::Result<()> {
        let _alone = self.writing.lock();
        let contained: BTreeMap<&str, &str> =
            contained.iter().map(|(agent, why)| (&**agent, &**why)).collect();
        files::write_private(&self.path, serde_json::to_string_pretty(&contained)?.as_bytes())
    }
}
