//! Tasks, their states and their status.

use chancery_protocol::field::{Object, empty_as_none, null_as_default};
use chancery_protocol::{ContextId, JsonObject, Message, Task, TaskId, TaskState, TaskStatus, Timestamp};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};

use super::message::HeardArtifact;
use super::{Newer, Older, OlderArtifact};
use crate::dialect::v0_3::{self, Form};

/// Where the metadata of a status' message say which state is meant, if v0.1 has no name for it.
const TASK_STATE: &str = "task_state";

// === states ===

/// The nearest state that v0.1 knows.
fn older_state(state: TaskState) -> TaskState {
    match state {
        TaskState::Rejected => TaskState::Failed,
        TaskState::AuthRequired => TaskState::InputRequired,
        state => state,
    }
}

// === status ===

impl Serialize for Older<'_, TaskStatus> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(status) = *self;
        let state = older_state(status.state);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", &v0_3::Older(Form::Kind, &state))?;
        if state != status.state {
            let message = marked(status).map_err(S::Error::custom)?;
            map.serialize_entry("message", &Older(&message))?;
        } else if let Some(message) = &status.message {
            map.serialize_entry("message", &Older(&**message))?;
        }
        if let Some(timestamp) = &status.timestamp {
            map.serialize_entry("timestamp", timestamp)?;
        }
        map.end()
    }
}

/// The message of a status, which says in its metadata what the state really is.
fn marked(status: &TaskStatus) -> Result<Message, chancery_protocol::JsonError> {
    let mark = JsonObject::single(TASK_STATE, status.state.as_str())?;
    let mut message = match &status.message {
        Some(message) => (**message).clone(),
        None => {
            let text = match status.state {
                TaskState::Rejected => "The agent refused the task",
                _ => "The agent waits for authentication",
            };
            Message::agent(text)
        }
    };
    message.metadata = Some(match &message.metadata {
        Some(own) => own.merged(&mark),
        None => mark,
    });
    Ok(message)
}

/// Takes such a mark off again.
fn unmarked(status: &mut TaskStatus) {
    let Some(message) = &mut status.message else { return };
    let Some(metadata) = &message.metadata else { return };
    let named = metadata.entry::<String>(TASK_STATE).ok().flatten();
    let Some(state) = named.as_deref().and_then(TaskState::from_name) else { return };
    if state != status.state && older_state(state) == status.state {
        status.state = state;
        message.metadata = metadata.without(TASK_STATE);
    }
}

#[derive(serde::Deserialize)]
struct StatusWire {
    state: v0_3::Newer<TaskState>,
    #[serde(default)]
    message: Option<Newer<Message>>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for Newer<TaskStatus> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<StatusWire>(wire) = Object::deserialize(deserializer)?;
        let mut status = TaskStatus {
            state: wire.state.0,
            message: wire.message.map(|Newer(message)| Box::new(message)),
            timestamp: wire.timestamp,
        };
        unmarked(&mut status);
        Ok(Self(status))
    }
}

// === tasks ===

impl Serialize for Older<'_, Task> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(task) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &task.id)?;
        if let Some(session) = &task.context_id {
            map.serialize_entry("sessionId", session)?;
        }
        map.serialize_entry("status", &Older(&task.status))?;
        if !task.artifacts.is_empty() {
            let artifacts: Vec<_> = task.artifacts.iter().enumerate().map(whole).collect();
            map.serialize_entry("artifacts", &artifacts)?;
        }
        if !task.history.is_empty() {
            let history: Vec<_> = task.history.iter().map(Older).collect();
            map.serialize_entry("history", &history)?;
        }
        if let Some(metadata) = &task.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

fn whole((index, artifact): (usize, &chancery_protocol::Artifact)) -> OlderArtifact<'_> {
    OlderArtifact { artifact, index, append: false, last_chunk: false }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskWire {
    id: TaskId,
    #[serde(alias = "contextId", default, deserialize_with = "empty_as_none")]
    session_id: Option<ContextId>,
    status: Newer<TaskStatus>,
    #[serde(default, deserialize_with = "null_as_default")]
    artifacts: Vec<Newer<HeardArtifact>>,
    #[serde(default, deserialize_with = "null_as_default")]
    history: Vec<Newer<Message>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

/// A server may list every piece of an artifact as one of its own: those that say so continue the one before.
impl<'de> Deserialize<'de> for Newer<Task> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<TaskWire>(wire) = Object::deserialize(deserializer)?;
        let said = wire.history.into_iter().map(|Newer(message)| message);
        let mut task = Task {
            id: wire.id,
            context_id: wire.session_id,
            status: wire.status.0,
            artifacts: Vec::new(),
            history: said.collect(),
            metadata: wire.metadata,
        };
        let artifacts: Vec<_> = wire.artifacts.into_iter().map(|Newer(heard)| heard).collect();
        let is_numbered = artifacts.iter().any(|heard| heard.artifact.artifact_id.as_str() != "0");
        for (place, mut heard) in artifacts.into_iter().enumerate() {
            if !is_numbered && !heard.append {
                // Whoever does not number them leaves every index at its default.
                heard.artifact.artifact_id = place.to_string().into();
            }
            task.apply_artifact(heard.artifact, heard.append);
        }
        Ok(Self(task))
    }
}

/// A direct answer is a task that is done with saying it.
pub(crate) fn answered(id: TaskId, context_id: Option<ContextId>, message: Message) -> Task {
    Task {
        id,
        context_id: message.context_id.clone().or(context_id),
        status: TaskStatus::now(TaskState::Completed, Some(message)),
        artifacts: Vec::new(),
        history: Vec::new(),
        metadata: None,
    }
}
