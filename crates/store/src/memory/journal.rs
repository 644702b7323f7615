//! One task: its events and their fold.

use std::sync::Arc;

use chancery_protocol::{Event, Json, Task, TaskId, TaskState};

use crate::error::StoreError;
use crate::limits::TaskLimits;
use crate::record::{Appended, Batch, Change, Read, Snapshot};

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
}

impl Journal {
    /// Starts a journal with a batch whose first event creates the task.
    pub(super) fn create(
        id: &TaskId,
        batch: Batch,
        limits: &TaskLimits,
    ) -> Result<(Self, Appended), StoreError> {
        let placeholder = Task {
            id: id.clone(),
            context_id: None,
            status: chancery_protocol::TaskStatus {
                state: TaskState::Unspecified,
                message: None,
                timestamp: None,
            },
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: None,
        };
        let mut journal =
            Self { task: Arc::new(placeholder), events: Vec::new(), number: 0, bytes: 0, state: None };
        let appended = journal.append(id, batch, limits)?;
        Ok((journal, appended))
    }

    pub(super) fn append(
        &mut self,
        id: &TaskId,
        mut batch: Batch,
        limits: &TaskLimits,
    ) -> Result<Appended, StoreError> {
        self.check(id, &batch, limits)?;
        self.bytes += batch.bytes();
        self.state = batch.state.take().or(self.state.take());
        let (events, changes) = batch.number_from(self.number);
        let task = Arc::make_mut(&mut self.task);
        for change in changes {
            fold(task, change);
        }
        self.number += events.len() as u64;
        self.events.extend(events.iter().cloned());
        Ok(Appended { events, task: self.task.clone() })
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

    /// Keeps only the fold.
    pub(super) fn compact(&mut self) {
        self.events = Vec::new();
        self.bytes = 0;
    }

    /// Everything that could refuse the batch, before anything is changed.
    fn check(&self, id: &TaskId, batch: &Batch, limits: &TaskLimits) -> Result<(), StoreError> {
        let mut state = self.task.status.state;
        let mut artifacts = &self.task.artifacts;
        let mut fresh = Vec::new();
        for (index, change) in batch.changes().enumerate() {
            let next = match change {
                Change::Created(_) if self.number > 0 || index > 0 => {
                    return Err(StoreError::Exists { id: id.clone() });
                }
                Change::Created(task) => {
                    artifacts = &task.artifacts;
                    task.status.state
                }
                Change::Status { status, .. } => status.state,
                Change::Artifact { artifact, .. } => {
                    // Appending to an artifact that is not there makes one, too.
                    let id = &artifact.artifact_id;
                    if !artifacts.iter().rev().any(|a| a.artifact_id == *id) && !fresh.contains(&id) {
                        fresh.push(id);
                    }
                    state
                }
            };
            if state.is_terminal() || !state.may_become(next) && next != state {
                return Err(StoreError::Transition { id: id.clone(), from: state, to: next });
            }
            state = next;
        }
        let full = |what, limit| Err(StoreError::TaskFull { id: id.clone(), what, limit });
        // What ends a task always fits: a task that is full must still be able to say so.
        if state.is_terminal() && batch.len() == 1 {
            return Ok(());
        }
        if self.events.len() + batch.len() > limits.events {
            return full("events", limits.events);
        }
        if artifacts.len() + fresh.len() > limits.artifacts {
            return full("artifacts", limits.artifacts);
        }
        if self.bytes + batch.bytes() > limits.bytes {
            return full("bytes", limits.bytes);
        }
        Ok(())
    }
}

fn fold(task: &mut Task, change: Change) {
    match change {
        Change::Created(created) => *task = *created,
        Change::Status { status, metadata, received } => {
            task.apply_status(status, metadata.as_ref());
            task.history.extend(received.map(|message| *message));
        }
        Change::Artifact { artifact, append } => task.apply_artifact(artifact, append),
    }
}
