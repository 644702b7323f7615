//! The agents behind one relay: one, or several that do the same, of which each task has one.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::client::Client;

/// The agents behind a relay, which may change while it runs. Clones are the same.
#[derive(Clone, Debug)]
pub struct RelayPeers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The first takes what is not said to be for another.
    peers: RwLock<Vec<Arc<Peer>>>,
    /// Whether the peers have names, and tasks say which of them has them.
    is_pool: bool,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
}

// === impl RelayPeers ===

impl RelayPeers {
    pub(super) fn only(client: Client) -> Self {
        Self::of(vec![Arc::new(Peer { name: "".into(), client })], false)
    }

    pub(super) fn pool<N: Into<Arc<str>>>(peers: impl IntoIterator<Item = (N, Client)>) -> Self {
        let pool = Self::of(Vec::new(), true);
        peers.into_iter().for_each(|(name, client)| pool.put(name, client));
        pool
    }

    fn of(peers: Vec<Arc<Peer>>, is_pool: bool) -> Self {
        Self(Arc::new(Shared { peers: RwLock::new(peers), is_pool }))
    }

    /// Adds an agent, or has the one of this name called by another client from now on, also for the tasks that it has.
    pub fn put(&self, name: impl Into<Arc<str>>, client: Client) {
        let peer = Arc::new(Peer { name: name.into(), client });
        let mut peers = self.0.peers.write();
        match peers.iter_mut().find(|known| known.name == peer.name) {
            Some(known) => *known = peer,
            None => peers.push(peer),
        }
    }

    /// Takes an agent away, and says whether it was there. It gets no new task. Those of its tasks that are followed are so
    /// to their end; the others cannot be reached until an agent of this name is there again.
    pub fn remove(&self, name: &str) -> bool {
        let mut peers = self.0.peers.write();
        let before = peers.len();
        peers.retain(|known| *known.name != *name);
        peers.len() < before
    }

    /// The names of the agents.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.0.peers.read().iter().map(|peer| peer.name.clone()).collect()
    }

    pub(super) fn clients(&self) -> Vec<Client> {
        self.0.peers.read().iter().map(|peer| peer.client.clone()).collect()
    }

    /// The one that was chosen for a new task, or that has a task; the first if nobody was chosen. Tasks from before there were
    /// several are the first one's.
    pub(super) fn of_name(&self, name: &str) -> Option<Arc<Peer>> {
        let peers = self.0.peers.read();
        match self.0.is_pool && !name.is_empty() {
            true => peers.iter().find(|peer| *peer.name == *name).cloned(),
            false => peers.first().cloned(),
        }
    }

    /// One that has not been tried yet.
    pub(super) fn untried(&self, tried: &[Arc<str>]) -> Option<Arc<Peer>> {
        self.0.peers.read().iter().find(|peer| !tried.contains(&peer.name)).cloned()
    }
}
