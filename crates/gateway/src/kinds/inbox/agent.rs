//! The turn of a task that waits in an inbox: everything in it is said by an agent elsewhere, when it comes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::Timestamp;
use chancery_sdk::{Agent, Cancellation, Error, Failure, Outcome, TaskHandle, Turn, TurnOver};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Keeper;
use super::desk::{Said, Word};
use super::wire::{ArtifactEvent, Delivery, TaskEvent};
use crate::config::InboxSection;

/// How long a turn may take, however much is said.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Waits for an agent elsewhere.
pub(super) struct InboxAgent {
    keeper: Arc<Keeper>,
    max_wait: Duration,
}

/// What is kept with a task in an inbox.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeliveryState {
    /// The agent has it, or has had it.
    was_given_out: bool,
}

impl InboxAgent {
    pub(super) fn new(keeper: Arc<Keeper>, limits: InboxSection) -> Self {
        Self { keeper, max_wait: Duration::from_millis(limits.max_wait_ms) }
    }

    /// How long a task may still wait to be taken: since it was sent, not since this process began.
    fn left(&self, turn: &Turn) -> Duration {
        let sent = turn.task().and_then(|task| task.status.timestamp);
        let waited = sent.map_or(0, |sent| Timestamp::now().as_millis() - sent.as_millis());
        self.max_wait.saturating_sub(Duration::from_millis(u64::try_from(waited).unwrap_or_default()))
    }
}

impl Agent for InboxAgent {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let mut was_given_out = was_given_out(&turn);
        let desk = &self.keeper.0;
        let Some(mut place) = desk.put(turn.task_id(), turn.principal(), was_given_out, offer(&turn)) else {
            return Ok(Outcome::rejected("The inbox of the agent is full; try again later").never_sent());
        };
        let mut wait = self.left(&turn);
        loop {
            let Ok(word) = timeout(wait, place.words.recv()).await else {
                let late = Outcome::failed("The agent has not come for the task in time");
                return Ok(if was_given_out { late.unknown() } else { late.never_sent() });
            };
            was_given_out = true;
            let word = word.ok_or_else(|| Failure::public("The inbox of the agent was closed"))?;
            if let Some(outcome) = hear(&turn, word).await? {
                return Ok(outcome);
            }
            wait = self.max_wait;
        }
    }

    /// What an agent elsewhere has taken is not lost because this process was.
    fn works_elsewhere(&self) -> bool {
        true
    }

    async fn cancel(&self, task: TaskHandle) -> Result<Cancellation, Error> {
        Ok(match self.keeper.0.was_given_out(&task.task) {
            true => Cancellation::Done(None),
            false => Cancellation::NeverSent,
        })
    }
}

/// Whether an earlier turn has given the task out. Stores from before do not say so.
fn was_given_out(turn: &Turn) -> bool {
    match turn.state::<DeliveryState>() {
        Ok(Some(state)) => state.was_given_out,
        _ => turn.is_resumed(),
    }
}

/// Passes on what the agent said. The outcome, if it said that.
async fn hear(turn: &Turn, Word { said, taken }: Word) -> Result<Option<Outcome>, Failure> {
    let outcome = match said {
        Said::Taken => {
            turn.set_state(&DeliveryState { was_given_out: true })?;
            turn.dispatch().await?;
            turn.working("The agent has come for the task").await?;
            None
        }
        Said::Events(events) => {
            for event in events {
                pass_on(turn, event).await?;
            }
            None
        }
        Said::Result(result) => {
            if let Some(usage) = result.usage {
                turn.usage(usage);
            }
            Some(result.outcome())
        }
    };
    // Whoever said it may have gone.
    let _ = taken.send(());
    Ok(outcome)
}

async fn pass_on(turn: &Turn, event: TaskEvent) -> Result<(), TurnOver> {
    match event {
        TaskEvent::Working(how) => turn.working(how).await,
        TaskEvent::Artifact(ArtifactEvent { artifact, append, last_chunk }) => {
            turn.artifact_piece(artifact, append, last_chunk).await
        }
        TaskEvent::Usage(usage) => {
            turn.usage(usage);
            Ok(())
        }
    }
}

/// What the agent is sent when it is given the task.
fn offer(turn: &Turn) -> impl Fn(u64, u64) -> Bytes + Send + Sync + 'static {
    let (task_id, context_id) = (turn.task_id().clone(), turn.context_id().clone());
    let (message, lineage) = (turn.message().clone(), turn.lineage());
    let asked = message.message_id.clone();
    let history: Vec<_> = turn.history().iter().filter(|said| said.message_id != asked).cloned().collect();
    move |lease, lease_ms| {
        let delivery = Delivery {
            task_id: &task_id,
            context_id: &context_id,
            lease,
            lease_ms,
            message: &message,
            history: &history,
            lineage: lineage.as_deref(),
        };
        serde_json::to_vec(&delivery).unwrap_or_default().into()
    }
}
