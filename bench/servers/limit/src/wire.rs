//! The JSON that goes in and out, as structs that borrow from the request.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::clock::Stamp;

/// A JSON-RPC request; `params` holds the fields of all three methods, so one pass parses it.
#[derive(Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) id: &'a RawValue,
    pub(crate) method: &'a str,
    #[serde(borrow)]
    pub(crate) params: Params<'a>,
}

#[derive(Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) message: Option<Message<'a>>,
    pub(crate) id: Option<Uuid>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) message_id: Cow<'a, str>,
    pub(crate) role: Role,
    #[serde(borrow)]
    pub(crate) parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
pub(crate) enum Role {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Part<'a> {
    #[serde(borrow)]
    pub(crate) text: Cow<'a, str>,
}

/// A JSON-RPC reply around any result.
#[derive(Serialize)]
pub(crate) struct Reply<'a, T> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: T,
}

/// What SendMessage answers and what each event of a stream carries.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Payload<'a> {
    Task(Task<'a>),
    ArtifactUpdate(ArtifactUpdate<'a>),
    StatusUpdate(StatusUpdate),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task<'a> {
    pub(crate) id: Uuid,
    pub(crate) context_id: Uuid,
    pub(crate) status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) artifacts: Option<[Artifact<'a>; 1]>,
    pub(crate) history: [&'a Message<'a>; 1],
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct Status {
    pub(crate) state: State,
    pub(crate) timestamp: Stamp,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) enum State {
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Artifact<'a> {
    pub(crate) artifact_id: &'static str,
    pub(crate) parts: [TextPart<'a>; 1],
}

#[derive(Serialize)]
pub(crate) struct TextPart<'a> {
    pub(crate) text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactUpdate<'a> {
    pub(crate) task_id: Uuid,
    pub(crate) context_id: Uuid,
    pub(crate) artifact: Artifact<'a>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) append: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) last_chunk: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusUpdate {
    pub(crate) task_id: Uuid,
    pub(crate) context_id: Uuid,
    pub(crate) status: Status,
}

/// Both ids of a task.
#[derive(Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) task: Uuid,
    pub(crate) context: Uuid,
}

// === impl Reply ===

impl<'a, T> Reply<'a, T> {
    pub(crate) fn new(id: &'a RawValue, result: T) -> Self {
        Self { jsonrpc: "2.0", id, result }
    }
}

// === impl Message ===

impl Message<'_> {
    /// The text of the first part, which is what gets echoed.
    pub(crate) fn text(&self) -> &str {
        self.parts.first().map_or("", |part| &part.text)
    }

    pub(crate) fn into_owned(self) -> Message<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Message {
            message_id: own(self.message_id),
            role: self.role,
            parts: self.parts.into_iter().map(|part| Part { text: own(part.text) }).collect(),
        }
    }
}

// === impl Task ===

impl<'a> Task<'a> {
    /// The finished echo of `message`.
    pub(crate) fn echo(ids: Ids, timestamp: Stamp, message: &'a Message<'a>) -> Self {
        Self {
            id: ids.task,
            context_id: ids.context,
            status: Status { state: State::Completed, timestamp },
            artifacts: Some([Artifact::text("echo", message.text())]),
            history: [message],
        }
    }
}

// === impl Artifact ===

impl<'a> Artifact<'a> {
    pub(crate) fn text(artifact_id: &'static str, text: &'a str) -> Self {
        Self { artifact_id, parts: [TextPart { text }] }
    }
}

// === impl Ids ===

impl Ids {
    pub(crate) fn new() -> Self {
        Self { task: Uuid::now_v7(), context: Uuid::now_v7() }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
