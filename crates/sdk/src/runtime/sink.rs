//! Where a turn's events wait to be committed.
//!
//! Emitting puts an event into a batch; whoever drives the turn commits the batch each time the agent yields.
//! So a turn that finishes at once is one transaction, a burst is committed in large steps, and an agent that
//! runs ahead of the journal waits here.

use std::sync::Arc;

use chancery_protocol::{
    Artifact, ArtifactId, ContextId, Hold, Json, JsonObject, Message, Role, StreamResponse, Task,
    TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, USAGE_EXTENSION, Usage,
};
use chancery_store::{Batch, Registration, Scope};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::live::TaskKey;
use crate::agent::Outcome;
use crate::turn::TurnOver;

/// How far a turn may run ahead of the journal: so many events,
const FULL_BATCH: usize = 64;
/// and so many bytes.
const MAX_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Sink {
    pub(super) core: Arc<Core>,
    pub(super) key: TaskKey,
    context_id: ContextId,
    cancel: CancellationToken,
    inner: Mutex<Inner>,
    /// Told when there is something to commit, when it is committed, when there is room again, and when the turn is over.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    batch: Batch,
    phase: Phase,
    closed: bool,
    /// How many entries were recorded, taken to be committed, and committed.
    recorded: u64,
    taken: u64,
    committed: u64,
    /// Whether somebody waits for the call to be written down.
    dispatch_is_asked: bool,
    /// Whether it is, so that something may leave the process for it.
    is_dispatched: bool,
    /// What the call was let through with; none while the task waits for its client.
    hold: Option<Arc<dyn Hold>>,
    /// What it was let through with before the task had to wait for its client. It is settled.
    parked: Option<Arc<dyn Hold>>,
    /// What clients have said that no event shows yet.
    said: Vec<Message>,
    /// What the turns of the task have consumed, and whether this one has reported anything.
    consumed: Usage,
    has_reported: bool,
    artifacts: u32,
}

/// How far the task has come, as far as this turn can tell.
#[derive(Debug, Default)]
enum Phase {
    /// The task does not exist; the first event creates it.
    Unopened(Box<Task>),
    /// It exists, and has to be said to be worked on.
    Open,
    /// It is said to be worked on.
    #[default]
    Working,
}

// === impl Sink ===

impl Sink {
    /// A sink for a task that does not exist yet.
    pub(super) fn unopened(core: &Arc<Core>, scope: &Scope, mut task: Task) -> Self {
        let context_id = task.context_id.clone().unwrap_or_else(|| ContextId::opened_by(&task.id));
        task.status.timestamp = Some(core.store.clock().millis());
        let key = TaskKey { scope: scope.clone(), id: task.id.clone() };
        Self::new(core, key, context_id, Phase::Unopened(Box::new(task)))
    }

    /// A sink for a task that is being worked on.
    pub(super) fn working(core: &Arc<Core>, key: TaskKey, context_id: ContextId) -> Self {
        Self::new(core, key, context_id, Phase::Working)
    }

    fn new(core: &Arc<Core>, key: TaskKey, context_id: ContextId, phase: Phase) -> Self {
        Self {
            core: core.clone(),
            key,
            context_id,
            cancel: CancellationToken::new(),
            inner: Mutex::new(Inner { phase, ..Inner::default() }),
            changed: Notify::new(),
        }
    }

    pub(crate) fn task_id(&self) -> &TaskId {
        &self.key.id
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.key.scope
    }

    pub(crate) fn context_id(&self) -> &ContextId {
        &self.context_id
    }

    /// Fires when the turn is over.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancel
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

    /// The task waits for its client while the turn goes on: what the call held has been settled.
    pub(super) fn park_hold(&self) {
        let mut inner = self.inner.lock();
        inner.parked = inner.hold.take();
    }

    /// The call that was settled when the task had to wait for its client.
    pub(super) fn parked_hold(&self) -> Option<Arc<dyn Hold>> {
        self.inner.lock().parked.clone()
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
        inner.has_reported = true;
        inner.consumed.add(usage);
        inner.consumed
    }

    /// What has been consumed by now.
    pub(crate) fn usage(&self) -> Usage {
        self.inner.lock().consumed
    }

    /// Waits until the turn has come so far. An error if it is over before that.
    async fn reached<T>(&self, mut reached: impl FnMut(&mut Inner) -> Option<T>) -> Result<T, TurnOver> {
        loop {
            // Before the look: nothing changes between them unseen.
            let changed = self.changed.notified();
            {
                let mut inner = self.inner.lock();
                if let Some(reached) = reached(&mut inner) {
                    return Ok(reached);
                }
                if inner.closed {
                    return Err(TurnOver);
                }
            }
            changed.await;
        }
    }

    /// Puts an event into the batch, once there is room. A task only begins one here; a message is no event of a task.
    pub(crate) async fn emit(&self, event: StreamResponse) -> Result<(), TurnOver> {
        if let StreamResponse::Message(_) = event {
            return Ok(());
        }
        let mut event = Some(event);
        let has_room = |inner: &mut Inner| {
            let event = event.take_if(|_| !inner.closed && !is_full(&inner.batch))?;
            if let StreamResponse::ArtifactUpdate(_) = event {
                inner.ensure_working(self);
            }
            inner.record(self, event);
            Some(())
        };
        self.reached(has_room).await?;
        self.changed.notify_waiters();
        Ok(())
    }

    pub(crate) async fn status(&self, state: TaskState, message: Option<Message>) -> Result<(), TurnOver> {
        self.emit(self.status_event(state, message, None)).await
    }

    pub(crate) async fn artifact(
        &self,
        artifact: Artifact,
        append: bool,
        last: bool,
    ) -> Result<(), TurnOver> {
        self.emit(self.artifact_event(artifact, append, last)).await
    }

    fn status_event(
        &self,
        state: TaskState,
        message: Option<Message>,
        metadata: Option<JsonObject>,
    ) -> StreamResponse {
        let (task_id, context_id) = (self.key.id.clone(), self.context_id.clone());
        let status = TaskStatus { state, message: message.map(Box::new), timestamp: None };
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent { task_id, context_id, status, metadata })
    }

    fn artifact_event(&self, artifact: Artifact, append: bool, last_chunk: bool) -> StreamResponse {
        let (task_id, context_id) = (self.key.id.clone(), self.context_id.clone());
        let update =
            TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk, metadata: None };
        StreamResponse::ArtifactUpdate(update)
    }

    /// What a client has said becomes history with the next status.
    #[cfg(feature = "client")]
    pub(crate) fn said(&self, message: Message) {
        self.inner.lock().said.push(self.own(message));
    }

    /// A message as one of this task.
    fn own(&self, message: Message) -> Message {
        message.in_task(self.key.id.clone()).in_context(self.context_id.clone())
    }

    /// Waits until the call is written down.
    pub(crate) async fn dispatch(&self) -> Result<(), TurnOver> {
        {
            let mut inner = self.inner.lock();
            inner.dispatch_is_asked |= !inner.is_dispatched || inner.batch.state.is_some();
        }
        self.changed.notify_waiters();
        self.reached(|inner| (!inner.dispatch_is_asked && !inner.closed).then_some(())).await
    }

    /// Whether somebody waits for the call to be written down.
    pub(super) fn dispatch_is_asked(&self) -> bool {
        self.inner.lock().dispatch_is_asked
    }

    /// The call is written down.
    pub(super) fn dispatched(&self) {
        {
            let mut inner = self.inner.lock();
            (inner.dispatch_is_asked, inner.is_dispatched) = (false, true);
        }
        self.changed.notify_waiters();
    }

    /// Whether something may have left the process for the call.
    pub(super) fn is_dispatched(&self) -> bool {
        self.inner.lock().is_dispatched
    }

    /// Waits until all that was emitted so far is committed.
    pub(crate) async fn flush(&self) -> Result<(), TurnOver> {
        let emitted = self.inner.lock().recorded;
        self.reached(|inner| (inner.committed >= emitted).then_some(())).await
    }

    /// How much was recorded.
    #[cfg(feature = "client")]
    pub(crate) fn recorded(&self) -> u64 {
        self.inner.lock().recorded
    }

    /// All that was taken is committed.
    pub(super) fn committed(&self) {
        {
            let mut inner = self.inner.lock();
            inner.committed = inner.taken;
        }
        self.changed.notify_waiters();
    }

    /// Whether nobody serves the agent any more: the work goes on elsewhere, and so does the task.
    #[cfg(feature = "client")]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.core.abandoned.is_cancelled()
    }

    /// Creates the task, if that is still to be done.
    pub(crate) fn open(&self) {
        self.inner.lock().open(self);
        self.changed.notify_waiters();
    }

    /// The last event of the turn.
    pub(crate) fn conclude(&self, outcome: Outcome) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let total = Some(inner.consumed).filter(|_| inner.has_reported);
        let usage = total.and_then(|usage| JsonObject::single(USAGE_EXTENSION, &usage).ok());
        if let Some(last) = outcome.forwarded {
            return inner.record(self, *last);
        }
        if let Some(artifact) = outcome.artifact {
            inner.record(self, self.artifact_event(artifact, false, true));
        }
        inner.record(self, self.status_event(outcome.state, outcome.message, usage));
    }

    /// Begins the task anew, without what did not fit into it, if none of it has been committed.
    pub(crate) fn begin_anew(&self) {
        self.inner.lock().phase = Phase::Unopened(Box::new(Task {
            id: self.key.id.clone(),
            context_id: Some(self.context_id.clone()),
            status: TaskStatus::at(self.core.store.clock().millis(), TaskState::Submitted, None),
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: None,
        }));
    }

    /// Takes no more: every emitter learns that the turn is over.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.changed.notify_waiters();
        self.cancel.cancel();
    }

    /// What is to be committed now; makes room for those who wait. On the heap, as it is handed from future to future.
    pub(crate) fn take_batch(&self) -> Box<Batch> {
        let batch = {
            let mut inner = self.inner.lock();
            inner.taken = inner.recorded;
            inner.batch.take()
        };
        self.changed.notify_waiters();
        Box::new(batch)
    }

    /// What is to be committed next, once there is something: the agent waits for something else meanwhile.
    pub(super) async fn next_batch(&self) -> Box<Batch> {
        loop {
            let changed = self.changed.notified();
            {
                let mut inner = self.inner.lock();
                if matches!(inner.phase, Phase::Open) {
                    inner.ensure_working(self);
                }
                // A new state alone can wait for the next event.
                if !inner.batch.is_empty() || inner.dispatch_is_asked {
                    break;
                }
            }
            changed.await;
        }
        self.take_batch()
    }
}

/// Whether whoever emits more has to wait until this is committed.
pub(super) fn is_full(batch: &Batch) -> bool {
    batch.len() >= FULL_BATCH || batch.bytes() >= MAX_BYTES
}

// === impl Inner ===

impl Inner {
    /// Creates the task, if that is still to be done. Whether it is worked on elsewhere is not for us to say.
    fn open(&mut self, sink: &Sink) {
        let opened = if sink.core.spec.works_elsewhere { Phase::Working } else { Phase::Open };
        if matches!(self.phase, Phase::Unopened(_))
            && let Phase::Unopened(task) = std::mem::replace(&mut self.phase, opened)
        {
            self.batch.create(task);
        }
    }

    fn ensure_working(&mut self, sink: &Sink) {
        self.open(sink);
        if !matches!(self.phase, Phase::Working) {
            self.record(sink, sink.status_event(TaskState::Working, None, None));
        }
    }

    /// Puts an event into the batch, under the ids and the time of here.
    fn record(&mut self, sink: &Sink, event: StreamResponse) {
        self.recorded += 1;
        match event {
            StreamResponse::Task(task) => self.record_task(sink, task),
            StreamResponse::StatusUpdate(mut update) => {
                self.open(sink);
                self.phase = Phase::Working;
                (update.task_id, update.context_id) = (sink.key.id.clone(), sink.context_id.clone());
                update.status.timestamp = Some(sink.core.store.clock().millis());
                update.status.message = update.status.message.map(|said| Box::new(sink.own(*said)));
                self.batch.status(update, std::mem::take(&mut self.said));
            }
            StreamResponse::ArtifactUpdate(mut update) => {
                self.open(sink);
                (update.task_id, update.context_id) = (sink.key.id.clone(), sink.context_id.clone());
                self.batch.artifact(update);
            }
            StreamResponse::Message(_) => {}
        }
    }

    /// A task that somebody elsewhere shows: it begins the task here, with the history of here and what the agent said. If
    /// the task exists, what it shows becomes events.
    fn record_task(&mut self, sink: &Sink, theirs: Task) {
        let Task { status, artifacts, history, metadata, .. } = theirs;
        let Phase::Unopened(mut task) = std::mem::replace(&mut self.phase, Phase::Working) else {
            for artifact in artifacts {
                self.record(sink, sink.artifact_event(artifact, false, false));
            }
            let message = status.message.map(|message| *message);
            return self.record(sink, sink.status_event(status.state, message, metadata));
        };
        let said = history.into_iter().filter(|said| said.role == Role::Agent);
        task.history.extend(said.map(|said| sink.own(said)));
        let message = status.message.map(|said| sink.own(*said));
        task.status = TaskStatus::at(sink.core.store.clock().millis(), status.state, message);
        (task.artifacts, task.metadata) = (artifacts, metadata);
        self.batch.create(task);
    }
}
