//! An agent on a free port of this machine, for as long as a test wants it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use chancery_protocol::Timestamp;
use chancery_store::{Clock, Store, StoreError, StoreLimits};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientError};
use crate::runtime::Runtime;
use crate::server::{BuildError, ServeError, Server, ServerBuilder};
use crate::spec::AgentSpec;

/// Serves an agent at the root of a free port of this machine, with a store in memory.
///
/// ```
/// # use chancery_sdk::testing::spawn;
/// # use chancery_sdk::{AgentSpec, Message, agent_fn};
/// # #[tokio::main]
/// # async fn main() -> Result<(), chancery_sdk::ClientError> {
/// let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
/// let echo = spawn(AgentSpec::new("echo", echo)).await;
/// assert_eq!(echo.client().await?.send("hello").await?.text(), "hello");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If the spec is no good, or nothing can be listened on. [`Spawn::spawn`] returns that as an error.
pub async fn spawn(spec: AgentSpec) -> Spawned {
    match Spawn::new(spec).spawn().await {
        Ok(spawned) => spawned,
        Err(error) => panic!("the agent cannot be served: {error}"),
    }
}

/// How an agent is served, where [`spawn`]'s way is not enough.
///
/// A task is forgotten a day after it has ended. With a clock of one's own, that is now:
///
/// ```
/// use chancery_sdk::testing::{Clock, Spawn};
/// use chancery_sdk::protocol::Timestamp;
/// use chancery_sdk::{AgentSpec, ErrorCode, Message, agent_fn};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
/// let clock = Clock::manual(Timestamp::now());
/// let echo = Spawn::new(AgentSpec::new("echo", echo)).clock(clock.clone()).spawn().await?;
/// let client = echo.client().await?;
///
/// let answer = client.send("remember this").await?;
/// let id = answer.task().map(|task| task.id.clone()).ok_or("no task")?;
/// clock.advance(Duration::from_secs(23 * 60 * 60));
/// echo.sweep().await;
/// assert_eq!(client.get(id.clone()).await?.id, id);
///
/// clock.advance(Duration::from_secs(2 * 60 * 60));
/// echo.sweep().await;
/// let gone = client.get(id).await.unwrap_err();
/// assert_eq!(gone.code(), Some(ErrorCode::TaskNotFound));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Spawn {
    spec: AgentSpec,
    store: Option<Arc<Store>>,
    clock: Option<Clock>,
    limits: StoreLimits,
    server: Box<dyn FnOnce(ServerBuilder) -> ServerBuilder + Send>,
}

/// An agent that is served. When it is dropped, the server stops: it takes no more connections and lets open calls
/// finish, for as long as [`ServerLimits::drain`](crate::ServerLimits) says. [`stop`](Self::stop) waits for that.
#[derive(Debug)]
pub struct Spawned {
    address: SocketAddr,
    url: String,
    store: Arc<Store>,
    runtime: Runtime,
    stopping: CancellationToken,
    server: Option<JoinHandle<()>>,
}

// === impl Spawn ===

impl Spawn {
    /// Serves this agent at the root.
    pub fn new(spec: AgentSpec) -> Self {
        let server = Box::new(|server: ServerBuilder| server);
        Self { spec, store: None, clock: None, limits: StoreLimits::default(), server }
    }

    /// Keeps tasks here, and goes by the clock of this store.
    pub fn store(mut self, store: Arc<Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Goes by this clock. Let a manual one start at [`Timestamp::now`](chancery_protocol::Timestamp::now) unless the
    /// date matters: what has ended long ago is forgotten.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How much is kept, and for how long.
    pub fn store_limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Changes how it is served: limits, who may call, further agents.
    pub fn server(mut self, change: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static) -> Self {
        let before = self.server;
        self.server = Box::new(move |server| change(before(server)));
        self
    }

    /// Serves it on a free port of this machine.
    pub async fn spawn(self) -> Result<Spawned, ServeError> {
        let name = self.spec.name().to_owned();
        let store = match (self.store, self.clock) {
            (Some(_), Some(_)) => {
                let problem = "a store has its own clock; give either `store` or `clock`".to_owned();
                return Err(BuildError { problems: vec![problem] }.into());
            }
            (Some(store), None) => store,
            (None, clock) => Arc::new(
                open(self.limits, clock.unwrap_or_default())
                    .map_err(|error| BuildError { problems: vec![error.to_string()] })?,
            ),
        };
        let builder = Server::builder().agent(self.spec).store(store.clone());
        let server = (self.server)(builder).bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, url) = (server.local_addr()?, server.url().to_owned());
        let runtime = server.runtime(&name);
        let runtime =
            runtime.ok_or_else(|| BuildError { problems: vec![format!("`{name}` is not served")] })?;
        let stopping = CancellationToken::new();
        let server = tokio::spawn(server.run_until(stopping.clone().cancelled_owned()));
        Ok(Spawned { address, url, store, runtime, stopping, server: Some(server) })
    }
}

fn open(limits: StoreLimits, clock: Clock) -> Result<Store, StoreError> {
    Store::open_with("memory:", limits, clock)
}

impl fmt::Debug for Spawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawn").field("spec", &self.spec).finish_non_exhaustive()
    }
}

// === impl Spawned ===

impl Spawned {
    /// Where the agent is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client with default settings. For others, [`Client::builder`] connects to [`url`](Self::url).
    pub async fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&self.url).await
    }

    /// The agent itself, without HTTP.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Where its tasks are kept.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What it goes by.
    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }

    /// Compacts and forgets what has outlived its time by the [`clock`](Self::clock). A server does so every few
    /// seconds; a test that has moved the clock does not want to wait for it.
    pub async fn sweep(&self) {
        let now: Timestamp = self.clock().now();
        self.store.sweep(now).await;
    }

    /// Takes no more connections, and waits until open calls have finished.
    ///
    /// # Panics
    ///
    /// If the server has panicked, so that the test fails too.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        let Some(server) = self.server.take() else { return };
        if let Err(error) = server.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}
