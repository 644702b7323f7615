//! The turn of a task that waits in an inbox: everything in it is said by an agent elsewhere, when it comes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{Artifact, ArtifactId, Content, Part, Timestamp};
use chancery_sdk::{Agent, Cancellation, Error, Failure, Outcome, TaskHandle, Turn};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::Keeper;
use super::desk::{Said, Word};
use super::wire::{ArtifactEvent, Delivery, TaskEvent};
use crate::config::InboxSection;
use crate::kinds::turn_secrets::{Held, TurnSecrets};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<HeldEnd>,
}

/// The end of what has come of an artifact, if that may be the beginning of a secret: it is kept until it is known.
#[derive(Clone, Serialize, Deserialize)]
struct HeldEnd {
    artifact: ArtifactId,
    text: Held,
}

/// What is heard from the agent in a turn.
struct Ear<'a> {
    turn: &'a Turn,
    secrets: TurnSecrets,
    held: Option<HeldEnd>,
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
        let DeliveryState { mut was_given_out, held } = found(&turn);
        let desk = &self.keeper.0;
        let Some(mut place) = desk.put(turn.task_id(), turn.principal(), was_given_out, offer(&turn)) else {
            return Ok(Outcome::rejected("The inbox of the agent is full; try again later").never_sent());
        };
        let mut ear = Ear { turn: &turn, secrets: TurnSecrets::of(&turn, None), held };
        let mut wait = self.left(&turn);
        loop {
            let Ok(word) = timeout(wait, place.words.recv()).await else {
                ear.let_go().await?;
                let late = Outcome::failed("The agent has not come for the task in time");
                return Ok(if was_given_out { late.unknown() } else { late.never_sent() });
            };
            was_given_out = true;
            let word = word.ok_or_else(|| Failure::public("The inbox of the agent was closed"))?;
            if let Some(outcome) = ear.hear(word).await? {
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

/// What an earlier turn has kept. Stores from before do not say whether the task was given out.
fn found(turn: &Turn) -> DeliveryState {
    match turn.state::<DeliveryState>() {
        Ok(Some(state)) => state,
        _ => DeliveryState { was_given_out: turn.is_resumed(), held: None },
    }
}

impl Ear<'_> {
    /// Passes on what the agent said. The outcome, if it said that.
    async fn hear(&mut self, Word { said, taken }: Word) -> Result<Option<Outcome>, Failure> {
        let outcome = match said {
            Said::Taken => {
                self.keep()?;
                self.turn.dispatch().await?;
                self.turn.working("The agent has come for the task").await?;
                None
            }
            Said::Events(events) => {
                for event in events {
                    self.pass_on(event).await?;
                }
                None
            }
            Said::Result(result) => {
                if let Some(usage) = result.usage {
                    self.turn.usage(usage);
                }
                self.let_go().await?;
                Some(result.without(&self.secrets).outcome())
            }
        };
        // Whoever said it may have gone.
        let _ = taken.send(());
        Ok(outcome)
    }

    async fn pass_on(&mut self, event: TaskEvent) -> Result<(), Failure> {
        match event {
            TaskEvent::Working(how) => Ok(self.turn.working(self.secrets.without(how)).await?),
            TaskEvent::Artifact(event) => self.artifact(event).await,
            TaskEvent::Usage(usage) => {
                self.turn.usage(usage);
                Ok(())
            }
        }
    }

    /// More of an artifact. A secret may be cut by the end of one piece and the beginning of the next.
    async fn artifact(&mut self, event: ArtifactEvent) -> Result<(), Failure> {
        let ArtifactEvent { mut artifact, append, last_chunk } = event;
        let had_held = self.held.is_some();
        match text_of(artifact.parts.first_mut()) {
            Some(text) if append && self.holds_of(&artifact.artifact_id) => {
                text.insert_str(0, &self.held.take().map(|held| held.text).unwrap_or_default());
            }
            _ => self.let_go().await?,
        }
        let mut artifact = self.secrets.artifact(artifact);
        if let Some(text) = text_of(artifact.parts.last_mut()).filter(|_| !last_chunk) {
            let mut held = Held::new();
            *text = self.secrets.piece(&mut held, text, false);
            self.held =
                (!held.is_empty()).then(|| HeldEnd { artifact: artifact.artifact_id.clone(), text: held });
        }
        if had_held || self.held.is_some() {
            self.keep()?;
        }
        let says_nothing = matches!(&artifact.parts[..], [part] if part.as_text() == Some(""));
        if append && says_nothing && self.held.is_some() {
            return Ok(());
        }
        Ok(self.turn.artifact_piece(artifact, append, last_chunk).await?)
    }

    fn holds_of(&self, artifact: &ArtifactId) -> bool {
        self.held.as_ref().is_some_and(|held| held.artifact == *artifact)
    }

    /// Nothing more comes after what is held.
    async fn let_go(&mut self) -> Result<(), Failure> {
        let Some(HeldEnd { artifact, text }) = self.held.take() else { return Ok(()) };
        self.keep()?;
        let rest = Artifact {
            artifact_id: artifact,
            name: String::new(),
            description: String::new(),
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: Vec::new(),
        };
        Ok(self.turn.artifact_piece(rest, true, false).await?)
    }

    /// What is acknowledged outlasts this process, also what is held.
    fn keep(&self) -> Result<(), Failure> {
        Ok(self.turn.set_state(&DeliveryState { was_given_out: true, held: self.held.clone() })?)
    }
}

fn text_of(part: Option<&mut Part>) -> Option<&mut String> {
    match &mut part?.content {
        Content::Text(text) => Some(text),
        _ => None,
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
