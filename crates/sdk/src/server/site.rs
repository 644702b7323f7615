//! From a request to a response: which agent, which binding, who is calling.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use bytes::Bytes;
use chancery_protocol::jsonrpc::RequestId;
use chancery_protocol::{
    Call, CallContext, Caller, Error, ErrorCode, NoRoute, ProtocolBinding, Reply, Request, Version,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::body::{self, Body};
use super::callers::Authenticate;
use super::card::{WELL_KNOWN_KEYS, is_card, respond_keys};
use super::cors::Cors;
use super::cross_origin::{CrossOriginProtection, CrossOriginRefusal};
use super::guard::{Guard, Visit};
use super::hygiene;
use super::limits::ServerLimits;
use super::mount::Mount;
use super::mounter::Mounter;
use super::proxies::{Peer, Proxies};
use super::refused::RefusedCredentials;
use super::revoked::{self, Revocation};
use super::routes::{Refused, Visitor, Way, speak_newest};
use super::shares::{CountedEvents, Sharer, weight};
use super::slots::{StreamSlot, StreamSlots};
use super::table::Table;
use crate::binding::head::{content_type, wrong_content_type};
use crate::binding::{grpc, head, jsonrpc, rest};
use crate::dialect::{Dialect, v0_3};
use crate::grpc::CONTENT_TYPE;

pub(crate) struct Site {
    /// What is mounted now.
    pub(super) table: ArcSwap<Table>,
    /// What is to be known to mount more.
    pub(super) mounter: Mounter,
    /// Held by whoever changes the table.
    pub(super) changing: tokio::sync::Mutex<()>,
    pub(super) authenticate: Option<Authenticate>,
    /// Says when a credential ends.
    pub(super) revocation: Option<Revocation>,
    /// Whom to believe where a request comes from.
    pub(super) proxies: Proxies,
    /// Which web pages may call.
    pub(super) cors: Option<Cors>,
    /// What pages may send through somebody's browser.
    pub(super) cross_origin: CrossOriginProtection,
    /// Whether requests must call the server by a name of its own.
    pub(super) checks_hosts: bool,
    pub(crate) limits: ServerLimits,
    /// Whether what a guard refuses has the status of HTTP over JSON-RPC as well.
    pub(super) jsonrpc_http_status: bool,
    /// How HTTP+JSON and gRPC of v0.3 are written; if nobody has said it, by what the caller does.
    pub(crate) old_form: Option<v0_3::Form>,
    pub(crate) streams: StreamSlots,
    pub(super) refused_credentials: RefusedCredentials,
    /// How many connections have been refused.
    pub(super) refused_connections: Arc<AtomicU64>,
    /// Cancelled when the site is about to go.
    pub(crate) stopping: CancellationToken,
    pub(crate) serves_grpc: bool,
    /// Whether tools of gRPC may ask what is served.
    pub(crate) reflects: bool,
}

/// A site as one request sees it: with what was mounted when the request came, whatever is put there meanwhile.
#[derive(Clone)]
pub(crate) struct View {
    site: Arc<Site>,
    pub(super) table: Arc<Table>,
    peer: Peer,
}

/// A call that is about to be answered: by whom, if it is not the one that was found; a place, if it is a stream; whose share that
/// and the answer are of.
type Begun = (Option<Arc<Mount>>, Call, StreamSlot, Sharer);

// === impl Site ===

impl Site {
    /// The site as it is now.
    pub(super) fn view(self: &Arc<Self>, peer: Peer) -> View {
        View { site: self.clone(), table: self.table.load_full(), peer }
    }
}

// === impl View ===

impl std::ops::Deref for View {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl View {
    /// Where a request comes from.
    pub(super) fn source(&self, head: &Parts) -> Option<IpAddr> {
        self.proxies.source(self.peer, &head.headers)
    }

    pub(super) fn guard(&self) -> Option<&Arc<dyn Guard>> {
        self.table.reception.guard.as_ref()
    }

    /// Counts the request before anything is made of it, and says in the answer what is left.
    pub(super) async fn respond_guarded<B>(
        &self,
        guard: &dyn Guard,
        source: Option<IpAddr>,
        head: &mut Parts,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        let visit = match Visit::begin(guard, source, head) {
            Ok(visit) => visit,
            Err(error) => return self.refuse_unread(head, &error),
        };
        let mut response = self.respond(head, body).await;
        visit.end(&mut response);
        response
    }

    /// Refuses a request of which only the head is known, in the binding that it looks like.
    fn refuse_unread(&self, head: &Parts, error: &Error) -> Response<Body> {
        if grpc::is_grpc(head) {
            return grpc::fail(Version::V1_0, error);
        }
        if let Some(response) =
            self.table.reception.routes.iter().find_map(|routes| routes.refuse(head, error))
        {
            return response;
        }
        match self.table.find(head.uri.path()) {
            Some((mount, path))
                if head.method == Method::POST && !mount.internal && mount.takes_jsonrpc(path) =>
            {
                jsonrpc::fail(Dialect::V1_0, &RequestId::NULL, error)
            }
            _ => rest::fail(rest::wants_a2a_json(head), error),
        }
    }

    /// The head stays where it is: a future that owns it is twice as large, and every request pays for that.
    pub(super) async fn respond<B>(&self, head: &Parts, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if let Some(problem) = hygiene::problem(head) {
            // Not as JSON-RPC answers, which is with success: whoever relays this must not take it for one.
            let error = Error::with_message(ErrorCode::InvalidRequest, problem);
            return match grpc::is_grpc(head) {
                true => grpc::fail(Version::V1_0, &error),
                false => rest::fail(false, &error),
            };
        }
        if let Err(refusal) = self.check_cross_origin(head) {
            return self.refuse_cross_origin(head, &refusal);
        }
        if grpc::is_grpc(head) {
            return Box::pin(self.grpc(head, body)).await;
        }
        if grpc::is_path(head) {
            let error = wrong_content_type(content_type(head), CONTENT_TYPE);
            return rest::fail_with(StatusCode::UNSUPPORTED_MEDIA_TYPE, false, &error);
        }
        if let Some(way) = self.table.reception.routes.iter().find_map(|routes| routes.find(head)) {
            return Box::pin(self.follow(way, head.clone(), body)).await;
        }
        let reads = head.method == Method::GET || head.method == Method::HEAD;
        if let Some(signer) = &self.mounter.card_signer
            && (reads && head.uri.path() == WELL_KNOWN_KEYS)
        {
            return respond_keys(&**signer, &head.method);
        }
        match self.table.find(head.uri.path()) {
            Some((mount, path)) => self.visit(mount, head, path, None, body).await,
            None => rest::no_route(rest::wants_a2a_json(head), NoRoute::Path),
        }
    }

    /// Whether a request may have been sent by a page that may not. A probe, and who comes over a socket in the file system,
    /// may call the server by any name.
    fn check_cross_origin(&self, head: &Parts) -> Result<(), CrossOriginRefusal> {
        self.cross_origin.check_origin(head)?;
        if !self.checks_hosts || self.peer == Peer::Socket {
            return Ok(());
        }
        let checked = self.cross_origin.check_host(head);
        // By the name of an agent that is not there for whoever asks, the server is not called either.
        let named = || self.table.named(self.named_by_authority(head)?);
        let names_an_agent = || named().is_some_and(|mount| !mount.internal || self.is_insider(head));
        let is_exempt = || {
            grpc::is_health(head)
                || grpc::is_grpc(head) && names_an_agent()
                || self.table.reception.routes.iter().any(|routes| routes.is_probe(head))
        };
        if checked.is_err() && is_exempt() { Ok(()) } else { checked }
    }

    fn refuse_cross_origin(&self, head: &Parts, refusal: &CrossOriginRefusal) -> Response<Body> {
        let error = Error::with_message(ErrorCode::PermissionDenied, refusal.to_string());
        let mut response = self.refuse_unread(head, &error);
        if !grpc::is_grpc(head) {
            *response.status_mut() = refusal.status();
        }
        response
    }

    /// Answers a request that somebody has a way of their own for.
    async fn follow<B>(&self, way: Way, head: Parts, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        let a2a_json = rest::wants_a2a_json(&head);
        match way {
            Way::Own(answer) => {
                let visitor = Visitor::new(self.clone(), head, body);
                let unread = visitor.unread();
                match answer(visitor).await {
                    Ok(response) => {
                        let share = unread.lock().take();
                        response.map(|body| body.within(share))
                    }
                    Err(Refused { status: Some(status), error }) => rest::fail_with(status, a2a_json, &error),
                    Err(Refused { status: None, error }) => rest::fail(a2a_json, &error),
                }
            }
            Way::Agent { name, below, skill, plain } => {
                let mut head = head;
                if plain {
                    speak_newest(&mut head);
                }
                match self.table.named(&name) {
                    Some(mount) => self.visit(mount, &head, &below, skill, body).await,
                    None => rest::no_route(a2a_json, NoRoute::Path),
                }
            }
            Way::Nowhere => rest::no_route(a2a_json, NoRoute::Path),
        }
    }

    /// Answers a request for something below the path of an agent.
    async fn visit<B>(
        &self,
        mount: &Mount,
        head: &Parts,
        path: &str,
        skill: Option<Arc<str>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if mount.internal && !self.is_insider(head) {
            return rest::no_route(rest::wants_a2a_json(head), NoRoute::Path);
        }
        if is_card(path) && (head.method == Method::GET || head.method == Method::HEAD) {
            return mount.shown.respond(&mount.name, head);
        }
        if head.method == Method::POST && mount.takes_jsonrpc(path) {
            self.jsonrpc(mount, head, skill, body).await
        } else if !mount.versions.speaks(&ProtocolBinding::HttpJson) {
            rest::no_route(rest::wants_a2a_json(head), NoRoute::Path)
        } else if let Some(below) = v0_3::rest::below(head, path) {
            Box::pin(self.old_rest(mount, head, below, skill, body)).await
        } else {
            Box::pin(self.rest(mount, head, path, skill, body)).await
        }
    }

    /// What is known about a call to an agent from its head.
    pub(super) fn context(
        &self,
        mount: &Mount,
        head: &Parts,
        caller: Caller,
        skill: Option<Arc<str>>,
        looks: Option<Version>,
    ) -> Result<Box<CallContext>, Error> {
        let mut context = head::context(head, caller, &mount.name, &mount.versions, looks)?;
        context.skill = skill;
        Ok(context)
    }

    async fn rest<B>(
        &self,
        mount: &Mount,
        head: &Parts,
        path: &str,
        skill: Option<Arc<str>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let a2a_json = rest::wants_a2a_json(head);
        let target = match rest::find(&head.method, path) {
            Ok(target) => target,
            Err(why) => return rest::no_route(a2a_json, mount.other_verbs(path, why)),
        };
        let principal = match self.authenticate(head, Some(target.route.operation)) {
            Ok(principal) => principal,
            Err(error) => return rest::fail(a2a_json, &error),
        };
        let looks = Some(Version::V1_0);
        let context = match self.context(mount, head, principal, skill, looks) {
            Ok(context) => context,
            Err(error) => return rest::fail(a2a_json, &error),
        };
        let (limit, timeout) = (self.limits.body_bytes, self.limits.body_timeout);
        let body = match body::read(head, body, rest::MEDIA_TYPES, limit, timeout).await {
            Ok(body) => body,
            Err(unread) => return rest::fail_with(unread.status(), a2a_json, &unread.into()),
        };
        let extensions = context.extensions.clone();
        let reply = match rest::decode(&target.route, head, &body) {
            Ok(request) => self.call(mount, Dialect::V1_0, request, context, target.tenant.as_deref()).await,
            Err(error) => Err(error),
        };
        let mut response = rest::respond(a2a_json, reply);
        mount.echo_extensions(&mut response, Dialect::V1_0, &extensions);
        response
    }

    /// HTTP+JSON of v0.3.
    async fn old_rest<B>(
        &self,
        mount: &Mount,
        head: &Parts,
        below: &str,
        skill: Option<Arc<str>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        use crate::binding::rest::MEDIA_TYPES;
        use v0_3::rest;
        let route = match rest::find(&head.method, below) {
            Ok(route) => route,
            Err(why) => return rest::no_route(why),
        };
        let looks = Some(Version::V0_3);
        let caller = self.authenticate(head, Some(route.operation));
        let context = match caller.and_then(|caller| self.context(mount, head, caller, skill, looks)) {
            Ok(context) => context,
            Err(error) => return rest::fail(&error),
        };
        let (limit, timeout) = (self.limits.body_bytes, self.limits.body_timeout);
        let body = match body::read(head, body, MEDIA_TYPES, limit, timeout).await {
            Ok(body) => body,
            Err(unread) => return rest::fail_with(unread.status(), &unread.into()),
        };
        let form = self.old_form.unwrap_or_else(|| v0_3::Form::for_caller(&head.headers, &body));
        let dialect = Dialect::V0_3(form);
        let extensions = context.extensions.clone();
        let reply = match rest::decode(form, &route, head, &body) {
            Ok(request) => self.call(mount, dialect, request, context, None).await,
            Err(error) => Err(error),
        };
        let mut response = rest::respond(form, route.operation, reply);
        mount.echo_extensions(&mut response, dialect, &extensions);
        response
    }

    /// Has a call answered.
    pub(super) fn call<'a>(
        &'a self,
        mount: &'a Mount,
        dialect: Dialect,
        request: Request,
        context: Box<CallContext>,
        path_tenant: Option<&str>,
    ) -> impl Future<Output = Result<(Reply, StreamSlot), Error>> + Send + use<'a> {
        let operation = request.operation();
        let revoked =
            operation.is_streaming().then(|| self.revoked(&context.principal, &context.identity)).flatten();
        let begun = self.begin(mount, request, context, path_tenant);
        async move {
            let (elsewhere, call, mut slot, sharer) = begun?;
            let mount = elsewhere.as_deref().unwrap_or(mount);
            let reply = mount.call(dialect, call).await;
            if let Err(error) = &reply
                && error.code() == ErrorCode::Internal
            {
                tracing::error!(agent = &*mount.name, operation = operation.method(), cause = ?std::error::Error::source(error), "call failed");
            }
            let reply = match (self.signed(reply?)?, revoked) {
                (Reply::Stream(events), Some(ended)) => Reply::Stream(revoked::until(events, ended)),
                (reply, _) => reply,
            };
            let shares = &self.streams.shares;
            let reply = match reply {
                Reply::Stream(events) => {
                    Reply::Stream(CountedEvents::begin(events, shares.clone(), sharer).await?)
                }
                reply => {
                    slot.unread = shares.unread(&sharer, weight(&reply))?;
                    reply
                }
            };
            Ok((reply, slot))
        }
    }

    /// Who answers, if it is not the one that was found, and a place if it is a stream.
    fn begin(
        &self,
        mount: &Mount,
        mut request: Request,
        mut context: Box<CallContext>,
        path_tenant: Option<&str>,
    ) -> Result<Begun, Error> {
        let tenant = request.tenant_mut();
        if let Some(named) = path_tenant {
            if !tenant.is_empty() && tenant != named {
                return Err(Error::invalid_field("tenant", "the path and the body disagree"));
            }
            named.clone_into(tenant);
        }
        let elsewhere = self.other_mount(mount, tenant, &mut context);
        let mount = elsewhere.as_deref().unwrap_or(mount);
        mount.route_tenant(tenant, &mut context)?;
        // Whoever is told to try again must not have been served already.
        let sharer = Sharer::new(&context.principal, context.source);
        let slot = self.streams.reserve(request.operation(), || sharer.clone())?;
        let retired = self.retired(mount, &request, &context);
        Ok((retired.or(elsewhere), Call { request, context }, slot, sharer))
    }

    /// What leaves is signed, if it is a card.
    fn signed(&self, mut reply: Reply) -> Result<Reply, Error> {
        if let (Reply::Card(card), Some(signer)) = (&mut reply, &self.mounter.card_signer) {
            signer.sign(Arc::make_mut(card))?;
        }
        Ok(reply)
    }

    /// The agent that a tenant names to whoever asks at the root.
    fn other_mount(&self, mount: &Mount, tenant: &str, context: &mut CallContext) -> Option<Arc<Mount>> {
        if tenant.is_empty() || !mount.path.is_empty() || tenant == &*mount.name {
            return None;
        }
        let named = self.table.named(tenant).cloned()?;
        if named.internal && !self.is_inside(context) {
            return None;
        }
        context.agent = named.name.clone();
        Some(named)
    }

    /// Who was there before, if the request is for a task that it still works on.
    fn retired(&self, mount: &Mount, request: &Request, context: &CallContext) -> Option<Arc<Mount>> {
        let (retired, task) = (self.table.retired(&mount.name)?, request.task()?);
        retired.served.has_live(&context.principal, task).then(|| retired.clone())
    }
}
