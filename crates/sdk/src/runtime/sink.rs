//! Where a turn's events wait to be committed.
//!
//! Emitting puts an event into a batch; whoever drives the turn commits the batch each time the agent yields.
//! So a turn that finishes at once is one transaction, a burst is committed in large steps, and an agent that
//! runs ahead of the journal waits here. The driver is woken only for what other threads emit: what the agent
//! emits while it is being polled, the driver finds when that poll returns.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use chancery_protocol::{
    Artifact, ArtifactId, ContextId, Json, JsonObject, Message, Task, TaskArtifactUpdateEvent, TaskId,
    TaskState, TaskStatus, TaskStatusUpdateEvent, USAGE_EXTENSION, Usage,
};
use chancery_store::{Batch, Clock, Registration};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::agent::Outcome;
use crate::turn::TurnOver;

/// How far a turn may run ahead of the journal: so many events,
const FULL_BATCH: usize = 64;
/// and so many bytes.
const MAX_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Sink {
    task_id: TaskId,
    context_id: ContextId,
    clock: Clock,
    /// Made when somebody asks for it: most turns end before anyone could stop them.
    cancel: OnceLock<CancellationToken>,
    /// Whether only the agent says that work goes on.
    is_patient: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    batch: Batch,
    phase: Phase,
    closed: bool,
    /// Set while the driver sleeps.
    driver: Option<Waker>,
    /// Emitters that wait for room.
    waiting: Vec<Waker>,
    usage: Option<Usage>,
    artifacts: u32,
}

/// How far the task has come, as far as this turn can tell.
#[derive(Debug)]
enum Phase {
    /// The task does not exist; the first event creates it.
    Unopened(Box<Task>),
    /// It exists, and nobody has said that work goes on.
    Open,
    /// It is said to be worked on.
    Working,
}

/// An event on its way into the batch.
#[derive(Debug)]
#[must_use = "an event is emitted only when awaited"]
pub struct Emit<'a> {
    sink: &'a Sink,
    entry: Option<Entry>,
}

#[derive(Debug)]
enum Entry {
    Status(TaskState, Option<Message>),
    Artifact { artifact: Artifact, append: bool, last: bool },
}

// === impl Sink ===

impl Sink {
    /// A sink for a task that does not exist yet.
    pub(crate) fn unopened(clock: &Clock, mut task: Task) -> Self {
        let context_id = task.context_id.clone().unwrap_or_else(|| ContextId::opened_by(&task.id));
        task.status.timestamp = Some(clock.millis());
        Self::new(clock, task.id.clone(), context_id, Phase::Unopened(Box::new(task)))
    }

    /// A sink for a task that is being worked on.
    pub(crate) fn working(clock: &Clock, task_id: TaskId, context_id: ContextId) -> Self {
        Self::new(clock, task_id, context_id, Phase::Working)
    }

    fn new(clock: &Clock, task_id: TaskId, context_id: ContextId, phase: Phase) -> Self {
        let inner = Inner {
            batch: Batch::default(),
            phase,
            closed: false,
            driver: None,
            waiting: Vec::new(),
            usage: None,
            artifacts: 0,
        };
        Self {
            task_id,
            context_id,
            clock: clock.clone(),
            cancel: OnceLock::new(),
            is_patient: false,
            inner: Mutex::new(inner),
        }
    }

    /// Does not say that work goes on before the agent says so.
    pub(crate) fn patient(mut self) -> Self {
        self.is_patient = true;
        self
    }

    pub(crate) fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    pub(crate) fn context_id(&self) -> &ContextId {
        &self.context_id
    }

    /// Fires when the turn is over, also for those who ask only then.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        let token = self.cancel.get_or_init(CancellationToken::new);
        if self.inner.lock().closed {
            token.cancel();
        }
        token
    }

    pub(crate) fn is_unopened(&self) -> bool {
        matches!(self.inner.lock().phase, Phase::Unopened(_))
    }

    pub(crate) fn next_artifact_id(&self) -> ArtifactId {
        let mut inner = self.inner.lock();
        inner.artifacts += 1;
        ArtifactId::from(format!("artifact-{}", inner.artifacts))
    }

    /// Registers somebody who is to be told of every event from the next one on.
    pub(crate) fn set_push(&self, registration: Box<Registration>) {
        self.inner.lock().batch.push = Some(registration);
    }

    pub(crate) fn set_state(&self, state: Json) {
        self.inner.lock().batch.state = Some(state);
    }

    /// Adds to what was consumed, and gives the whole.
    pub(crate) fn add_usage(&self, usage: Usage) -> Usage {
        let mut inner = self.inner.lock();
        let consumed = inner.usage.get_or_insert_default();
        consumed.add(usage);
        *consumed
    }

    /// What has been consumed by now.
    pub(crate) fn usage(&self) -> Usage {
        self.inner.lock().usage.unwrap_or_default()
    }

    pub(crate) fn status(&self, state: TaskState, message: Option<Message>) -> Emit<'_> {
        Emit { sink: self, entry: Some(Entry::Status(state, message)) }
    }

    pub(crate) fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Emit<'_> {
        Emit { sink: self, entry: Some(Entry::Artifact { artifact, append, last }) }
    }

    /// Creates the task, if that is still to be done.
    pub(crate) fn open(&self) {
        self.inner.lock().open();
    }

    /// The last event of the turn.
    pub(crate) fn conclude(&self, outcome: Outcome) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.open();
        if let Some(artifact) = outcome.artifact {
            inner.record(self, Entry::Artifact { artifact, append: false, last: true }, None);
        }
        let metadata = inner.usage.and_then(|usage| JsonObject::single(USAGE_EXTENSION, &usage).ok());
        inner.record(self, Entry::Status(outcome.state, outcome.message), metadata);
    }

    /// Begins the task anew, without what did not fit into it, if none of it has been committed.
    pub(crate) fn begin_anew(&self) {
        self.inner.lock().phase = Phase::Unopened(Box::new(Task {
            id: self.task_id.clone(),
            context_id: Some(self.context_id.clone()),
            status: TaskStatus::at(self.clock.millis(), TaskState::Submitted, None),
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: None,
        }));
    }

    /// Takes no more: every emitter learns that the turn is over.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.closed = true;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        if let Some(token) = self.cancel.get() {
            token.cancel();
        }
    }

    /// What is to be committed now; makes room for those who wait. The driver itself needs no waking. On the heap, as it is
    /// handed from future to future.
    pub(crate) fn take_batch(&self, driver: Option<&Waker>) -> Box<Batch> {
        let (batch, waiting) = {
            let mut inner = self.inner.lock();
            (inner.batch.take(), std::mem::take(&mut inner.waiting))
        };
        for waker in waiting {
            if driver.is_none_or(|driver| !driver.will_wake(&waker)) {
                waker.wake();
            }
        }
        Box::new(batch)
    }

    /// Lets the driver sleep until somebody emits something; says no if somebody already has, or if it is still
    /// to be said that work goes on.
    pub(crate) fn park(&self, driver: &Waker) -> bool {
        let mut inner = self.inner.lock();
        if matches!(inner.phase, Phase::Open) && !self.is_patient {
            inner.ensure_working(self);
        }
        // A new state alone can wait for the next event.
        if !inner.batch.is_empty() {
            return false;
        }
        inner.driver = Some(driver.clone());
        true
    }

    /// The driver is awake.
    pub(crate) fn unpark(&self) {
        self.inner.lock().driver = None;
    }
}

/// Whether whoever emits more has to wait until this is committed.
pub(super) fn is_full(batch: &Batch) -> bool {
    batch.len() >= FULL_BATCH || batch.bytes() >= MAX_BYTES
}

// === impl Inner ===

impl Inner {
    fn open(&mut self) {
        if matches!(self.phase, Phase::Unopened(_))
            && let Phase::Unopened(task) = std::mem::replace(&mut self.phase, Phase::Open)
        {
            self.batch.create(task);
        }
    }

    fn ensure_working(&mut self, sink: &Sink) {
        self.open();
        if !matches!(self.phase, Phase::Working) {
            self.record(sink, Entry::Status(TaskState::Working, None), None);
        }
    }

    fn record(&mut self, sink: &Sink, entry: Entry, metadata: Option<JsonObject>) {
        let (task_id, context_id) = (sink.task_id.clone(), sink.context_id.clone());
        match entry {
            Entry::Status(state, message) => {
                self.phase = Phase::Working;
                let message =
                    message.map(|message| message.in_task(task_id.clone()).in_context(context_id.clone()));
                let status = TaskStatus::at(sink.clock.millis(), state, message);
                self.batch.status(TaskStatusUpdateEvent { task_id, context_id, status, metadata }, None);
            }
            Entry::Artifact { artifact, append, last } => self.batch.artifact(TaskArtifactUpdateEvent {
                task_id,
                context_id,
                artifact,
                append,
                last_chunk: last,
                metadata,
            }),
        }
    }
}

// === impl Emit ===

impl Future for Emit<'_> {
    type Output = Result<(), TurnOver>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let sink = self.sink;
        let mut inner = sink.inner.lock();
        if inner.closed {
            return Poll::Ready(Err(TurnOver));
        }
        if is_full(&inner.batch) {
            inner.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        let Some(entry) = self.entry.take() else { return Poll::Ready(Ok(())) };
        match entry {
            Entry::Status(..) => inner.open(),
            Entry::Artifact { .. } => inner.ensure_working(sink),
        }
        inner.record(sink, entry, None);
        let driver = inner.driver.take();
        drop(inner);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(Ok(()))
    }
}
