//! A call of gRPC on its way through the site: who, which version, which agent. The tenant names the agent, since no path
//! can.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{CallContext, Error, ErrorCode, Operation, Request, Version};
use http::Response;
use http::request::Parts;
use tokio::net::TcpListener;
use tokio::time::timeout_at;

use super::ServerBuilder;
use super::body::{self, Body, Unread};
use super::mount::Mount;
use super::site::Site;
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
    /// The `host:port` that the cards name.
    pub(super) place: Option<String>,
    /// Whether tools may ask what is served.
    pub(super) reflects: bool,
}

// === impl ServerBuilder ===

impl ServerBuilder {
    /// Serves no gRPC, which is otherwise served on the same port as everything else.
    #[must_use]
    pub fn without_grpc(mut self) -> Self {
        self.grpc.is_off = true;
        self
    }

    /// Listens on another address too, and has the cards name that one for gRPC, for networks where HTTP/2 needs a port
    /// of its own. Both ports serve the same.
    #[must_use]
    pub fn grpc_listen(mut self, address: SocketAddr) -> Self {
        self.grpc.listen = Some(address);
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

    /// Finds out where gRPC can be called, unless somebody has said so.
    pub(super) fn name_place(&mut self, public_url: Option<&str>, own: Option<&TcpListener>) {
        if self.place.is_some() || self.is_off {
            return;
        }
        let host_and_port = public_url.and_then(host_and_port);
        let own = own.and_then(|listener| listener.local_addr().ok());
        self.place = match (own, host_and_port) {
            // The world may see the machine under another name.
            (Some(own), Some((host, _))) => Some(format!("{host}:{}", own.port())),
            (Some(own), None) if !own.ip().is_unspecified() => Some(own.to_string()),
            (None, Some((host, port))) => Some(format!("{host}:{port}")),
            _ => None,
        };
    }

    pub(super) fn problems(&self, may_be_reached: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(address) = self.listen.filter(|address| !address.ip().is_loopback() && !may_be_reached) {
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
        if self.is_off && (self.listen.is_some() || self.place.is_some()) {
            problems.push("gRPC has an address and is switched off; drop one of the two".to_owned());
        }
        problems
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

// === impl Site ===

impl Site {
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
                Method::Health(method) => self.health(method, body).await,
                Method::Reflection => self.reflect(body),
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
        let principal = self.authenticate(head)?;
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
        context.agent = mount.name.clone();
        let extensions = context.extensions.clone();
        let reply = self.call(&mount, dialect, request, context, None).await;
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
        let mut limits = self.limits;
        limits.body_bytes += HEAD;
        body::read(body, &limits).await.map_err(|unread| match unread {
            Unread::TooLarge(_) => {
                let text = format!("The request is larger than {} bytes", self.limits.body_bytes);
                Error::with_message(ErrorCode::ResourceExhausted, text)
            }
            other => other.into(),
        })
    }

    /// The agent that a tenant names; without one, the one that the authority names, the one at the root, or the only one.
    fn grpc_mount(
        &self,
        head: &Parts,
        request: &mut Request,
        context: &CallContext,
    ) -> Result<Arc<Mount>, Error> {
        let (tenant, table) = (request.tenant_mut(), self.table.load());
        let by_host = || self.named_by_authority(head).and_then(|name| table.named(name));
        let named = match tenant.is_empty() {
            true => by_host(),
            false => table.named(tenant),
        };
        let named = named.filter(|mount| !mount.internal || self.is_inside(context));
        let only = || table.only().filter(|mount| !mount.internal || self.is_inside(context));
        let found = named.or_else(|| table.at_root()).or_else(only);
        found.cloned().ok_or_else(|| match tenant.is_empty() {
            true => {
                Error::invalid_field("tenant", "is required: it names the agent, of which there are several")
            }
            false => Error::invalid_field("tenant", "is not known here"),
        })
    }

    /// The agent that is called by a host name of its own below that of the server: v0.3 has no tenant to name it by.
    fn named_by_authority<'a>(&self, head: &'a Parts) -> Option<&'a str> {
        let (own, _) = self.mounter.grpc.as_deref()?.rsplit_once(':')?;
        let authority = match head.uri.host() {
            Some(host) => host,
            None => head.headers.get(http::header::HOST)?.to_str().ok()?,
        };
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let (name, parent) = host.split_once('.')?;
        parent.eq_ignore_ascii_case(own).then_some(name)
    }

    fn reflect<B>(&self, body: B) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if !self.reflects {
            let text = "Reflection is switched off here; the .proto files come with the SDK";
            return Err(Error::with_message(ErrorCode::MethodNotFound, text));
        }
        let slot = self.streams.reserve(Operation::SubscribeToTask)?;
        Ok(reflection::respond(body, self.grpc_services().collect(), slot.permit))
    }

    /// What is served, besides health and reflection.
    fn grpc_services(&self) -> impl Iterator<Item = &'static str> {
        let all = [(Version::V1_0, crate::grpc::SERVICE), (Version::V0_3, v0_3::grpc::SERVICE)];
        all.into_iter()
            .filter(|(version, _)| self.mounter.versions.serves(*version))
            .map(|(_, service)| service)
    }

    async fn health<B>(&self, method: health::Method, body: B) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let service = health::asked(&self.grpc_body(body).await?)?;
        let is_known = service.is_empty() || self.grpc_services().any(|known| known == service);
        match method {
            health::Method::Check => health::check(is_known, &self.stopping),
            health::Method::Watch => {
                let slot = self.streams.reserve(Operation::SubscribeToTask)?;
                Ok(health::watch(is_known, &self.stopping, slot.permit))
            }
        }
    }
}
