//! What each operation takes and gives.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

use crate::field::{int32, is_default, null_as_default, object, objects, optional_int32, optional_object};
use crate::id::{ContextId, PushConfigId, TaskId, empty_as_none};
use crate::json::JsonObject;
use crate::message::{Message, Part};
use crate::push::TaskPushNotificationConfig;
use crate::task::{Task, TaskState, TaskView};
use crate::time::Timestamp;

/// For SendMessage and SendStreamingMessage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessageRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// What is said.
    #[serde(deserialize_with = "object")]
    pub message: Message,
    /// How the answer is wanted.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub configuration: Option<SendMessageConfiguration>,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// How the answer to a message is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessageConfiguration {
    /// Media types that the client understands; empty means any.
    #[serde(alias = "accepted_output_modes", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub accepted_output_modes: Vec<String>,
    /// Registers a receiver together with the task.
    #[serde(alias = "task_push_notification_config", default, deserialize_with = "optional_object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_push_notification_config: Option<TaskPushNotificationConfig>,
    /// At most this many messages of history in the answer.
    #[serde(alias = "history_length", default, deserialize_with = "optional_int32")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    /// Answer as soon as the task exists.
    #[serde(alias = "return_immediately", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub return_immediately: bool,
}

/// For GetTask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTaskRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// The task.
    pub id: TaskId,
    /// At most this many messages of history in the answer.
    #[serde(alias = "history_length", default, deserialize_with = "optional_int32")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
}

/// For ListTasks. Filters that are absent match everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasksRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// Only tasks of this conversation.
    #[serde(alias = "context_id", default, deserialize_with = "empty_as_none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// Only tasks in this state.
    #[serde(default, deserialize_with = "known_state", skip_serializing_if = "is_default")]
    pub status: TaskState,
    /// 1 to 100; 50 when absent.
    #[serde(alias = "page_size", default, deserialize_with = "optional_int32")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    /// Where the page begins: the `nextPageToken` of the page before.
    #[serde(alias = "page_token", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub page_token: String,
    /// At most this many messages of history in each task.
    #[serde(alias = "history_length", default, deserialize_with = "optional_int32")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    /// Only tasks whose status is of this time or later.
    #[serde(alias = "status_timestamp_after", default, skip_serializing_if = "Option::is_none")]
    pub status_timestamp_after: Option<Timestamp>,
    /// Whether the tasks carry their artifacts.
    #[serde(alias = "include_artifacts", default, skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
}

/// A page of tasks, the one whose status changed last coming first. All four keys are always written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
pub struct ListTasksResponse<T = Task> {
    /// The tasks of this page.
    #[serde(default = "Vec::new", deserialize_with = "objects")]
    pub tasks: Vec<T>,
    /// Asks for the next page; empty on the last one.
    #[serde(alias = "next_page_token", default, deserialize_with = "null_as_default")]
    pub next_page_token: String,
    /// The page size that was used.
    #[serde(alias = "page_size", default, deserialize_with = "int32")]
    pub page_size: i32,
    /// How many tasks match, on all pages.
    #[serde(alias = "total_size", default, deserialize_with = "int32")]
    pub total_size: i32,
}

/// A page of shared tasks, as a server answers it.
pub type TaskPage = ListTasksResponse<TaskView>;

/// For CancelTask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelTaskRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// The task.
    pub id: TaskId,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// For SubscribeToTask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubscribeToTaskRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// The task.
    pub id: TaskId,
}

/// For GetTaskPushNotificationConfig and DeleteTaskPushNotificationConfig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushNotificationConfigRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: TaskId,
    /// The configuration.
    pub id: PushConfigId,
}

/// For ListTaskPushNotificationConfigs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTaskPushNotificationConfigsRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: TaskId,
    /// 0 leaves it to the server.
    #[serde(alias = "page_size", default, deserialize_with = "int32")]
    #[serde(skip_serializing_if = "is_default")]
    pub page_size: i32,
    /// Where the page begins.
    #[serde(alias = "page_token", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub page_token: String,
}

/// A page of push notification configurations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTaskPushNotificationConfigsResponse {
    /// The configurations.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub configs: Vec<TaskPushNotificationConfig>,
    /// Asks for the next page; absent on the last one.
    #[serde(alias = "next_page_token", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub next_page_token: String,
}

/// For GetExtendedAgentCard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetExtendedAgentCardRequest {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
}

/// The answer to SendMessage: exactly one of these.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SendMessageResponse<T = Task> {
    /// The task that the message created or continued.
    Task(T),
    /// A direct answer, without a task.
    Message(Message),
}

impl From<Message> for SendMessageRequest {
    fn from(message: Message) -> Self {
        Self { tenant: String::new(), message, configuration: None, metadata: None }
    }
}

/// What a client says, as plain text.
impl From<&str> for SendMessageRequest {
    fn from(text: &str) -> Self {
        Message::user(text).into()
    }
}

/// What a client says, as plain text.
impl From<String> for SendMessageRequest {
    fn from(text: String) -> Self {
        Message::user(text).into()
    }
}

impl SendMessageResponse {
    /// What the agent answered, as far as it is text: its message, or the artifacts of its task; if there
    /// are none, what the task's status says.
    pub fn text(&self) -> String {
        let task = match self {
            Self::Message(message) => return message.text().into_owned(),
            Self::Task(task) => task,
        };
        if task.artifacts.is_empty() {
            return task.status.message.as_ref().map(|said| said.text().into_owned()).unwrap_or_default();
        }
        let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
        parts.filter_map(Part::as_text).collect()
    }

    /// The task, if there is one.
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Task(task) => Some(task),
            Self::Message(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for SendMessageResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use crate::event::StreamResponse;
        match StreamResponse::deserialize(deserializer)? {
            StreamResponse::Task(task) => Ok(Self::Task(task)),
            StreamResponse::Message(message) => Ok(Self::Message(message)),
            _ => Err(D::Error::custom("expected one of task, message")),
        }
    }
}

/// In a filter, a state that we do not know is a mistake and not "any".
fn known_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
    deserializer.deserialize_any(KnownState)
}

struct KnownState;

impl Visitor<'_> for KnownState {
    type Value = TaskState;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task state such as TASK_STATE_WORKING")
    }

    fn visit_unit<E>(self) -> Result<TaskState, E> {
        Ok(TaskState::Unspecified)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<TaskState, E> {
        if name.is_empty() {
            return Ok(TaskState::Unspecified);
        }
        TaskState::from_name(name).ok_or_else(|| E::custom("unknown task state"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<TaskState, E> {
        TaskState::from_number(number).ok_or_else(|| E::custom("unknown task state"))
    }
}
