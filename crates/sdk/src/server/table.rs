//! What is mounted on a site at one time, and who is asked about requests before the agents are. A table is never changed:
//! whoever changes what is mounted puts another in its place, and a request keeps to the table that it found.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::guard::Guard;
use super::mount::Mount;
use super::routes::Routes;

/// The agents of a site, by path and by name.
#[derive(Default)]
pub(crate) struct Table {
    pub(super) reception: Reception,
    by_path: HashMap<String, Arc<Mount>, RandomState>,
    by_name: HashMap<Arc<str>, Arc<Mount>, RandomState>,
    /// How many segments the longest path has.
    deepest: usize,
    /// Agents that are gone, or are of another kind now, while there are tasks that only they know of; by name.
    retired: HashMap<Arc<str>, Arc<Mount>>,
}

/// Who is asked about a request before an agent is.
#[derive(Clone, Default)]
pub(super) struct Reception {
    /// What stands in front of the agents.
    pub(super) guard: Option<Arc<dyn Guard>>,
    /// Who is asked first whose a request is.
    pub(super) routes: Arc<[Arc<dyn Routes>]>,
}

impl Table {
    pub(super) fn new(
        reception: Reception,
        mounts: impl IntoIterator<Item = Arc<Mount>>,
        retired: HashMap<Arc<str>, Arc<Mount>>,
    ) -> Self {
        let mut table = Self { reception, retired, ..Self::default() };
        for mount in mounts {
            table.deepest = table.deepest.max(mount.path.matches('/').count());
            table.by_path.insert(mount.path.clone(), mount.clone());
            table.by_name.insert(mount.name.clone(), mount);
        }
        table
    }

    /// The agent that a path belongs to, by the longest mounted path, and the path below it.
    pub(super) fn find<'a>(&self, path: &'a str) -> Option<(&Mount, &'a str)> {
        let mut found = self.at_root().map(|mount| (mount, path));
        let slashes = path.bytes().enumerate().skip(1).filter(|(_, byte)| *byte == b'/');
        let ends = slashes.map(|(place, _)| place).chain([path.len()]);
        for end in ends.take(self.deepest) {
            let (above, below) = path.split_at(end);
            found = self.by_path.get(above).map(|mount| (mount, below)).or(found);
        }
        found.map(|(mount, below)| (&**mount, below))
    }

    pub(super) fn named(&self, name: &str) -> Option<&Arc<Mount>> {
        self.by_name.get(name)
    }

    pub(super) fn at_root(&self) -> Option<&Arc<Mount>> {
        self.by_path.get("")
    }

    /// The agent, if there is one and no other.
    pub(super) fn only(&self) -> Option<&Arc<Mount>> {
        self.mounts().next().filter(|_| self.by_name.len() == 1)
    }

    pub(super) fn mounts(&self) -> impl Iterator<Item = &Arc<Mount>> {
        self.by_name.values()
    }

    /// An agent that was there before, if there are tasks that only it knows of.
    pub(super) fn retired(&self, name: &str) -> Option<&Arc<Mount>> {
        self.retired.get(name)
    }

    pub(super) fn all_retired(&self) -> &HashMap<Arc<str>, Arc<Mount>> {
        &self.retired
    }
}
