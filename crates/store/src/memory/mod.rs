//! The store that lives in this process. It commits inline under a lock; there is no thread.
//!
//! A scope has a table of its tasks and their order; a task has a journal. A change of status takes the lock
//! of the table and then that of the journal, since it moves the task in the order; an artifact chunk takes
//! only that of the journal, so streams do not wait for each other.

mod admission;
mod ages;
mod audit;
mod edge;
mod journal;
mod outbox;
mod push;
mod recovery;
mod registration;
mod reserved;
mod retention;
mod spend;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chancery_protocol::{Json, TaskId, TaskState, Timestamp};
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use crate::clock::Clock;
use crate::error::StoreError;
use crate::limits::StoreLimits;
use crate::record::{Admission, Appended, Batch, ListQuery, Page, Read, Scope, Snapshot, StoreCheck};
use crate::reserved::KeyUse;
use admission::Admissions;
use ages::owner_of;
use audit::AuditLog;
use edge::Edges;
use journal::{Closed, Journal, Terms};
use outbox::Outbox;
use retention::{Due, Ended, EndedTasks};
use table::{Listed, Table};

/// Tasks in memory.
#[derive(Debug)]
pub struct MemoryStore {
    limits: StoreLimits,
    clock: Clock,
    scopes: RwLock<HashMap<Scope, Arc<ScopeTasks>, RandomState>>,
    ended: Box<Mutex<EndedTasks>>,
    admissions: Box<Mutex<Admissions>>,
    reserved: Mutex<BTreeMap<(Scope, TaskId), Json>>,
    context_secret: [u8; 32],
    outbox: Arc<Outbox>,
    edges: Box<Mutex<Edges>>,
    audit: Box<Mutex<AuditLog>>,
}

/// The tasks of one scope.
type ScopeTasks = Mutex<Table>;

impl MemoryStore {
    /// An empty store.
    pub fn new(limits: StoreLimits) -> Self {
        Self::with_clock(limits, Clock::system())
    }

    /// An empty store that goes by this clock.
    pub fn with_clock(limits: StoreLimits, clock: Clock) -> Self {
        Self {
            limits,
            scopes: RwLock::default(),
            ended: Box::default(),
            admissions: Box::default(),
            reserved: Mutex::default(),
            context_secret: random_bytes(),
            outbox: Arc::new(Outbox::new(clock.clone())),
            edges: Box::default(),
            audit: Box::default(),
            clock,
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn append(
        &self,
        scope: &Scope,
        id: &TaskId,
        mut batch: Box<Batch>,
    ) -> Result<Appended, StoreError> {
        let (edge, opens_reserved) = (batch.edge.take(), batch.opens_reserved);
        let appended = self.admit(scope, id, batch)?;
        if opens_reserved {
            self.reserved.lock().remove(&(scope.clone(), id.clone()));
        }
        if let Some(edge) = edge {
            self.put_edge(edge);
        }
        Ok(appended)
    }

    fn admit(&self, scope: &Scope, id: &TaskId, mut batch: Box<Batch>) -> Result<Appended, StoreError> {
        let Some(admission) = batch.admission.take() else { return self.commit(scope, id, batch) };
        // The lock is held across the commit, so that of two equal requests exactly one commits.
        let mut admissions = self.admissions.lock();
        if let Some(used) = admissions.find(scope, &admission)? {
            return Err(StoreError::Duplicate { task: used.task });
        }
        let appended = self.commit(scope, id, batch)?;
        admissions.insert(scope.clone(), admission, id.clone(), self.clock.now(), &self.limits.retention);
        Ok(appended)
    }

    pub(crate) fn read(
        &self,
        scope: &Scope,
        id: &TaskId,
        after: u64,
        max: usize,
    ) -> Result<Read, StoreError> {
        Ok(self.find(scope, id)?.read(after, max))
    }

    pub(crate) fn snapshot(&self, scope: &Scope, id: &TaskId) -> Result<Snapshot, StoreError> {
        Ok(self.find(scope, id)?.snapshot())
    }

    pub(crate) fn list(&self, scope: &Scope, query: &ListQuery) -> Result<Page, StoreError> {
        match self.scopes.read().get(scope).cloned() {
            Some(tasks) => Ok(tasks.lock().list(query)),
            None => Ok(Page { tasks: Vec::new(), next: None, total: 0 }),
        }
    }

    pub(crate) fn admitted(
        &self,
        scope: &Scope,
        admission: &Admission,
    ) -> Result<Option<KeyUse>, StoreError> {
        self.admissions.lock().find(scope, admission)
    }

    pub(crate) fn task_of_key(&self, scope: &Scope, key: &str) -> Option<TaskId> {
        self.admissions.lock().task_of(scope, key)
    }

    pub(crate) fn sweep(&self, now: Timestamp) {
        self.admissions.lock().forget(now, &self.limits.retention);
        while self.sweep_some(now) {}
        self.sweep_edges(now);
        self.scopes.write().retain(|_, tasks| Arc::strong_count(tasks) > 1 || !tasks.lock().is_empty());
    }

    pub(crate) fn check(&self) -> StoreCheck {
        let tasks = self.scopes.read().values().map(|tasks| tasks.lock().len() as u64).sum();
        StoreCheck { tasks, problems: Vec::new() }
    }

    pub(crate) fn census(&self) -> Vec<(TaskState, u64)> {
        let tables: Vec<_> = self.scopes.read().values().cloned().collect();
        let mut counted = BTreeMap::new();
        for table in tables {
            for state in table.lock().states() {
                counted.entry(state.number()).or_insert((state, 0)).1 += 1;
            }
        }
        counted.into_values().collect()
    }

    pub(crate) fn delete_owner(&self, realm: &str, owner: &str) -> usize {
        let is_theirs = |scope: &Scope| &*scope.realm == realm && &*scope.owner == owner;
        self.admissions.lock().delete(is_theirs);
        self.reserved.lock().retain(|(scope, _), _| !is_theirs(scope));
        self.ended.lock().forget_owner(realm, owner);
        self.delete_edges(realm, owner);
        let gone = self.scopes.write().extract_if(|scope, _| is_theirs(scope)).collect::<Vec<_>>();
        gone.into_iter().map(|(_, tasks)| tasks.lock().clear()).sum()
    }

    fn commit(&self, scope: &Scope, id: &TaskId, batch: Box<Batch>) -> Result<Appended, StoreError> {
        if batch.is_whole_life() {
            return self.commit_whole_life(scope, id, batch);
        }
        let (events, terms, at) = (batch.encode()?, self.terms(scope), batch.status_time());
        if at.is_none() {
            return self.journal(scope, id)?.lock().append(batch, events, terms);
        }
        let tasks = if batch.creates() { self.tasks_of(scope) } else { self.known_tasks_of(scope, id)? };
        let mut appended = tasks.lock().append(id, batch, events, terms)?;
        if appended.task.is_over() {
            // Not under the lock of the table: a long task takes a while to write.
            appended.task = self.journal(scope, id)?.lock().end()?;
            // While there is something to deliver, it is kept: then `settled` does this.
            if !appended.push {
                self.ended(scope, tasks, id, at);
            }
        }
        Ok(appended)
    }

    fn commit_whole_life(
        &self,
        scope: &Scope,
        id: &TaskId,
        batch: Box<Batch>,
    ) -> Result<Appended, StoreError> {
        let (closed, value) = Closed::of_whole_life(id, batch, &self.limits.task)?;
        let (number, task) = (closed.number, closed.task.clone());
        let tasks = self.tasks_of(scope);
        let ended_at = value.status.timestamp;
        tasks.lock().insert(&value, closed)?;
        self.ended(scope, tasks, id, ended_at);
        Ok(Appended { events: Vec::new(), number, task, push: false })
    }

    /// From now on the time of the task runs out.
    fn ended(&self, scope: &Scope, tasks: Arc<ScopeTasks>, id: &TaskId, at: Option<Timestamp>) {
        let now = self.clock.now();
        let ended = Ended { at: at.unwrap_or(now).as_millis(), tasks, id: id.clone() };
        let due = self.ended.lock().push(&owner_of(scope), ended, now, &self.limits.retention);
        carry_out(&due);
    }

    fn terms<'a>(&'a self, scope: &'a Scope) -> Terms<'a> {
        Terms { scope, limits: &self.limits.task, outbox: &self.outbox }
    }

    /// Compacts and forgets a few tasks. Says whether there may be more to do.
    fn sweep_some(&self, now: Timestamp) -> bool {
        let due = self.ended.lock().due(now, &self.limits.retention);
        carry_out(&due);
        due.more
    }

    fn journal(&self, scope: &Scope, id: &TaskId) -> Result<Arc<Mutex<Journal>>, StoreError> {
        let journal = self.scopes.read().get(scope).and_then(|tasks| tasks.lock().journal(id));
        journal.ok_or_else(|| StoreError::NotFound { id: id.clone() })
    }

    fn find(&self, scope: &Scope, id: &TaskId) -> Result<Listed, StoreError> {
        let found = self.known_tasks_of(scope, id)?.lock().find(id);
        found.ok_or_else(|| StoreError::NotFound { id: id.clone() })
    }

    fn known_tasks_of(&self, scope: &Scope, id: &TaskId) -> Result<Arc<ScopeTasks>, StoreError> {
        self.scopes.read().get(scope).cloned().ok_or_else(|| StoreError::NotFound { id: id.clone() })
    }

    fn tasks_of(&self, scope: &Scope) -> Arc<ScopeTasks> {
        if let Some(tasks) = self.scopes.read().get(scope) {
            return tasks.clone();
        }
        self.scopes.write().entry(scope.clone()).or_default().clone()
    }
}

fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Compacts and forgets what is due.
fn carry_out(due: &Due) {
    for ended in &due.compact {
        ended.tasks.lock().compact(&ended.id);
    }
    for theirs in due.forget.chunk_by(|one, next| Arc::ptr_eq(&one.tasks, &next.tasks)) {
        let ids = theirs.iter().map(|ended| &ended.id);
        let forgotten = theirs[0].tasks.lock().remove(ids);
        // Not under the lock.
        drop(forgotten);
    }
}
