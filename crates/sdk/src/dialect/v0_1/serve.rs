//! The half of the server: what a caller of v0.1 asks of a task that it has named itself.

use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{
    Call, CallContext, CancelTaskRequest, DynEndpoint, Error, ErrorCode, GetTaskRequest, JsonObject, Message,
    MessageId, PushNotificationConfigRequest, Reply, Request, Role, SendMessageRequest, SendMessageResponse,
    SubscribeToTaskRequest, Task, TaskId, TaskPushNotificationConfig, TaskView, write_json,
};
use futures_util::stream;
use serde::Serialize;

use super::model::{Older, OlderConfig, answered};
use super::telling::Telling;
use super::{name, ruvector};

/// A caller, and the task that it speaks of.
struct Asked<'a, E: ?Sized> {
    endpoint: &'a E,
    context: Box<CallContext>,
    /// What the caller calls it.
    name: TaskId,
    /// What we make of that.
    ours: TaskId,
    /// The task, if the caller has begun one of this name.
    known: Option<Arc<Task>>,
}

/// What is known when a message is to be said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    /// Nothing.
    First,
    /// That it is not what has been said before.
    Second,
}

/// Has a call answered, under the name that the caller has for the task. The events of a stream are written already:
/// only here is that name known.
pub(crate) async fn answer<E: DynEndpoint + ?Sized>(endpoint: &E, call: Call) -> Result<Reply, Error> {
    let Call { request, context } = call;
    let named = named_task(&request).cloned().ok_or(ErrorCode::UnsupportedOperation)?;
    let mut asked = Asked::new(endpoint, context, named)?;
    asked.known = asked.find().await?;
    let reply = match request {
        Request::SendMessage(said) => asked.say(said, false).await,
        Request::SendStreamingMessage(said) => asked.say(said, true).await,
        Request::GetTask(get) => asked.get(get.history_length.unwrap_or_default()).await,
        Request::CancelTask(cancel) => asked.cancel(cancel.metadata).await,
        Request::SubscribeToTask(_) => asked.watch().await,
        Request::CreateTaskPushNotificationConfig(config) => asked.notify(*config).await,
        Request::GetTaskPushNotificationConfig(_) => asked.notified().await,
        _ => Err(ErrorCode::UnsupportedOperation.into()),
    };
    reply.map_err(|error| asked.named(error))
}

/// Whether a call that may be of this version or the next speaks of a task that was begun in this one.
pub(crate) async fn is_of_this<E: DynEndpoint + ?Sized>(
    endpoint: &E,
    request: &Request,
    context: &CallContext,
) -> bool {
    let Some(named) = named_task(request).cloned() else { return false };
    match Asked::new(endpoint, Box::new(context.clone()), named) {
        Ok(asked) => matches!(asked.find().await, Ok(Some(_))),
        Err(_) => false,
    }
}

/// The task that a request names, if v0.1 has such a request.
fn named_task(request: &Request) -> Option<&TaskId> {
    match request {
        Request::SendMessage(said) | Request::SendStreamingMessage(said) => said.message.task_id.as_ref(),
        Request::GetTask(request) => Some(&request.id),
        Request::CancelTask(request) => Some(&request.id),
        Request::SubscribeToTask(request) => Some(&request.id),
        Request::CreateTaskPushNotificationConfig(config) => config.task_id.as_ref(),
        Request::GetTaskPushNotificationConfig(request) => Some(&request.task_id),
        _ => None,
    }
}

impl<'a, E: DynEndpoint + ?Sized> Asked<'a, E> {
    fn new(endpoint: &'a E, context: Box<CallContext>, name: TaskId) -> Result<Self, Error> {
        let ours = name::ours(&context, &name)?;
        Ok(Self { endpoint, context, name, ours, known: None })
    }

    /// The id of the task. A relay keeps that of the agent there.
    fn id(&self) -> TaskId {
        self.known.as_ref().map_or(&self.ours, |task| &task.id).clone()
    }

    async fn call(&self, request: Request) -> Result<Reply, Error> {
        self.endpoint.call(Call { request, context: self.context.clone() }).await
    }

    /// The task, if this caller has begun one of this name.
    async fn find(&self) -> Result<Option<Arc<Task>>, Error> {
        let get = GetTaskRequest { tenant: String::new(), id: self.ours.clone(), history_length: None };
        let mut context = self.context.clone();
        context.new_task = Some(self.ours.clone());
        context.idempotency_key = Some(name::key(&self.ours));
        match self.endpoint.call(Call { request: Request::GetTask(get), context }).await {
            Ok(Reply::Task(view)) => view.task.value().map(Some),
            Ok(_) => Err(ErrorCode::InvalidAgentResponse.into()),
            Err(error) if error.code() == ErrorCode::TaskNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn found(&self) -> Result<Arc<Task>, Error> {
        self.known.clone().ok_or_else(|| Error::task_not_found(&self.name))
    }

    // === messages ===

    /// A message of an unknown name begins a task, one of a known name continues it. Of two that begin the same one at
    /// once, the later is told that the name is taken, and goes on from there.
    async fn say(&self, mut said: Box<SendMessageRequest>, streaming: bool) -> Result<Reply, Error> {
        let configuration = said.configuration.get_or_insert_default();
        let history_length = configuration.history_length.take().unwrap_or_default();
        if history_length < 0 {
            return Err(Error::invalid_field("historyLength", "must not be negative"));
        }
        let reply = match self.say_to(self.known.as_deref(), said.clone(), streaming, Try::First).await {
            Err(error) if is_taken(&error) => {
                let known = self.find().await?;
                self.say_to(known.as_deref(), said.clone(), streaming, Try::Second).await?
            }
            reply => reply?,
        };
        match reply {
            Reply::Sent(SendMessageResponse::Task(view)) => self.shown(view, history_length),
            Reply::Sent(SendMessageResponse::Message(message)) => {
                let task = answered(self.name.clone(), said.message.context_id, message);
                self.shown(TaskView::whole(task), 0)
            }
            Reply::Stream(events) => {
                let to_ruvector = said.message.metadata.as_ref().is_some_and(ruvector::is_spoken);
                let telling = Telling::of_answer(self.name.clone(), self.known.clone(), to_ruvector);
                Ok(Reply::Stream(telling.of(events)))
            }
            _ => Err(ErrorCode::InvalidAgentResponse.into()),
        }
    }

    async fn say_to(
        &self,
        known: Option<&Task>,
        mut said: Box<SendMessageRequest>,
        streaming: bool,
        attempt: Try,
    ) -> Result<Reply, Error> {
        let mut context = self.context.clone();
        match known {
            Some(task) if attempt == Try::Second || !repeats(task, &said.message) => {
                said.message.task_id = Some(task.id.clone());
                said.message.message_id = MessageId::generate();
            }
            // It begins the task; or it did already, and joins what came of it.
            _ => {
                said.message.task_id = None;
                context.new_task = Some(self.ours.clone());
                // A key may be remembered for longer than its task.
                context.idempotency_key = (attempt == Try::First).then(|| name::key(&self.ours));
            }
        }
        let request =
            if streaming { Request::SendStreamingMessage(said) } else { Request::SendMessage(said) };
        self.endpoint.call(Call { request, context }).await
    }

    // === tasks ===

    async fn get(&self, history_length: i32) -> Result<Reply, Error> {
        if history_length < 0 {
            return Err(Error::invalid_field("historyLength", "must not be negative"));
        }
        self.shown(TaskView::whole(self.found()?), history_length)
    }

    async fn cancel(&self, metadata: Option<JsonObject>) -> Result<Reply, Error> {
        let cancel = CancelTaskRequest { tenant: String::new(), id: self.id(), metadata };
        match self.call(Request::CancelTask(cancel)).await? {
            Reply::Task(view) => self.shown(view, 0),
            _ => Err(ErrorCode::InvalidAgentResponse.into()),
        }
    }

    /// Watches a task. Of one that has ended there is how it ended to be told.
    async fn watch(&self) -> Result<Reply, Error> {
        let task = self.found()?;
        let telling = Telling::of_watching(self.name.clone(), &task);
        let subscribe = SubscribeToTaskRequest { tenant: String::new(), id: self.id() };
        match self.call(Request::SubscribeToTask(subscribe)).await {
            Ok(Reply::Stream(events)) => Ok(Reply::Stream(telling.of(events))),
            Ok(_) => Err(ErrorCode::InvalidAgentResponse.into()),
            Err(refusal) if refusal.code() == ErrorCode::UnsupportedOperation => {
                // It may have ended since.
                let Some(task) = self.find().await? else { return Err(refusal) };
                if !task.status.state.is_terminal() {
                    return Err(refusal);
                }
                let mut telling = telling;
                let told = telling.task(Arc::unwrap_or_clone(task), 0)?;
                Ok(Reply::Stream(Box::pin(stream::iter(told.into_iter().map(Ok)))))
            }
            Err(error) => Err(error),
        }
    }

    /// As much of a task as is asked for, under the caller's name for it.
    fn shown(&self, view: TaskView, history_length: i32) -> Result<Reply, Error> {
        let mut task = view.into_task()?;
        if ruvector::began(&task) {
            ruvector::older_task(&mut task);
        }
        let hidden = task.history.len().saturating_sub(usize::try_from(history_length).unwrap_or_default());
        task.history.drain(..hidden);
        task.id = self.name.clone();
        Ok(Reply::Task(TaskView::whole(task)))
    }

    // === notifications ===

    /// A task has one configuration, so a new one takes the place of the old. It is kept under the caller's name for the
    /// task, by which its receiver will hear of it.
    async fn notify(&self, config: TaskPushNotificationConfig) -> Result<Reply, Error> {
        let id = Some(self.name.as_str().into());
        let config = TaskPushNotificationConfig { id, task_id: Some(self.id()), ..config };
        self.receiver(self.call(Request::CreateTaskPushNotificationConfig(Box::new(config))).await)
    }

    async fn notified(&self) -> Result<Reply, Error> {
        let request = PushNotificationConfigRequest {
            tenant: String::new(),
            task_id: self.id(),
            id: self.name.as_str().into(),
        };
        self.receiver(self.call(Request::GetTaskPushNotificationConfig(request)).await)
    }

    fn receiver(&self, reply: Result<Reply, Error>) -> Result<Reply, Error> {
        match reply? {
            Reply::PushConfig(config) => {
                let task_id = Some(self.name.clone());
                Ok(Reply::PushConfig(TaskPushNotificationConfig { task_id, ..config }))
            }
            _ => Err(ErrorCode::InvalidAgentResponse.into()),
        }
    }

    /// An error that speaks of the task by the name that the caller has for it. What is not supported is so because of
    /// the task, unless it says why.
    fn named(&self, error: Error) -> Error {
        let error = error.renamed(self.id().as_str(), self.name.as_str());
        let has_reason = ["capability", "taskId"].iter().any(|known| error.fact(known).is_some());
        if error.code() == ErrorCode::UnsupportedOperation && !has_reason {
            return error.about("taskId", self.name.as_str());
        }
        error
    }
}

/// Whether the name, or its key, turned out to be taken although no task of that name was found.
fn is_taken(error: &Error) -> bool {
    error.code() == ErrorCode::TaskNotFound
        || matches!(error.reason(), "IDEMPOTENCY_KEY_REUSED" | "TASK_EXISTS")
}

/// Whether a message is the one that the task was begun with, sent again: clients of v0.1 have nothing but the id of the
/// task to say so with. While the agent waits for an answer, it is one.
fn repeats(task: &Task, message: &Message) -> bool {
    let last = task.history.iter().rev().find(|said| said.role == Role::User);
    !task.status.state.is_interrupted() && last.is_some_and(|last| last.message_id == message.message_id)
}

/// Appends a reply. Streams have none.
pub(crate) fn write_reply(reply: &Reply, out: &mut Vec<u8>) -> Result<(), Error> {
    match reply {
        Reply::Task(view) => {
            let task = view.task.value()?;
            write(out, &Older(&*task))
        }
        Reply::PushConfig(config) => write(out, &OlderConfig(config)),
        _ => Err(ErrorCode::InvalidAgentResponse.into()),
    }
}

/// A notification: the task, whatever happened to it, under the name that its receiver was registered with.
pub(crate) fn notification(config: &TaskPushNotificationConfig, task: &Task) -> Result<Bytes, Error> {
    let mut task = task.clone();
    if let Some(name) = &config.id {
        task.id = TaskId::from(name.as_str());
    }
    if ruvector::began(&task) {
        ruvector::older_task(&mut task);
    }
    task.history.clear();
    let mut json = Vec::with_capacity(512);
    write(&mut json, &Older(&task))?;
    Ok(json.into())
}

/// The code that v0.1 has for an error. Some of its codes mean something else in v1.0; what it has none for gets the
/// nearest.
pub(crate) fn error_code(error: &Error) -> i32 {
    match error.code() {
        ErrorCode::UnsupportedOperation if error.fact("capability") == Some("streaming") => -32006,
        ErrorCode::UnsupportedOperation if error.fact("taskId").is_some() => -32009,
        ErrorCode::VersionNotSupported | ErrorCode::ExtendedAgentCardNotConfigured => {
            ErrorCode::UnsupportedOperation.row().jsonrpc
        }
        ErrorCode::ExtensionSupportRequired => ErrorCode::InvalidRequest.row().jsonrpc,
        ErrorCode::InvalidAgentResponse => ErrorCode::Internal.row().jsonrpc,
        ErrorCode::Unauthenticated => -32007,
        ErrorCode::PermissionDenied => -32008,
        ErrorCode::ResourceExhausted => -32010,
        ErrorCode::Unavailable => -32011,
        code => code.row().jsonrpc,
    }
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}
