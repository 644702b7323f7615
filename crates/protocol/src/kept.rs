//! A task that many share: a value while it changes, its JSON once it has ended.
//!
//! A task that has ended is only ever shown, nearly always as a whole. As JSON it is one piece of memory that is
//! written to the wire as it is; as a value it would be a dozen, each to be written anew.

use std::fmt;
use std::sync::Arc;

use crate::decode::decode_reply;
use crate::error::Error;
use crate::id::TaskId;
use crate::message::{Artifact, Part};
use crate::task::{Task, TaskState};
use crate::write::write_json;

/// A task, shared.
#[derive(Clone)]
pub struct KeptTask {
    id: TaskId,
    state: TaskState,
    form: Form,
}

#[derive(Clone)]
enum Form {
    Value(Arc<Task>),
    Json(Arc<[u8]>),
}

impl KeptTask {
    /// A task that has ended, as its JSON.
    pub fn ended(task: &Task) -> Result<Self, serde_json::Error> {
        let mut json = Vec::with_capacity(1024);
        write_json(&mut json, task)?;
        Ok(Self::from_json(task.id.clone(), task.status.state, json.into()))
    }

    /// What [`json`](Self::json) gave, and the id and state that stand in it.
    pub fn from_json(id: TaskId, state: TaskState, json: Arc<[u8]>) -> Self {
        Self { id, state, form: Form::Json(json) }
    }

    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// The state that the task is in.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Whether it has come to an end.
    pub fn is_over(&self) -> bool {
        self.state.is_terminal()
    }

    /// The task as a value, which is read from its JSON if need be.
    pub fn value(&self) -> Result<Arc<Task>, Error> {
        match &self.form {
            Form::Value(task) => Ok(task.clone()),
            Form::Json(json) => decode_reply::<Task>(json).map(Arc::new).map_err(Error::internal),
        }
    }

    /// The JSON of a task that is kept as such.
    pub fn json(&self) -> Option<&Arc<[u8]>> {
        match &self.form {
            Form::Value(_) => None,
            Form::Json(json) => Some(json),
        }
    }

    /// About how many bytes its JSON has.
    pub fn weight(&self) -> usize {
        match &self.form {
            Form::Value(task) => {
                let said = task.history.iter().chain(task.status.message.as_deref());
                let said = said.flat_map(|message| &message.parts).map(Part::weight).sum::<usize>();
                said + task.artifacts.iter().map(Artifact::weight).sum::<usize>()
            }
            Form::Json(json) => json.len(),
        }
    }

    /// Appends the task's JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match &self.form {
            Form::Value(task) => write_json(out, &**task).map_err(Error::internal),
            Form::Json(json) => {
                out.extend_from_slice(json);
                Ok(())
            }
        }
    }
}

impl From<Arc<Task>> for KeptTask {
    fn from(task: Arc<Task>) -> Self {
        Self { id: task.id.clone(), state: task.status.state, form: Form::Value(task) }
    }
}

impl From<Task> for KeptTask {
    fn from(task: Task) -> Self {
        Arc::new(task).into()
    }
}

impl PartialEq for KeptTask {
    fn eq(&self, other: &Self) -> bool {
        matches!((self.value(), other.value()), (Ok(one), Ok(other)) if one == other)
    }
}

impl fmt::Debug for KeptTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Ok(task) => fmt::Debug::fmt(&task, f),
            Err(error) => fmt::Debug::fmt(&error, f),
        }
    }
}
