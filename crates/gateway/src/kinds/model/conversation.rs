//! What a model is told: its instructions, what was said in the conversation before, within a bound, and the message.

use std::sync::Arc;

use chancery_protocol::{Artifact, Message, Role, Task};
use chancery_sdk::{Failure, Turn};
use chancery_store::{ListQuery, Scope, Store};
use serde::Serialize;

use crate::config::ModelSection;

/// What was said, and by whom, in the words of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Said {
    pub(super) role: &'static str,
    pub(super) content: String,
}

/// Where what was said before is found, and how much of it is told.
pub(super) struct Conversation {
    agent: Arc<str>,
    system: Option<String>,
    max_messages: usize,
    max_bytes: usize,
    store: Arc<Store>,
}

impl Conversation {
    pub(super) fn new(agent: &str, model: &ModelSection, store: Arc<Store>) -> Self {
        Self {
            agent: agent.into(),
            system: model.system.clone(),
            max_messages: model.max_history_messages,
            max_bytes: model.max_history_bytes,
            store,
        }
    }

    /// Everything that the model is told for a turn.
    pub(super) async fn up_to(&self, turn: &Turn) -> Result<Vec<Said>, Failure> {
        let mut before = self.earlier(turn).await?;
        if let Some(task) = turn.task() {
            before.extend(
                of_task(task)
                    .filter(|(id, _)| *id != turn.message().message_id.as_str())
                    .map(|(_, said)| said),
            );
        }
        let system = self.system.iter().map(|text| Said { role: "system", content: text.clone() });
        let asked = Said { role: "user", content: turn.text().into_owned() };
        Ok(system.chain(self.newest(before)).chain([asked]).collect())
    }

    /// What was said in tasks of the same conversation that are over, the oldest first. Only the caller's own are found.
    async fn earlier(&self, turn: &Turn) -> Result<Vec<Said>, Failure> {
        if self.max_messages == 0 {
            return Ok(Vec::new());
        }
        let principal = turn.principal();
        let scope =
            Scope { realm: principal.realm.clone(), owner: principal.id.clone(), agent: self.agent.clone() };
        let query = ListQuery {
            context_id: Some(turn.context_id().clone()),
            limit: self.max_messages.min(100),
            ..ListQuery::default()
        };
        let page = self.store.list(&scope, &query).await?;
        let mut said = Vec::new();
        for kept in page.tasks.iter().rev().filter(|kept| kept.is_over() && kept.id() != turn.task_id()) {
            said.extend(of_task(&*kept.value()?).map(|(_, said)| said));
        }
        Ok(said)
    }

    /// The newest of it, as much as may be told.
    fn newest(&self, before: Vec<Said>) -> impl Iterator<Item = Said> {
        let mut bytes = 0;
        let fits = |said: &&Said| {
            bytes += said.content.len();
            bytes <= self.max_bytes
        };
        let count = before.iter().rev().take(self.max_messages).take_while(fits).count();
        let skipped = before.len() - count;
        before.into_iter().skip(skipped)
    }
}

/// What was said in a task, each with the id of its message; what came of it counts as the agent's last word.
fn of_task(task: &Task) -> impl Iterator<Item = (&str, Said)> {
    let messages = task.history.iter().map(|message| (message.message_id.as_str(), said(message)));
    let results = task.artifacts.iter().map(|artifact| ("", result(artifact)));
    messages.chain(results).filter(|(_, said)| !said.content.is_empty())
}

fn said(message: &Message) -> Said {
    let role = if message.role == Role::Agent { "assistant" } else { "user" };
    Said { role, content: message.text().into_owned() }
}

fn result(artifact: &Artifact) -> Said {
    let content = artifact.parts.iter().filter_map(|part| part.as_text()).collect();
    Said { role: "assistant", content }
}
