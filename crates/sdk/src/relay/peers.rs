//! The agents behind one relay: one, or several that do the same, of which each task has one.
//!
//! Which one has a task is kept with the task, in the same commit that begins it, as the task's own state. So whatever
//! comes later goes there, also after a restart.

use std::sync::Arc;

use chancery_protocol::{
    CallContext, ContextId, Error, ErrorCode, Json, PoolWatch, Principal, Request, Task, TaskId,
};
use chancery_store::{Scope, Snapshot};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::Core;
use super::line::Live;
use crate::client::{Client, ClientError, Options, Watch};
use crate::tasks::from_store;

/// The agents behind a relay, which may change while it runs. Clones are the same.
#[derive(Clone, Debug)]
pub struct RelayPeers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The first takes what is not said to be for another.
    peers: RwLock<Vec<Arc<Peer>>>,
    /// Whether the peers have names, and tasks say which of them has them.
    is_pool: bool,
    watch: RwLock<Option<Arc<dyn PoolWatch>>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Peer {
    name: Arc<str>,
    /// What is kept with a task that it has.
    pub(super) state: Option<Json>,
    pub(super) client: Client,
}

/// What a task's state says.
#[derive(Serialize, Deserialize)]
struct State {
    peer: Arc<str>,
    /// What that one calls the task, if not as it is called here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    there: Option<TaskId>,
}

// === impl RelayPeers ===

impl RelayPeers {
    pub(super) fn only(client: Client) -> Self {
        Self::of(vec![Arc::new(Peer { name: "".into(), state: None, client })], false)
    }

    pub(super) fn pool(peers: impl IntoIterator<Item = (Arc<str>, Client)>) -> Self {
        let pool = Self::of(Vec::new(), true);
        peers.into_iter().for_each(|(name, client)| pool.put(name, client));
        pool
    }

    fn of(peers: Vec<Arc<Peer>>, is_pool: bool) -> Self {
        Self(Arc::new(Shared { peers: RwLock::new(peers), is_pool, watch: RwLock::default() }))
    }

    /// Adds an agent, or has the one of this name called by another client from now on, also for the tasks that it has.
    pub fn put(&self, name: impl Into<Arc<str>>, client: Client) {
        let name = name.into();
        let state = Json::from_value(&State { peer: name.clone(), there: None }).ok();
        let peer = Arc::new(Peer { name, state, client });
        let mut peers = self.0.peers.write();
        match peers.iter_mut().find(|known| known.name == peer.name) {
            Some(known) => *known = peer,
            None => peers.push(peer),
        }
    }

    /// Takes an agent away, and says whether it was there. It gets no new task. Those of its tasks that are followed or
    /// watched are so to their end; the others cannot be reached until an agent of this name is there again.
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

    /// The clients of all but one.
    #[cfg(feature = "server")]
    pub(super) fn others(&self, one: &Client) -> Vec<Client> {
        let peers = self.0.peers.read();
        peers.iter().map(|peer| &peer.client).filter(|client| !client.is(one)).cloned().collect()
    }

    pub(super) fn watched_by(&self, watch: Arc<dyn PoolWatch>) {
        *self.0.watch.write() = Some(watch);
    }

    fn find(&self, name: &str) -> Option<Arc<Peer>> {
        self.0.peers.read().iter().find(|peer| *peer.name == *name).cloned()
    }

    fn first(&self) -> Option<Arc<Peer>> {
        self.0.peers.read().first().cloned()
    }

    /// The one that a new task is for.
    pub(super) fn chosen(&self, context: &CallContext) -> Result<Arc<Peer>, Error> {
        let chosen = match &context.peer {
            Some(name) if self.0.is_pool => self.find(name),
            _ => self.first(),
        };
        chosen.ok_or_else(|| {
            let text = "The agent that was chosen for this call is no longer there; try again";
            Error::with_message(ErrorCode::Unavailable, text)
        })
    }

    /// The one that has a task. Tasks from before there were several are the first one's.
    pub(super) fn of_task(&self, task: &Snapshot) -> Option<Arc<Peer>> {
        let kept = task.state.as_ref().filter(|_| self.0.is_pool);
        match kept.and_then(|kept| kept.to_value::<State>().ok()) {
            Some(State { peer, .. }) => self.find(&peer),
            None => self.first(),
        }
    }

    /// A task of this one is there.
    pub(super) fn began(&self, scope: &Scope, task: &TaskId, context: Option<&ContextId>, peer: &Peer) {
        if let Some(watch) = &*self.0.watch.read() {
            watch.began(&owner(scope), task, context, &peer.name);
        }
    }

    /// A task has ended.
    pub(super) fn ended(&self, scope: &Scope, task: &TaskId) {
        if let Some(watch) = &*self.0.watch.read() {
            watch.ended(&owner(scope), task);
        }
    }
}

fn owner(scope: &Scope) -> Principal {
    Principal { realm: scope.realm.clone(), id: scope.owner.clone() }
}

// === impl Peer ===

impl Peer {
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// What is kept with a task that it has, or is about to have, and calls otherwise.
    pub(super) fn state_of(&self, there: Option<TaskId>) -> Option<Json> {
        Json::from_value(&State { peer: self.name.clone(), there }).ok()
    }

    /// Lets who chose another peer hear nothing of this one.
    pub(super) fn tell_only_who_chose_it(&self, chosen: Option<&str>, options: &mut Options) {
        if !self.name.is_empty() && chosen != Some(&*self.name) {
            options.watch = Watch::default();
        }
    }
}

// === impl Core ===

impl Core {
    /// The client by which a task is asked after: that of the peer that has it.
    pub(super) async fn client_of(&self, live: &Live) -> Result<Client, ClientError> {
        let peers = &self.peers;
        if !peers.0.is_pool {
            return peers.first().map(|peer| peer.client.clone()).ok_or_else(|| gone(""));
        }
        if let Some(known) = live.peer() {
            return Ok(peers.find(&known.name).unwrap_or(known).client.clone());
        }
        let (scope, id) = (live.scope(), live.task_id());
        let snapshot = self.tasks.store.snapshot(scope, id).await.map_err(from_store)?;
        let peer = peers.of_task(&snapshot).ok_or_else(|| gone(id.as_str()))?;
        if !snapshot.task.is_over() {
            let context = snapshot.task.value()?.context_id.clone();
            peers.began(scope, id, context.as_ref(), &peer);
            if live.has_ended() {
                // Between the look and the telling.
                peers.ended(scope, id);
            }
        }
        live.belongs_to(&peer);
        Ok(peer.client.clone())
    }

    /// Asks the peer that has a task about it.
    pub(super) async fn ask_about(
        &self,
        live: &Live,
        mut request: Request,
        options: Options,
    ) -> Result<Task, ClientError> {
        let names = self.names_of(live).await?;
        names.iter().for_each(|names| names.translate(&mut request));
        let mut task = self.client_of(live).await?.ask(request, options).await?;
        names.iter().for_each(|names| names.task(&mut task));
        Ok(task)
    }
}

/// What its agent calls a task, if not as it is called here.
pub(super) fn name_there(task: &Snapshot) -> Option<TaskId> {
    task.state.as_ref()?.to_value::<State>().ok()?.there
}

fn gone(task: &str) -> ClientError {
    let origin = format!("the agent that has task {task}");
    ClientError::Connect { origin, source: "it has been taken out of the pool".into() }
}
