//! What streams carry, and the answer to a message, which is one of the same.

use std::borrow::Cow;

use chancery_protocol::field::{Object, null_as_default};
use chancery_protocol::{
    Artifact, ContextId, JsonObject, Message, SendMessageResponse, StreamResponse, Task,
    TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, TaskView,
};
use serde::de::Error as _;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::{Form, Newer, Older};

/// An event, as v0.3 writes it.
pub(crate) struct OlderEvent<'a> {
    pub(crate) form: Form,
    pub(crate) event: &'a StreamResponse,
    /// Whether a question of the agent's is the last event of the stream.
    pub(crate) question_is_last: bool,
}

/// An event with what v0.3 says about it besides: whether it is the last one.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) event: StreamResponse,
    pub(crate) is_last: bool,
}

struct StatusUpdate<'a> {
    form: Form,
    update: &'a TaskStatusUpdateEvent,
    is_last: bool,
}

// === written ===

impl OlderEvent<'_> {
    /// v0.3 says of the last event that it is.
    fn is_last(&self, state: TaskState) -> bool {
        state.is_terminal() || (self.question_is_last && state == TaskState::InputRequired)
    }

    fn write<S: SerializeMap>(&self, map: &mut S) -> Result<(), S::Error> {
        let form = self.form;
        match self.event {
            StreamResponse::Task(task) => map.serialize_entry("task", &Older(form, task)),
            StreamResponse::Message(message) => map.serialize_entry("message", &Older(form, message)),
            StreamResponse::StatusUpdate(update) => {
                let is_last = self.is_last(update.status.state);
                map.serialize_entry("statusUpdate", &StatusUpdate { form, update, is_last })
            }
            StreamResponse::ArtifactUpdate(update) => {
                map.serialize_entry("artifactUpdate", &Older(form, update))
            }
        }
    }
}

impl Serialize for OlderEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = self.form;
        if !form.is_kind() {
            let mut map = serializer.serialize_map(Some(1))?;
            self.write(&mut map)?;
            return map.end();
        }
        match self.event {
            StreamResponse::Task(task) => Older(form, task).serialize(serializer),
            StreamResponse::Message(message) => Older(form, message).serialize(serializer),
            StreamResponse::StatusUpdate(update) => {
                let is_last = self.is_last(update.status.state);
                StatusUpdate { form, update, is_last }.serialize(serializer)
            }
            StreamResponse::ArtifactUpdate(update) => Older(form, update).serialize(serializer),
        }
    }
}

impl Serialize for StatusUpdate<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { form, update, is_last } = *self;
        let mut map = serializer.serialize_map(None)?;
        if form.is_kind() {
            map.serialize_entry("kind", "status-update")?;
        }
        map.serialize_entry("taskId", &update.task_id)?;
        map.serialize_entry("contextId", &update.context_id)?;
        map.serialize_entry("status", &Older(form, &update.status))?;
        map.serialize_entry("final", &is_last)?;
        if let Some(metadata) = &update.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

/// The answer to a message in ProtoJSON, where its name stands around it.
impl Serialize for Older<'_, SendMessageResponse<TaskView>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, sent) = *self;
        let mut map = serializer.serialize_map(Some(1))?;
        match sent {
            SendMessageResponse::Task(task) => map.serialize_entry("task", &Older(form, task))?,
            SendMessageResponse::Message(message) => map.serialize_entry("message", &Older(form, message))?,
        }
        map.end()
    }
}

impl Serialize for Older<'_, TaskArtifactUpdateEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, update) = *self;
        let mut map = serializer.serialize_map(None)?;
        if form.is_kind() {
            map.serialize_entry("kind", "artifact-update")?;
        }
        map.serialize_entry("taskId", &update.task_id)?;
        map.serialize_entry("contextId", &update.context_id)?;
        map.serialize_entry("artifact", &Older(form, &update.artifact))?;
        if update.append {
            map.serialize_entry("append", &true)?;
        }
        if update.last_chunk {
            map.serialize_entry("lastChunk", &true)?;
        }
        if let Some(metadata) = &update.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

// === read ===

/// Enough of an event to tell which one it is: by `kind`, by the key around it, or by what it has.
#[derive(serde::Deserialize)]
struct Outline<'a> {
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    task: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "msg")]
    message: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "statusUpdate", alias = "status_update")]
    status_update: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "artifactUpdate", alias = "artifact_update")]
    artifact_update: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    artifact: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "messageId", alias = "message_id")]
    message_id: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "taskId", alias = "task_id")]
    task_id: Option<&'a RawValue>,
}

#[derive(Clone, Copy)]
enum Which {
    Task,
    Message,
    Status,
    Artifact,
}

impl Outline<'_> {
    fn which(&self) -> Option<(Which, Option<&RawValue>)> {
        let by_kind = match self.kind.as_deref() {
            Some("task") => Some(Which::Task),
            Some("message") => Some(Which::Message),
            Some("status-update") => Some(Which::Status),
            Some("artifact-update") => Some(Which::Artifact),
            _ => None,
        };
        let wrapped = [
            (Which::Task, self.task),
            (Which::Message, self.message),
            (Which::Status, self.status_update),
            (Which::Artifact, self.artifact_update),
        ];
        if let Some(kind) = by_kind {
            return Some((kind, None));
        }
        if let Some((which, inner)) = wrapped.into_iter().find(|(_, inner)| inner.is_some()) {
            return Some((which, inner));
        }
        Some(match (self.task_id, self.status, self.artifact, self.message_id) {
            (_, _, _, Some(_)) => (Which::Message, None),
            (Some(_), Some(_), _, _) => (Which::Status, None),
            (Some(_), _, Some(_), _) => (Which::Artifact, None),
            (None, Some(_), _, _) => (Which::Task, None),
            _ => return None,
        })
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusWire {
    #[serde(alias = "task_id")]
    task_id: TaskId,
    #[serde(alias = "context_id", default, deserialize_with = "null_as_default")]
    context_id: String,
    status: Newer<TaskStatus>,
    #[serde(rename = "final", default, deserialize_with = "null_as_default")]
    is_last: bool,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactWire {
    #[serde(alias = "task_id")]
    task_id: TaskId,
    #[serde(alias = "context_id", default, deserialize_with = "null_as_default")]
    context_id: String,
    artifact: Newer<Artifact>,
    #[serde(default, deserialize_with = "null_as_default")]
    append: bool,
    #[serde(alias = "last_chunk", default, deserialize_with = "null_as_default")]
    last_chunk: bool,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

impl Heard {
    /// Reads an event in either form, bare or with its name around it.
    pub(crate) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let Object::<Outline<'_>>(outline) = serde_json::from_str(json)?;
        let (which, inner) = outline
            .which()
            .ok_or_else(|| serde_json::Error::custom("expected a task, a message or an update of a task"))?;
        let text = inner.map_or(json, RawValue::get);
        let mut is_last = false;
        let event = match which {
            Which::Task => StreamResponse::Task(serde_json::from_str::<Newer<Task>>(text)?.0),
            Which::Message => StreamResponse::Message(serde_json::from_str::<Newer<Message>>(text)?.0),
            Which::Status => {
                let Object::<StatusWire>(wire) = serde_json::from_str(text)?;
                is_last = wire.is_last;
                StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                    task_id: wire.task_id,
                    context_id: ContextId::from(wire.context_id),
                    status: wire.status.0,
                    metadata: wire.metadata,
                })
            }
            Which::Artifact => {
                let Object::<ArtifactWire>(wire) = serde_json::from_str(text)?;
                StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                    task_id: wire.task_id,
                    context_id: ContextId::from(wire.context_id),
                    artifact: wire.artifact.0,
                    append: wire.append,
                    last_chunk: wire.last_chunk,
                    metadata: wire.metadata,
                })
            }
        };
        Ok(Self { event, is_last })
    }

    /// The answer to a message: a task or a message, nothing else.
    pub(crate) fn sent(self) -> Option<SendMessageResponse> {
        match self.event {
            StreamResponse::Task(task) => Some(SendMessageResponse::Task(task)),
            StreamResponse::Message(message) => Some(SendMessageResponse::Message(message)),
            _ => None,
        }
    }
}
