//! One task: its events and their fold.

use std::sync::Arc;

use chancery_protocol::{
    ArtifactId, Event, Json, KeptTask, PushConfigId, Task, TaskId, TaskPushNotificationConfig,
};

use super::outbox::Outbox;
use super::push::Pushes;
use crate::error::StoreError;
use crate::fold::{Standing, fold_all, has_artifact, nothing};
use crate::limits::TaskLimits;
use crate::outbox::{Registration, check_count};
use crate::packed::Packed;
use crate::record::{Appended, Batch, Read, Scope, Snapshot};

#[derive(Debug)]
pub(super) struct Journal {
    id: TaskId,
    fold: Fold,
    events: Packed,
    /// The number of the last event.
    number: u64,
    /// How many bytes the kept events have.
    bytes: usize,
    state: Option<Json>,
    pushes: Option<Box<Pushes>>,
}

#[derive(Debug)]
enum Fold {
    /// Readers share it; it is copied only if one still holds it when the next event comes.
    Changing(Arc<Task>),
    Ended(KeptTask),
}

/// What is left of a task that has ended, once its events are gone.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) task: KeptTask,
    pub(super) number: u64,
    state: Option<Json>,
}

/// What a batch is committed under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) scope: &'a Scope,
    pub(super) limits: &'a TaskLimits,
    pub(super) outbox: &'a Arc<Outbox>,
}

// === impl Journal ===

impl Journal {
    /// A journal without events. The first batch creates the task.
    pub(super) fn new(id: &TaskId) -> Self {
        let fold = Fold::Changing(Arc::new(nothing(id)));
        let events = Packed::default();
        Self { id: id.clone(), fold, events, number: 0, bytes: 0, state: None, pushes: None }
    }

    /// Opens what was closed, because somebody wants to know of its end after all.
    pub(super) fn reopened(id: &TaskId, closed: &Closed) -> Self {
        let Closed { task, number, state } = closed.clone();
        let fold = Fold::Ended(task);
        Self { id: id.clone(), fold, events: Packed::default(), number, bytes: 0, state, pushes: None }
    }

    /// Commits a batch. Its events are encoded before any lock is taken, and numbered here.
    pub(super) fn append(
        &mut self,
        mut batch: Box<Batch>,
        mut events: Vec<Event>,
        terms: Terms<'_>,
    ) -> Result<Appended, StoreError> {
        self.standing().check(&batch, terms.limits)?;
        if let Some(registration) = &batch.push {
            self.check_push(registration, terms.limits)?;
        }
        let before = self.number;
        for event in &mut events {
            event.number += self.number;
        }
        self.number += batch.len() as u64;
        self.bytes += batch.bytes();
        self.state = batch.state.take().or(self.state.take());
        self.events.extend(&events);
        if let Some(registration) = batch.push.take() {
            self.register(*registration, before, terms);
        }
        let push = self.pushes.as_deref_mut().is_some_and(|pushes| {
            pushes.advance(self.number);
            pushes.is_pending()
        });
        // The check lets nothing through to a task that has ended, but for a batch without a change.
        if let Fold::Changing(task) = &mut self.fold {
            fold_all(Arc::make_mut(task), batch.take_changes());
        }
        Ok(Appended { events, number: self.number, task: self.task(), push })
    }

    pub(super) fn read(&self, after: u64, max: usize) -> Read {
        let first = self.number - self.events.len() as u64;
        if after < first {
            return Read::Compacted;
        }
        let mut events = self.events.read(usize::try_from(after - first).unwrap_or(usize::MAX), max);
        for event in &mut events {
            event.number += first;
        }
        Read::Events(events)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { task: self.task(), number: self.number, state: self.state.clone() }
    }

    pub(super) fn task(&self) -> KeptTask {
        match &self.fold {
            Fold::Changing(task) => task.clone().into(),
            Fold::Ended(task) => task.clone(),
        }
    }

    /// The task while it changes.
    pub(super) fn changing(&self) -> Option<&Arc<Task>> {
        match &self.fold {
            Fold::Changing(task) => Some(task),
            Fold::Ended(_) => None,
        }
    }

    /// The task has ended: from now on it is kept as what it will be shown as.
    pub(super) fn end(&mut self) -> Result<KeptTask, StoreError> {
        if let Fold::Changing(task) = &self.fold {
            self.fold = Fold::Ended(KeptTask::ended(task)?);
            self.events.close();
        }
        Ok(self.task())
    }

    /// Lets go of the events, and of everything else that the task can do without.
    pub(super) fn compact(&mut self) -> Option<Closed> {
        self.events = Packed::default();
        self.bytes = 0;
        let Fold::Ended(task) = &self.fold else { return None };
        match self.pushes {
            None => Some(Closed { task: task.clone(), number: self.number, state: self.state.take() }),
            Some(_) => None,
        }
    }

    pub(super) fn pushes(&self) -> Option<&Pushes> {
        self.pushes.as_deref()
    }

    /// Puts a configuration, which gets later events only.
    pub(super) fn put_push(
        &mut self,
        registration: Registration,
        terms: Terms<'_>,
    ) -> Result<Arc<TaskPushNotificationConfig>, StoreError> {
        self.check_push(&registration, terms.limits)?;
        Ok(self.register(registration, self.number, terms))
    }

    /// Changes the configurations, and says with the result whether that settled the task: it has ended, and
    /// now there is nothing more to deliver.
    pub(super) fn settle<T>(&mut self, change: impl FnOnce(&mut Pushes, u64) -> T) -> Option<(T, bool)> {
        let over = self.task().is_over();
        let pushes = self.pushes.as_deref_mut()?;
        let pending = pushes.is_pending();
        let result = change(pushes, self.number);
        let settled = pending && !pushes.is_pending() && over;
        Some((result, settled))
    }

    fn register(
        &mut self,
        registration: Registration,
        cursor: u64,
        terms: Terms<'_>,
    ) -> Arc<TaskPushNotificationConfig> {
        let Registration { mut config, version } = registration;
        let id = config.id.get_or_insert_with(PushConfigId::generate).clone();
        let fresh = || Box::new(Pushes::new(terms.scope.clone(), self.id.clone(), terms.outbox.clone()));
        let config = Arc::new(config);
        self.pushes.get_or_insert_with(fresh).put(config.clone(), version, id, cursor, self.number);
        config
    }

    fn check_push(&self, registration: &Registration, limits: &TaskLimits) -> Result<(), StoreError> {
        let id = registration.config.id.as_ref();
        let count = self.pushes.as_deref().map_or(1, |pushes| pushes.count_with(id));
        check_count(&self.id, count, limits)
    }

    /// The task goes, and nothing of it is delivered any more.
    pub(super) fn drop_pushes(&mut self) {
        if let Some(mut pushes) = self.pushes.take() {
            pushes.leave();
        }
    }

    fn standing(&self) -> Standing<'_, impl Fn(&ArtifactId) -> bool> {
        let artifacts = self.changing().map_or(&[][..], |task| &task.artifacts);
        Standing {
            id: &self.id,
            state: self.task().state(),
            number: self.number,
            events: self.events.len(),
            bytes: self.bytes,
            artifacts: artifacts.len(),
            has_artifact: |id: &ArtifactId| has_artifact(artifacts, id),
        }
    }
}

// === impl Closed ===

impl Closed {
    /// What a batch leaves that holds the whole life of a task, and where that is listed. It takes no look at the
    /// store, and so no lock.
    pub(super) fn of_whole_life(
        id: &TaskId,
        mut batch: Box<Batch>,
        limits: &TaskLimits,
    ) -> Result<(Self, Task), StoreError> {
        Standing::of_nothing(id).check(&batch, limits)?;
        let (number, state) = (batch.len() as u64, batch.state.take());
        let mut task = nothing(id);
        fold_all(&mut task, batch.take_changes());
        Ok((Self { task: KeptTask::ended(&task)?, number, state }, task))
    }

    pub(super) fn read(&self, after: u64) -> Read {
        if after < self.number { Read::Compacted } else { Read::Events(Vec::new()) }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { task: self.task.clone(), number: self.number, state: self.state.clone() }
    }
}
