//! The agents behind one relay: one, or several that do the same, of which each task has one.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::client::Client;

/// The agents behind a relay, which may change while it runs. Clones are the same. The first takes what is not said to be for
/// another.
#[derive(Clone, Debug, Default)]
pub struct RelayPeers(Arc<RwLock<Vec<Arc<Peer>>>>);

/// One of them. It has no name if there is one agent only, which has all tasks.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
}

// === impl RelayPeers ===

impl RelayPeers {
    pub(super) fn only(client: Client) -> Self {
        Self::pool([("", client)])
    }

    pub(super) fn pool<N: Into<Arc<str>>>(peers: impl IntoIterator<Item = (N, Client)>) -> Self {
        let pool = Self::default();
        peers.into_iter().for_each(|(name, client)| pool.put(name, client));
        pool
    }

    /// Adds an agent, or has the one of this name called by another client from now on, also for the tasks that it has.
    pub fn put(&self, name: impl Into<Arc<str>>, client: Client) {
        let peer = Arc::new(Peer { name: name.into(), client });
        let mut peers = self.0.write();
        match peers.iter_mut().find(|known| known.name == peer.name) {
            Some(known) => *known = peer,
            None => peers.push(peer),
        }
    }

    /// Takes an agent away, and says whether it was there. It gets no new task. Those of its tasks that are followed are so
    /// to their end; the others cannot be reached until an agent of this name is there again.
    pub fn remove(&self, name: &str) -> bool {
        let mut peers = self.0.write();
        let before = peers.len();
        peers.retain(|known| *known.name != *name);
        peers.len() < before
    }

    /// The names of the agents.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.0.read().iter().map(|peer| peer.name.clone()).collect()
    }

    pub(super) fn clients(&self) -> Vec<Client> {
        self.0.read().iter().map(|peer| peer.client.clone()).collect()
    }

    /// The one that was chosen for a new task, or that has a task; the first if nobody was chosen. Tasks from before there were
    /// several are the first one's.
    pub(super) fn of_name(&self, name: &str) -> Option<Arc<Peer>> {
        let peers = self.0.read();
        let has_it = |peer: &&Arc<Peer>| name.is_empty() || peer.name.is_empty() || *peer.name == *name;
        peers.iter().find(has_it).cloned()
    }

    /// One that has not been tried yet.
    pub(super) fn untried(&self, tried: &[Arc<str>]) -> Option<Arc<Peer>> {
        self.0.read().iter().find(|peer| !tried.contains(&peer.name)).cloned()
    }
}
