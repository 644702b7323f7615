//! What streams carry: a status or an artifact, told apart by which one is there.

use chancery_protocol::field::{Object, null_as_default};
use chancery_protocol::{
    ContextId, JsonObject, StreamResponse, Task, TaskArtifactUpdateEvent, TaskId, TaskStatus,
    TaskStatusUpdateEvent,
};
use serde::de::{Error as _, IgnoredAny};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::message::HeardArtifact;
use super::{Newer, Older, OlderArtifact};

/// An event, as v0.1 writes it.
pub(crate) enum OlderEvent<'a> {
    Status { id: &'a TaskId, status: &'a TaskStatus, is_last: bool, metadata: Option<&'a JsonObject> },
    Artifact { id: &'a TaskId, artifact: OlderArtifact<'a>, metadata: Option<&'a JsonObject> },
}

/// An event with what v0.1 says about it besides: whether it is the last one.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) event: StreamResponse,
    pub(crate) is_last: bool,
}

impl Serialize for OlderEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let metadata = match self {
            Self::Status { id, status, is_last, metadata } => {
                map.serialize_entry("id", id)?;
                map.serialize_entry("status", &Older(*status))?;
                map.serialize_entry("final", is_last)?;
                metadata
            }
            Self::Artifact { id, artifact, metadata } => {
                map.serialize_entry("id", id)?;
                map.serialize_entry("artifact", artifact)?;
                metadata
            }
        };
        if let Some(metadata) = metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

/// Which one it is, and what both have.
#[derive(serde::Deserialize)]
struct EventWire {
    id: TaskId,
    #[serde(default)]
    status: Option<Newer<TaskStatus>>,
    #[serde(default)]
    artifact: Option<Newer<HeardArtifact>>,
    #[serde(rename = "final", default, deserialize_with = "null_as_default")]
    is_last: bool,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

/// What only a whole task has.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskMarks {
    #[serde(default)]
    session_id: Option<IgnoredAny>,
    #[serde(default)]
    artifacts: Option<IgnoredAny>,
    #[serde(default)]
    history: Option<IgnoredAny>,
}

impl Heard {
    /// Reads an event. Some servers send the whole task, too. Which conversation it is in, an update does not say.
    pub(crate) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let Object::<TaskMarks>(marks) = serde_json::from_str(json)?;
        if marks.session_id.is_some() || marks.artifacts.is_some() || marks.history.is_some() {
            let Newer(task) = serde_json::from_str::<Newer<Task>>(json)?;
            return Ok(Self { is_last: task.status.state.is_terminal(), event: StreamResponse::Task(task) });
        }
        let Object::<EventWire>(wire) = serde_json::from_str(json)?;
        let context_id = ContextId::from("");
        let event = match (wire.status, wire.artifact) {
            (Some(Newer(status)), None) => StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: wire.id,
                context_id,
                status,
                metadata: wire.metadata,
            }),
            (None, Some(Newer(heard))) => StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: wire.id,
                context_id,
                artifact: heard.artifact,
                append: heard.append,
                last_chunk: heard.last_chunk,
                metadata: wire.metadata,
            }),
            (Some(_), Some(_)) => return Err(serde_json::Error::custom("both a status and an artifact")),
            (None, None) => return Err(serde_json::Error::custom("expected a status or an artifact")),
        };
        Ok(Self { event, is_last: wire.is_last })
    }
}
