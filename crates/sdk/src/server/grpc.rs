//! A call of gRPC on its way through the site: who, which version, which agent. The tenant names the agent, since no path
//! can.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{
    CallContext, Error, ErrorCode, Operation, Principal, ProtocolBinding, Request, Version,
};
use http::Response;
use http::request::Parts;
use tokio::net::TcpListener;
use tokio::time::timeout_at;

use super::ServerBuilder;
use super::body::{self, Body, Unread};
use super::mount::Mount;
use super::shares::Sharer;
use super::site::View;
use super::socket::Listener;
use crate::binding::grpc::{self, Method, Wanted, health, reflection};
use crate::binding::head;
use crate::dialect::{Dialect, v0_3};
use crate::grpc::frame::{self, HEAD};

/// Whether and where gRPC is served.
#[derive(Debug, Default)]
pub(super) struct Grpc {
    pub(super) is_off: bool,
    /// An address of its own.
    pub(super) listen: Option<SocketAddr>,
    /// Addresses for single agents.
    pub(super) listen_for: Vec<(Arc<str>, SocketAddr)>,
    /// The `host:port` that the cards name.
    pub(super) place: Option<String>,
    /// Whether tools may ask what is served.
    pub(super) reflects: bool,
}

/// A port for gRPC.
#[derive(Debug)]
pub(super) struct GrpcPort {
    /// The agent that it is for, if it is for one alone.
    pub(super) agent: Option<Arc<str>>,
    pub(super) listener: Listener,
}

/// The agent that a connection is for, by its port. Travels in the extensions of a request's head.
#[derive(Clone, Debug)]
pub(super) struct MeantFor(pub(super) Arc<str>);

// === impl ServerBuilder ===

impl ServerBuilder {
    /// Listens on another address too, and has the cards name that one for gRPC, for networks where HTTP/2 needs a port
    /// of its own. Both ports serve the same.
    #[must_use]
    pub fn grpc_listen(mut self, address: SocketAddr) -> Self {
        self.grpc.listen = Some(address);
        self
    }

    /// Listens on one more address, where gRPC is for one agent unless a tenant names another: callers of v0.3 have no tenant to
    /// name it by, so its card names this address to them.
    #[must_use]
    pub fn grpc_listen_for(mut self, agent: impl Into<Arc<str>>, address: SocketAddr) -> Self {
        self.grpc.listen_for.push((agent.into(), address));
        self
    }

    /// Tells tools such as grpcurl what is served, by `grpc.reflection`. No secret, and not needed by agents.
    #[must_use]
    pub fn grpc_reflection(mut self) -> Self {
        self.grpc.reflects = true;
        self
    }

    /// The `host:port` under which the world sees gRPC, if that is not the public URL's.
    #[must_use]
    pub fn grpc_public(mut self, place: impl Into<String>) -> Self {
        self.grpc.place = Some(place.into());
        self
    }
}

// === impl Grpc ===

impl Grpc {
    /// What the cards name; nothing if nobody could call it there.
    pub(super) fn place(&self) -> Option<&str> {
        if self.is_off { None } else { self.place.as_deref() }
    }

    /// The addresses that it has of its own.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listen.into_iter().chain(self.listen_for.iter().map(|(_, address)| *address))
    }

    /// Listens wherever gRPC has an address of its own.
    pub(super) async fn bind(&self) -> std::io::Result<Vec<GrpcPort>> {
        let shared = self.listen.map(|address| (None, address));
        let single = self.listen_for.iter().map(|(agent, address)| (Some(agent.clone()), *address));
        let mut ports = Vec::new();
        for (agent, address) in shared.into_iter().chain(single) {
            ports.push(GrpcPort { agent, listener: Listener::Tcp(TcpListener::bind(address).await?) });
        }
        Ok(ports)
    }

    /// Finds out where gRPC can be called, unless somebody has said so.
    pub(super) fn name_place(&mut self, public_url: Option<&str>, ports: &[GrpcPort]) {
        if self.place.is_some() || self.is_off {
            return;
        }
        let shared = ports.iter().find(|port| port.agent.is_none()).and_then(GrpcPort::address);
        self.place = match shared {
            Some(own) => place_of(public_url, own),
            None => public_url.and_then(host_and_port).map(|(host, port)| format!("{host}:{port}")),
        };
    }

    /// Where each agent can be called that has a port of its own.
    pub(super) fn own_places(
        &self,
        public_url: Option<&str>,
        ports: &[GrpcPort],
    ) -> HashMap<Arc<str>, String> {
        let named = |port: &GrpcPort| Some((port.agent.clone()?, place_of(public_url, port.address()?)?));
        if self.is_off { HashMap::new() } else { ports.iter().filter_map(named).collect() }
    }

    pub(super) fn problems(&self, may_be_reached: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let all = self.listen.iter().chain(self.listen_for.iter().map(|(_, address)| address));
        for address in all.filter(|address| !address.ip().is_loopback() && !may_be_reached) {
            problems.push(format!(
                "{address} can be reached from elsewhere and nobody is authenticated; add `authenticate`, or let everyone in with `allow_anonymous`"
            ));
        }
        if let Some(place) = &self.place
            && (place.contains('/')
                || place.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()))
        {
            problems.push(format!("`{place}` is no `host:port` for gRPC"));
        }
        if self.is_off && (self.listen.is_some() || self.place.is_some() || !self.listen_for.is_empty()) {
            problems.push("gRPC has an address and is switched off; drop one of the two".to_owned());
        }
        problems
    }
}

// === impl GrpcPort ===

impl GrpcPort {
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

/// A port as the world sees it, which may know the machine under another name.
fn place_of(public_url: Option<&str>, own: SocketAddr) -> Option<String> {
    match public_url.and_then(host_and_port) {
        Some((host, _)) => Some(format!("{host}:{}", own.port())),
        None => (!own.ip().is_unspecified()).then(|| own.to_string()),
    }
}

fn is_without_card(dialect: Dialect, error: &Error) -> bool {
    dialect != Dialect::V1_0 && error.code() == ErrorCode::ExtendedAgentCardNotConfigured
}

impl Mount {
    /// The card as a message of v0.3.
    fn old_card(&self) -> Result<Response<Body>, Error> {
        let mut json = Vec::new();
        self.shown.now().write_old(&mut json)?;
        let mut message = Vec::with_capacity(json.len());
        frame::put(&mut message, |out| v0_3::grpc::put_card(out, &json))?;
        Ok(grpc::whole(message))
    }
}

/// The host of a URL, and its port. gRPC has no paths of its users' own, so a URL with one leads elsewhere.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri: http::Uri = url.parse().ok()?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let is_bare = matches!(uri.path(), "" | "/");
    is_bare.then(|| Some((uri.host()?.to_owned(), port)))?
}

// === impl View ===

impl View {
    pub(super) async fn grpc<B>(&self, head: &Parts, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if !self.serves_grpc {
            let text = "gRPC is switched off here; the agent's card names the bindings that are served";
            return grpc::fail(Version::V1_0, &Error::with_message(ErrorCode::VersionNotSupported, text));
        }
        let found = grpc::find(head).and_then(|method| Ok((method, Wanted::of(head)?)));
        let (method, wanted) = match found {
            Ok(found) => found,
            Err(error) => return grpc::fail(Version::V1_0, &error),
        };
        let version = if let Method::A2a(version, _) = method { version } else { Version::V1_0 };
        let answer = async {
            match method {
                Method::A2a(_, operation) => self.grpc_call(version, operation, head, body, wanted).await,
                Method::Health(method) => self.health(method, head, body).await,
                Method::Reflection => self.reflect(head, body),
            }
        };
        let answered = match wanted.deadline {
            Some(deadline) => timeout_at(deadline, answer).await,
            None => Ok(answer.await),
        };
        match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => grpc::fail(version, &error),
            // What was begun goes on, as it does when a connection breaks.
            Err(_) => grpc::late(),
        }
    }

    async fn grpc_call<B>(
        &self,
        version: Version,
        operation: Operation,
        head: &Parts,
        body: B,
        wanted: Wanted,
    ) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let principal = self.authenticate(head, Some(operation))?;
        // Which agent it is for is known once it is read; whether it may be read, before.
        let nobody: Arc<str> = Arc::from("");
        let mut context = head::context(head, principal, &nobody, &self.mounter.versions, Some(version))?;
        let body = self.grpc_body(body).await?;
        let (dialect, mut request) = match version {
            Version::V0_3 => grpc::decode_old(self.old_form, operation, &head.headers, &body)?,
            _ => (Dialect::V1_0, grpc::decode(operation, &body)?),
        };
        drop(body);
        let mount = self.grpc_mount(head, &mut request, &context)?;
        // It is known only now for whom the call is.
        mount.versions.agree(Some(&version.to_string()), Some(version))?;
        if !mount.versions.speaks(&ProtocolBinding::Grpc) {
            return Err(Error::with_message(ErrorCode::MethodNotFound, "The agent is not called by gRPC"));
        }
        context.agent = mount.name.clone();
        let extensions = context.extensions.clone();
        let reply = self.call(mount, dialect, request, context, None).await;
        let answered = match reply {
            // Where there is no other, servers of that time tell the card that everybody may read.
            Err(error) if is_without_card(dialect, &error) => mount.old_card(),
            reply => grpc::respond(dialect, operation, reply, wanted).await,
        };
        let mut response = answered.unwrap_or_else(|error| grpc::fail(version, &error));
        mount.echo_extensions(&mut response, dialect, &extensions);
        Ok(response)
    }

    async fn grpc_body<B>(&self, body: B) -> Result<Bytes, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let limits = &self.limits;
        // Its media type is what makes it a call of gRPC.
        let read = body::collect(body, limits.body_bytes + HEAD, limits.body_timeout, || Ok(())).await;
        read.map_err(|unread| match unread {
            Unread::TooLarge(_) => {
                let text = format!("The request is larger than {} bytes", limits.body_bytes);
                Error::with_message(ErrorCode::ResourceExhausted, text)
            }
            other => other.into(),
        })
    }

    /// The agent that a tenant names; without one, the one that the port is for or the authority names, the one at the root, or
    /// the only one.
    fn grpc_mount(
        &self,
        head: &Parts,
        request: &mut Request,
        context: &CallContext,
    ) -> Result<&Mount, Error> {
        let (tenant, table) = (request.tenant_mut(), &self.table);
        let by_port = || head.extensions.get().and_then(|MeantFor(name)| table.named(name));
        let by_host = || self.named_by_authority(head).and_then(|name| table.named(name));
        let named = match tenant.is_empty() {
            true => by_port().or_else(by_host),
            false => table.named(tenant),
        };
        let named = named.filter(|mount| !mount.internal || self.is_inside(context));
        let only = || table.only().filter(|mount| !mount.internal || self.is_inside(context));
        let found = named.or_else(|| table.at_root()).or_else(only);
        found.map(|mount| &**mount).ok_or_else(|| match tenant.is_empty() {
            true => {
                Error::invalid_field("tenant", "is required: it names the agent, of which there are several")
            }
            false => Error::invalid_field("tenant", "is not known here"),
        })
    }

    /// The agent that is called by a host name of its own below that of the server: v0.3 has no tenant to name it by.
    pub(super) fn named_by_authority<'a>(&self, head: &'a Parts) -> Option<&'a str> {
        let (own, _) = self.mounter.grpc.as_deref()?.rsplit_once(':')?;
        let authority = match head.uri.host() {
            Some(host) => host,
            None => head.headers.get(http::header::HOST)?.to_str().ok()?,
        };
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let (name, parent) = host.split_once('.')?;
        parent.eq_ignore_ascii_case(own).then_some(name)
    }

    /// Whose share it is what is answered to somebody whose name nobody asks for.
    fn nobody(&self, head: &Parts) -> Sharer {
        Sharer::new(&Principal::anonymous(), self.source(head))
    }

    fn reflect<B>(&self, head: &Parts, body: B) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if !self.reflects {
            let text = "Reflection is switched off here; the .proto files come with the SDK";
            return Err(Error::with_message(ErrorCode::MethodNotFound, text));
        }
        let slot = self.streams.reserve(Operation::SubscribeToTask, || self.nobody(head))?;
        Ok(reflection::respond(body, self.grpc_services().collect(), slot.permit))
    }

    /// What is served, besides health and reflection.
    fn grpc_services(&self) -> impl Iterator<Item = &'static str> {
        let all = [(Version::V1_0, crate::grpc::SERVICE), (Version::V0_3, v0_3::grpc::SERVICE)];
        all.into_iter()
            .filter(|(version, _)| self.mounter.versions.serves(*version))
            .map(|(_, service)| service)
    }

    async fn health<B>(&self, method: health::Method, head: &Parts, body: B) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let service = health::asked(&self.grpc_body(body).await?)?;
        let is_known = service.is_empty() || self.grpc_services().any(|known| known == service);
        match method {
            health::Method::Check => health::check(is_known, &self.stopping),
            health::Method::Watch => {
                let slot = self.streams.reserve(Operation::SubscribeToTask, || self.nobody(head))?;
                Ok(health::watch(is_known, &self.stopping, slot.permit))
            }
        }
    }
}
