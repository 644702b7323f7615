//! The tasks that are being written to, as they stand. Only the writer puts them here and takes them away, so
//! what is here is always as new as the last commit.
//!
//! The writer hands over the changes of each commit; whoever wants to see the task folds them in. So the fold
//! costs the writer nothing, and a reader of a running task never asks the database.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chancery_protocol::{Json, Task, TaskId};
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use crate::fold::fold_all;
use crate::record::{Change, Snapshot};

/// A task by the number of its scope and its id.
pub(super) type Name = (i64, TaskId);

#[derive(Debug)]
pub(super) struct Entry {
    /// The task's number.
    pub(super) task: i64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    task: Arc<Task>,
    /// The number of the last event that is visible, folded in or not.
    number: u64,
    state: Option<Json>,
    /// What has been committed and not been folded in, oldest first.
    pending: VecDeque<Vec<Change>>,
}

/// If nobody asks for the task, the writer itself folds what has piled up.
const MOST_PENDING: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Entries {
    by_name: RwLock<HashMap<Name, Arc<Entry>, RandomState>>,
}

impl Entry {
    pub(super) fn new(task: i64, fold: Arc<Task>, number: u64, state: Option<Json>) -> Self {
        Self { task, inner: Mutex::new(Inner { task: fold, number, state, pending: VecDeque::new() }) }
    }

    /// Takes over what has been committed.
    pub(super) fn commit(&self, changes: Vec<Change>, number: u64, state: Option<Json>) {
        let mut inner = self.inner.lock();
        inner.number = number;
        inner.state = state.or(inner.state.take());
        inner.pending.push_back(changes);
        if inner.pending.len() > MOST_PENDING {
            inner.fold();
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut inner = self.inner.lock();
        inner.fold();
        Snapshot { task: inner.task.clone().into(), number: inner.number, state: inner.state.clone() }
    }

    pub(super) fn fold(&self) -> Arc<Task> {
        let mut inner = self.inner.lock();
        inner.fold();
        inner.task.clone()
    }

    /// The number of the last event that is visible.
    pub(super) fn number(&self) -> u64 {
        self.inner.lock().number
    }
}

impl Inner {
    fn fold(&mut self) {
        if !self.pending.is_empty() {
            fold_all(Arc::make_mut(&mut self.task), self.pending.drain(..).flatten());
        }
    }
}

impl Entries {
    pub(super) fn find(&self, name: &Name) -> Option<Arc<Entry>> {
        self.by_name.read().get(name).cloned()
    }

    pub(super) fn insert(&self, name: Name, entry: Arc<Entry>) {
        self.by_name.write().insert(name, entry);
    }

    pub(super) fn remove(&self, name: &Name) {
        self.by_name.write().remove(name);
    }
}
