//! Calling agents, wherever they run.
//!
//! ```no_run
//! use chancery_sdk::{Client, ClientError};
//!
//! # async fn run() -> Result<(), ClientError> {
//! let client = Client::connect("http://127.0.0.1:8080").await?;
//! let answer = client.send("Hello").await?;
//! println!("{}", answer.text());
//! # Ok(())
//! # }
//! ```
//!
//! A call passes `unary` or `stream` (time, retries, resuming), a `wire` (`jsonrpc`, `rest`, `grpc`), `transport` (limits,
//! credentials, interceptors) and `connections`, which is hyper's client. `peer` decides which interface of the agent is called, from the
//! card that `discovery` keeps.

mod builder;
mod catch_up;
mod connections;
mod connector;
mod credentials;
mod discovery;
mod endpoint;
mod error;
mod faults;
mod feed;
mod freshness;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzed;
pub(crate) mod grpc;
mod intercept;
mod jsonrpc;
mod limit;
mod open;
mod origin;
mod overlap;
mod patience;
mod peer;
mod progress;
mod replied;
pub(crate) mod rest;
mod retry;
mod secrets;
mod settings;
pub(crate) mod sse;
mod stream;
mod transport;
mod unary;
mod watch;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chancery_protocol::{
    AgentCard, CancelTaskRequest, GetTaskRequest, ListTasksRequest, ListTasksResponse, Request,
    SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, Task, TaskId,
};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use discovery::Discovery;
use peer::Peer;
use settings::Settings;
use transport::Transport;

pub use builder::ClientBuilder;
pub use credentials::{Credentials, InvalidCredentials};
#[cfg(feature = "server")]
pub(crate) use discovery::{CardSeen, UNREACHABLE};
pub use error::ClientError;
pub(crate) use faults::{Fault, Faults};
pub(crate) use feed::Feed;
pub use intercept::Interceptor;
pub(crate) use peer::Interface;
pub(crate) use replied::{Replied, StreamEvent};
pub use stream::Events;
pub(crate) use transport::{Outgoing, bare_status, is_of_type, wrong_type};
pub(crate) use unary::Options;
pub(crate) use watch::Watch;

/// An agent somewhere else. Cloning one is cheap, and all clones share connections and limits.
///
/// A connection is driven by the tokio runtime in which it was made, and shared by all: call from runtimes that keep running.
///
/// It is an [`Endpoint`](chancery_protocol::Endpoint), so whatever takes an agent of one's own takes this one too.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    settings: Arc<Settings>,
    transport: Transport,
    discovery: Discovery,
    next_id: AtomicU64,
    /// Places for open streams.
    streams: Arc<Semaphore>,
    /// Whether the last answer to a call was that nobody knows who makes it.
    is_refused: AtomicBool,
    faults: Arc<Faults>,
}

impl Client {
    /// Finds the agent at this URL, or whose card is at this URL, with default settings.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, ClientError> {
        Self::builder().connect(url).await
    }

    /// Starts with default settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    async fn open(settings: Arc<Settings>, url: &str) -> Result<Self, ClientError> {
        let client = Self::unopened(settings, url)?;
        client.peer().await?;
        Ok(client)
    }

    fn unopened(settings: Arc<Settings>, url: &str) -> Result<Self, ClientError> {
        let (discovery, named) = Discovery::new(url)?;
        let transport = Transport::new(settings.clone(), named);
        let streams = Arc::new(Semaphore::new(settings.streams));
        let next_id = AtomicU64::new(1);
        let is_refused = AtomicBool::new(false);
        let faults = Arc::new(Faults::of(
            settings.log_name.clone().unwrap_or_else(|| discovery.url()),
            settings.clone(),
        ));
        Ok(Self(Arc::new(Inner { settings, transport, discovery, next_id, streams, is_refused, faults })))
    }

    /// Whom to tell what the peer does wrong.
    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Whether the peer answered the last call by asking for a credential, or another one (HTTP 401).
    pub fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }

    /// Says something and waits for the answer: a text, a message, or a whole request.
    pub async fn send(
        &self,
        what: impl Into<SendMessageRequest>,
    ) -> Result<SendMessageResponse, ClientError> {
        self.ask(Request::SendMessage(Box::new(what.into())), Options::default()).await
    }

    /// Says something and watches the answer being made.
    pub async fn stream(&self, what: impl Into<SendMessageRequest>) -> Result<Events, ClientError> {
        self.watch(Request::SendStreamingMessage(Box::new(what.into())), Options::default()).await
    }

    /// Watches a task.
    pub async fn subscribe(&self, id: impl Into<TaskId>) -> Result<Events, ClientError> {
        let request = SubscribeToTaskRequest { tenant: String::new(), id: id.into() };
        self.watch(Request::SubscribeToTask(request), Options::default()).await
    }

    /// Watches a task from after an event on, if the agent numbers its events; from how it stands now, if not.
    pub async fn resume(&self, id: impl Into<TaskId>, last_event: u64) -> Result<Events, ClientError> {
        let request = SubscribeToTaskRequest { tenant: String::new(), id: id.into() };
        let mut options = Options::default();
        options.terms.last_event = Some(last_event);
        self.watch(Request::SubscribeToTask(request), options).await
    }

    /// Looks at a task.
    pub async fn get(&self, id: impl Into<TaskId>) -> Result<Task, ClientError> {
        let request = GetTaskRequest { tenant: String::new(), id: id.into(), history_length: None };
        self.ask(Request::GetTask(request), Options::default()).await
    }

    /// Looks at a task as the request says.
    pub async fn get_with(&self, request: GetTaskRequest) -> Result<Task, ClientError> {
        self.ask(Request::GetTask(request), Options::default()).await
    }

    /// Looks at a page of one's tasks.
    pub async fn list(&self, filter: ListTasksRequest) -> Result<ListTasksResponse, ClientError> {
        self.ask(Request::ListTasks(Box::new(filter)), Options::default()).await
    }

    /// Stops a task.
    pub async fn cancel(&self, id: impl Into<TaskId>) -> Result<Task, ClientError> {
        let request = CancelTaskRequest { tenant: String::new(), id: id.into(), metadata: None };
        self.ask(Request::CancelTask(request), Options::default()).await
    }

    /// The agent's card: the known one for as long as it is fresh, and asked for again then.
    pub async fn card(&self) -> Result<Arc<AgentCard>, ClientError> {
        self.0.discovery.card(&self.0.transport, &self.0.settings).await
    }

    /// The agent's card, asked for again now. Calls follow what it says.
    pub async fn refresh_card(&self) -> Result<Arc<AgentCard>, ClientError> {
        self.0.discovery.refresh(&self.0.transport, &self.0.settings).await
    }

    /// The last good card that the agent has shown, without asking again.
    pub fn known_card(&self) -> Option<Arc<AgentCard>> {
        self.0.discovery.seen().borrow().card.clone()
    }

    /// The name of the key that the agent's card is signed with, as [`ClientBuilder::check_card`] has it; none if it has no
    /// signature or nobody has looked.
    pub fn card_key(&self) -> Option<String> {
        self.0.discovery.seen().borrow().key.clone()
    }

    /// Asks for a path of the host that [`connect`](Self::connect) named, as those do who want to know whether a service is
    /// well. Gives the status of the answer. How long that may take is the caller's to say.
    pub async fn probe(&self, path: &str) -> Result<http::StatusCode, ClientError> {
        self.0.discovery.probe(&self.0.transport, path).await
    }

    /// Where the agent is, as [`connect`](Self::connect) was told.
    pub fn url(&self) -> String {
        self.0.discovery.url()
    }

    /// What has been seen of the card, now and from now on.
    #[cfg(feature = "server")]
    pub(crate) fn card_seen(&self) -> tokio::sync::watch::Receiver<CardSeen> {
        self.0.discovery.seen()
    }

    /// Whether both are clones of one.
    #[cfg(feature = "server")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn transport(&self) -> &Transport {
        &self.0.transport
    }

    /// Where and how to call, if nobody has to be asked for it.
    pub(crate) fn known_peer(&self, now: Instant) -> Option<Arc<Peer>> {
        self.0.discovery.known_peer(now.into_std())
    }

    pub(crate) async fn peer(&self) -> Result<Arc<Peer>, ClientError> {
        self.0.discovery.peer(&self.0.transport, &self.0.settings).await
    }

    fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("discovery", &self.0.discovery)
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}
