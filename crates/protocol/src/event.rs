//! What a stream carries: updates of a task, and the [`Event`] they travel in.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::field::{is_default, next_object, null_as_default, object};
use crate::id::{ContextId, TaskId};
use crate::json::JsonObject;
use crate::message::{Artifact, Message};
use crate::task::{Task, TaskStatus};

/// The status of a task has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatusUpdateEvent {
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: TaskId,
    /// Its conversation.
    #[serde(alias = "context_id")]
    pub context_id: ContextId,
    /// Its new status.
    #[serde(deserialize_with = "object")]
    pub status: TaskStatus,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// A task has produced an artifact, or more of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskArtifactUpdateEvent {
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: TaskId,
    /// Its conversation.
    #[serde(alias = "context_id")]
    pub context_id: ContextId,
    /// The artifact, or the parts to append to it.
    #[serde(deserialize_with = "object")]
    pub artifact: Artifact,
    /// Whether the parts continue the artifact of that id, or replace it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub append: bool,
    /// Whether the artifact is now complete.
    #[serde(alias = "last_chunk", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub last_chunk: bool,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// One item of a stream: exactly one of these.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    /// The task as it stands.
    Task(Task),
    /// A direct answer, without a task.
    Message(Message),
    /// A change of status.
    StatusUpdate(TaskStatusUpdateEvent),
    /// An artifact, or more of one.
    ArtifactUpdate(TaskArtifactUpdateEvent),
}

/// One item of a stream, ready for the wire.
///
/// Its `StreamResponse` JSON is made once and shared by everyone who reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the journal of its task, from 1; 0 for an event that no journal keeps.
    pub number: u64,
    /// Compact `StreamResponse` JSON.
    pub json: Bytes,
}

// === impl StreamResponse ===

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum PayloadKey {
    Task,
    Message,
    #[serde(alias = "status_update")]
    StatusUpdate,
    #[serde(alias = "artifact_update")]
    ArtifactUpdate,
    #[serde(other)]
    Unknown,
}

impl<'de> Deserialize<'de> for StreamResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = StreamResponse;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one of task, message, statusUpdate, artifactUpdate")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<StreamResponse, M::Error> {
        let mut payload = None;
        while let Some(key) = map.next_key::<PayloadKey>()? {
            let found = match key {
                PayloadKey::Task => next_object(&mut map)?.map(StreamResponse::Task),
                PayloadKey::Message => next_object(&mut map)?.map(StreamResponse::Message),
                PayloadKey::StatusUpdate => next_object(&mut map)?.map(StreamResponse::StatusUpdate),
                PayloadKey::ArtifactUpdate => next_object(&mut map)?.map(StreamResponse::ArtifactUpdate),
                PayloadKey::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                    None
                }
            };
            if found.is_some() && payload.is_some() {
                return Err(M::Error::custom("more than one of task, message, statusUpdate, artifactUpdate"));
            }
            payload = payload.or(found);
        }
        payload.ok_or_else(|| M::Error::custom("expected one of task, message, statusUpdate, artifactUpdate"))
    }
}

// === impl Event ===

impl Event {
    /// Reads the event back into the model.
    pub fn payload(&self) -> Result<StreamResponse, Error> {
        crate::decode::decode_reply(&self.json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf8_is_no_event() {
        let json = b"{\"new\":\"\xff\",\n\"message\":{\"messageId\":\"m\",\"role\":\"ROLE_AGENT\",\"parts\":[{\"text\":\"x\"}]}}";
        assert!(Event { number: 0, json: Bytes::from_static(json) }.payload().is_err());
        let text = String::from_utf8_lossy(json).into_owned();
        assert!(Event { number: 0, json: text.into() }.payload().is_ok());
    }

    #[test]
    fn exactly_one_payload() {
        let parse =
            |json: &str| serde_json::from_str::<StreamResponse>(json).map_err(|error| error.to_string());
        assert!(parse("{}").unwrap_err().contains("expected one of"));
        let message = r#"{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}"#;
        assert!(parse(&format!(r#"{{"message":{message},"x":1}}"#)).is_ok());
        let task = r#"{"id":"t","status":{"state":"TASK_STATE_WORKING"}}"#;
        assert!(
            parse(&format!(r#"{{"message":{message},"task":{task}}}"#))
                .unwrap_err()
                .contains("more than one of")
        );
    }
}
