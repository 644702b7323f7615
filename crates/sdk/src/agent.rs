//! What users write: an [`Agent`] runs one turn and says how it ended.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use chancery_protocol::{
    Artifact, ArtifactId, BoxFuture, Error, Json, Message, Part, Principal, Role, StreamResponse, TaskId,
    TaskState, TaskStatusUpdateEvent,
};

use futures_util::FutureExt as _;

use crate::turn::Turn;

/// A unit of behaviour: takes one message and does something about it.
///
/// A turn runs from a message to an [`Outcome`]. One that asks back ends; the client's answer starts a new
/// turn, which finds the history and the state that the first one left. However a turn ends, also by a panic
/// or a passed deadline, its task ends or waits in a state that says so.
///
/// ```
/// use chancery_sdk::{Agent, Failure, Outcome, Turn};
///
/// struct Shout;
///
/// impl Agent for Shout {
///     async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
///         Ok(Outcome::text(turn.text().to_uppercase()))
///     }
/// }
/// ```
pub trait Agent: Send + Sync + 'static {
    /// Runs one turn.
    fn run(&self, turn: Turn) -> impl Future<Output = Result<Outcome, Failure>> + Send;

    /// Whether a new message gets a task before the turn begins. An agent that answers some messages
    /// directly, without a task, says `false` for those; a task is then opened only when it is needed.
    fn opens_task(&self, message: &Message) -> bool {
        let _ = message;
        true
    }

    /// What happens to a message for a task whose turn is still running.
    fn while_running(&self) -> WhileRunning {
        WhileRunning::Queue(1)
    }

    /// Whether the work is done elsewhere and outlives this process. A task stays SUBMITTED then until the agent says
    /// something about it, and a turn that died with its process is run again by the next one: with the same message, and
    /// [`Turn::is_resumed`] says so. The tasks of other agents are WORKING as soon as their turn waits, and fail with their
    /// process. Asked once, when the agent is described.
    fn works_elsewhere(&self) -> bool {
        false
    }

    /// Whether a task that waits for its client may go on by itself, so that the agent is asked whenever somebody looks at
    /// it, and after a restart: by a turn that [`Turn::is_refresh`]. Asked once, when the agent is described.
    fn refreshes(&self) -> bool {
        false
    }

    /// A client cancels a task. The task is CANCELED when this returns, unless with
    /// [`Cancellation::Pending`]; an error is passed on, and the task goes on. A turn that runs in this process needs
    /// nothing here: its future is dropped.
    fn cancel(&self, task: TaskHandle) -> impl Future<Output = Result<Cancellation, Error>> + Send {
        let _ = task;
        std::future::ready(Ok(Cancellation::Done(None)))
    }

    /// A task was ended by somebody else than this agent: by an operator, a limit or a client whose cancel the agent did
    /// not answer. For agents that have to tell somebody else.
    fn ended_without_agent(&self, task: TaskHandle) {
        let _ = task;
    }
}

/// A task, for who works on it elsewhere.
#[derive(Clone, Debug)]
pub struct TaskHandle {
    /// Whose task it is.
    pub principal: Principal,
    /// The task.
    pub task: TaskId,
    /// What the agent's turns have left with [`Turn::set_state`].
    pub state: Option<Json>,
}

/// What became of a request to cancel.
#[derive(Clone, Debug)]
pub enum Cancellation {
    /// The work has stopped. What the agent says with that, if anything: its message becomes the status message, and a report
    /// of usage in the metadata counts.
    Done(Option<Box<TaskStatusUpdateEvent>>),
    /// Nobody had begun: the call is free.
    NeverSent,
    /// Nobody knows whether the work has stopped.
    Unknown,
    /// The work will stop, and the running turn will hear of it.
    Pending,
}

/// What happens to a message for a task whose turn is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileRunning {
    /// So many wait for the turn to end; more are refused.
    Queue(usize),
    /// It is refused.
    Refuse,
}

/// How a turn ended.
#[derive(Debug)]
pub struct Outcome {
    pub(crate) state: TaskState,
    pub(crate) message: Option<Message>,
    pub(crate) artifact: Option<Artifact>,
    /// Whether the message answers directly if there is no task.
    pub(crate) direct: bool,
    /// How somebody elsewhere has put it, in the place of the rest.
    pub(crate) forwarded: Option<Box<StreamResponse>>,
    /// What the call is charged for.
    pub(crate) sent: Sent,
}

/// The id of an artifact that is all there is.
static RESULT: LazyLock<ArtifactId> = LazyLock::new(|| ArtifactId::from("result"));

/// Why a turn failed. Any error becomes one with `?`.
///
/// The caller is told only what [`Failure::public`] says; the cause goes to the log.
#[derive(Debug)]
pub struct Failure {
    pub(crate) public: Option<String>,
    pub(crate) cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// What the sender of the message is answered.
    pub(crate) answer: Option<Box<Error>>,
    pub(crate) sent: Sent,
}

/// How far a message had come when its turn failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing left this process: the call is free.
    Never,
    /// It was answered, or the agent runs here.
    #[default]
    Answered,
    /// It left, and nobody knows what came of it.
    Unanswered,
}

/// Makes an agent of a function from a message to an answer.
///
/// ```
/// use chancery_sdk::{Message, agent_fn};
///
/// let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
/// ```
pub fn agent_fn<F, Fut>(function: F) -> impl Agent
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    AgentFn(function)
}

/// What a function given to [`agent_fn`] may return: text, a part, an [`Outcome`], or a `Result` of these.
pub trait IntoOutcome {
    /// The outcome of the turn.
    fn into_outcome(self) -> Result<Outcome, Failure>;
}

struct AgentFn<F>(F);

/// An [`Agent`] as an object, its future boxed once a turn.
pub(crate) trait AnyAgent: Send + Sync + 'static {
    fn start(self: Arc<Self>, turn: Turn) -> AgentFuture;
    fn opens_task(&self, message: &Message) -> bool;
    fn while_running(&self) -> WhileRunning;
    fn cancel(self: Arc<Self>, task: TaskHandle) -> BoxFuture<'static, Result<Cancellation, Error>>;
    fn ended_without_agent(&self, task: TaskHandle);
}

pub(crate) type AgentFuture = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send>>;

// === impl AnyAgent ===

impl<A: Agent> AnyAgent for A {
    fn start(self: Arc<Self>, turn: Turn) -> AgentFuture {
        let running = AssertUnwindSafe(async move { self.run(turn).await }).catch_unwind();
        Box::pin(running.map(|ended| ended.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))))
    }

    fn opens_task(&self, message: &Message) -> bool {
        Agent::opens_task(self, message)
    }

    fn while_running(&self) -> WhileRunning {
        Agent::while_running(self)
    }

    fn cancel(self: Arc<Self>, task: TaskHandle) -> BoxFuture<'static, Result<Cancellation, Error>> {
        Box::pin(async move { Agent::cancel(&*self, task).await })
    }

    fn ended_without_agent(&self, task: TaskHandle) {
        Agent::ended_without_agent(self, task);
    }
}

// === impl AgentFn ===

impl<F, Fut> Agent for AgentFn<F>
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        (self.0)(turn.into_message()).await.into_outcome()
    }
}

// === impl Outcome ===

impl Outcome {
    /// Done; the artifacts say the rest.
    pub fn completed() -> Self {
        Self {
            state: TaskState::Completed,
            message: None,
            artifact: None,
            direct: false,
            forwarded: None,
            sent: Sent::Answered,
        }
    }

    /// Done, with a text as its one artifact.
    pub fn text(text: impl Into<String>) -> Self {
        Self::part(Part::text(text))
    }

    /// Done, with one part as its one artifact.
    pub fn part(part: Part) -> Self {
        Self::artifact(Artifact::new(RESULT.clone(), vec![part]))
    }

    /// Done, with this artifact.
    pub fn artifact(artifact: Artifact) -> Self {
        Self { artifact: Some(artifact), ..Self::completed() }
    }

    /// A direct answer. If a task is open, it completes with this message.
    pub fn reply(text: impl Into<String>) -> Self {
        Self { direct: true, ..Self::completed().saying(text) }
    }

    /// The agent will not do this.
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self { state: TaskState::Rejected, ..Self::completed() }.saying(reason)
    }

    /// It went wrong, for a reason that the caller may know.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { state: TaskState::Failed, ..Self::completed() }.saying(reason)
    }

    /// The turn waits for the client to say more.
    pub fn input_required(question: impl Into<String>) -> Self {
        Self { state: TaskState::InputRequired, ..Self::completed() }.saying(question)
    }

    /// The turn waits for the client to authenticate somewhere.
    pub fn auth_required(explanation: impl Into<String>) -> Self {
        Self { state: TaskState::AuthRequired, ..Self::completed() }.saying(explanation)
    }

    /// As an agent elsewhere has put it: the last event of the turn, with its ids, metadata and extensions. A message is a
    /// direct answer.
    pub fn forwarded(last: StreamResponse) -> Self {
        match last {
            StreamResponse::Message(message) => {
                Self { direct: true, message: Some(message), ..Self::completed() }
            }
            last => Self { forwarded: Some(Box::new(last)), ..Self::completed() },
        }
    }

    /// Nothing to say: the task stays as this turn found it. Only for turns without a message
    /// ([`Turn::is_refresh`]).
    pub fn unchanged() -> Self {
        Self { state: TaskState::Unspecified, ..Self::completed() }
    }

    /// Nobody knows what the agent did. What was held for the call is charged.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.sent = Sent::Unanswered;
        self
    }

    /// Nothing left this process for the call: it is free.
    #[must_use]
    pub fn never_sent(mut self) -> Self {
        self.sent = Sent::Never;
        self
    }

    /// The client has canceled it.
    pub(crate) fn canceled() -> Self {
        Self { state: TaskState::Canceled, ..Self::completed() }
    }

    /// Adds a status message.
    #[must_use]
    pub fn saying(self, text: impl Into<String>) -> Self {
        self.with_message(vec![Part::text(text)])
    }

    /// Adds a status message of any parts.
    #[must_use]
    pub fn with_message(mut self, parts: Vec<Part>) -> Self {
        self.message = Some(Message::new(Role::Agent, parts));
        self
    }
}

// === impl Failure ===

impl Failure {
    /// A failure whose reason the caller may know.
    pub fn public(reason: impl Into<String>) -> Self {
        Self { public: Some(reason.into()), cause: None, answer: None, sent: Sent::Answered }
    }

    /// Answers the sender of the message with this error. No task comes of a new message; one that exists goes back to
    /// where the turn found it.
    pub fn protocol(error: Error) -> Self {
        Self { public: None, cause: None, answer: Some(Box::new(error)), sent: Sent::Answered }
    }

    /// Answers the sender of the message with this error as well, where it still waits.
    #[must_use]
    pub fn answering(mut self, error: Error) -> Self {
        self.answer = Some(Box::new(error));
        self
    }

    /// Nothing left this process for the message: the call is free, and its idempotency key can be used again.
    #[must_use]
    pub fn never_sent(mut self) -> Self {
        self.sent = Sent::Never;
        self
    }

    /// The message left, and nobody knows what came of it: what was held for the call is charged.
    #[must_use]
    pub fn unanswered(mut self) -> Self {
        self.sent = Sent::Unanswered;
        self
    }

    /// Keeps a cause for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { public: None, cause: Some(Box::new(error)), answer: None, sent: Sent::Answered }
    }
}

// === impl IntoOutcome ===

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(self)
    }
}

impl IntoOutcome for String {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::text(self))
    }
}

impl IntoOutcome for &'static str {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::text(self))
    }
}

impl IntoOutcome for Part {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::part(self))
    }
}

impl<T: IntoOutcome, E: Into<Failure>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        self.map_err(Into::into)?.into_outcome()
    }
}
