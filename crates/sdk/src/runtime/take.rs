//! Which task a message is for: a new one, one that exists, or one that an equal message has been given.

use std::sync::Arc;

use chancery_protocol::{
    Call, CallContext, ContextId, Error, ErrorCode, Event, Json, JsonObject, KeptTask, LINEAGE_EXTENSION,
    Message, Principal, RequestLimits, SendMessageConfiguration, SendMessageRequest, Task, TaskId, TaskState,
    TaskStatus, TaskStatusUpdateEvent, check_input_modes,
};
use chancery_store::{Admission, Batch, Scope, Snapshot, StoreError};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::Core;
use super::detach::DetachOnDrop;
use super::drive::{Done, Drive};
use super::failure::{contained, from_store, task_is_over};
use super::handle::consumed_by;
use super::live::Live;
use super::queue::{Answers, Incoming, Queued};
use super::queued::Waits;
use super::refresh::last_said;
use super::reserve::{Reservation, kept_answer};
use super::sink::Sink;
use super::start::StartedTurn;
use super::subscription::TurnEnd;
use crate::agent::{Sent, WhileRunning};
use crate::turn::{CallerWaits, Facts};

/// How long an idempotency key may be.
const MAX_KEY_BYTES: usize = 255;

/// What became of a message.
pub(super) enum Taken {
    /// It has started a turn.
    Starts(StartedTurn),
    /// It waits for a turn to end.
    Waits { live: Arc<Live>, end: Arc<TurnEnd>, answer: oneshot::Receiver<Result<KeptTask, Error>> },
    /// It has been sent before; this is its task, or the call that may become one.
    Repeats(TaskId),
    /// It has been sent before, and was answered without a task.
    Answered(Message),
}

/// The state of a task that no turn has worked on.
#[derive(Serialize)]
struct NeverSent {}

/// Why a message was not taken into its task.
pub(super) enum Begin {
    Repeats(TaskId),
    Failed(Error),
}

impl Core {
    /// Finds the task of a message, or begins a new one, and starts the turn. Once begun this goes on without its caller: a
    /// message that was taken must get its turn.
    pub(super) fn take(
        self: &Arc<Self>,
        scope: &Scope,
        call: Call<Box<SendMessageRequest>>,
        waits: CallerWaits,
    ) -> DetachOnDrop<Result<Taken, Error>> {
        let (core, scope) = (self.clone(), scope.clone());
        DetachOnDrop::new(|| core.taken(scope, call, waits))
    }

    async fn taken(
        self: Arc<Self>,
        scope: Scope,
        call: Call<Box<SendMessageRequest>>,
        waits: CallerWaits,
    ) -> Result<Taken, Error> {
        let Call { request, context } = call;
        self.check_message(&request)?;
        let admission = admission(&context, &request)?;
        if let Some(admission) = &admission
            && let Some(used) = self.store.admitted(&scope, admission).await.map_err(from_store)?
        {
            return match used.answer {
                Some(answer) => kept_answer(&answer).map(Taken::Answered),
                None => Ok(Taken::Repeats(used.task)),
            };
        }
        let SendMessageRequest { message, configuration, metadata, .. } = *request;
        let key = admission.clone();
        let incoming =
            Box::new(Incoming { message, is_new: true, configuration, metadata, context, admission, waits });
        let taken = match incoming.message.task_id.clone() {
            Some(id) => self.clone().follow_up(&scope, &id, incoming).await,
            None => self.clone().open_task(&scope, incoming).await,
        };
        match taken {
            Err(error) => self.unless_repeated(&scope, key.as_ref(), error).await.map(Taken::Repeats),
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
        &self,
        message: Message,
        configuration: Option<&mut SendMessageConfiguration>,
        context: &CallContext,
        always: bool,
    ) -> Result<(Message, Sink), Error> {
        let task_id = context.new_task.clone().unwrap_or_else(TaskId::generate);
        let context_id = message.context_id.clone().unwrap_or_else(|| ContextId::opened_by(&task_id));
        let message = without_lineage(message).in_task(task_id.clone()).in_context(context_id.clone());
        let opens = always || contained("opens_task", || self.spec.agent.opens_task(&message))?;
        let task = Task::submitted(task_id.clone(), context_id, message.clone());
        let sink = Sink::unopened(self, task);
        if let Some(config) = configuration.and_then(|wanted| wanted.task_push_notification_config.take()) {
            sink.set_push(self.inline_push(config, &task_id, context.version)?);
        }
        if opens {
            sink.open();
        }
        self.first_state().into_iter().for_each(|state| sink.set_state(state));
        Ok((message, sink))
    }

    /// What a task's state is before its first turn: that of an agent elsewhere says that it has not been sent yet.
    fn first_state(&self) -> Option<Json> {
        self.spec.works_elsewhere.then(|| Json::from_value(&NeverSent {}).ok()).flatten()
    }

    /// A message that begins a task.
    async fn open_task(self: Arc<Self>, scope: &Scope, incoming: Box<Incoming>) -> Result<Taken, Error> {
        let Incoming { message, mut configuration, metadata, context, admission, waits, .. } = *incoming;
        let (is_named, has_key) = (context.new_task.is_some(), admission.is_some());
        // What has a name is a task, and what has a key is written down: before the agent hears of it, so that of two that
        // would begin the same one only one runs.
        let (message, sink) = self.open(message, configuration.as_mut(), &context, is_named)?;
        let reservation = reservation(&sink, &message, configuration.as_ref(), metadata.as_ref(), &context);
        let mut live = None;
        if reservation.is_none() && (has_key || is_named) {
            let entered = self.live.enter(scope, sink.task_id());
            let is_first = is_named || entered.claim(&sink);
            debug_assert!(is_first, "nobody knows of a task that has just been made up");
            let mut batch = sink.take_batch();
            batch.admission = admission.clone();
            let hold = context.hold.clone();
            match self.append(scope, sink.task_id(), batch, hold, Sent::Answered).await {
                Ok(appended) => entered.publish(appended.events, false),
                Err(StoreError::Duplicate { task }) => return Ok(Taken::Repeats(task)),
                Err(error) => return Err(from_store(error)),
            }
            if is_named && !entered.claim_known(&sink) {
                // Somebody who knew the name has said more already, and has the first turn.
                let admission = None;
                let said =
                    Incoming { message, is_new: false, configuration, metadata, context, admission, waits };
                return self.queue_up(entered, Box::new(said));
            }
            live = Some(entered);
        }
        let referenced = self.referenced(scope, &message).await;
        let mut facts = self.facts(scope, &sink, context);
        (facts.configuration, facts.metadata) = (configuration, metadata);
        (facts.referenced, facts.waits) = (referenced, waits);
        let mut drive = self.prepare(scope.clone(), sink, message, facts, live);
        if let Some(reservation) = reservation {
            drive.admission = admission;
            if has_key {
                match drive.reserve(&reservation).await {
                    Ok(()) => {}
                    Err(StoreError::Duplicate { task }) => return Ok(Taken::Repeats(task)),
                    Err(error) => return Err(from_store(error)),
                }
            }
            drive.reservation = Some(reservation);
        }
        Ok(Taken::Starts(drive.start().await))
    }

    /// A message for a task that exists.
    async fn follow_up(
        self: Arc<Self>,
        scope: &Scope,
        id: &TaskId,
        mut incoming: Box<Incoming>,
    ) -> Result<Taken, Error> {
        let snapshot = self.snapshot(scope, id).await?;
        let task = snapshot.task.value()?;
        check_context(&incoming.message, &task)?;
        incoming.message.context_id = Some(context_of(&task));
        if snapshot.task.is_over() {
            return Err(task_is_over(id));
        }
        let (live, sink) = self.claim(scope, id, &task);
        let Some(sink) = sink else { return self.queue_up(live, incoming) };
        match self.begin(live, sink, incoming).await {
            Ok(drive) => Ok(Taken::Starts(drive.start().await)),
            Err(Begin::Repeats(task)) => Ok(Taken::Repeats(task)),
            Err(Begin::Failed(error)) => Err(error),
        }
    }

    /// Makes a task live, and claims it for a turn unless it has one.
    pub(super) fn claim(&self, scope: &Scope, id: &TaskId, task: &Task) -> (Arc<Live>, Option<Sink>) {
        let live = self.live.enter(scope, id);
        let sink = Sink::working(self, id.clone(), context_of(task));
        let is_free = live.claim(&sink);
        (live, is_free.then_some(sink))
    }

    /// A message for a task whose turn still runs. One that has been taken already is not refused any more.
    fn queue_up(self: Arc<Self>, live: Arc<Live>, incoming: Box<Incoming>) -> Result<Taken, Error> {
        let room = match contained("while_running", || self.spec.agent.while_running())? {
            WhileRunning::Queue(room) => room,
            WhileRunning::Refuse => 0,
        };
        let mut work = live.work.lock();
        let admission = incoming.admission.clone();
        let is_queued = |queued: &&mut Queued| queued.incoming.admission == admission;
        if admission.is_some()
            && let Some(queued) = work.queue.iter_mut().find(is_queued)
        {
            let (end, answer) = (queued.end.clone(), queued.answers.join());
            drop(work);
            return Ok(Taken::Waits { live, end, answer });
        }
        if incoming.is_new && work.queue.len() >= room {
            let text = "The task is being worked on and takes no further message now";
            return Err(Error::with_message(ErrorCode::UnsupportedOperation, text)
                .about("taskId", live.task_id().as_str()));
        }
        let (mut answers, end) = (Answers::default(), Arc::new(TurnEnd::default()));
        let answer = answers.join();
        work.queue.push_back(Queued { core: self.clone(), incoming, end: end.clone(), answers });
        let turn_has_ended = work.running.is_none();
        work.delivery.notify_one();
        drop(work);
        if turn_has_ended {
            self.run_next(live.clone());
        }
        Ok(Taken::Waits { live, end, answer })
    }

    /// Takes a message into its task and prepares the turn, for which the live task has been claimed.
    pub(super) async fn begin(
        self: Arc<Self>,
        live: Arc<Live>,
        sink: Sink,
        incoming: Box<Incoming>,
    ) -> Result<Box<Drive>, Begin> {
        let scope = live.scope().clone();
        match self.receive(&scope, &sink, incoming).await {
            Ok((message, facts, before, events)) => {
                live.publish(events, false);
                let mut drive = self.prepare(scope, sink, message, facts, Some(live));
                drive.before = Some(before).filter(|_| drive.waits == CallerWaits::ForEvents);
                Ok(drive)
            }
            Err(error) => {
                self.run_next(live);
                Err(error)
            }
        }
    }

    async fn receive(
        self: &Arc<Self>,
        scope: &Scope,
        sink: &Sink,
        incoming: Box<Incoming>,
    ) -> Result<(Message, Box<Facts>, Snapshot, Vec<Event>), Begin> {
        let Incoming { message, is_new, mut configuration, metadata, context, admission, waits } = *incoming;
        let (task_id, context_id) = (sink.task_id().clone(), sink.context_id().clone());
        let message = without_lineage(message).in_task(task_id.clone()).in_context(context_id.clone());
        let before = self.store.snapshot(scope, &task_id).await?;
        // What earlier turns consumed counts on.
        let task = before.task.value().map_err(Begin::Failed)?;
        if let Some(consumed) = consumed_by(&task) {
            sink.resume_usage(consumed);
            if let Some(hold) = &context.hold {
                hold.resume(consumed);
            }
        }
        let status = TaskStatus::at(self.store.clock().millis(), TaskState::Working, None);
        let update = TaskStatusUpdateEvent { task_id: task_id.clone(), context_id, status, metadata: None };
        let mut batch = Box::new(Batch::default());
        batch.admission = admission;
        let config = configuration.as_mut().and_then(|wanted| wanted.task_push_notification_config.take());
        batch.push = match config {
            Some(config) => Some(self.inline_push(config, &task_id, context.version).map_err(Begin::Failed)?),
            None => None,
        };
        batch.status(update, is_new.then(|| message.clone()));
        let hold = context.hold.clone();
        let appended = self.append(scope, &task_id, batch, hold, Sent::Answered).await?;
        let referenced = self.referenced(scope, &message).await;
        let state = match &before.state {
            // What was kept of the call while it waited is nothing to the agent, which has not heard of it.
            Some(state) if Waits::is(state) => self.first_state(),
            state => state.clone(),
        };
        let mut facts = self.facts(scope, sink, context);
        (facts.configuration, facts.metadata, facts.waits) = (configuration, metadata, waits);
        (facts.referenced, facts.task, facts.state) = (referenced, Some(task), state);
        Ok((message, facts, before, appended.events))
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

    /// Goes on with a task that waits for authentication.
    pub(super) async fn resume(self: Arc<Self>, principal: Principal, id: TaskId) -> Result<(), Error> {
        let (principal, id) = (&principal, &id);
        let scope = self.scope(principal);
        let snapshot = self.snapshot(&scope, id).await?;
        let task = snapshot.task.value()?;
        let (TaskState::AuthRequired, Some(message)) = (snapshot.task.state(), last_said(&task.history))
        else {
            let text = "The task does not wait for authentication";
            return Err(
                Error::with_message(ErrorCode::UnsupportedOperation, text).about("taskId", id.as_str())
            );
        };
        // It reserves anew what parking has settled.
        let mut context = CallContext::new(principal.clone(), self.spec.name.clone());
        let (configuration, metadata) = (None, None);
        let said = message.clone();
        let request =
            Box::new(SendMessageRequest { tenant: String::new(), message: said, configuration, metadata });
        if let Some(admitted) = self.readmit(Call { request, context: context.clone() }) {
            context = admitted.await?;
        }
        let incoming = Box::new(Incoming {
            message,
            is_new: false,
            configuration: None,
            metadata: None,
            context,
            admission: None,
            waits: CallerWaits::No,
        });
        if let (live, Some(sink)) = self.claim(&scope, id, &task) {
            tokio::spawn(self.begin(live, sink, incoming).await.map_err(Begin::into_error)?.run());
        }
        Ok(())
    }

    /// Lets the next message have its turn, if one waits.
    pub(super) fn run_next(self: Arc<Self>, live: Arc<Live>) {
        let Some((queued, sink)) = live.next_in_queue() else { return };
        tokio::spawn(async move {
            let Queued { core, incoming, end, answers } = queued;
            let done = match core.begin(live, sink, incoming).await {
                Ok(mut drive) => {
                    drive.end = end;
                    drive.start().await.settled().await
                }
                Err(error) => Err(error.into_error()),
            };
            // A turn on an open task never ends in a direct message.
            answers.send(&done.and_then(|done| match done {
                Done::Task(task) => Ok(task),
                Done::Message(_) | Done::Repeats(_) => Err(Error::new(ErrorCode::InvalidAgentResponse)),
            }));
        });
    }
}

impl Begin {
    fn into_error(self) -> Error {
        match self {
            Self::Repeats(task) => from_store(StoreError::Duplicate { task }),
            Self::Failed(error) => error,
        }
    }
}

impl From<StoreError> for Begin {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Duplicate { task } => Self::Repeats(task),
            error => Self::Failed(from_store(error)),
        }
    }
}

/// What is to be written down of a call that may end without a task; none if there is a task.
fn reservation(
    sink: &Sink,
    message: &Message,
    configuration: Option<&SendMessageConfiguration>,
    metadata: Option<&JsonObject>,
    context: &CallContext,
) -> Option<Box<Reservation>> {
    let reserve = || {
        let metadata = metadata.and_then(|said| said.without(LINEAGE_EXTENSION));
        let mut reservation = Reservation::new(message.clone(), configuration.cloned(), metadata, context);
        reservation.push = sink.registration().map(|push| (push.config, push.version.to_string()));
        Box::new(reservation)
    };
    sink.is_unopened().then(reserve)
}

/// A message as it is kept: the lineage token that came with it is nobody's to see.
fn without_lineage(mut message: Message) -> Message {
    message.metadata = message.metadata.take().and_then(|said| said.without(LINEAGE_EXTENSION));
    message
}

pub(super) fn context_of(task: &Task) -> ContextId {
    task.context_id.clone().unwrap_or_else(|| ContextId::from(""))
}

/// A message that names a task and a conversation must name the conversation of the task.
pub(super) fn check_context(message: &Message, task: &Task) -> Result<(), Error> {
    match &message.context_id {
        Some(asked) if Some(asked) != task.context_id.as_ref() => {
            Err(Error::invalid_field("message.contextId", "is not the context of the task"))
        }
        _ => Ok(()),
    }
}

/// What makes a repeated send the same one: its key, and everything that was sent.
pub(super) fn admission(
    context: &CallContext,
    request: &SendMessageRequest,
) -> Result<Option<Admission>, Error> {
    let Some(key) = &context.idempotency_key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let text = format!("must have 1 to {MAX_KEY_BYTES} bytes");
        return Err(Error::invalid_field("Idempotency-Key", text));
    }
    let body = serde_json::to_vec(request).map_err(Error::internal)?;
    Ok(Some(Admission { key: key.clone(), digest: Sha256::digest(&body).into() }))
}
