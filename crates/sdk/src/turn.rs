//! One turn of an agent: what it was told, and the sink for what it has to say.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use chancery_protocol::{
    Artifact, ArtifactId, ContextId, Denied, Error, HopId, Json, JsonError, JsonObject, Message, Part,
    Principal, StreamResponse, Task, TaskId, TaskState, Usage, media_type_matches,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::agent::Outcome;
use crate::runtime::{Found, Incoming, Sink};

/// One turn: a message, and everything needed to answer it.
///
/// What it emits is numbered and committed in the order of the calls. Emitting waits only when the journal
/// falls behind, so a burst of any length is safe and loses nothing.
#[derive(Debug)]
pub struct Turn {
    pub(crate) incoming: Box<Incoming>,
    pub(crate) found: Found,
    pub(crate) deadline: Instant,
    pub(crate) sink: Arc<Sink>,
}

/// Why a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client has said something.
    #[default]
    Message,
    /// The turn died with an earlier process.
    Resume,
    /// The task waits for its client, and somebody looks at it.
    Refresh,
}

/// How the caller waits for what comes of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallerWaits {
    /// For the outcome.
    #[default]
    ForOutcome,
    /// For each event.
    ForEvents,
    /// Not at all.
    No,
}

/// The turn is over: its task was canceled, its deadline passed, or the journal refused more.
#[derive(Debug, thiserror::Error)]
#[error("the turn is over")]
pub struct TurnOver;

/// An artifact that is emitted in pieces.
#[derive(Debug)]
pub struct ArtifactWriter<'a> {
    turn: &'a Turn,
    id: ArtifactId,
    name: String,
    begun: bool,
}

impl Turn {
    /// What the client says.
    pub fn message(&self) -> &Message {
        &self.incoming.message
    }

    /// The text of what the client says.
    pub fn text(&self) -> Cow<'_, str> {
        self.incoming.message.text()
    }

    /// The message alone, for agents that need nothing else.
    pub fn into_message(self) -> Message {
        self.incoming.message
    }

    /// The task, which may not be open yet.
    pub fn task_id(&self) -> &TaskId {
        self.sink.task_id()
    }

    /// The conversation.
    pub fn context_id(&self) -> &ContextId {
        self.sink.context_id()
    }

    /// Who is calling.
    pub fn principal(&self) -> &Principal {
        &self.incoming.context.principal
    }

    /// What the client sent beside the message. The message has metadata of its own; a turn that was resumed
    /// has none of these.
    pub fn request_metadata(&self) -> Option<&JsonObject> {
        self.incoming.metadata.as_ref()
    }

    /// What was said in this task before, oldest first.
    pub fn history(&self) -> &[Message] {
        self.found.task.as_ref().map_or(&[], |task| &task.history)
    }

    /// The task as this turn found it; none if this turn began it.
    pub fn task(&self) -> Option<&Task> {
        self.found.task.as_deref()
    }

    /// Those of the tasks that the message refers to which the caller may see.
    pub fn referenced_tasks(&self) -> &[Arc<Task>] {
        &self.found.referenced
    }

    /// Whether the client takes this media type. One that names none takes all.
    pub fn accepts(&self, media_type: &str) -> bool {
        let modes =
            self.incoming.configuration.as_ref().map_or(&[][..], |wanted| &wanted.accepted_output_modes);
        modes.is_empty() || modes.iter().any(|mode| media_type_matches(mode, media_type))
    }

    /// The extensions that the client activated.
    pub fn extensions(&self) -> &[String] {
        &self.incoming.context.extensions
    }

    /// When the turn will be ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Fires when the turn is over. The turn's own future is dropped then; pass this on to work that it
    /// spawned elsewhere.
    pub fn cancellation(&self) -> CancellationToken {
        self.sink.cancellation().child_token()
    }

    /// What an earlier turn of this task left with [`Turn::set_state`].
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, JsonError> {
        self.found.state.as_ref().map(Json::to_value).transpose()
    }

    /// Leaves a value for the next turn of this task. It is committed with the next event.
    pub fn set_state<T: Serialize>(&self, value: &T) -> Result<(), JsonError> {
        self.sink.set_state(Json::from_value(value)?);
        Ok(())
    }

    /// Writes the call down, with what [`Turn::set_state`] has left, before anything leaves this process for it. From
    /// then on a crash forgets neither the call nor what is held for it. To be awaited before the first byte that goes to
    /// anybody else; [`Turn::call`] does it by itself.
    pub async fn dispatch(&self) -> Result<(), TurnOver> {
        self.sink.dispatch().await
    }

    /// Emits an event as somebody elsewhere has put it: with its message ids, metadata and extensions. The ids of task and
    /// context are those of this turn, and the time is now. What ends the turn is its [`Outcome::forwarded`].
    pub async fn forward(&self, event: StreamResponse) -> Result<(), TurnOver> {
        self.sink.emit(event).await
    }

    /// Whether the turn died with an earlier process, and runs again.
    pub fn is_resumed(&self) -> bool {
        self.found.purpose == Purpose::Resume
    }

    /// Whether no client has said anything: the task waits for its client, and somebody looks at it. The turn says what is
    /// new, or [`Outcome::unchanged`].
    pub fn is_refresh(&self) -> bool {
        self.found.purpose == Purpose::Refresh
    }

    /// Has the call admitted anew, for a task that waited for its client and goes on without a message. A refusal ends the
    /// turn: what waited had been settled.
    pub async fn unpark(&self) -> Result<(), Error> {
        self.sink.flush().await.map_err(Error::internal)?;
        let hold = self.sink.readmit().await?;
        self.sink.set_hold(hold);
        Ok(())
    }

    /// The task as the journal has it, with all that this turn has emitted.
    pub async fn current_task(&self) -> Result<Arc<Task>, Error> {
        self.sink.flush().await.map_err(Error::internal)?;
        self.sink.task().await
    }

    /// Says that work goes on, with a word about how.
    pub async fn working(&self, progress: impl Into<String>) -> Result<(), TurnOver> {
        self.sink.status(TaskState::Working, Some(Message::agent(progress))).await
    }

    /// Emits an artifact as a whole.
    pub async fn artifact(&self, artifact: Artifact) -> Result<(), TurnOver> {
        self.sink.artifact(artifact, false, true).await
    }

    /// Emits a piece of an artifact that somebody else has begun and named: the first one, or one to append.
    pub async fn artifact_piece(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), TurnOver> {
        self.sink.artifact(artifact, append, last).await
    }

    /// Begins an artifact that is emitted in pieces.
    pub fn begin_artifact(&self, name: impl Into<String>) -> ArtifactWriter<'_> {
        ArtifactWriter { turn: self, id: self.sink.next_artifact_id(), name: name.into(), begun: false }
    }

    /// Reports what was consumed. Reports add up over all turns of the task and stand in the metadata of each
    /// turn's last status. Where a budget is set that this passes, the turn is stopped; to ask before spending, there
    /// is [`Turn::may_spend`].
    pub fn usage(&self, usage: Usage) {
        let consumed = self.sink.add_usage(usage);
        if let Some(hold) = self.sink.hold() {
            // Whoever refuses it stops the turn, too.
            let _ = hold.spend(consumed);
        }
    }

    /// Asks whether so much more may be spent, and has it set aside. What is spent is still to be reported with
    /// [`Turn::usage`], and only that is charged. Who is refused may ask for less. Without a budget everything may be spent.
    pub fn may_spend(&self, more: Usage) -> Result<(), Denied> {
        let Some(hold) = self.sink.hold() else { return Ok(()) };
        let mut total = self.sink.usage();
        total.add(more);
        hold.set_aside(total)
    }

    /// The skill that the path of the call stood for, if it stood for one.
    pub fn skill(&self) -> Option<&str> {
        self.incoming.context.skill.as_deref()
    }

    /// The proof that calls made by this turn are made on behalf of its own. [`Turn::call`] passes it on; whoever
    /// calls other agents by another way sends it as the header `Chancery-Lineage`. It comes from the gates in front of
    /// this agent, or from a gateway elsewhere that has let the call through.
    pub fn lineage(&self) -> Option<String> {
        match self.sink.hold() {
            Some(hold) => hold.lineage().map(str::to_owned),
            None => self.incoming.context.lineage.clone(),
        }
    }

    /// The id of the call that the turn answers, where gates have let it through.
    pub fn call_id(&self) -> Option<HopId> {
        self.sink.hold().map(|hold| hold.hop())
    }

    /// Ends the turn with a question; the answer starts the next one.
    pub fn ask(&self, question: impl Into<String>) -> Outcome {
        Outcome::input_required(question)
    }

    /// Ends the turn until the client has authenticated somewhere, as the text explains.
    pub fn ask_for_auth(&self, explanation: impl Into<String>) -> Outcome {
        Outcome::auth_required(explanation)
    }
}

impl ArtifactWriter<'_> {
    /// Emits more of the artifact.
    pub async fn append(&mut self, part: impl Into<Part>) -> Result<(), TurnOver> {
        self.emit(part.into(), false).await
    }

    /// Emits the last of the artifact.
    pub async fn finish(mut self, part: impl Into<Part>) -> Result<(), TurnOver> {
        self.emit(part.into(), true).await
    }

    async fn emit(&mut self, part: Part, last: bool) -> Result<(), TurnOver> {
        let mut artifact = Artifact::new(self.id.clone(), vec![part]);
        let append = std::mem::replace(&mut self.begun, true);
        if !append {
            artifact.name = std::mem::take(&mut self.name);
        }
        self.turn.sink.artifact(artifact, append, last).await
    }
}
