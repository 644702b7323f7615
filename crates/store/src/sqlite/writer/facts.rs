//! What the writer knows of the tasks that are being written to: just enough to check the next batch.
//!
//! A batch changes the facts when it is written, before the transaction commits, so that the next batch of the
//! same group sees it. If the transaction fails, the facts go back to what they were.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chancery_protocol::{ArtifactId, TaskId, TaskState};
use foldhash::fast::RandomState;

use crate::fold::Standing;
use crate::record::{Batch, Change};
use crate::sqlite::entry::{Entries, Entry, Name};

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) entry: Option<Arc<Entry>>,
    pub(super) task: i64,
    pub(super) now: Light,
    /// Only ever grows; how many of them count is in `now`.
    artifacts: Vec<ArtifactId>,
}

/// What changes with each batch, and is put back if the batch is not committed after all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Light {
    pub(super) state: TaskState,
    pub(super) number: u64,
    pub(super) bytes: usize,
    /// Whether it has had push notification configurations.
    pub(super) pushes: bool,
    artifacts: usize,
}

/// The facts of many tasks, with a way back.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tasks: HashMap<Name, Facts, RandomState>,
    undo: Vec<(Name, Option<Light>)>,
    /// Who may be forgotten first: those that have ended, then those that came first.
    ended: VecDeque<Name>,
    begun: VecDeque<Name>,
    bytes: usize,
}

/// How many tasks are held at most, and how many bytes of them.
const MOST_TASKS: usize = 16_384;
const MOST_BYTES: usize = 256 << 20;
/// Of those that have ended only the newest are of use.
const MOST_ENDED: usize = 1_024;

impl Facts {
    pub(super) fn new(task: i64) -> Self {
        let now = Light { state: TaskState::Unspecified, number: 0, bytes: 0, pushes: false, artifacts: 0 };
        Self { entry: None, task, now, artifacts: Vec::new() }
    }

    /// A task that has ended, whatever it holds.
    pub(super) fn ended(task: i64, state: TaskState) -> Self {
        let now = Light { state, number: 1, bytes: 0, pushes: true, artifacts: 0 };
        Self { entry: None, task, now, artifacts: Vec::new() }
    }

    pub(super) fn loaded(task: i64, entry: Arc<Entry>, weight: usize, pushes: bool) -> Self {
        let (fold, number) = (entry.fold(), entry.number());
        let artifacts: Vec<_> = fold.artifacts.iter().map(|artifact| artifact.artifact_id.clone()).collect();
        let now =
            Light { state: fold.status.state, number, bytes: weight, pushes, artifacts: artifacts.len() };
        Self { entry: Some(entry), task, now, artifacts }
    }

    pub(super) fn standing<'a>(
        &'a self,
        id: &'a TaskId,
    ) -> Standing<'a, impl Fn(&ArtifactId) -> bool + use<'a>> {
        let known = &self.artifacts[..self.now.artifacts];
        Standing {
            id,
            state: self.now.state,
            number: self.now.number,
            events: usize::try_from(self.now.number).unwrap_or(usize::MAX),
            bytes: self.now.bytes,
            artifacts: known.len(),
            has_artifact: |id: &ArtifactId| known.iter().rev().any(|artifact| artifact == id),
        }
    }

    fn advance(&mut self, batch: &Batch) {
        self.artifacts.truncate(self.now.artifacts);
        self.now.number += batch.len() as u64;
        self.now.bytes += batch.bytes();
        for change in batch.changes() {
            self.now.state = change.state().unwrap_or(self.now.state);
            match change {
                Change::Created(task) => {
                    let ids = task.artifacts.iter().map(|artifact| artifact.artifact_id.clone());
                    self.artifacts.extend(ids);
                }
                Change::Status(..) => {}
                Change::Artifact(update) => {
                    let id = &update.artifact.artifact_id;
                    if !self.artifacts.iter().rev().any(|known| known == id) {
                        self.artifacts.push(id.clone());
                    }
                }
            }
        }
        self.now.artifacts = self.artifacts.len();
    }
}

impl Ledger {
    pub(super) fn find(&self, name: &Name) -> Option<&Facts> {
        self.tasks.get(name)
    }

    pub(super) fn insert(&mut self, name: Name, facts: Facts) {
        self.bytes += facts.now.bytes;
        self.begun.push_back(name.clone());
        self.tasks.insert(name, facts);
    }

    /// Makes a task that is not there yet, for as long as the transaction does not fail.
    pub(super) fn begin(&mut self, name: Name, facts: Facts) {
        self.undo.push((name.clone(), None));
        self.insert(name, facts);
    }

    /// The batch has been written, though not committed.
    pub(super) fn advance(&mut self, name: &Name, batch: &Batch) {
        if let Some(facts) = self.tasks.get_mut(name) {
            self.undo.push((name.clone(), Some(facts.now)));
            self.bytes += batch.bytes();
            facts.advance(batch);
        }
    }

    /// The transaction has failed.
    pub(super) fn roll_back(&mut self) {
        while let Some((name, before)) = self.undo.pop() {
            match (before, self.tasks.get_mut(&name)) {
                (Some(before), Some(facts)) => {
                    self.bytes -= facts.now.bytes - before.bytes;
                    facts.now = before;
                }
                (None, Some(_)) => self.forget(&name),
                (_, None) => {}
            }
        }
    }

    /// The transaction is committed.
    pub(super) fn settle(&mut self) {
        self.undo.clear();
    }

    pub(super) fn show(&mut self, name: &Name, entry: &Arc<Entry>) {
        if let Some(facts) = self.tasks.get_mut(name) {
            facts.entry = Some(entry.clone());
        }
    }

    /// It has push notification configurations from now on.
    pub(super) fn has_pushes(&mut self, name: &Name) {
        if let Some(facts) = self.tasks.get_mut(name) {
            self.undo.push((name.clone(), Some(facts.now)));
            facts.now.pushes = true;
        }
    }

    pub(super) fn has_ended(&mut self, name: &Name) {
        self.ended.push_back(name.clone());
    }

    pub(super) fn forget(&mut self, name: &Name) {
        if let Some(facts) = self.tasks.remove(name) {
            self.bytes -= facts.now.bytes;
        }
    }

    /// Between two groups: lets go of what is too much. Whoever needs it again loads it.
    pub(super) fn evict(&mut self, entries: &Entries) {
        while self.ended.len() > MOST_ENDED || self.is_too_much() {
            let Some(name) = self.ended.pop_front().or_else(|| self.begun.pop_front()) else { return };
            self.forget(&name);
            entries.remove(&name);
        }
        // Names of tasks that went as ended are left behind here.
        if self.begun.len() > 2 * self.tasks.len() + 64 {
            self.begun.retain(|name| self.tasks.contains_key(name));
        }
    }

    fn is_too_much(&self) -> bool {
        self.tasks.len() > MOST_TASKS || self.bytes > MOST_BYTES
    }
}
