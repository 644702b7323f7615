//! Which task a message is for: a new one, one that exists, or one that an equal message has been given.

use std::sync::Arc;

use chancery_protocol::{
    Call, ContextId, Error, Json, JsonObject, LINEAGE_EXTENSION, Message, RequestLimits, SendMessageRequest,
    Task, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, check_input_modes,
};
use chancery_store::{Admission, Batch, Scope, Snapshot};
use sha2::{Digest, Sha256};

use super::Core;
use super::detach::detached;
use super::drive::Drive;
use super::failure::{contained, from_store, task_is_over};
use super::live::{Live, TaskKey};
use super::queue::{QueuedAnswer, run_next};
use super::queued::Waits;
use super::reserve::Reservation;
use super::sink::Sink;
use super::start::{Found, Incoming, StartedTurn, resume_account};
use super::subscription::TurnEnd;
use crate::agent::Sent;
use crate::turn::CallerWaits;

/// How long an idempotency key may be.
const MAX_KEY_BYTES: usize = 255;

/// What became of a message.
pub(super) enum Taken {
    /// It has started a turn. The task as it was before, if there was one.
    Starts(StartedTurn, Option<Snapshot>),
    /// It waits for a turn to end.
    Waits { live: Arc<Live>, end: Arc<TurnEnd>, before: Option<Snapshot>, answer: QueuedAnswer },
    /// It has been sent before; this is its task, or the call that may become one or was answered without one.
    Repeats(TaskId),
}

impl Core {
    /// Finds the task of a message, or begins a new one, and starts the turn. Once begun this goes on without its caller: a
    /// message that was taken must get its turn.
    pub(super) async fn take(
        self: &Arc<Self>,
        scope: &Scope,
        call: Call<Box<SendMessageRequest>>,
        admission: Option<Admission>,
        waits: CallerWaits,
    ) -> Result<Taken, Error> {
        detached(self.clone().taken(scope.clone(), call, admission, waits)).await
    }

    async fn taken(
        self: Arc<Self>,
        scope: Scope,
        call: Call<Box<SendMessageRequest>>,
        admission: Option<Admission>,
        waits: CallerWaits,
    ) -> Result<Taken, Error> {
        self.check_message(&call.request)?;
        if let Some(admission) = &admission
            && let Some(used) = self.store.admitted(&scope, admission).await.map_err(from_store)?
        {
            return Ok(Taken::Repeats(used.task));
        }
        let incoming = Incoming::new(call, admission.clone(), waits);
        let taken = match incoming.message.task_id.clone() {
            Some(id) => self.clone().follow_up(&TaskKey { scope: scope.clone(), id }, incoming).await,
            None => self.clone().open_task(&scope, incoming).await,
        };
        match taken {
            Err(error) => self.unless_repeated(&scope, admission.as_ref(), error).await.map(Taken::Repeats),
            taken => taken,
        }
    }

    /// Whether a message can be taken at all, as far as it alone tells.
    pub(super) fn check_message(&self, request: &SendMessageRequest) -> Result<(), Error> {
        let configuration = request.configuration.as_ref();
        if configuration.is_some_and(|wanted| wanted.task_push_notification_config.is_some()) {
            self.check_push()?;
        }
        request.validate(&RequestLimits::default())?;
        check_input_modes(&request.message, &self.spec.input_modes)
    }

    /// A message is not refused for what its own repeat has done: if an equal one has been taken since somebody
    /// looked, this is its task.
    pub(super) async fn unless_repeated(
        &self,
        scope: &Scope,
        admission: Option<&Admission>,
        error: Error,
    ) -> Result<TaskId, Error> {
        let Some(admission) = admission else { return Err(error) };
        let used = self.store.admitted(scope, admission).await.ok().flatten();
        used.map(|used| used.task).ok_or(error)
    }

    /// Makes a new task of a message, without committing anything yet.
    pub(super) fn open(
        self: &Arc<Self>,
        scope: &Scope,
        incoming: &mut Incoming,
        always: bool,
    ) -> Result<Sink, Error> {
        let Incoming { message, configuration, context, .. } = incoming;
        let task_id = context.new_task.clone().unwrap_or_else(TaskId::generate);
        let context_id = message.context_id.clone().unwrap_or_else(|| ContextId::opened_by(&task_id));
        (message.task_id, message.context_id) = (Some(task_id.clone()), Some(context_id.clone()));
        let opens = always || contained("opens_task", || self.spec.agent.opens_task(message))?;
        let sink = Sink::unopened(self, scope, Task::submitted(task_id.clone(), context_id, message.clone()));
        let push = configuration.as_mut().and_then(|wanted| wanted.task_push_notification_config.take());
        if let Some(config) = push {
            sink.set_push(self.inline_push(config, &task_id, context.version)?);
        }
        if opens {
            sink.open();
        }
        self.first_state().into_iter().for_each(|state| sink.set_state(state));
        Ok(sink)
    }

    /// What a task's state is before its first turn: that of an agent elsewhere says that it has not been sent yet.
    fn first_state(&self) -> Option<Json> {
        self.spec.works_elsewhere.then(|| Json::parse("{}").ok()).flatten()
    }

    /// A message that begins a task.
    async fn open_task(self: Arc<Self>, scope: &Scope, mut incoming: Box<Incoming>) -> Result<Taken, Error> {
        let (is_named, has_key) = (incoming.context.new_task.is_some(), incoming.admission.is_some());
        // What has a name is a task, and what has a key is written down: before the agent hears of it, so that of two that
        // would begin the same one only one runs.
        let sink = self.open(scope, &mut incoming, is_named)?;
        let reservation = sink.is_unopened().then(|| Box::new(Reservation::new(&sink, &incoming)));
        let key = incoming.admission.take();
        let live = self.live.enter(&sink.key);
        if reservation.is_none() && (has_key || is_named) {
            let mut batch = sink.take_batch();
            batch.admission = key.clone();
            let hold = incoming.context.hold.clone();
            let appended = self.append(&sink.key, batch, hold, Sent::Answered).await;
            live.publish(appended.map_err(from_store)?);
        }
        if !live.claim(&sink) {
            // Somebody who knew the name has said more already, and has the first turn.
            incoming.is_new = false;
            return self.queue_up(live, incoming, None);
        }
        if live.has_ended() {
            // Others know its name: it was canceled before anybody worked on it.
            sink.cancellation().cancel();
        }
        let referenced = self.referenced(scope, &incoming.message).await;
        let found = Found { referenced, ..Found::default() };
        let mut drive = Drive::new(sink, live, incoming, found);
        drive.reservation = reservation;
        if has_key && drive.reservation.is_some() {
            drive.reserve(key).await.map_err(from_store)?;
        }
        Ok(Taken::Starts(drive.start(), None))
    }

    /// A message for a task that exists.
    async fn follow_up(self: Arc<Self>, key: &TaskKey, mut incoming: Box<Incoming>) -> Result<Taken, Error> {
        let snapshot = self.snapshot(key).await?;
        let task = snapshot.task.value()?;
        // A message that names a task and a conversation must name the conversation of the task.
        let asked = incoming.message.context_id.take();
        if asked.is_some() && asked != task.context_id {
            return Err(Error::invalid_field("message.contextId", "is not the context of the task"));
        }
        incoming.message.context_id = Some(context_of(&task));
        if snapshot.task.is_over() {
            return Err(task_is_over(&key.id));
        }
        let (live, sink) = self.claim(key, &task);
        let Some(sink) = sink else { return self.queue_up(live, incoming, Some(snapshot)) };
        let drive = self.begin(live, sink, incoming).await?;
        Ok(Taken::Starts(drive.start(), Some(snapshot)))
    }

    /// Makes a task live, and claims it for a turn unless it has one.
    pub(super) fn claim(self: &Arc<Self>, key: &TaskKey, task: &Task) -> (Arc<Live>, Option<Sink>) {
        let live = self.live.enter(key);
        let sink = Sink::working(self, key.clone(), context_of(task));
        let is_free = live.claim(&sink);
        (live, is_free.then_some(sink))
    }

    /// Takes a message into its task and prepares the turn, for which the live task has been claimed.
    pub(super) async fn begin(
        self: Arc<Self>,
        live: Arc<Live>,
        sink: Sink,
        incoming: Box<Incoming>,
    ) -> Result<Box<Drive>, Error> {
        let begun = self.receive(&live, sink, incoming).await;
        if begun.is_err() {
            run_next(live);
        }
        begun
    }

    async fn receive(
        self: Arc<Self>,
        live: &Arc<Live>,
        sink: Sink,
        mut incoming: Box<Incoming>,
    ) -> Result<Box<Drive>, Error> {
        let (key, context_id) = (&live.key, sink.context_id().clone());
        let task_id = key.id.clone();
        let Incoming { message, is_new, configuration, context, admission, .. } = &mut *incoming;
        (message.task_id, message.context_id) = (Some(task_id.clone()), Some(context_id.clone()));
        let before = self.snapshot(key).await?;
        let task = before.task.value()?;
        context.hold.iter().for_each(|hold| resume_account(&**hold, &task));
        let status = TaskStatus::at(self.store.clock().millis(), TaskState::Working, None);
        let mut batch = Box::new(Batch::default());
        batch.admission = admission.take();
        let config = configuration.as_mut().and_then(|wanted| wanted.task_push_notification_config.take());
        if let Some(config) = config {
            batch.push = Some(self.inline_push(config, &task_id, context.version)?);
        }
        let said = is_new.then(|| message.clone());
        let update = TaskStatusUpdateEvent { task_id: task_id.clone(), context_id, status, metadata: None };
        batch.status(update, said);
        let appended =
            self.append(key, batch, context.hold.clone(), Sent::Answered).await.map_err(from_store)?;
        let referenced = self.referenced(&key.scope, message).await;
        let state = match &before.state {
            // What was kept of the call while it waited is nothing to the agent, which has not heard of it.
            Some(state) if Waits::is(state) => self.first_state(),
            state => state.clone(),
        };
        live.publish(appended);
        let found = Found { task: Some(task), state, referenced, ..Found::default() };
        Ok(Drive::new(sink, live.clone(), incoming, found))
    }

    /// Those of the tasks that a message refers to which its sender may see. One that does not exist and one
    /// that belongs to somebody else look alike: neither is there.
    async fn referenced(&self, scope: &Scope, message: &Message) -> Vec<Arc<Task>> {
        let mut referenced = Vec::new();
        for id in &message.reference_task_ids {
            let found = self.store.snapshot(scope, id).await;
            referenced.extend(found.ok().and_then(|snapshot| snapshot.task.value().ok()));
        }
        referenced
    }
}

fn context_of(task: &Task) -> ContextId {
    task.context_id.clone().unwrap_or_else(|| ContextId::from(""))
}

/// What makes a repeated send the same one: its key, and all that it says. How it is addressed, and on whose behalf it is made, may be
/// another way the second time.
pub(super) fn admission(call: &Call<Box<SendMessageRequest>>) -> Result<Option<Admission>, Error> {
    let Some(key) = &call.context.idempotency_key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let text = format!("must have 1 to {MAX_KEY_BYTES} bytes");
        return Err(Error::invalid_field("Idempotency-Key", text));
    }
    let without_lineage = |metadata: &mut Option<JsonObject>| {
        *metadata = metadata.take().and_then(|said| said.without(LINEAGE_EXTENSION));
    };
    let mut said = (*call.request).clone();
    said.tenant.clear();
    without_lineage(&mut said.metadata);
    without_lineage(&mut said.message.metadata);
    let body = serde_json::to_vec(&said).map_err(Error::internal)?;
    Ok(Some(Admission { key: key.clone(), digest: Sha256::digest(&body).into() }))
}
