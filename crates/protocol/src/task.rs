//! Tasks: the unit of work, its states, and how a task is folded from its events.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, Visitor};
use serde::ser::{Error as _, SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::field::{is_default, object, objects, optional_object};
use crate::id::{ContextId, TaskId, empty_as_none};
use crate::json::JsonObject;
use crate::kept::KeptTask;
use crate::message::{Artifact, Message};
use crate::time::Timestamp;
use crate::write::write_json;

/// Where a task stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Unset, or a name that this version does not know.
    #[default]
    Unspecified,
    /// Accepted, not yet started.
    Submitted,
    /// Being worked on.
    Working,
    /// Done. Terminal.
    Completed,
    /// Gone wrong. Terminal.
    Failed,
    /// Stopped on request. Terminal.
    Canceled,
    /// Waits for the client to say more.
    InputRequired,
    /// Refused by the agent. Terminal.
    Rejected,
    /// Waits for the client to authenticate.
    AuthRequired,
    /// A number that this version does not know. It is passed on as it came.
    Unknown(i32),
}

/// The state of a task at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Where the task stands.
    pub state: TaskState,
    /// Progress, a question, or the reason of a failure.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<Message>>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// A unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Made by the server.
    pub id: TaskId,
    /// The conversation it belongs to; always there on tasks of ours.
    #[serde(alias = "context_id", default, deserialize_with = "empty_as_none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// Where it stands.
    #[serde(deserialize_with = "object")]
    pub status: TaskStatus,
    /// What it has produced.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub artifacts: Vec<Artifact>,
    /// What was said, oldest first; the current `status.message` is not in it yet.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub history: Vec<Message>,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// A task as one caller asked to see it. Sharing the task makes a read cost no copy.
#[derive(Clone, Debug)]
pub struct TaskView {
    /// The task itself.
    pub task: KeptTask,
    /// At most this many of the most recent messages; `None` shows all.
    pub history_length: Option<usize>,
    /// What happens to `artifacts`.
    pub artifacts: Artifacts,
}

/// How the artifacts of a task are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifacts {
    /// Written when there are any.
    Shown,
    /// The key is absent.
    Hidden,
}

// === impl TaskState ===

/// Every state with its wire name, in the order of the protocol's enum numbers.
const STATES: [(TaskState, &str); 9] = [
    (TaskState::Unspecified, "TASK_STATE_UNSPECIFIED"),
    (TaskState::Submitted, "TASK_STATE_SUBMITTED"),
    (TaskState::Working, "TASK_STATE_WORKING"),
    (TaskState::Completed, "TASK_STATE_COMPLETED"),
    (TaskState::Failed, "TASK_STATE_FAILED"),
    (TaskState::Canceled, "TASK_STATE_CANCELED"),
    (TaskState::InputRequired, "TASK_STATE_INPUT_REQUIRED"),
    (TaskState::Rejected, "TASK_STATE_REJECTED"),
    (TaskState::AuthRequired, "TASK_STATE_AUTH_REQUIRED"),
];

impl TaskState {
    /// The name on the wire. A number that nobody here knows has none, and is unspecified.
    pub fn as_str(self) -> &'static str {
        STATES.iter().find(|(state, _)| *state == self).map_or(STATES[0].1, |(_, name)| name)
    }

    /// The protocol's enum number.
    pub fn number(self) -> i32 {
        match self {
            Self::Unspecified => 0,
            Self::Submitted => 1,
            Self::Working => 2,
            Self::Completed => 3,
            Self::Failed => 4,
            Self::Canceled => 5,
            Self::InputRequired => 6,
            Self::Rejected => 7,
            Self::AuthRequired => 8,
            Self::Unknown(number) => number,
        }
    }

    /// What a number of a peer's says, whether this version knows it or not.
    pub fn of_number(number: i64) -> Self {
        let known = u64::try_from(number).ok().and_then(Self::from_number);
        known.unwrap_or_else(|| i32::try_from(number).map_or(Self::Unspecified, Self::Unknown))
    }

    /// The state with this wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        STATES.iter().find(|(_, known)| *known == name).map(|(state, _)| *state)
    }

    /// The state with this enum number.
    pub fn from_number(number: u64) -> Option<Self> {
        STATES.get(usize::try_from(number).ok()?).map(|(state, _)| *state)
    }

    /// Nothing follows a terminal state.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// The agent waits for somebody.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Whether a task in this state may go to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match next {
            Self::Unspecified => false,
            Self::Submitted => matches!(self, Self::Unspecified | Self::Submitted),
            _ => !self.is_terminal(),
        }
    }
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(number) => serializer.serialize_i32(*number),
            known => serializer.serialize_str(known.as_str()),
        }
    }
}

/// A name we do not know reads as unspecified, so that one new state does not spoil a whole payload.
impl<'de> Deserialize<'de> for TaskState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StateVisitor;
        impl Visitor<'_> for StateVisitor {
            type Value = TaskState;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task state such as TASK_STATE_WORKING")
            }

            fn visit_str<E>(self, name: &str) -> Result<TaskState, E> {
                Ok(TaskState::from_name(name).unwrap_or_default())
            }

            fn visit_u64<E>(self, number: u64) -> Result<TaskState, E> {
                Ok(i64::try_from(number).map_or(TaskState::Unspecified, TaskState::of_number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<TaskState, E> {
                Ok(TaskState::of_number(number))
            }
        }
        deserializer.deserialize_any(StateVisitor)
    }
}

// === impl TaskStatus ===

impl TaskStatus {
    /// A status as of now.
    pub fn now(state: TaskState, message: Option<Message>) -> Self {
        Self::at(Timestamp::now(), state, message)
    }

    /// A status as of a time.
    pub fn at(time: Timestamp, state: TaskState, message: Option<Message>) -> Self {
        Self { state, message: message.map(Box::new), timestamp: Some(time) }
    }
}

// === impl Task ===

impl Task {
    /// A task that has just been accepted.
    pub fn submitted(id: TaskId, context_id: ContextId, message: Message) -> Self {
        Self {
            id,
            context_id: Some(context_id),
            status: TaskStatus::now(TaskState::Submitted, None),
            artifacts: Vec::new(),
            history: vec![message],
            metadata: None,
        }
    }

    /// Folds a status update in. The message it supersedes becomes history.
    pub fn apply_status(&mut self, status: TaskStatus, metadata: Option<&JsonObject>) {
        let superseded = std::mem::replace(&mut self.status, status);
        self.history.extend(superseded.message.map(|message| *message));
        if let Some(metadata) = metadata {
            self.metadata = Some(match &self.metadata {
                Some(known) => known.merged(metadata),
                None => metadata.clone(),
            });
        }
    }

    /// Folds an artifact update in: appends to the artifact of that id, or puts it in its place.
    pub fn apply_artifact(&mut self, artifact: Artifact, append: bool) {
        let known = self.artifacts.iter_mut().rev().find(|known| known.artifact_id == artifact.artifact_id);
        match known {
            Some(known) if append => known.parts.extend(artifact.parts),
            Some(known) => *known = artifact,
            None => self.artifacts.push(artifact),
        }
    }
}

// === impl TaskView ===

impl TaskView {
    /// The whole task.
    pub fn whole(task: impl Into<KeptTask>) -> Self {
        Self { task: task.into(), history_length: None, artifacts: Artifacts::Shown }
    }

    /// A task of one's own with just what is shown.
    pub fn into_task(self) -> Result<Task, Error> {
        let mut task = Arc::unwrap_or_clone(self.task.value()?);
        if let Some(length) = self.history_length {
            task.history.drain(..task.history.len().saturating_sub(length));
        }
        if self.artifacts == Artifacts::Hidden {
            task.artifacts = Vec::new();
        }
        Ok(task)
    }

    /// Appends the JSON of what is shown.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self { task, history_length: None, artifacts: Artifacts::Shown } => task.write_json(out),
            _ => write_json(out, self).map_err(Error::internal),
        }
    }
}

impl Serialize for TaskView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let task = self.task.value().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &task.id)?;
        if let Some(context_id) = &task.context_id {
            map.serialize_entry("contextId", context_id)?;
        }
        map.serialize_entry("status", &task.status)?;
        if self.artifacts == Artifacts::Shown && !task.artifacts.is_empty() {
            map.serialize_entry("artifacts", &task.artifacts)?;
        }
        let hidden = self.history_length.map_or(0, |length| task.history.len().saturating_sub(length));
        if task.history.len() > hidden {
            map.serialize_entry("history", &task.history[hidden..])?;
        }
        if let Some(metadata) = &task.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Part;

    fn task() -> Task {
        Task::submitted(TaskId::from("t"), ContextId::from("c"), Message::user("hi"))
    }

    #[test]
    fn superseded_messages_become_history() {
        let mut task = task();
        task.apply_status(TaskStatus::now(TaskState::Working, Some(Message::agent("one"))), None);
        task.apply_status(TaskStatus::now(TaskState::Completed, Some(Message::agent("two"))), None);
        let said: Vec<_> = task.history.iter().map(|message| message.text().into_owned()).collect();
        assert_eq!(said, ["hi", "one"]);
        assert_eq!(task.status.message.unwrap().text(), "two");
    }

    #[test]
    fn artifacts_append_or_replace() {
        let mut task = task();
        let chunk = |text: &str| Artifact::new("a", vec![Part::text(text)]);
        task.apply_artifact(chunk("1"), true);
        task.apply_artifact(chunk("2"), true);
        assert_eq!(task.artifacts[0].parts.len(), 2);
        task.apply_artifact(chunk("3"), false);
        assert_eq!(task.artifacts, [chunk("3")]);
    }

    #[test]
    fn metadata_of_updates_is_merged_by_key() {
        let mut task = task();
        let object = |text: &str| JsonObject::parse(text).unwrap();
        task.apply_status(TaskStatus::now(TaskState::Working, None), Some(&object(r#"{"b":1,"a":1.0}"#)));
        task.apply_status(TaskStatus::now(TaskState::Working, None), Some(&object(r#"{"b":2}"#)));
        assert_eq!(task.metadata.unwrap().as_str(), r#"{"b":2,"a":1.0}"#);
    }

    #[test]
    fn terminal_states_are_final() {
        for (from, _) in STATES {
            for (to, _) in STATES {
                if from.is_terminal() {
                    assert!(!from.may_become(to), "{from:?} -> {to:?}");
                }
            }
        }
        assert!(TaskState::InputRequired.may_become(TaskState::Working));
        assert!(!TaskState::Working.may_become(TaskState::Submitted));
    }

    #[test]
    fn a_view_shows_only_what_was_asked_for() {
        let mut task = task();
        task.history.push(Message::agent("again"));
        task.apply_artifact(Artifact::new("a", vec![Part::text("x")]), false);
        let mut view = TaskView::whole(Arc::new(task));
        assert_eq!(
            serde_json::to_string(&view).unwrap(),
            serde_json::to_string(&*view.task.value().unwrap()).unwrap()
        );
        view.history_length = Some(1);
        view.artifacts = Artifacts::Hidden;
        let shown = view.clone().into_task().unwrap();
        assert_eq!(serde_json::to_string(&view).unwrap(), serde_json::to_string(&shown).unwrap());
        assert_eq!(shown.history.len(), 1);
        assert!(shown.artifacts.is_empty());
    }
}
