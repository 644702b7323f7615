//! One task: its events and their fold.

use std::sync::Arc;

use chancery_protocol::{ArtifactId, Event, Json, PushConfigId, Task, TaskId, TaskPushNotificationConfig};

use super::outbox::Outbox;
use super::push::Pushes;
use crate::error::StoreError;
use crate::fold::{Standing, fold_all, has_artifact, nothing};
use crate::limits::TaskLimits;
use crate::outbox::check_count;
use crate::record::{Appended, Batch, Read, Scope, Snapshot};

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
        let task = Arc::new(nothing(id));
        Self { task, events: Vec::new(), number: 0, bytes: 0, state: None, pushes: None }
    }

    /// Commits a batch. Its events are encoded before any lock is taken, and numbered here.
    pub(super) fn append(
        &mut self,
        mut batch: Batch,
        mut events: Vec<Event>,
        terms: Terms<'_>,
    ) -> Result<Appended, StoreError> {
        self.standing().check(&batch, terms.limits)?;
        if let Some(config) = &batch.push {
            self.check_push(config, terms.limits)?;
        }
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
        fold_all(task, batch.into_changes());
        if task.status.state.is_terminal() {
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

    fn standing(&self) -> Standing<'_, impl Fn(&ArtifactId) -> bool> {
        Standing {
            id: &self.task.id,
            state: self.task.status.state,
            number: self.number,
            events: self.events.len(),
            bytes: self.bytes,
            artifacts: self.task.artifacts.len(),
            has_artifact: |id: &ArtifactId| has_artifact(&self.task.artifacts, id),
        }
    }
}
