//! What goes over the wire: a task that is given out, what the agent says about it, and what came of it.

use chancery_protocol::{Artifact, ContextId, Message, Part, TaskId, TaskState, Usage, UsageReport};
use chancery_sdk::Outcome;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::kinds::turn_secrets::TurnSecrets;

/// A task that is given out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delivery<'a> {
    pub(super) task_id: &'a TaskId,
    pub(super) context_id: &'a ContextId,
    /// What every word about the task has to name.
    pub(super) lease: u64,
    /// How long the agent may say nothing.
    pub(super) lease_ms: u64,
    pub(super) message: &'a Message,
    /// What was said before.
    pub(super) history: &'a [Message],
    /// What the agent passes on when it calls others for this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lineage: Option<&'a str>,
}

/// A task that needs no more work.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Withdrawn<'a> {
    pub(super) task_id: &'a TaskId,
    pub(super) lease: u64,
}

/// What the agent says about a task. Nothing at all keeps the lease.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Told {
    pub(super) lease: u64,
    #[serde(default)]
    pub(super) events: Vec<TaskEvent>,
}

/// One thing that it says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum TaskEvent {
    /// How far it is.
    Working(String),
    /// More of a result.
    Artifact(ArtifactEvent),
    /// What it consumed since it last said so.
    Usage(#[serde(deserialize_with = "whole_usage")] Usage),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ArtifactEvent {
    pub(super) artifact: Artifact,
    #[serde(default)]
    pub(super) append: bool,
    #[serde(default)]
    pub(super) last_chunk: bool,
}

/// What came of a task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TaskResult {
    pub(super) lease: u64,
    /// Completed unless said otherwise.
    #[serde(default)]
    pub(super) state: Option<TaskState>,
    /// The one result, if it is a text.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// The one result, if it is more than a text.
    #[serde(default)]
    pub(super) artifact: Option<Artifact>,
    /// A word about it.
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "optional_usage")]
    pub(super) usage: Option<Usage>,
}

/// Who speaks this is told what is wrong, rather than having it ignored.
fn whole_usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usage, D::Error> {
    let UsageReport { usage, ignored } = UsageReport::deserialize(deserializer)?;
    match ignored.names().next() {
        Some(field) => Err(D::Error::custom(format!("`{field}` of a usage report is no whole number"))),
        None => Ok(usage.unwrap_or_default()),
    }
}

fn optional_usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Usage>, D::Error> {
    #[derive(Deserialize)]
    struct Whole(#[serde(deserialize_with = "whole_usage")] Usage);
    Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(usage)| usage))
}

impl TaskResult {
    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let state = self.state.unwrap_or(TaskState::Completed);
        let ends = matches!(
            state,
            TaskState::Completed
                | TaskState::Failed
                | TaskState::Rejected
                | TaskState::InputRequired
                | TaskState::AuthRequired
        );
        match (ends, self.text.is_some() && self.artifact.is_some()) {
            (false, _) => Some("`state` must be one in which a turn can end"),
            (_, true) => Some("send `text` or `artifact`, not both"),
            _ => None,
        }
    }

    /// The same, without what the agent was given for its turn alone.
    pub(super) fn without(self, secrets: &TurnSecrets) -> Self {
        Self {
            text: self.text.map(|text| secrets.without(text)),
            artifact: self.artifact.map(|artifact| secrets.artifact(artifact)),
            message: self.message.map(|message| secrets.without(message)),
            ..self
        }
    }

    /// How the turn ends by it.
    pub(super) fn outcome(self) -> Outcome {
        let word = self.message.unwrap_or_default();
        let plain = match (self.text, self.artifact) {
            (Some(text), _) => Outcome::part(Part::text(text)),
            (None, Some(artifact)) => Outcome::artifact(artifact),
            (None, None) => Outcome::completed(),
        };
        match self.state.unwrap_or(TaskState::Completed) {
            TaskState::Failed => Outcome::failed(word),
            TaskState::Rejected => Outcome::rejected(word),
            TaskState::InputRequired => Outcome::input_required(word),
            TaskState::AuthRequired => Outcome::auth_required(word),
            _ if word.is_empty() => plain,
            _ => plain.saying(word),
        }
    }
}
