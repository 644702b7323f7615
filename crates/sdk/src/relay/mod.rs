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

mod agent;
#[cfg(feature = "server")]
mod card;
mod clean;
mod deliver;
mod delta;
mod errors;
mod exchange;
mod follow;
mod peers;
mod source;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{AgentCard, AgentExtension, PoolWatch};
use chancery_store::Store;

use crate::client::{Client, ClientError};
use crate::runtime::{Notifier, Runtime};
use crate::spec::AgentSpec;
use agent::{RemoteAgent, RemoteSettings};

#[cfg(feature = "server")]
pub(crate) use clean::is_ours_to_say;
pub use peers::RelayPeers;

/// An agent elsewhere, and how it is to be served here.
#[derive(Clone)]
pub struct Relay {
    pub(crate) name: Arc<str>,
    peers: RelayPeers,
    /// Hears which member of a pool has which task.
    watch: Option<Arc<dyn PoolWatch>>,
    /// Whose card is shown.
    pub(crate) client: Client,
    /// As it was when the relay was made; none if it could not be had.
    card: Option<Arc<AgentCard>>,
    pub(crate) card_checks: Duration,
    pub(crate) push_notifications: bool,
    settings: RemoteSettings,
    /// What its card declares here, besides what it declares there.
    pub(crate) extensions: Vec<AgentExtension>,
}

/// How many streams from one agent are open at a time, and how many calls to it are under way, unless its client says
/// otherwise. What finds no place for a stream is looked at now and then instead.
const STREAMS: usize = 4096;
const CALLS: usize = 1024;

/// How long an agent that may not be there is waited for when its relay is made.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// How much longer a caller waits than an answer may take, so that it hears how that ended.
const GRACE: Duration = Duration::from_secs(1);

// === impl Relay ===

impl Relay {
    /// Finds the agent at this URL, or whose card is at this URL. It is served under the name on its card, as far as
    /// that can be the name of an agent here.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, ClientError> {
        let client = Client::builder().max_streams(STREAMS).max_concurrent_calls(CALLS).connect(url).await?;
        let name = name_of(&*client.card().await?);
        Self::new(client, &*name).await
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
            watch: None,
            client,
            card,
            card_checks: Duration::from_secs(30),
            push_notifications: true,
            settings: RemoteSettings {
                patience: Duration::from_secs(30),
                silence: Duration::from_secs(60),
                answer_timeout: Duration::from_secs(10 * 60),
                tells_lineage: true,
                always_streams: false,
            },
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
        let name = name.into();
        let peers = RelayPeers::pool(peers);
        let mut failed = no_agent();
        for client in peers.clients() {
            match Self::new(client, &*name).await {
                Ok(relay) => return Ok(Self { peers, ..relay }),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// As [`new`](Self::new), for an agent that may not be there yet, with a client that was made by
    /// [`connect_later`](crate::ClientBuilder::connect_later). Until the agent shows a good card, the card here is one that
    /// says why there is none, under [`PROVENANCE_EXTENSION`](crate::PROVENANCE_EXTENSION), and calls are answered that it
    /// cannot be reached. So it is with one whose card is [not trusted](crate::ClientBuilder::check_card).
    pub async fn of_absent(client: Client, name: impl Into<String>) -> Self {
        let name = name.into();
        let card = match tokio::time::timeout(FIRST_LOOK, client.card()).await {
            Ok(Ok(card)) => Some(card),
            Ok(Err(error)) => {
                tracing::warn!(agent = name, %error, "the agent behind a relay has no card yet; it is asked again");
                None
            }
            Err(_) => {
                tracing::warn!(agent = name, "the agent behind a relay does not answer; it is asked again");
                None
            }
        };
        Self::with(client, name, card)
    }

    /// As [`pool`](Self::pool), where none of them may be there yet, as [`of_absent`](Self::of_absent) has it of one.
    pub async fn pool_of_absent<N: Into<Arc<str>>>(
        name: impl Into<String>,
        peers: impl IntoIterator<Item = (N, Client)>,
    ) -> Result<Self, ClientError> {
        let peers = RelayPeers::pool(peers);
        let name = name.into();
        let looks = peers.clients().into_iter().map(|client| Self::of_absent(client, &*name));
        let looked = futures_util::future::join_all(looks).await;
        let place = looked.iter().position(|relay| relay.card.is_some()).unwrap_or_default();
        let shown = looked.into_iter().nth(place).ok_or_else(no_agent)?;
        Ok(Self { peers, ..shown })
    }

    /// The agents behind it, which may be changed at any time.
    pub fn peers(&self) -> RelayPeers {
        self.peers.clone()
    }

    /// Has somebody hear which agent of a pool has which task: from the beginning of the task to its end, and after a
    /// restart as soon as the task is picked up again.
    #[must_use]
    pub fn watched_by(mut self, watch: Arc<dyn PoolWatch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Another name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().into();
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

    /// How long an answer to a message is waited for; ten minutes unless said otherwise.
    #[must_use]
    pub fn blocking_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// For how long the agent may be out of reach before the tasks that it works on fail; 30 seconds unless said otherwise.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// How long a stream may bring no event before the agent is asked for the task; a minute unless said otherwise. An agent
    /// that answers may be silent for as long as it likes.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.settings.silence = silence;
        self
    }

    /// Tells the agent nothing of those who call it: neither on whose behalf a call is made nor which trace it belongs to.
    /// What proves who somebody is it is never told. For agents that nobody trusts.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.settings.tells_lineage = false;
        self
    }

    /// Has its card here declare an extension, instead of what the agent's own card says about the same one.
    #[must_use]
    pub fn extension(mut self, extension: AgentExtension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Sends every message as a stream where the agent's card has streaming: also for callers that only wait for the outcome.
    /// Such a call can be canceled at the agent, and is followed after a restart, from its first event on.
    #[must_use]
    pub fn always_stream(mut self) -> Self {
        self.settings.always_streams = true;
        self
    }

    /// Runs the agent's tasks on a journal, with somebody who posts events to whoever registers for them. A
    /// [`Server`](crate::Server) does this for the relays that are mounted.
    pub fn start(&self, store: Arc<Store>, notifier: Option<Arc<dyn Notifier>>) -> Runtime {
        self.start_after(None, store, notifier)
    }

    /// The same, in the place of an earlier one of this name: what that follows it goes on following, and who watches it is
    /// known here.
    pub(crate) fn start_after(
        &self,
        earlier: Option<&Runtime>,
        store: Arc<Store>,
        notifier: Option<Arc<dyn Notifier>>,
    ) -> Runtime {
        let card = self.card.clone().unwrap_or_else(|| Arc::new(AgentCard::new(&*self.name, "", "0.0.0")));
        Runtime::after(earlier, self.spec(), card, store, notifier)
    }

    /// The agent as one of this runtime. What it takes and declares is for itself to say.
    fn spec(&self) -> AgentSpec {
        let agent =
            RemoteAgent { peers: self.peers.clone(), watch: self.watch.clone(), settings: self.settings };
        AgentSpec::new(&*self.name, agent)
            .push_notifications(self.push_notifications)
            .blocking_timeout(self.settings.answer_timeout.saturating_add(GRACE))
            // How long the work may take elsewhere is for that agent, its callers and their policies to say.
            .turn_timeout(Duration::MAX)
    }
}

fn no_agent() -> ClientError {
    ClientError::Configuration("a pool needs an agent".to_owned())
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
