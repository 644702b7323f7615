//! An agent elsewhere, served as one of ours: by every binding and version that is served here, whatever it speaks
//! itself.
//!
//! ```no_run
//! use chancery_sdk::{Relay, Server};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let weather = Relay::connect("https://weather.example").await?;
//! Server::builder().fleet_relay(weather).bind("127.0.0.1:8080").await?.run().await;
//! # Ok(())
//! # }
//! ```
//!
//! What the agent does is written into our own journal before anybody sees it. So its tasks can be watched and resumed
//! here even if it cannot do that itself, they belong to who began them here, and a restart goes on where it was.
//!
//! | file | holds |
//! |---|---|
//! | `send` | a message on its way there, and what is made of the answer |
//! | `stream` | the same, where the answer is a stream |
//! | `absent` | agents that may not be there yet |
//! | `card` | the card that is shown, and where it comes from |
//! | `keep` | a task as it came, written into the journal |
//! | `queued` | messages that are not let through yet |
//! | `peers` | the agents behind a relay, and which one has a task |
//! | `follow/` | a task that goes on there, followed until it ends |
//! | `line` | who writes, where the same thing could be heard twice |
//! | `delta` | what is new in a task |
//! | `told` | what callers are told when it goes wrong |
//! | `look` | looking at tasks, and stopping them |
//! | `recover` | picking up what an earlier process followed |

mod absent;
#[cfg(feature = "server")]
mod card;
mod delta;
mod follow;
mod keep;
mod line;
mod look;
mod peers;
mod queued;
mod recover;
mod send;
mod stream;
mod told;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    AgentCard, AgentExtension, BoxFuture, Call, CallContext, CancelTaskRequest, Endpoint, Error, EventStream,
    GetExtendedAgentCardRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, PoolWatch, Principal,
    PushNotificationConfigRequest, Queued, SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest,
    TaskId, TaskPage, TaskPushNotificationConfig, TaskView,
};
use chancery_store::{Scope, Store};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::{Client, ClientError, Options};
use crate::tasks::{Carriers, Notifier, Tasks, Unstoppable, no_extended_card};
use line::Line;

pub use peers::RelayPeers;

/// An agent elsewhere, and how it is to be served here.
#[derive(Clone)]
pub struct Relay {
    pub(crate) name: Arc<str>,
    peers: RelayPeers,
    /// Whose card is shown.
    pub(crate) client: Client,
    /// As it was when the relay was made; none if it could not be had.
    card: Option<Arc<AgentCard>>,
    /// What the card says of where it comes from, besides what is found out.
    pub(crate) provenance: Vec<(String, String)>,
    pub(crate) card_checks: Duration,
    pub(crate) push_notifications: bool,
    blocking_timeout: Duration,
    patience: Duration,
    /// Whether it is told on whose behalf calls are made.
    tells_descent: bool,
    /// What its card declares here, besides what it declares there.
    pub(crate) extensions: Vec<AgentExtension>,
}

/// Relays the calls to one agent elsewhere. Implements [`Endpoint`], so it can be mounted, nested and called like any
/// other. It follows tasks for as long as a clone of it is there.
#[derive(Clone)]
pub struct RelayEndpoint {
    core: Arc<Core>,
    /// Stops following when the last one is gone, also of those that came after.
    stop: Arc<DropGuard>,
}

struct Core {
    peers: RelayPeers,
    tasks: Tasks<Line>,
    carriers: Carriers<()>,
    blocking_timeout: Duration,
    patience: Duration,
    tells_descent: bool,
    /// What is committed from time to time is so at the same times, counted from here.
    began: tokio::time::Instant,
    stop: CancellationToken,
}

/// How many streams from one agent are open at a time, and how many calls to it are under way, unless its client says
/// otherwise. What finds no place for a stream is looked at now and then instead.
const STREAMS: usize = 4096;
const CALLS: usize = 1024;

// === impl Relay ===

impl Relay {
    /// Finds the agent at this URL, or whose card is at this URL. It is served under the name on its card, as far as
    /// that can be the name of an agent here.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, ClientError> {
        let client = Client::builder().max_streams(STREAMS).max_concurrent_calls(CALLS).connect(url).await?;
        let name = name_of(&*client.card().await?);
        Self::new(client, name).await
    }

    /// Serves the agent that this client calls, under this name: lower-case letters, digits and dashes. What the
    /// client is told to send along, such as credentials, is ours; nothing of that kind is taken from callers.
    pub async fn new(client: Client, name: impl Into<String>) -> Result<Self, ClientError> {
        let card = client.card().await?;
        Ok(Self::with(client, name.into(), Some(card)))
    }

    fn with(client: Client, name: String, card: Option<Arc<AgentCard>>) -> Self {
        Self {
            name: name.into(),
            peers: RelayPeers::only(client.clone()),
            client,
            card,
            provenance: Vec::new(),
            card_checks: Duration::from_secs(30),
            push_notifications: true,
            blocking_timeout: Duration::from_secs(10 * 60),
            patience: Duration::from_secs(10 * 60),
            tells_descent: true,
            extensions: Vec::new(),
        }
    }

    /// The agent's own card, as it was when the relay was made; none if it could not be had.
    pub fn card(&self) -> Option<&AgentCard> {
        self.card.as_deref()
    }

    /// The client of the agent whose card is shown.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Serves several agents that do the same as one, each by its client and a name for it. A new task is given to the one
    /// that the call's context names, or else to the first; what goes on with a task goes to the one that has it. The
    /// card is that of the first agent that can be reached.
    ///
    /// ```no_run
    /// # use chancery_sdk::{Client, Relay, Server};
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let north = Client::connect("https://north.example").await?;
    /// let south = Client::connect("https://south.example").await?;
    /// let weather = Relay::pool("weather", [("north", north), ("south", south)]).await?;
    /// let peers = weather.peers();
    /// let server = Server::builder().fleet_relay(weather).bind("127.0.0.1:8080").await?;
    /// // While it runs:
    /// peers.put("west", Client::connect("https://west.example").await?);
    /// peers.remove("north");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pool<N: Into<Arc<str>>>(
        name: impl Into<String>,
        peers: impl IntoIterator<Item = (N, Client)>,
    ) -> Result<Self, ClientError> {
        let peers: Vec<_> = peers.into_iter().map(|(name, client)| (name.into(), client)).collect();
        let mut failed = ClientError::Configuration("a pool needs an agent".to_owned());
        for (_, client) in &peers {
            match Self::new(client.clone(), "").await {
                Ok(relay) => return Ok(Self { peers: RelayPeers::pool(peers), ..relay.name(name) }),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The agents behind it, which may be changed at any time.
    pub fn peers(&self) -> RelayPeers {
        self.peers.clone()
    }

    /// Has somebody hear which agent of a pool has which task: from the beginning of the task to its end, and after a
    /// restart as soon as the task is picked up again.
    #[must_use]
    pub fn watched_by(self, watch: Arc<dyn PoolWatch>) -> Self {
        self.peers.watched_by(watch);
        self
    }

    /// Another name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().into();
        self
    }

    /// Something that its card says under [`PROVENANCE_EXTENSION`](crate::PROVENANCE_EXTENSION), besides what is found out.
    #[must_use]
    pub fn provenance(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.provenance.push((name.into(), value.into()));
        self
    }

    /// How often to look whether the agent has another card, which is then shown here; every 30 seconds unless said
    /// otherwise. The agent is asked only if the last one is no longer fresh, as its answer had it.
    #[must_use]
    pub fn card_checks(mut self, every: Duration) -> Self {
        self.card_checks = every;
        self
    }

    /// Whether the events of its tasks are posted to those who ask for it. They are unless said otherwise, whether
    /// the agent itself can do that or not: it is done from here.
    #[must_use]
    pub fn push_notifications(mut self, push_notifications: bool) -> Self {
        self.push_notifications = push_notifications;
        self
    }

    /// How long a send may wait for its outcome; ten minutes unless said otherwise.
    #[must_use]
    pub fn blocking_timeout(mut self, timeout: Duration) -> Self {
        self.blocking_timeout = timeout;
        self
    }

    /// For how long the agent may be out of reach before the tasks that it works on count as failed; ten minutes
    /// unless said otherwise.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Tells the agent nothing of those who call it: neither on whose behalf a call is made nor which trace it belongs to.
    /// What proves who somebody is it is never told. For agents that nobody trusts.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.tells_descent = false;
        self
    }

    /// Has its card here declare an extension, instead of what the agent's own card says about the same one.
    #[must_use]
    pub fn extension(mut self, extension: AgentExtension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Begins to relay, on a journal, with somebody who posts events to whoever registers for them. A
    /// [`Server`](crate::Server) does this for the relays that are mounted.
    pub fn start(&self, store: Arc<Store>, notifier: Option<Arc<dyn Notifier>>) -> RelayEndpoint {
        self.start_after(None, store, notifier)
    }

    /// The same, in the place of an earlier one of this name: what that follows it goes on following, and who watches it is
    /// known here.
    pub(crate) fn start_after(
        &self,
        earlier: Option<&RelayEndpoint>,
        store: Arc<Store>,
        notifier: Option<Arc<dyn Notifier>>,
    ) -> RelayEndpoint {
        let notifier = notifier.filter(|_| self.push_notifications);
        let tasks = Tasks::new(self.name.clone(), store, notifier);
        let (stop, guard) = match earlier {
            Some(earlier) => (earlier.core.stop.clone(), earlier.stop.clone()),
            None => {
                let stop = CancellationToken::new();
                (stop.clone(), Arc::new(stop.drop_guard()))
            }
        };
        let core = Core {
            peers: self.peers.clone(),
            tasks: tasks.after(earlier.map(|earlier| &earlier.core.tasks)),
            carriers: Carriers::default(),
            blocking_timeout: self.blocking_timeout,
            patience: self.patience,
            tells_descent: self.tells_descent,
            began: tokio::time::Instant::now(),
            stop,
        };
        RelayEndpoint { core: Arc::new(core), stop: guard }
    }
}

/// The name on a card as the name of an agent here.
fn name_of(card: &AgentCard) -> String {
    let plain =
        card.name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let plain: String = plain.take(63).collect();
    let words: Vec<_> = plain.split('-').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "agent".to_owned() } else { words.join("-") }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("name", &self.name).field("peers", &self.peers).finish_non_exhaustive()
    }
}

// === impl RelayEndpoint ===

impl RelayEndpoint {
    /// Goes on with the tasks that the agent was working on when an earlier process ended, and says how many. To be
    /// called once, before the first call is served.
    pub async fn recover(&self) -> Result<usize, Error> {
        self.core.recover().await
    }

    /// Ends a task as FAILED, for a reason that its caller may read, and tells the agent that nobody wants it any more.
    /// Says whether there was anything to end.
    pub async fn stop(&self, principal: &Principal, task_id: &TaskId, why: &str) -> Result<bool, Error> {
        let (core, scope, id) = (self.core.clone(), self.core.tasks.scope(principal), task_id.clone());
        let why = why.to_owned();
        Unstoppable::new(|| async move { core.stop_task(&scope, &id, &why).await }).await
    }

    /// Takes over what a call of an earlier process holds for a task of this agent.
    #[cfg(feature = "server")]
    pub(crate) fn restore_hold(
        &self,
        principal: &Principal,
        task: &TaskId,
        hold: &Arc<dyn chancery_protocol::Hold>,
    ) {
        self.core.tasks.holds.put(&self.core.tasks.scope(principal), task, hold, true);
    }

    /// Says who lets calls through.
    #[cfg(feature = "server")]
    pub(crate) fn guarded_by(&self, door: crate::tasks::Door) {
        self.core.tasks.guarded_by(door);
    }

    /// Whether no task is followed, and nobody watches one.
    #[cfg(feature = "server")]
    pub(crate) fn is_idle(&self) -> bool {
        self.core.tasks.live.is_empty()
    }

    /// Whether somebody follows a task, or watches it.
    #[cfg(feature = "server")]
    pub(crate) fn has_live(&self, principal: &Principal, task: &TaskId) -> bool {
        self.core.tasks.live.find(&self.core.tasks.scope(principal), task).is_some()
    }

    /// How many tasks are followed.
    pub fn followed(&self) -> usize {
        self.core.tasks.live.count(Line::is_followed)
    }
}

impl fmt::Debug for RelayEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayEndpoint").field("peers", &self.core.peers).finish_non_exhaustive()
    }
}

impl Endpoint for RelayEndpoint {
    // A caller that goes away does not stop what was begun for it, nor what keeps the journal whole.

    fn send_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> impl Future<Output = Result<SendMessageResponse<TaskView>, Error>> + Send {
        Unstoppable::new(|| self.core.clone().send(call))
    }

    fn send_streaming_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> impl Future<Output = Result<EventStream, Error>> + Send {
        Unstoppable::new(|| self.core.clone().stream(call))
    }

    async fn get_task(&self, call: Call<GetTaskRequest>) -> Result<TaskView, Error> {
        self.core.get(call).await
    }

    async fn list_tasks(&self, call: Call<ListTasksRequest>) -> Result<TaskPage, Error> {
        self.core.tasks.list(&call).await
    }

    fn cancel_task(
        &self,
        call: Call<CancelTaskRequest>,
    ) -> impl Future<Output = Result<TaskView, Error>> + Send {
        Unstoppable::new(|| self.core.clone().cancel(call))
    }

    async fn subscribe_to_task(&self, call: Call<SubscribeToTaskRequest>) -> Result<EventStream, Error> {
        self.core.subscribe(call).await
    }

    async fn create_push_config(
        &self,
        call: Call<TaskPushNotificationConfig>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        self.core.tasks.create_push_config(call).await
    }

    async fn get_push_config(
        &self,
        call: Call<PushNotificationConfigRequest>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        self.core.tasks.get_push_config(call).await
    }

    async fn list_push_configs(
        &self,
        call: Call<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Error> {
        self.core.tasks.list_push_configs(call).await
    }

    async fn delete_push_config(&self, call: Call<PushNotificationConfigRequest>) -> Result<(), Error> {
        self.core.tasks.delete_push_config(call).await
    }

    fn has_queue(&self) -> bool {
        true
    }

    fn enqueue(&self, queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
        Box::pin(Unstoppable::new(|| self.core.clone().enqueue(queued)))
    }

    /// What the agent tells those whom it knows it tells us, and not our callers.
    async fn extended_card(&self, _: Call<GetExtendedAgentCardRequest>) -> Result<Arc<AgentCard>, Error> {
        Err(no_extended_card())
    }
}

// === impl Core ===

impl Core {
    fn scope(&self, context: &CallContext) -> Scope {
        self.tasks.scope(&context.principal)
    }

    /// What goes along with the calls that are made for a caller: its trace and extensions, and what it was let through
    /// with, if the agent may know; nothing that proves who it is.
    fn options_for(&self, mut context: Box<CallContext>) -> Options {
        let hold = context.hold.as_ref().filter(|_| self.tells_descent);
        context.lineage = hold.and_then(|hold| hold.lineage()).map(str::to_owned);
        context.traceparent = context.traceparent.filter(|_| self.tells_descent);
        let mut options = Options::of(context);
        options.terms.last_event = None;
        options.terms.idempotency_key = None;
        options.keyless = true;
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_a_card_becomes_a_name_here() {
        let name = |text: &str| name_of(&AgentCard::new(text, "x", "1"));
        assert_eq!(name("Weather Agent (v2)"), "weather-agent-v2");
        assert_eq!(name("--"), "agent");
        assert_eq!(name("Öl"), "l");
        assert!(crate::is_agent_name(&name(&"long ".repeat(40))));
    }
}
