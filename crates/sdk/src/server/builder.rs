//! What a server is made of: agents at paths, and how they are served.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use chancery_protocol::{Caller, Error, ProtocolBinding, SecurityScheme, Version};
use chancery_store::Store;
use http::request::Parts;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio_util::sync::CancellationToken;

use super::callers::Authenticate;
use super::grpc::Grpc;
use super::mounter::Mounter;
use super::proxies::Proxies;
use super::refused::RefusedCredentials;
use super::revoked::Revocation;
use super::site::Site;
use super::slots::StreamSlots;
use super::socket::Listener;
use super::table::{Reception, Table};
#[cfg(feature = "tls")]
use super::tls::Tls;
use super::versions::Versions;
use super::{CardSigner, Cors, ForwardedBy, Guard, Offer, Routes, Server, ServerLimits, Service};
use crate::dialect::v0_3;
use crate::egress::{Egress, Prefix};
use crate::push::PushLimits;
use crate::relay::Relay;
use crate::spec::AgentSpec;

/// Puts agents at paths and says how they are served.
///
/// ```no_run
/// # use chancery_sdk::{AgentSpec, Message, Server, agent_fn};
/// # async fn run() -> Result<(), chancery_sdk::ServeError> {
/// let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
/// Server::builder().agent(AgentSpec::new("echo", echo)).bind("127.0.0.1:8080").await?.run().await;
/// # Ok(())
/// # }
/// ```
pub struct ServerBuilder {
    pub(super) agents: Vec<Offer>,
    pub(super) store: Option<Arc<Store>>,
    pub(super) public_url: Option<String>,
    pub(super) authenticate: Option<Authenticate>,
    pub(super) revocation: Option<Revocation>,
    pub(super) guard: Option<Arc<dyn Guard>>,
    pub(super) routes: Vec<Arc<dyn Routes>>,
    pub(super) allow_anonymous: bool,
    pub(super) anonymous_extended_card: bool,
    pub(super) security: BTreeMap<String, SecurityScheme>,
    pub(super) card_signer: Option<Arc<dyn CardSigner>>,
    pub(super) proxies: Proxies,
    pub(super) cors: Option<Cors>,
    pub(super) hosts: Vec<String>,
    pub(super) jsonrpc_path: String,
    pub(super) jsonrpc_http_status: bool,
    pub(super) versions: Versions,
    pub(super) old_form: Option<v0_3::Form>,
    pub(super) tenant_is_realm: bool,
    pub(super) limits: ServerLimits,
    pub(super) egress: Egress,
    pub(super) push_limits: PushLimits,
    pub(super) grpc: Grpc,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
}

/// What is wrong with the way a server was put together: everything, at once.
#[derive(Debug, thiserror::Error)]
#[error("the server cannot be built: {}", problems.join("; "))]
pub struct BuildError {
    /// One sentence each.
    pub problems: Vec<String>,
}

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It was put together wrongly.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The address cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// What an earlier process left unfinished cannot be ended.
    #[error("cannot pick up what the last process left: {0}")]
    Recover(#[source] Error),
}

/// Serves one agent at the root of an address until SIGTERM or Ctrl-C.
pub async fn serve(address: impl ToSocketAddrs, agent: AgentSpec) -> Result<(), ServeError> {
    Server::builder().agent(agent).bind(address).await?.run().await;
    Ok(())
}

impl Server {
    /// Starts with nothing mounted, a store in memory and the default limits.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            agents: Vec::new(),
            store: None,
            public_url: None,
            authenticate: None,
            revocation: None,
            guard: None,
            routes: Vec::new(),
            allow_anonymous: false,
            anonymous_extended_card: false,
            security: BTreeMap::new(),
            card_signer: None,
            proxies: Proxies::default(),
            cors: None,
            hosts: Vec::new(),
            jsonrpc_path: "/".to_owned(),
            jsonrpc_http_status: false,
            versions: Versions::all(),
            old_form: None,
            tenant_is_realm: false,
            limits: ServerLimits::default(),
            egress: Egress::default(),
            push_limits: PushLimits::default(),
            grpc: Grpc::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl ServerBuilder {
    /// Mounts an agent at the root.
    #[must_use]
    pub fn agent(self, agent: AgentSpec) -> Self {
        self.agent_at("", agent)
    }

    /// Mounts an agent at `/agents/{name}`.
    #[must_use]
    pub fn fleet_agent(self, agent: AgentSpec) -> Self {
        self.offer(agent)
    }

    /// Mounts an agent at a path.
    #[must_use]
    pub fn agent_at(self, path: impl Into<String>, agent: AgentSpec) -> Self {
        self.offer(Offer::from(agent).at(path))
    }

    /// Mounts an agent that is elsewhere at `/agents/{name}`.
    #[must_use]
    pub fn fleet_relay(self, relay: Relay) -> Self {
        self.offer(relay)
    }

    /// Mounts an agent that is elsewhere at a path.
    #[must_use]
    pub fn relay_at(self, path: impl Into<String>, relay: Relay) -> Self {
        self.offer(Offer::from(relay).at(path))
    }

    /// Mounts whatever answers calls. More can be mounted while the server runs, by [`Service::put`].
    #[must_use]
    pub fn offer(mut self, offer: impl Into<Offer>) -> Self {
        self.agents.push(offer.into());
        self
    }

    /// Has somebody say first whose a request is. Who was added first is asked first.
    #[must_use]
    pub fn routes(mut self, routes: Arc<dyn Routes>) -> Self {
        self.routes.push(routes);
        self
    }

    /// Where tasks are kept; in memory unless said otherwise.
    #[must_use]
    pub fn store(mut self, store: Arc<Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The URL under which the world sees the server; the cards name it. Never taken from a Host header.
    #[must_use]
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        self.public_url = Some(url.into().trim_end_matches('/').to_owned());
        self
    }

    /// Decides who is calling. Without this everyone is the same anonymous caller, and only callers on this
    /// machine are let in unless [`allow_anonymous`](Self::allow_anonymous) says otherwise.
    #[must_use]
    pub fn authenticate<C: Into<Caller>>(
        mut self,
        decide: impl Fn(&Parts) -> Result<C, Error> + Send + Sync + 'static,
    ) -> Self {
        self.authenticate = Some(Arc::new(move |head| decide(head).map(Into::into)));
        self
    }

    /// Has somebody decide which calls reach the agents, and how often may be asked.
    #[must_use]
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// A way to authenticate, as the cards name it. Satisfying any one of them is enough.
    #[must_use]
    pub fn security_scheme(mut self, name: impl Into<String>, scheme: SecurityScheme) -> Self {
        self.security.insert(name.into(), scheme);
        self
    }

    /// Has every card signed, whenever it is written anew, and serves the keys at [`WELL_KNOWN_KEYS`](crate::WELL_KNOWN_KEYS). What is signed names
    /// the public URL or the address that is listened on, never what a request said.
    #[must_use]
    pub fn sign_cards(mut self, signer: Arc<dyn CardSigner>) -> Self {
        self.card_signer = Some(signer);
        self
    }

    /// Lets web pages call from a browser; none may unless this is said.
    #[must_use]
    pub fn cors(mut self, cors: Cors) -> Self {
        self.cors = Some(cors);
        self
    }

    /// Believes proxies with these addresses where a request comes from, which is who a rate is for and what a log shows. They
    /// say it in this header.
    #[must_use]
    pub fn trust_proxies(mut self, ranges: impl IntoIterator<Item = Prefix>, header: ForwardedBy) -> Self {
        self.proxies.ranges.extend(ranges);
        self.proxies.header = header;
        self
    }

    /// Believes the same of whoever connects to a socket in the file system: see [`bind_unix`](Self::bind_unix).
    #[must_use]
    pub fn trust_socket(mut self) -> Self {
        self.proxies.socket = true;
        self
    }

    /// Lets anyone in who can reach the address, although nobody is authenticated.
    #[must_use]
    pub fn allow_anonymous(mut self) -> Self {
        self.allow_anonymous = true;
        self
    }

    /// Shows extended cards to callers that nobody has authenticated.
    #[must_use]
    pub fn anonymous_extended_card(mut self) -> Self {
        self.anonymous_extended_card = true;
        self
    }

    /// Where JSON-RPC is posted to, below an agent's path: `/` unless said otherwise. `/rpc` and `/jsonrpc`
    /// work too.
    #[must_use]
    pub fn jsonrpc_path(mut self, path: impl Into<String>) -> Self {
        self.jsonrpc_path = path.into();
        self
    }

    /// Has what a guard refuses over JSON-RPC come with HTTP's status for it. Otherwise it comes with 200, for many clients hide the
    /// body of any other answer. Who calls and how often has HTTP's own status in any case.
    #[must_use]
    pub fn jsonrpc_http_status(mut self) -> Self {
        self.jsonrpc_http_status = true;
        self
    }

    /// Takes a call without A2A-Version as one of the newest version, not of 0.3 as the protocol has it.
    #[must_use]
    pub fn lenient_version(mut self, lenient: bool) -> Self {
        self.versions.lenient = lenient;
        self
    }

    /// Does not speak a version of the protocol. Who calls in it is told so, and the cards do not name it.
    #[must_use]
    pub fn without_version(mut self, version: Version) -> Self {
        self.versions.remove(version);
        self
    }

    /// Does not answer on a binding, and the cards do not name it.
    #[must_use]
    pub fn without_binding(mut self, binding: ProtocolBinding) -> Self {
        self.grpc.is_off |= binding == ProtocolBinding::Grpc;
        self.versions.remove_binding(binding);
        self
    }

    /// Writes the bytes of files as base64 once to everybody, over HTTP+JSON and gRPC of v0.3. Without it a caller gets
    /// them as it writes them itself, if its message has a file; if not, clients in JavaScript get base64, by their
    /// `User-Agent`, and all others base64 of base64, as most peers of that version have it. What is read may be either.
    #[must_use]
    pub fn v0_3_base64_once(mut self) -> Self {
        self.old_form = Some(v0_3::Form::Proto { twice: false });
        self
    }

    /// Takes a tenant that is not the agent's name as a realm of its own. It isolates, but it is not
    /// authenticated: whoever can name it is in it.
    #[must_use]
    pub fn tenant_is_realm(mut self) -> Self {
        self.tenant_is_realm = true;
        self
    }

    /// How much the server takes from anyone.
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Where push notifications may be posted to: only to addresses that the whole world can reach, unless said
    /// otherwise.
    #[must_use]
    pub fn egress(mut self, egress: Egress) -> Self {
        self.egress = egress;
        self
    }

    /// How hard it is tried to post push notifications.
    #[must_use]
    pub fn push_limits(mut self, limits: PushLimits) -> Self {
        self.push_limits = limits;
        self
    }

    /// Speaks TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Listens. Unless a public URL is set, the cards name the address. Tasks that an earlier process left
    /// unfinished are ended first, as [`Runtime::recover`](crate::Runtime::recover) says; those of agents elsewhere are followed again.
    pub async fn bind(mut self, address: impl ToSocketAddrs) -> Result<Server, ServeError> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        if self.public_url.is_none() && !address.ip().is_unspecified() {
            self.public_url = Some(format!("{}://{address}", self.scheme()));
        }
        self.listen(Listener::Tcp(listener), Some(address)).await
    }

    /// Listens on a socket in the file system, for those whom its mode lets in (`0o660`: its owner and its group). One that
    /// an earlier process left is replaced. Needs a public URL; TLS is left to whoever stands in front.
    #[cfg(unix)]
    pub async fn bind_unix(self, path: impl AsRef<Path>, mode: u32) -> Result<Server, ServeError> {
        let socket = super::socket::unix::Socket::bind(path.as_ref(), mode)?;
        self.listen(Listener::Unix(socket), None).await
    }

    async fn listen(mut self, listener: Listener, address: Option<SocketAddr>) -> Result<Server, ServeError> {
        let grpc_ports = self.grpc.bind().await?;
        self.grpc.name_place(self.public_url.as_deref(), &grpc_ports);
        let own_grpc = self.grpc.own_places(self.public_url.as_deref(), &grpc_ports);
        #[cfg(feature = "tls")]
        let tls = self.tls.take();
        let (service, url) = self.build_site(address, own_grpc)?;
        let recovered = service.recover().await.map_err(ServeError::Recover)?;
        Ok(Server {
            listener,
            grpc_ports,
            service,
            url,
            recovered,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// The site as a service, for people who have a server of their own. Needs a public URL, and a tokio runtime
    /// to be called in: old tasks are swept and notifications posted beside the service. On a store that has been
    /// used before, call [`Service::recover`] before the first request.
    pub fn build(self) -> Result<Service, BuildError> {
        Ok(self.build_site(None, HashMap::new())?.0)
    }

    fn scheme(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return "https";
        }
        "http"
    }

    fn build_site(
        self,
        address: Option<SocketAddr>,
        own_grpc: HashMap<Arc<str>, String>,
    ) -> Result<(Service, String), BuildError> {
        let mut problems = self.problems(address);
        problems.extend(self.grpc.problems(self.authenticate.is_some() || self.allow_anonymous));
        if !problems.is_empty() {
            return Err(BuildError { problems });
        }
        let (cross_origin, checks_hosts) = (self.cross_origin(), self.checks_hosts(address));
        let url = self.public_url.unwrap_or_default();
        let store = self.store.unwrap_or_else(|| Arc::new(Store::memory()));
        let mounter = Mounter {
            url: url.clone(),
            store: store.clone(),
            is_guarded: self.guard.is_some(),
            guard_extends: self.guard.as_ref().is_some_and(|guard| guard.extends_cards()),
            versions: self.versions,
            jsonrpc_path: self.jsonrpc_path,
            security: self.security,
            is_open: self.allow_anonymous,
            card_signer: self.card_signer,
            grpc: self.grpc.place().map(str::to_owned),
            own_grpc,
            tenant_is_realm: self.tenant_is_realm,
            extends: self.authenticate.is_some() || self.anonymous_extended_card,
            egress: self.egress,
            push_limits: self.push_limits,
            deliverer: OnceLock::new(),
        };
        let alone = self.agents.len() == 1;
        let reception = Reception { guard: self.guard, routes: self.routes.into() };
        let guard = reception.guard.as_ref();
        let mounts: Vec<_> =
            self.agents.iter().map(|offer| mounter.mount(offer, alone, None, guard)).collect();
        let site = Site {
            table: ArcSwap::from_pointee(Table::new(reception, mounts, HashMap::new())),
            mounter,
            changing: tokio::sync::Mutex::new(()),
            authenticate: self.authenticate,
            revocation: self.revocation,
            proxies: self.proxies,
            cross_origin,
            checks_hosts,
            cors: self.cors,
            limits: self.limits,
            jsonrpc_http_status: self.jsonrpc_http_status,
            old_form: self.old_form,
            streams: StreamSlots::new(&self.limits),
            refused_credentials: RefusedCredentials::new(self.limits.refused_credentials),
            refused_connections: Arc::default(),
            stopping: CancellationToken::new(),
            serves_grpc: !self.grpc.is_off,
            reflects: self.grpc.reflects,
        };
        tokio::spawn(sweep(Arc::downgrade(&store)));
        Ok((Service::new(site), url))
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("agents", &self.agents).finish_non_exhaustive()
    }
}

/// Compacts and forgets old tasks for as long as somebody uses the store.
async fn sweep(store: std::sync::Weak<Store>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    loop {
        every.tick().await;
        let Some(store) = store.upgrade() else { return };
        store.sweep(store.now()).await;
    }
}
