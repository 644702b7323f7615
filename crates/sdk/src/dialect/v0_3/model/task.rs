//! Tasks, their states and their status.

use std::fmt;

use chancery_protocol::field::{Object, empty_as_none, int32, null_as_default};
use chancery_protocol::{
    Artifact, Artifacts, ContextId, JsonObject, ListTasksResponse, Message, Task, TaskId, TaskPage,
    TaskState, TaskStatus, TaskView, Timestamp,
};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};

use super::{Form, Newer, Older, each};

// === states ===

/// Every state as the `kind` form has it, in the order of the protocol's enum numbers.
const STATES: [(TaskState, &str); 9] = [
    (TaskState::Unspecified, "unknown"),
    (TaskState::Submitted, "submitted"),
    (TaskState::Working, "working"),
    (TaskState::Completed, "completed"),
    (TaskState::Failed, "failed"),
    (TaskState::Canceled, "canceled"),
    (TaskState::InputRequired, "input-required"),
    (TaskState::Rejected, "rejected"),
    (TaskState::AuthRequired, "auth-required"),
];

/// The old proto writes it with two Ls.
const CANCELLED: &str = "TASK_STATE_CANCELLED";

impl Serialize for Older<'_, TaskState> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Form::Kind, state) => serializer.serialize_str(
                STATES.iter().find(|(known, _)| known == state).map_or("unknown", |(_, name)| name),
            ),
            (Form::Proto { .. }, TaskState::Canceled) => serializer.serialize_str(CANCELLED),
            (Form::Proto { .. }, state) => state.serialize(serializer),
        }
    }
}

impl Newer<TaskState> {
    /// The state of this name, in any spelling.
    pub(crate) fn named(name: &str) -> Option<TaskState> {
        let known = || STATES.iter().find(|(_, known)| *known == name).map(|(state, _)| *state);
        match name {
            CANCELLED | "cancelled" => Some(TaskState::Canceled),
            _ => known().or_else(|| TaskState::from_name(name)),
        }
    }
}

/// A name that nobody knows reads as unspecified, so that one new state does not spoil a whole payload.
impl<'de> Deserialize<'de> for Newer<TaskState> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StateVisitor;
        impl Visitor<'_> for StateVisitor {
            type Value = TaskState;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task state such as working")
            }

            fn visit_str<E>(self, name: &str) -> Result<TaskState, E> {
                Ok(Newer::named(name).unwrap_or_default())
            }

            fn visit_u64<E>(self, number: u64) -> Result<TaskState, E> {
                Ok(i64::try_from(number).map_or(TaskState::Unspecified, TaskState::of_number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<TaskState, E> {
                Ok(TaskState::of_number(number))
            }
        }
        deserializer.deserialize_any(StateVisitor).map(Self)
    }
}

// === status ===

impl Serialize for Older<'_, TaskStatus> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, status) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", &Older(form, &status.state))?;
        if let Some(message) = &status.message {
            map.serialize_entry("message", &Older(form, &**message))?;
        }
        if let Some(timestamp) = &status.timestamp {
            map.serialize_entry("timestamp", timestamp)?;
        }
        map.end()
    }
}

#[derive(serde::Deserialize)]
struct StatusWire {
    state: Newer<TaskState>,
    #[serde(alias = "update", default)]
    message: Option<Newer<Message>>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for Newer<TaskStatus> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<StatusWire>(wire) = Object::deserialize(deserializer)?;
        Ok(Self(TaskStatus {
            state: wire.state.0,
            message: wire.message.map(|Newer(message)| Box::new(message)),
            timestamp: wire.timestamp,
        }))
    }
}

// === tasks ===

/// As much of a task as is shown.
struct Shown<'a> {
    form: Form,
    task: &'a Task,
    artifacts: &'a [Artifact],
    history: &'a [Message],
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { form, task, artifacts, history } = *self;
        let mut map = serializer.serialize_map(None)?;
        if form.is_kind() {
            map.serialize_entry("kind", "task")?;
        }
        map.serialize_entry("id", &task.id)?;
        map.serialize_entry("contextId", task.context_id.as_ref().map_or("", ContextId::as_str))?;
        map.serialize_entry("status", &Older(form, &task.status))?;
        if !artifacts.is_empty() {
            map.serialize_entry("artifacts", &each(form, artifacts))?;
        }
        if !history.is_empty() {
            map.serialize_entry("history", &each(form, history))?;
        }
        if let Some(metadata) = &task.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

impl Serialize for Older<'_, Task> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, task) = *self;
        Shown { form, task, artifacts: &task.artifacts, history: &task.history }.serialize(serializer)
    }
}

impl Serialize for Older<'_, TaskView> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, view) = *self;
        let task = view.task.value().map_err(S::Error::custom)?;
        let hidden = view.history_length.map_or(0, |length| task.history.len().saturating_sub(length));
        let artifacts = match view.artifacts {
            Artifacts::Shown => &task.artifacts[..],
            Artifacts::Hidden => &[],
        };
        Shown { form, task: &task, artifacts, history: &task.history[hidden..] }.serialize(serializer)
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskWire {
    id: TaskId,
    #[serde(alias = "context_id", default, deserialize_with = "empty_as_none")]
    context_id: Option<ContextId>,
    status: Newer<TaskStatus>,
    #[serde(default, deserialize_with = "null_as_default")]
    artifacts: Vec<Newer<Artifact>>,
    #[serde(default, deserialize_with = "null_as_default")]
    history: Vec<Newer<Message>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

impl<'de> Deserialize<'de> for Newer<Task> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<TaskWire>(wire) = Object::deserialize(deserializer)?;
        Ok(Self(Task {
            id: wire.id,
            context_id: wire.context_id,
            status: wire.status.0,
            artifacts: Newer::all(wire.artifacts),
            history: Newer::all(wire.history),
            metadata: wire.metadata,
        }))
    }
}

// === pages ===

/// A page of tasks. v0.3 has none; this is what those who have it make of the later one.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OlderPage<'a> {
    tasks: Vec<Older<'a, TaskView>>,
    next_page_token: &'a str,
    page_size: i32,
    total_size: i32,
}

impl<'a> OlderPage<'a> {
    pub(crate) fn new(form: Form, page: &'a TaskPage) -> Self {
        Self {
            tasks: each(form, &page.tasks),
            next_page_token: &page.next_page_token,
            page_size: page.page_size,
            total_size: page.total_size,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageWire {
    #[serde(default, deserialize_with = "null_as_default")]
    tasks: Vec<Newer<Task>>,
    #[serde(alias = "next_page_token", default, deserialize_with = "null_as_default")]
    next_page_token: String,
    #[serde(alias = "page_size", default, deserialize_with = "int32")]
    page_size: i32,
    #[serde(alias = "total_size", default, deserialize_with = "int32")]
    total_size: i32,
}

impl<'de> Deserialize<'de> for Newer<ListTasksResponse> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<PageWire>(wire) = Object::deserialize(deserializer)?;
        Ok(Self(ListTasksResponse {
            tasks: Newer::all(wire.tasks),
            next_page_token: wire.next_page_token,
            page_size: wire.page_size,
            total_size: wire.total_size,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_known_by_every_name() {
        for (state, name) in STATES {
            assert_eq!(Newer::named(name), Some(state));
            assert_eq!(Newer::named(state.as_str()), Some(state));
            for form in [Form::Kind, Form::PROTO] {
                let json = serde_json::to_string(&Older(form, &state)).unwrap();
                assert_eq!(serde_json::from_str::<Newer<TaskState>>(&json).unwrap().0, state);
            }
        }
        let canceled = serde_json::to_string(&Older(Form::PROTO, &TaskState::Canceled)).unwrap();
        assert_eq!(canceled, "\"TASK_STATE_CANCELLED\"");
        assert_eq!(Newer::named("soon"), None);
        assert_eq!(serde_json::from_str::<Newer<TaskState>>("\"soon\"").unwrap().0, TaskState::Unspecified);
    }
}
