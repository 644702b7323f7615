//! One task: its events and their fold.

use std::sync::Arc;

use chancery_protocol::{
    ArtifactId, Event, Json, PushConfigId, Task, TaskId, TaskPushNotificationConfig, TaskState, TaskStatus,
};

use super::outbox::Outbox;
use super::push::Pushes;
use crate::error::StoreError;
use crate::limits::TaskLimits;
use crate::outbox::check_count;
use crate::record::{Appended, Batch, Change, Read, Scope, Snapshot};

#[derive(Debug)]
pub(super) struct Journal {
    /// The fold. Readers share it; it is copied only if one still holds it when the next event comes.
    task: Arc<Task>,
    events: Vec<Event>,
    /// The number of the last event.
    number: u64,
    /// How many bytes the kept events have.
    bytes: usize,
    state: Option<Json>,
    pushes: Option<Box<Pushes>>,
}

/// What a batch is committed under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) scope: &'a Scope,
    pub(super) limits: &'a TaskLimits,
    pub(super) outbox: &'a Arc<Outbox>,
}

impl Journal {
    /// A journal without events. The first batch creates the task.
    pub(super) fn new(id: &TaskId) -> Self {
        let status = TaskStatus { state: TaskState::Unspecified, message: None, timestamp: None };
        let nothing = Task {
            id: id.clone(),
            context_id: None,
            status,
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: None,
        };
        Self { task: Arc::new(nothing), events: Vec::new(), number: 0, bytes: 0, state: None, pushes: None }
    }

    /// Commits a batch. Its events are encoded before any lock is taken, and numbered here.
    pub(super) fn append(
        &mut self,
        mut batch: Batch,
        mut events: Vec<Event>,
        terms: Terms<'_>,
    ) -> Result<Appended, StoreError> {
        self.check(&batch, terms.limits)?;
        let before = self.number;
        for event in &mut events {
            event.number += self.number;
        }
        self.number += batch.len() as u64;
        self.bytes += batch.bytes();
        self.state = batch.state.take().or(self.state.take());
        self.events.extend(events.iter().cloned());
        if let Some(config) = batch.push.take() {
            self.register(*config, before, terms);
        }
        let push = self.pushes.as_deref_mut().is_some_and(|pushes| {
            pushes.advance(self.number);
            pushes.is_pending()
        });
        let task = Arc::make_mut(&mut self.task);
        for change in batch.into_changes() {
            fold(task, change);
        }
        if task.status.state.is_terminal() {
            shrink(task);
            self.events.shrink_to_fit();
        }
        Ok(Appended { events, number: self.number, task: self.task.clone(), push })
    }

    pub(super) fn read(&self, after: u64, max: usize) -> Read {
        let first = self.number - self.events.len() as u64;
        if after < first {
            return Read::Compacted;
        }
        let start = usize::try_from(after - first).unwrap_or(usize::MAX).min(self.events.len());
        let end = start.saturating_add(max).min(self.events.len());
        Read::Events(self.events[start..end].to_vec())
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { task: self.task.clone(), number: self.number, state: self.state.clone() }
    }

    pub(super) fn task(&self) -> &Arc<Task> {
        &self.task
    }

    pub(super) fn pushes(&self) -> Option<&Pushes> {
        self.pushes.as_deref()
    }

    /// Puts a configuration, which gets later events only.
    pub(super) fn put_push(
        &mut self,
        config: TaskPushNotificationConfig,
        terms: Terms<'_>,
    ) -> Result<Arc<TaskPushNotificationConfig>, StoreError> {
        self.check_push(&config, terms.limits)?;
        Ok(self.register(config, self.number, terms))
    }

    /// Changes the configurations, and says with the result whether that settled the task: it has ended, and
    /// now there is nothing more to deliver.
    pub(super) fn settle<T>(&mut self, change: impl FnOnce(&mut Pushes, u64) -> T) -> Option<(T, bool)> {
        let pushes = self.pushes.as_deref_mut()?;
        let pending = pushes.is_pending();
        let result = change(pushes, self.number);
        let settled = pending && !pushes.is_pending() && self.task.status.state.is_terminal();
        Some((result, settled))
    }

    fn register(
        &mut self,
        mut config: TaskPushNotificationConfig,
        cursor: u64,
        terms: Terms<'_>,
    ) -> Arc<TaskPushNotificationConfig> {
        let id = config.id.get_or_insert_with(PushConfigId::generate).clone();
        let fresh = || Box::new(Pushes::new(terms.scope.clone(), self.task.id.clone(), terms.outbox.clone()));
        let config = Arc::new(config);
        self.pushes.get_or_insert_with(fresh).put(config.clone(), id, cursor, self.number);
        config
    }

    fn check_push(&self, config: &TaskPushNotificationConfig, limits: &TaskLimits) -> Result<(), StoreError> {
        let count = self.pushes.as_deref().map_or(1, |pushes| pushes.count_with(config.id.as_ref()));
        check_count(&self.task.id, count, limits)
    }

    /// Keeps only the fold.
    pub(super) fn compact(&mut self) {
        self.events = Vec::new();
        self.bytes = 0;
    }

    /// Everything that could refuse the batch, before anything is changed.
    fn check(&self, batch: &Batch, limits: &TaskLimits) -> Result<(), StoreError> {
        let id = &self.task.id;
        let mut state = self.task.status.state;
        for (index, change) in batch.changes().iter().enumerate() {
            if matches!(change, Change::Created(_)) && (self.number > 0 || index > 0) {
                return Err(StoreError::Exists { id: id.clone() });
            }
            let next = change.state().unwrap_or(state);
            if state.is_terminal() || !state.may_become(next) && next != state {
                return Err(StoreError::Transition { id: id.clone(), from: state, to: next });
            }
            state = next;
        }
        if let Some(config) = &batch.push {
            self.check_push(config, limits)?;
        }
        // What ends a task always fits: a task that is full must still be able to say so.
        if batch.ends() && batch.len() == 1 + usize::from(batch.creates()) {
            return Ok(());
        }
        let full = |what, limit| Err(StoreError::TaskFull { id: id.clone(), what, limit });
        if self.events.len() + batch.len() > limits.events {
            return full("events", limits.events);
        }
        if self.artifacts_with(batch) > limits.artifacts {
            return full("artifacts", limits.artifacts);
        }
        if self.bytes + batch.bytes() > limits.bytes {
            return full("bytes", limits.bytes);
        }
        Ok(())
    }

    /// How many artifacts the task would have. Appending to one that is not there makes one, too.
    fn artifacts_with(&self, batch: &Batch) -> usize {
        let mut known = &self.task.artifacts;
        let mut fresh: Vec<&ArtifactId> = Vec::new();
        for change in batch.changes() {
            match change {
                Change::Created(task) => known = &task.artifacts,
                Change::Status(..) => {}
                Change::Artifact(update) => {
                    let id = &update.artifact.artifact_id;
                    if !known.iter().rev().any(|a| a.artifact_id == *id) && !fresh.contains(&id) {
                        fresh.push(id);
                    }
                }
            }
        }
        known.len() + fresh.len()
    }
}

fn fold(task: &mut Task, change: Change) {
    match change {
        Change::Created(created) => *task = *created,
        Change::Status(update, received) => {
            task.apply_status(update.status, update.metadata.as_ref());
            task.history.extend(received.map(|message| *message));
        }
        Change::Artifact(update) => task.apply_artifact(update.artifact, update.append),
    }
}

/// A task that has ended grows no more, so it keeps no room to grow.
fn shrink(task: &mut Task) {
    task.history.shrink_to_fit();
    task.artifacts.shrink_to_fit();
    for artifact in &mut task.artifacts {
        artifact.parts.shrink_to_fit();
    }
}
