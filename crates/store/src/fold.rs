//! What every store does alike: which batch a task takes, and what the task becomes by it.
//!
//! The check needs only light facts and may refuse; the fold needs the whole task and never fails. So a store
//! can check first, commit, and fold when nothing can go wrong any more.

use chancery_protocol::{Artifact, ArtifactId, Task, TaskId, TaskState, TaskStatus};

use crate::error::StoreError;
use crate::limits::TaskLimits;
use crate::record::{Batch, Change};

/// How a task stands before a batch.
pub(crate) struct Standing<'a, Has> {
    pub(crate) id: &'a TaskId,
    pub(crate) state: TaskState,
    /// The number of its last event; 0 for a task that is not there yet.
    pub(crate) number: u64,
    /// How many events are kept, and how many bytes they have.
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    /// How many artifacts there are, and whether one of them has this id.
    pub(crate) artifacts: usize,
    pub(crate) has_artifact: Has,
}

impl<'a> Standing<'a, fn(&ArtifactId) -> bool> {
    /// A task that is not there yet.
    pub(crate) fn of_nothing(id: &'a TaskId) -> Self {
        let has_artifact = |_: &ArtifactId| false;
        Self { id, state: TaskState::Unspecified, number: 0, events: 0, bytes: 0, artifacts: 0, has_artifact }
    }
}

impl<Has: Fn(&ArtifactId) -> bool> Standing<'_, Has> {
    /// Everything that could refuse the batch, before anything is changed.
    pub(crate) fn check(&self, batch: &Batch, limits: &TaskLimits) -> Result<(), StoreError> {
        let id = self.id;
        let mut state = self.state;
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
        // What ends a task always fits: a task that is full must still be able to say so.
        if batch.ends() && batch.len() == 1 + usize::from(batch.creates()) {
            return Ok(());
        }
        let full = |what, limit| Err(StoreError::TaskFull { id: id.clone(), what, limit });
        if self.events + batch.len() > limits.events {
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
        let mut created: Option<&[Artifact]> = None;
        let mut fresh: Vec<&ArtifactId> = Vec::new();
        for change in batch.changes() {
            match change {
                Change::Created(task) => created = Some(&task.artifacts),
                Change::Status(..) => {}
                Change::Artifact(update) => {
                    let id = &update.artifact.artifact_id;
                    let known = match created {
                        Some(artifacts) => has_artifact(artifacts, id),
                        None => (self.has_artifact)(id),
                    };
                    if !known && !fresh.contains(&id) {
                        fresh.push(id);
                    }
                }
            }
        }
        created.map_or(self.artifacts, <[_]>::len) + fresh.len()
    }
}

/// Whether one of the artifacts has this id. The one that was touched last is the likeliest.
pub(crate) fn has_artifact(artifacts: &[Artifact], id: &ArtifactId) -> bool {
    artifacts.iter().rev().any(|artifact| artifact.artifact_id == *id)
}

/// A task of which nothing has happened yet: the first change creates it.
pub(crate) fn nothing(id: &TaskId) -> Task {
    Task {
        id: id.clone(),
        context_id: None,
        status: TaskStatus { state: TaskState::Unspecified, message: None, timestamp: None },
        artifacts: Vec::new(),
        history: Vec::new(),
        metadata: None,
    }
}

/// What changes make of a task.
pub(crate) fn fold_all(task: &mut Task, changes: impl IntoIterator<Item = Change>) {
    for change in changes {
        fold(task, change);
    }
}

fn fold(task: &mut Task, change: Change) {
    match change {
        Change::Created(created) => *task = *created,
        Change::Status(update, said) => {
            task.apply_status(update.status, update.metadata.as_ref());
            task.history.extend(said);
        }
        Change::Artifact(update) => task.apply_artifact(update.artifact, update.append),
    }
}
