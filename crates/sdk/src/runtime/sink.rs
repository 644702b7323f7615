//! Where a turn's events wait to be committed.
//!
//! Emitting puts an event into a batch; whoever drives the turn commits the batch each time the agent yields.
//! So a turn that finishes at once is one transaction, a burst is committed in large steps, and an agent that
//! runs ahead of the journal waits here. The driver is woken only for what other threads emit: what the agent
//! emits while it is being polled, the driver finds when that poll returns.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use chancery_protocol::{
    Artifact, ArtifactId, ContextId, Hold, Json, JsonObject, Message, Role, StreamResponse, Task,
    TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, USAGE_EXTENSION, Usage,
};
use chancery_store::{Batch, Clock, Registration};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::emit::{Dispatch, Emit, Flush};
use crate::agent::Outcome;

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
    pub(super) is_patient: bool,
    pub(super) inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) batch: Batch,
    phase: Phase,
    pub(super) closed: bool,
    /// Set while the driver sleeps.
    pub(super) driver: Option<Waker>,
    /// Those who wait for room, or for what they emitted to be committed.
    pub(super) waiting: Vec<Waker>,
    /// How many entries were recorded, taken to be committed, and committed.
    recorded: u64,
    taken: u64,
    pub(super) committed: u64,
    abandoned: bool,
    pub(super) dispatch: DispatchState,
    /// What the call was let through with; none while the task waits for its client.
    hold: Option<Arc<dyn Hold>>,
    /// What clients have said that no event shows yet.
    said: Vec<Message>,
    /// What earlier turns of the task consumed.
    consumed: Usage,
    /// What this turn has reported.
    usage: Option<Usage>,
    artifacts: u32,
}

/// Whether the call is written down, so that something may leave the process for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DispatchState {
    Not,
    Asked,
    Done,
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

#[derive(Debug)]
pub(super) enum Entry {
    Task(Box<Task>),
    Status { state: TaskState, message: Option<Message>, metadata: Option<JsonObject>, said: Vec<Message> },
    Artifact { artifact: Artifact, append: bool, last: bool, metadata: Option<JsonObject> },
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
            recorded: 0,
            taken: 0,
            committed: 0,
            abandoned: false,
            dispatch: DispatchState::Not,
            hold: None,
            said: Vec::new(),
            consumed: Usage::default(),
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

    /// What the call of the turn is let through with from now on.
    pub(crate) fn set_hold(&self, hold: Option<Arc<dyn Hold>>) {
        let before = std::mem::replace(&mut self.inner.lock().hold, hold);
        drop(before);
    }

    /// What the call of the turn was let through with.
    pub(crate) fn hold(&self) -> Option<Arc<dyn Hold>> {
        self.inner.lock().hold.clone()
    }

    /// Registers somebody who is to be told of every event from the next one on.
    pub(crate) fn set_push(&self, registration: Box<Registration>) {
        self.inner.lock().batch.push = Some(registration);
    }

    /// Who is to be told of every event.
    pub(super) fn registration(&self) -> Option<Registration> {
        self.inner.lock().batch.push.as_deref().cloned()
    }

    pub(crate) fn set_state(&self, state: Json) {
        self.inner.lock().batch.state = Some(state);
    }

    /// What earlier turns consumed counts on.
    pub(super) fn resume_usage(&self, consumed: Usage) {
        self.inner.lock().consumed = consumed;
    }

    /// Adds to what was consumed, and gives the whole.
    pub(crate) fn add_usage(&self, usage: Usage) -> Usage {
        let mut inner = self.inner.lock();
        inner.usage.get_or_insert_default().add(usage);
        inner.total_usage()
    }

    /// What has been consumed by now.
    pub(crate) fn usage(&self) -> Usage {
        self.inner.lock().total_usage()
    }

    pub(crate) fn status(&self, state: TaskState, message: Option<Message>) -> Emit<'_> {
        let entry = Entry::Status { state, message, metadata: None, said: Vec::new() };
        Emit { sink: self, entry: Some(entry) }
    }

    pub(crate) fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Emit<'_> {
        let entry = Entry::Artifact { artifact, append, last, metadata: None };
        Emit { sink: self, entry: Some(entry) }
    }

    /// An event as somebody elsewhere has put it. A task only begins one here; a message is no event of a task.
    pub(crate) fn forward(&self, event: StreamResponse, said: Vec<Message>) -> Emit<'_> {
        Emit { sink: self, entry: Entry::of(event, said) }
    }

    /// What a client has said becomes history with the next status.
    pub(crate) fn said(&self, message: Message) {
        let message = message.in_task(self.task_id.clone()).in_context(self.context_id.clone());
        self.inner.lock().said.push(message);
    }

    /// Waits until the call is written down.
    pub(crate) fn dispatch(&self) -> Dispatch<'_> {
        Dispatch(self)
    }

    /// Whether somebody waits for the call to be written down.
    pub(super) fn dispatch_is_asked(&self) -> bool {
        self.inner.lock().dispatch == DispatchState::Asked
    }

    /// The call is written down.
    pub(super) fn dispatched(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.dispatch = DispatchState::Done;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether something may have left the process for the call.
    pub(super) fn is_dispatched(&self) -> bool {
        self.inner.lock().dispatch == DispatchState::Done
    }

    /// Waits until all that was emitted so far is committed.
    pub(crate) fn flush(&self) -> Flush<'_> {
        Flush { sink: self, target: self.inner.lock().recorded }
    }

    /// How much was recorded.
    #[cfg(feature = "client")]
    pub(crate) fn recorded(&self) -> u64 {
        self.inner.lock().recorded
    }

    /// All that was taken is committed.
    pub(super) fn committed(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.committed = inner.taken;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The process winds down: the work goes on elsewhere, and so does the task.
    pub(super) fn abandon(&self) {
        self.inner.lock().abandoned = true;
        self.close();
    }

    /// Whether the turn ends only because the process does.
    #[cfg(feature = "client")]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.lock().abandoned
    }

    /// Creates the task, if that is still to be done.
    pub(crate) fn open(&self) {
        self.inner.lock().open();
    }

    /// The same while a driver sleeps.
    pub(crate) fn open_now(&self) {
        let driver = {
            let mut inner = self.inner.lock();
            inner.open();
            inner.driver.take()
        };
        driver.into_iter().for_each(Waker::wake);
    }

    /// The last event of the turn.
    pub(crate) fn conclude(&self, outcome: Outcome) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        if !matches!(outcome.forwarded.as_deref(), Some(StreamResponse::Task(_))) {
            inner.open();
        }
        let total = inner.usage.map(|_| inner.total_usage());
        let usage = total.and_then(|usage| JsonObject::single(USAGE_EXTENSION, &usage).ok());
        if let Some(entry) = outcome.forwarded.and_then(|last| Entry::of(*last, Vec::new())) {
            return inner.record(self, entry);
        }
        if let Some(artifact) = outcome.artifact {
            inner.record(self, Entry::Artifact { artifact, append: false, last: true, metadata: None });
        }
        let Outcome { state, message, .. } = outcome;
        inner.record(self, Entry::Status { state, message, metadata: usage, said: Vec::new() });
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
            inner.taken = inner.recorded;
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
        if !inner.batch.is_empty() || inner.dispatch == DispatchState::Asked {
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
    pub(super) fn open(&mut self) {
        if matches!(self.phase, Phase::Unopened(_))
            && let Phase::Unopened(task) = std::mem::replace(&mut self.phase, Phase::Open)
        {
            self.batch.create(task);
        }
    }

    fn total_usage(&self) -> Usage {
        let mut total = self.consumed;
        total.add(self.usage.unwrap_or_default());
        total
    }

    pub(super) fn ensure_working(&mut self, sink: &Sink) {
        self.open();
        if !matches!(self.phase, Phase::Working) {
            let state = TaskState::Working;
            self.record(sink, Entry::Status { state, message: None, metadata: None, said: Vec::new() });
        }
    }

    /// A task that somebody elsewhere shows: it begins the task here, with the history of here and what the agent said. If
    /// the task exists, what it shows becomes events.
    fn record_task(&mut self, sink: &Sink, theirs: Task) {
        let Task { status, artifacts, history, metadata, .. } = theirs;
        let phase = std::mem::replace(&mut self.phase, Phase::Working);
        let Phase::Unopened(mut task) = phase else {
            for artifact in artifacts {
                self.record(sink, Entry::Artifact { artifact, append: false, last: false, metadata: None });
            }
            let (state, message) = (status.state, status.message.map(|message| *message));
            return self.record(sink, Entry::Status { state, message, metadata, said: Vec::new() });
        };
        let ours =
            |message: Message| message.in_task(sink.task_id.clone()).in_context(sink.context_id.clone());
        task.history.extend(history.into_iter().filter(|said| said.role == Role::Agent).map(ours));
        task.status =
            TaskStatus::at(sink.clock.millis(), status.state, status.message.map(|said| ours(*said)));
        (task.artifacts, task.metadata) = (artifacts, metadata);
        self.batch.create(task);
    }

    pub(super) fn record(&mut self, sink: &Sink, entry: Entry) {
        self.recorded += 1;
        let (task_id, context_id) = (sink.task_id.clone(), sink.context_id.clone());
        match entry {
            Entry::Task(task) => self.record_task(sink, *task),
            Entry::Status { state, message, metadata, said } => {
                self.phase = Phase::Working;
                let message =
                    message.map(|message| message.in_task(task_id.clone()).in_context(context_id.clone()));
                let status = TaskStatus::at(sink.clock.millis(), state, message);
                let said = std::mem::take(&mut self.said).into_iter().chain(said);
                self.batch.status(TaskStatusUpdateEvent { task_id, context_id, status, metadata }, said);
            }
            Entry::Artifact { artifact, append, last, metadata } => {
                self.batch.artifact(TaskArtifactUpdateEvent {
                    task_id,
                    context_id,
                    artifact,
                    append,
                    last_chunk: last,
                    metadata,
                });
            }
        }
    }
}

// === impl Entry ===

impl Entry {
    /// None of a message, which is no event of a task.
    fn of(event: StreamResponse, said: Vec<Message>) -> Option<Self> {
        Some(match event {
            StreamResponse::Message(_) => return None,
            StreamResponse::Task(task) => Self::Task(Box::new(task)),
            StreamResponse::StatusUpdate(TaskStatusUpdateEvent { status, metadata, .. }) => {
                let TaskStatus { state, message, .. } = status;
                Self::Status { state, message: message.map(|message| *message), metadata, said }
            }
            StreamResponse::ArtifactUpdate(update) => {
                let TaskArtifactUpdateEvent { artifact, append, last_chunk: last, metadata, .. } = update;
                Self::Artifact { artifact, append, last, metadata }
            }
        })
    }
}
