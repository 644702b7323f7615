//! One call, whatever the wire was, and the trait of everything that answers one.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_core::Stream;
use serde::Serialize;

use crate::caller::{Identity, Principal};
use crate::card::AgentCard;
use crate::error::{Error, ErrorCode};
use crate::event::Event;
use crate::hop::{Hold, HopId};
use crate::id::TaskId;
use crate::operation::Operation;
use crate::peer::PeerWatch;
use crate::push::TaskPushNotificationConfig;
use crate::queued::Queued;
use crate::request::{
    CancelTaskRequest, GetExtendedAgentCardRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, PushNotificationConfigRequest,
    SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, TaskPage,
};
use crate::task::TaskView;
use crate::version::Version;
use crate::write::write_json;

/// What is known about a call besides its request. Bindings fill it; agents and gates read it.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Who is calling.
    pub principal: Principal,
    /// What else was proven about the caller.
    pub identity: Arc<Identity>,
    /// Where the call comes from, if it came over a network.
    pub source: Option<IpAddr>,
    /// The agent that is called.
    pub agent: Arc<str>,
    /// The skill that the path of the call stands for, if it stands for one.
    pub skill: Option<Arc<str>>,
    /// The protocol version that the caller speaks.
    pub version: Version,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// The extensions that the caller activates.
    pub extensions: Vec<String>,
    /// Makes a repeated send join the first one.
    pub idempotency_key: Option<String>,
    /// The id that a new task gets, where the version that the caller speaks lets the caller name it; none for a fresh
    /// one. A name that is taken is refused.
    pub new_task: Option<TaskId>,
    /// The settled call whose task waited for its client and goes on without a message: it is paid for by the same payer, and
    /// under the same root. Set by the runtime alone.
    pub continues: Option<HopId>,
    /// The last event that a returning subscriber has seen.
    pub last_event: Option<u64>,
    /// The W3C trace that the call belongs to; for observation only.
    pub traceparent: Option<String>,
    /// What the request says about itself, for logs alone.
    pub labels: Option<Arc<RequestLabels>>,
    /// The proof of descent that came in a header, as it came.
    pub lineage: Option<String>,
    /// The most that the caller wants this call to cost, in millionths of a US dollar.
    pub ceiling_micro_usd: Option<u64>,
    /// The member of a pool that the call goes to, if that has been chosen.
    pub peer: Option<Arc<str>>,
    /// What the gates gave to the call; none if no gates stand in front.
    pub hold: Option<Arc<dyn Hold>>,
    /// Who wants to hear how that peer does.
    pub peer_watch: Option<Arc<dyn PeerWatch>>,
}

/// What a request says about itself in its headers. Anybody may say anything, so nothing is decided by it: it is there
/// to be found again in logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestLabels {
    /// What the caller calls the request (`X-Request-ID`).
    pub request_id: Option<Box<str>>,
    /// What the caller calls itself (`X-Agent-ID`).
    pub agent_id: Option<Box<str>>,
}

/// A request together with what is known about it.
#[derive(Clone, Debug)]
pub struct Call<R = Request> {
    /// What is asked.
    pub request: R,
    /// By whom, and how. On the heap, like the request that is large: a call changes hands a dozen times.
    pub context: Box<CallContext>,
}

/// The request of any operation. What is large is on the heap: most calls are messages, and each is moved a few times.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each variant is the operation of the same name")]
pub enum Request {
    SendMessage(Box<SendMessageRequest>),
    SendStreamingMessage(Box<SendMessageRequest>),
    GetTask(GetTaskRequest),
    ListTasks(Box<ListTasksRequest>),
    CancelTask(CancelTaskRequest),
    SubscribeToTask(SubscribeToTaskRequest),
    CreateTaskPushNotificationConfig(Box<TaskPushNotificationConfig>),
    GetTaskPushNotificationConfig(PushNotificationConfigRequest),
    ListTaskPushNotificationConfigs(ListTaskPushNotificationConfigsRequest),
    DeleteTaskPushNotificationConfig(PushNotificationConfigRequest),
    GetExtendedAgentCard(GetExtendedAgentCardRequest),
}

/// The answer of any operation.
pub enum Reply {
    /// To SendMessage.
    Sent(SendMessageResponse<TaskView>),
    /// To SendStreamingMessage and SubscribeToTask.
    Stream(EventStream),
    /// To GetTask and CancelTask.
    Task(TaskView),
    /// To ListTasks.
    Tasks(TaskPage),
    /// To the creation or look-up of a push notification configuration.
    PushConfig(TaskPushNotificationConfig),
    /// To the listing of push notification configurations.
    PushConfigs(ListTaskPushNotificationConfigsResponse),
    /// To GetExtendedAgentCard.
    Card(Arc<AgentCard>),
    /// Done, and nothing to say: `{}`.
    Empty,
}

/// The events of a stream, in order. An error ends it.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>>;

/// A future on the heap, for traits that must be objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Puts a future on the heap without copying it there. [`Box::pin`] gets it ready made, and copies all the room that it will
/// ever need; one that is made when its place is there is made in that place.
pub fn box_future<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($request:ty) -> $reply:ty, $default:ident;)*) => {
        /// Anything that answers A2A calls: a runtime with an agent in it, a client to a remote one, a pipeline
        /// of gates in front of either. What an endpoint does not do answers with the protocol's own error.
        pub trait Endpoint: Send + Sync + 'static {
            $(
                $(#[$doc])*
                fn $name(&self, call: Call<$request>) -> impl Future<Output = Result<$reply, Error>> + Send {
                    drop(call);
                    std::future::ready(Err(Error::new(ErrorCode::$default)))
                }
            )*

            /// Any of the above, by what the request is.
            fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
                dispatch(self, call)
            }

            /// Whether it can have the tasks of messages that are not let through yet. Not unless it says so: then such a
            /// message waits before it comes here.
            fn has_queue(&self) -> bool {
                false
            }

            /// Opens the task of a message that is not let through yet, and works on it once it is. A message that is not
            /// let through in the end ends its task as REJECTED.
            fn enqueue(&self, queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
                drop(queued);
                Box::pin(std::future::ready(Err(Error::new(ErrorCode::UnsupportedOperation))))
            }
        }
    };
}

operations! {
    /// Says something and waits for the outcome.
    send_message(Box<SendMessageRequest>) -> SendMessageResponse<TaskView>, UnsupportedOperation;
    /// Says something and streams what comes of it.
    send_streaming_message(Box<SendMessageRequest>) -> EventStream, UnsupportedOperation;
    /// Looks at a task.
    get_task(GetTaskRequest) -> TaskView, UnsupportedOperation;
    /// Looks at the caller's tasks.
    list_tasks(ListTasksRequest) -> TaskPage, UnsupportedOperation;
    /// Stops a task.
    cancel_task(CancelTaskRequest) -> TaskView, UnsupportedOperation;
    /// Watches a task.
    subscribe_to_task(SubscribeToTaskRequest) -> EventStream, UnsupportedOperation;
    /// Registers a receiver of notifications.
    create_push_config(TaskPushNotificationConfig) -> TaskPushNotificationConfig, PushNotificationNotSupported;
    /// Looks at such a registration.
    get_push_config(PushNotificationConfigRequest) -> TaskPushNotificationConfig, PushNotificationNotSupported;
    /// Looks at all such registrations of a task.
    list_push_configs(ListTaskPushNotificationConfigsRequest) -> ListTaskPushNotificationConfigsResponse, PushNotificationNotSupported;
    /// Ends such a registration.
    delete_push_config(PushNotificationConfigRequest) -> (), PushNotificationNotSupported;
    /// The card for callers who are known.
    extended_card(GetExtendedAgentCardRequest) -> Arc<AgentCard>, UnsupportedOperation;
}

/// Each operation in a future of its own: what one of them needs, the others do not carry around.
fn dispatch<E: Endpoint + ?Sized>(endpoint: &E, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
    let Call { request, context } = call;
    macro_rules! to {
        ($method:ident($request:expr), $reply:expr) => {{
            box_future(
                || async move { endpoint.$method(Call { request: $request, context }).await.map($reply) },
            )
        }};
    }
    match request {
        Request::SendMessage(request) => to!(send_message(request), Reply::Sent),
        Request::SendStreamingMessage(request) => to!(send_streaming_message(request), Reply::Stream),
        Request::GetTask(request) => to!(get_task(request), Reply::Task),
        Request::ListTasks(request) => to!(list_tasks(*request), Reply::Tasks),
        Request::CancelTask(request) => to!(cancel_task(request), Reply::Task),
        Request::SubscribeToTask(request) => to!(subscribe_to_task(request), Reply::Stream),
        Request::CreateTaskPushNotificationConfig(request) => {
            to!(create_push_config(*request), Reply::PushConfig)
        }
        Request::GetTaskPushNotificationConfig(request) => to!(get_push_config(request), Reply::PushConfig),
        Request::ListTaskPushNotificationConfigs(request) => {
            to!(list_push_configs(request), Reply::PushConfigs)
        }
        Request::DeleteTaskPushNotificationConfig(request) => {
            to!(delete_push_config(request), |()| Reply::Empty)
        }
        Request::GetExtendedAgentCard(request) => to!(extended_card(request), Reply::Card),
    }
}

/// An [`Endpoint`] as an object, so that different ones can be mounted side by side.
pub trait DynEndpoint: Send + Sync + 'static {
    /// Answers a call.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>>;

    /// See [`Endpoint::has_queue`].
    fn has_queue(&self) -> bool {
        false
    }

    /// See [`Endpoint::enqueue`].
    fn enqueue(&self, queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
        drop(queued);
        Box::pin(std::future::ready(Err(Error::new(ErrorCode::UnsupportedOperation))))
    }
}

impl<E: Endpoint> DynEndpoint for E {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        Endpoint::call(self, call)
    }

    fn has_queue(&self) -> bool {
        Endpoint::has_queue(self)
    }

    fn enqueue(&self, queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
        Endpoint::enqueue(self, queued)
    }
}

// === impl RequestLabels ===

impl RequestLabels {
    /// How long a label may be, in bytes; a longer one is none.
    pub const LONGEST: usize = 128;

    /// Labels by the values of their headers, as far as they are visible ASCII; none if there is none.
    pub fn of(request_id: Option<&str>, agent_id: Option<&str>) -> Option<Arc<Self>> {
        let label = |text: &str| {
            let is_plain = !text.is_empty()
                && text.len() <= Self::LONGEST
                && text.bytes().all(|byte| byte.is_ascii_graphic());
            is_plain.then(|| text.into())
        };
        let labels = Self { request_id: request_id.and_then(label), agent_id: agent_id.and_then(label) };
        (labels != Self::default()).then(|| Arc::new(labels))
    }
}

// === impl CallContext ===

impl CallContext {
    /// A call of a principal to an agent, in v1.0, with nothing special about it.
    pub fn new(principal: Principal, agent: Arc<str>) -> Box<Self> {
        Box::new(Self {
            principal,
            identity: Identity::anonymous(),
            source: None,
            agent,
            skill: None,
            version: Version::V1_0,
            deadline: None,
            extensions: Vec::new(),
            idempotency_key: None,
            new_task: None,
            continues: None,
            last_event: None,
            traceparent: None,
            labels: None,
            lineage: None,
            ceiling_micro_usd: None,
            peer: None,
            hold: None,
            peer_watch: None,
        })
    }
}

// === impl Request ===

impl Request {
    /// Reads the parameters of an operation.
    pub fn decode(operation: Operation, params: &[u8]) -> Result<Self, Error> {
        use crate::decode::decode_params as read;
        Ok(match operation {
            Operation::SendMessage => Self::SendMessage(read(params)?),
            Operation::SendStreamingMessage => Self::SendStreamingMessage(read(params)?),
            Operation::GetTask => Self::GetTask(read(params)?),
            Operation::ListTasks => Self::ListTasks(read(params)?),
            Operation::CancelTask => Self::CancelTask(read(params)?),
            Operation::SubscribeToTask => Self::SubscribeToTask(read(params)?),
            Operation::CreateTaskPushNotificationConfig => {
                Self::CreateTaskPushNotificationConfig(read(params)?)
            }
            Operation::GetTaskPushNotificationConfig => Self::GetTaskPushNotificationConfig(read(params)?),
            Operation::ListTaskPushNotificationConfigs => {
                Self::ListTaskPushNotificationConfigs(read(params)?)
            }
            Operation::DeleteTaskPushNotificationConfig => {
                Self::DeleteTaskPushNotificationConfig(read(params)?)
            }
            Operation::GetExtendedAgentCard => Self::GetExtendedAgentCard(read(params)?),
        })
    }

    /// Appends its parameters as JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::SendMessage(request) | Self::SendStreamingMessage(request) => write(out, request),
            Self::GetTask(request) => write(out, request),
            Self::ListTasks(request) => write(out, request),
            Self::CancelTask(request) => write(out, request),
            Self::SubscribeToTask(request) => write(out, request),
            Self::CreateTaskPushNotificationConfig(request) => write(out, request),
            Self::GetTaskPushNotificationConfig(request)
            | Self::DeleteTaskPushNotificationConfig(request) => write(out, request),
            Self::ListTaskPushNotificationConfigs(request) => write(out, request),
            Self::GetExtendedAgentCard(request) => write(out, request),
        }
    }

    /// The operation it is for.
    pub fn operation(&self) -> Operation {
        match self {
            Self::SendMessage(_) => Operation::SendMessage,
            Self::SendStreamingMessage(_) => Operation::SendStreamingMessage,
            Self::GetTask(_) => Operation::GetTask,
            Self::ListTasks(_) => Operation::ListTasks,
            Self::CancelTask(_) => Operation::CancelTask,
            Self::SubscribeToTask(_) => Operation::SubscribeToTask,
            Self::CreateTaskPushNotificationConfig(_) => Operation::CreateTaskPushNotificationConfig,
            Self::GetTaskPushNotificationConfig(_) => Operation::GetTaskPushNotificationConfig,
            Self::ListTaskPushNotificationConfigs(_) => Operation::ListTaskPushNotificationConfigs,
            Self::DeleteTaskPushNotificationConfig(_) => Operation::DeleteTaskPushNotificationConfig,
            Self::GetExtendedAgentCard(_) => Operation::GetExtendedAgentCard,
        }
    }

    /// How many messages of history the answer is to have at most, if the request says.
    pub fn history_length(&self) -> Option<i32> {
        match self {
            Self::SendMessage(request) | Self::SendStreamingMessage(request) => {
                request.configuration.as_ref()?.history_length
            }
            Self::GetTask(request) => request.history_length,
            Self::ListTasks(request) => request.history_length,
            _ => None,
        }
    }

    /// The task that the request is about, if it is about one that exists.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::SendMessage(request) | Self::SendStreamingMessage(request) => {
                request.message.task_id.as_ref()
            }
            Self::GetTask(request) => Some(&request.id),
            Self::CancelTask(request) => Some(&request.id),
            Self::SubscribeToTask(request) => Some(&request.id),
            Self::CreateTaskPushNotificationConfig(request) => request.task_id.as_ref(),
            Self::GetTaskPushNotificationConfig(request)
            | Self::DeleteTaskPushNotificationConfig(request) => Some(&request.task_id),
            Self::ListTaskPushNotificationConfigs(request) => Some(&request.task_id),
            Self::ListTasks(_) | Self::GetExtendedAgentCard(_) => None,
        }
    }

    /// The routing key that the request names, wherever it stands.
    pub fn tenant_mut(&mut self) -> &mut String {
        match self {
            Self::SendMessage(request) | Self::SendStreamingMessage(request) => &mut request.tenant,
            Self::GetTask(request) => &mut request.tenant,
            Self::ListTasks(request) => &mut request.tenant,
            Self::CancelTask(request) => &mut request.tenant,
            Self::SubscribeToTask(request) => &mut request.tenant,
            Self::CreateTaskPushNotificationConfig(request) => &mut request.tenant,
            Self::GetTaskPushNotificationConfig(request)
            | Self::DeleteTaskPushNotificationConfig(request) => &mut request.tenant,
            Self::ListTaskPushNotificationConfigs(request) => &mut request.tenant,
            Self::GetExtendedAgentCard(request) => &mut request.tenant,
        }
    }
}

// === impl Reply ===

impl Reply {
    /// Appends the answer's JSON: JSON-RPC's `result` and the body of HTTP+JSON. Streams have none.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Sent(SendMessageResponse::Task(task)) => {
                out.extend_from_slice(br#"{"task":"#);
                task.write_json(out)?;
                out.push(b'}');
                Ok(())
            }
            Self::Sent(sent) => write(out, sent),
            Self::Task(task) => task.write_json(out),
            Self::Tasks(page) => write(out, page),
            Self::PushConfig(config) => write(out, config),
            Self::PushConfigs(configs) => write(out, configs),
            Self::Card(card) => write(out, &**card),
            Self::Empty | Self::Stream(_) => write(out, &serde_json::Map::new()),
        }
    }
}

fn write<T: Serialize>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}
