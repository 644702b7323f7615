//! Which task a message is for, and how its sender waits for what comes of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use chancery_protocol::{
    Call, CallContext, ContextId, Error, ErrorCode, Event, EventStream, Message, Principal, Role,
    SendMessageConfiguration, SendMessageRequest, SendMessageResponse, StreamResponse, Task, TaskId,
    TaskState, TaskStatus, TaskStatusUpdateEvent, TaskView, check_input_modes,
};
use chancery_store::{Admission, Batch, Scope, Snapshot, StoreError};
use futures_core::Stream;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::Core;
use super::drive::{Done, Drive, Inline, Launched};
use super::failure::{from_store, task_is_over};
use super::live::Live;
use super::queue::{Incoming, Queued, TurnEnd};
use super::sink::Sink;
use super::subscription::{Subscription, message_event};
use super::view;
use crate::agent::WhileRunning;
use crate::turn::{Facts, Turn};

/// What became of a message.
enum Taken {
    /// It starts a turn, which nobody drives yet.
    Starts(Drive),
    /// It waits for a turn to end.
    Waits { live: Arc<Live>, end: Arc<TurnEnd>, answer: oneshot::Receiver<Result<Arc<Task>, Error>> },
    /// It has been sent before; this is its task.
    Repeats(TaskId),
}

impl Core {
    /// Answers when the turn has ended, or at once if that is asked for.
    pub(super) async fn send(
        self: Arc<Self>,
        call: Call<SendMessageRequest>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let scope = self.scope(&call.context);
        let configuration = call.request.configuration.as_ref();
        let at_once = configuration.is_some_and(|wanted| wanted.return_immediately);
        let history_length = configuration.and_then(|wanted| wanted.history_length);
        let timeout = self.spec.blocking_timeout;
        let show = |task| SendMessageResponse::Task(view(task, history_length));
        let (id, waited) = match self.clone().take(&scope, call).await? {
            Taken::Starts(drive) if at_once => {
                return match drive.launch().await? {
                    Launched::Task(live) => Ok(show(self.snapshot(&scope, live.task_id()).await?.task)),
                    Launched::Message(message) => Ok(SendMessageResponse::Message(message)),
                };
            }
            Taken::Starts(drive) => {
                let id = drive.sink.task_id().clone();
                (id, tokio::time::timeout(timeout, Inline::new(drive)).await)
            }
            Taken::Waits { live, .. } if at_once => {
                return Ok(show(self.snapshot(&scope, live.task_id()).await?.task));
            }
            Taken::Waits { live, answer, .. } => {
                let answered = async {
                    let gone = || task_is_over(live.task_id());
                    answer.await.map_err(|_| gone())?.map(Done::Task)
                };
                (live.task_id().clone(), tokio::time::timeout(timeout, answered).await)
            }
            Taken::Repeats(id) if at_once => return Ok(show(self.snapshot(&scope, &id).await?.task)),
            Taken::Repeats(id) => {
                let waited = tokio::time::timeout(timeout, self.settled(&scope, &id)).await;
                (id, waited.map(|settled| settled.map(Done::Task)))
            }
        };
        match waited {
            Ok(Ok(Done::Task(task))) => Ok(show(task)),
            Ok(Ok(Done::Message(message))) => Ok(SendMessageResponse::Message(message)),
            Ok(Err(error)) => Err(error),
            // The sender has waited long enough. The turn goes on; the task says how far it is.
            Err(_) => Ok(show(self.snapshot(&scope, &id).await?.task)),
        }
    }

    /// Answers with the events of the turn as they come.
    pub(super) async fn stream(
        self: Arc<Self>,
        call: Call<SendMessageRequest>,
    ) -> Result<EventStream, Error> {
        let scope = self.scope(&call.context);
        let store = self.store.clone();
        match self.clone().take(&scope, call).await? {
            Taken::Starts(mut drive) => {
                let end = Arc::new(TurnEnd::default());
                drive.end = Some(end.clone());
                let continues = drive.live.is_some();
                match drive.launch().await? {
                    Launched::Task(live) if continues => self.watch_from_here(&scope, live, end).await,
                    Launched::Task(live) => Ok(Box::pin(Subscription::after(store, live, 0, Some(end)))),
                    Launched::Message(message) => {
                        let event = message_event(message)?;
                        Ok(Box::pin(Once(Some(event))))
                    }
                }
            }
            Taken::Waits { live, end, .. } => self.watch_from_here(&scope, live, end).await,
            Taken::Repeats(id) => {
                let live = self.live.enter(&scope, &id);
                let snapshot = self.snapshot(&scope, &id).await?;
                live.catch_up(snapshot.number, snapshot.task.status.state.is_terminal());
                Ok(Box::pin(Subscription::after(store, live, 0, None)))
            }
        }
    }

    /// Goes on with a task that waits for authentication.
    pub(super) async fn resume(self: Arc<Self>, principal: &Principal, id: &TaskId) -> Result<(), Error> {
        let scope = self.scope_of(principal);
        let snapshot = self.snapshot(&scope, id).await?;
        let last_said = snapshot.task.history.iter().rev().find(|said| said.role == Role::User);
        let (TaskState::AuthRequired, Some(message)) = (snapshot.task.status.state, last_said) else {
            let text = "The task does not wait for authentication";
            return Err(
                Error::with_message(ErrorCode::UnsupportedOperation, text).about("taskId", id.as_str())
            );
        };
        let incoming = Incoming {
            message: message.clone(),
            is_new: false,
            configuration: None,
            context: CallContext::new(principal.clone(), self.spec.name.clone()),
            admission: None,
        };
        let live = self.live.enter(&scope, id);
        let sink = Sink::working(id.clone(), context_of(&snapshot.task));
        if live.claim(&sink) {
            tokio::spawn(self.begin(live, sink, incoming).await.map_err(Begin::into_error)?.run());
        }
        Ok(())
    }

    /// Lets the next message have its turn, if one waits.
    pub(super) fn run_next(self: Arc<Self>, live: Arc<Live>) {
        let Some((queued, sink)) = live.next_in_queue() else { return };
        tokio::spawn(async move {
            let Queued { incoming, end, answer } = queued;
            let done = match self.begin(live, sink, incoming).await {
                Ok(mut drive) => {
                    drive.end = Some(end);
                    drive.run().await
                }
                Err(error) => Err(error.into_error()),
            };
            // Whoever sent it may have gone. A turn on an open task never ends in a direct message.
            let _ = answer.send(done.and_then(|done| match done {
                Done::Task(task) => Ok(task),
                Done::Message(_) => Err(Error::new(ErrorCode::InvalidAgentResponse)),
            }));
        });
    }

    /// Finds the task of a message, or prepares a new one.
    async fn take(self: Arc<Self>, scope: &Scope, call: Call<SendMessageRequest>) -> Result<Taken, Error> {
        let Call { request, context } = call;
        let asks_for_push = request
            .configuration
            .as_ref()
            .is_some_and(|wanted| wanted.task_push_notification_config.is_some());
        if asks_for_push {
            return Err(Error::new(ErrorCode::PushNotificationNotSupported));
        }
        request.validate(&self.limits)?;
        check_input_modes(&request.message, &self.spec.input_modes)?;
        let admission = admission(&context, &request)?;
        if let Some(admission) = &admission
            && let Some(task) = self.store.admitted(scope, admission).await.map_err(from_store)?
        {
            return Ok(Taken::Repeats(task));
        }
        let SendMessageRequest { message, configuration, .. } = request;
        let incoming = Incoming { message, is_new: true, configuration, context, admission };
        match incoming.message.task_id.clone() {
            Some(id) => self.follow_up(scope, &id, incoming).await,
            None => self.open(scope, incoming).await,
        }
    }

    /// A message that begins a task.
    async fn open(self: Arc<Self>, scope: &Scope, incoming: Incoming) -> Result<Taken, Error> {
        let Incoming { mut message, configuration, context, admission, .. } = incoming;
        let task_id = TaskId::generate();
        let context_id = message.context_id.clone().unwrap_or_else(ContextId::generate);
        message.task_id = Some(task_id.clone());
        message.context_id = Some(context_id.clone());
        // What a repeat joins is a task, so a call with a key always gets one.
        let opens = admission.is_some() || self.spec.agent.opens_task(&message);
        let sink = Sink::unopened(Task::submitted(task_id.clone(), context_id, message.clone()));
        if opens {
            sink.open().map_err(Error::internal)?;
        }
        let mut live = None;
        if admission.is_some() {
            let entered = self.live.enter(scope, &task_id);
            entered.claim(&sink);
            let mut batch = sink.take_batch(None);
            batch.admission = admission;
            match self.store.append(scope, &task_id, batch).await {
                Ok(appended) => entered.publish(&appended.events, false),
                Err(StoreError::Duplicate { task }) => return Ok(Taken::Repeats(task)),
                Err(error) => return Err(from_store(error)),
            }
            live = Some(entered);
        }
        let facts = self.facts(scope, &message, configuration, context, None).await;
        Ok(Taken::Starts(self.prepare(scope.clone(), sink, message, facts, live)))
    }

    /// A message for a task that exists.
    async fn follow_up(
        self: Arc<Self>,
        scope: &Scope,
        id: &TaskId,
        mut incoming: Incoming,
    ) -> Result<Taken, Error> {
        let snapshot = self.snapshot(scope, id).await?;
        check_context(&incoming.message, &snapshot.task)?;
        incoming.message.context_id = Some(context_of(&snapshot.task));
        if snapshot.task.status.state.is_terminal() {
            return Err(task_is_over(id));
        }
        let live = self.live.enter(scope, id);
        let sink = Sink::working(id.clone(), context_of(&snapshot.task));
        if !live.claim(&sink) {
            return self.enqueue(live, incoming);
        }
        match self.begin(live, sink, incoming).await {
            Ok(drive) => Ok(Taken::Starts(drive)),
            Err(Begin::Repeats(task)) => Ok(Taken::Repeats(task)),
            Err(Begin::Failed(error)) => Err(error),
        }
    }

    /// A message for a task whose turn still runs.
    fn enqueue(self: Arc<Self>, live: Arc<Live>, incoming: Incoming) -> Result<Taken, Error> {
        let room = match self.spec.agent.while_running() {
            WhileRunning::Queue(room) => room,
            WhileRunning::Refuse => 0,
        };
        let mut work = live.work.lock();
        let is_queued = |queued: &Queued| queued.incoming.admission == incoming.admission;
        if incoming.admission.is_some() && work.queue.iter().any(is_queued) {
            return Ok(Taken::Repeats(live.task_id().clone()));
        }
        if work.queue.len() >= room {
            let text = "The task is being worked on and takes no further message now";
            return Err(Error::with_message(ErrorCode::UnsupportedOperation, text)
                .about("taskId", live.task_id().as_str()));
        }
        let (sender, answer) = oneshot::channel();
        let end = Arc::new(TurnEnd::default());
        work.queue.push_back(Queued { incoming, end: end.clone(), answer: sender });
        let turn_has_ended = work.running.is_none();
        drop(work);
        if turn_has_ended {
            self.run_next(live.clone());
        }
        Ok(Taken::Waits { live, end, answer })
    }

    /// Takes a message into its task and prepares the turn, for which the live task has been claimed.
    async fn begin(self: Arc<Self>, live: Arc<Live>, sink: Sink, incoming: Incoming) -> Result<Drive, Begin> {
        let scope = live.scope().clone();
        match self.receive(&scope, &sink, incoming).await {
            Ok((message, facts, events)) => {
                live.publish(&events, false);
                Ok(self.prepare(scope, sink, message, facts, Some(live)))
            }
            Err(error) => {
                self.run_next(live);
                Err(error)
            }
        }
    }

    async fn receive(
        &self,
        scope: &Scope,
        sink: &Sink,
        incoming: Incoming,
    ) -> Result<(Message, Facts, Vec<Event>), Begin> {
        let Incoming { message, is_new, configuration, context, admission } = incoming;
        let (task_id, context_id) = (sink.task_id().clone(), sink.context_id().clone());
        let message = message.in_task(task_id.clone()).in_context(context_id.clone());
        let before = self.store.snapshot(scope, &task_id).await?;
        let status = TaskStatus::now(TaskState::Working, None);
        let update = TaskStatusUpdateEvent { task_id: task_id.clone(), context_id, status, metadata: None };
        let mut batch = Batch::default();
        batch.admission = admission;
        batch
            .record(StreamResponse::StatusUpdate(update), is_new.then(|| message.clone()))
            .map_err(|error| Begin::Failed(Error::internal(error)))?;
        let appended = self.store.append(scope, &task_id, batch).await?;
        let facts = self.facts(scope, &message, configuration, context, Some(before)).await;
        Ok((message, facts, appended.events))
    }

    async fn facts(
        &self,
        scope: &Scope,
        message: &Message,
        configuration: Option<SendMessageConfiguration>,
        context: CallContext,
        before: Option<Snapshot>,
    ) -> Facts {
        let mut referenced = Vec::new();
        for id in &message.reference_task_ids {
            // One that does not exist and one that belongs to somebody else look alike: neither is there.
            referenced.extend(self.store.snapshot(scope, id).await.ok().map(|snapshot| snapshot.task));
        }
        let (task, state) = before.map_or((None, None), |before| (Some(before.task), before.state));
        let limit = Instant::now() + self.spec.turn_timeout;
        Facts {
            principal: context.principal,
            configuration,
            task,
            referenced,
            state,
            deadline: context.deadline.map_or(limit, |deadline| deadline.min(limit)),
            extensions: context.extensions,
        }
    }

    fn prepare(
        self: Arc<Self>,
        scope: Scope,
        sink: Sink,
        message: Message,
        facts: Facts,
        live: Option<Arc<Live>>,
    ) -> Drive {
        let sink = Arc::new(sink);
        let deadline = facts.deadline;
        let agent = self.spec.agent.clone().start(Turn { message, facts, sink: sink.clone() });
        Drive { core: self, scope, sink, agent, deadline, end: None, live, opened: None }
    }

    /// The task when it has ended or waits for somebody.
    async fn settled(&self, scope: &Scope, id: &TaskId) -> Result<Arc<Task>, Error> {
        let live = self.live.enter(scope, id);
        let snapshot = self.snapshot(scope, id).await?;
        live.catch_up(snapshot.number, snapshot.task.status.state.is_terminal());
        let mut events = Subscription::after(self.store.clone(), live, snapshot.number, None);
        loop {
            let task = self.snapshot(scope, id).await?.task;
            let state = task.status.state;
            if state.is_terminal() || state.is_interrupted() {
                return Ok(task);
            }
            poll_fn(|context| Pin::new(&mut events).poll_next(context)).await.transpose()?;
        }
    }

    /// The task as it stands, then the events that follow.
    async fn watch_from_here(
        &self,
        scope: &Scope,
        live: Arc<Live>,
        end: Arc<TurnEnd>,
    ) -> Result<EventStream, Error> {
        let snapshot = self.snapshot(scope, live.task_id()).await?;
        live.catch_up(snapshot.number, snapshot.task.status.state.is_terminal());
        Ok(Box::pin(Subscription::with_snapshot(self.store.clone(), live, &snapshot, Some(end))?))
    }
}

/// Why a message was not taken into its task.
enum Begin {
    Repeats(TaskId),
    Failed(Error),
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

/// A stream of one event.
struct Once(Option<Event>);

impl Stream for Once {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

fn context_of(task: &Task) -> ContextId {
    task.context_id.clone().unwrap_or_else(|| ContextId::from(""))
}

fn check_context(message: &Message, task: &Task) -> Result<(), Error> {
    match &message.context_id {
        Some(asked) if Some(asked) != task.context_id.as_ref() => {
            Err(Error::invalid_field("message.contextId", "is not the context of the task"))
        }
        _ => Ok(()),
    }
}

/// What makes a repeated send the same one: its key, and everything that was sent.
fn admission(context: &CallContext, request: &SendMessageRequest) -> Result<Option<Admission>, Error> {
    let Some(key) = &context.idempotency_key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let text = format!("must have 1 to {MAX_KEY_BYTES} bytes");
        return Err(Error::invalid_field("Idempotency-Key", text));
    }
    let body = serde_json::to_vec(request).map_err(Error::internal)?;
    Ok(Some(Admission { key: key.clone(), digest: Sha256::digest(&body).into() }))
}

const MAX_KEY_BYTES: usize = 255;
