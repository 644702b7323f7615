//! Looking at a task that waits for its client, where the agent may have gone on by itself.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Error, KeptTask, Message, Role, TaskId};
use chancery_store::{Scope, Snapshot};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::queued::Waits;
use crate::turn::Purpose;

/// How long whoever looks waits for the agent.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

impl Core {
    /// The task, as its agent has it if it waits for its client and the agent can be asked.
    pub(super) async fn look_at(self: &Arc<Self>, scope: &Scope, id: &TaskId) -> Result<KeptTask, Error> {
        let snapshot = self.snapshot(scope, id).await?;
        if !self.spec.refreshes || !snapshot.task.state().is_interrupted() {
            return Ok(snapshot.task);
        }
        let known = snapshot.task.clone();
        let Some(refreshed) = self.clone().start_refresh(scope, snapshot).await else { return Ok(known) };
        let _ = tokio::time::timeout(LONGEST_LOOK, refreshed.cancelled()).await;
        Ok(self.snapshot(scope, id).await?.task)
    }

    /// Has the agent asked about a task that waits, unless it is being asked. Gives what is cancelled when it has answered.
    pub(super) async fn start_refresh(
        self: Arc<Self>,
        scope: &Scope,
        snapshot: Snapshot,
    ) -> Option<CancellationToken> {
        if !self.spec.refreshes || snapshot.state.as_ref().is_some_and(Waits::is) {
            return None;
        }
        let id = snapshot.task.id().clone();
        let task = snapshot.task.value().ok()?;
        let (live, sink) = self.claim(scope, &id, &task);
        let Some(sink) = sink else { return live.work.lock().refreshed.clone() };
        let refreshed = CancellationToken::new();
        live.work.lock().refreshed = Some(refreshed.clone());
        live.catch_up(snapshot.number, false);
        let message = last_said(&task.history).unwrap_or_else(|| Message::user("").in_task(id.clone()));
        let mut facts = self.facts(scope, &sink, self.own_context(scope));
        (facts.task, facts.state, facts.purpose) = (Some(task), snapshot.state, Purpose::Refresh);
        tokio::spawn(self.prepare(scope.clone(), sink, message, facts, Some(live)).run());
        Some(refreshed)
    }
}

/// What the client said last.
pub(super) fn last_said(history: &[Message]) -> Option<Message> {
    history.iter().rev().find(|said| said.role == Role::User).cloned()
}
