//! From a request to a response: which agent, which binding, who is calling.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use chancery_protocol::jsonrpc::RequestId;
use chancery_protocol::{
    Call, CallContext, Caller, Error, ErrorCode, LINEAGE_HEADER, NoRoute, Reply, Request, VERSION_HEADER,
    Version,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use tokio_util::sync::CancellationToken;

use super::body::{self, Body};
use super::card::{WELL_KNOWN_KEYS, is_card, respond_keys};
use super::guard::{Guard, Visit};
use super::hygiene;
use super::limits::ServerLimits;
use super::mount::Mount;
use super::mounter::Mounter;
use super::routes::{Refused, Routes, Visitor, Way};
use super::slots::{StreamSlot, StreamSlots};
use super::table::Table;
use crate::binding::{grpc, head, jsonrpc, rest};
use crate::dialect::{Dialect, v0_1, v0_3};
use crate::runtime::contained;

/// Decides who is calling, from the head of a request.
pub(super) type Authenticate = Arc<dyn Fn(&Parts) -> Result<Caller, Error> + Send + Sync>;

pub(crate) struct Site {
    /// What is mounted now.
    pub(super) table: ArcSwap<Table>,
    /// What is to be known to mount more.
    pub(super) mounter: Mounter,
    /// Held by whoever changes the table.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// Who is asked first whose a request is.
    pub(super) routes: Vec<Arc<dyn Routes>>,
    pub(super) authenticate: Option<Authenticate>,
    pub(crate) limits: ServerLimits,
    /// How HTTP+JSON and gRPC of v0.3 are written; if nobody has said it, by what the caller does.
    pub(crate) old_form: Option<v0_3::Form>,
    pub(crate) streams: StreamSlots,
    /// Cancelled when the site is about to go.
    pub(crate) stopping: CancellationToken,
    pub(crate) serves_grpc: bool,
    /// Whether tools of gRPC may ask what is served.
    pub(crate) reflects: bool,
}

/// A call that is about to be answered: by whom, if it is not the one that was found; a place, if it is a stream.
type Begun = (Option<Arc<Mount>>, Box<Call>, StreamSlot);

// === impl Site ===

impl Site {
    /// Counts the request before anything is made of it, and says in the answer what is left.
    pub(super) async fn respond_guarded<B>(
        self: &Arc<Self>,
        guard: &dyn Guard,
        source: Option<IpAddr>,
        mut head: Parts,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        let visit = match Visit::begin(guard, source, &mut head.extensions) {
            Ok(visit) => visit,
            Err(error) => return self.refuse_unread(&head, &error),
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
        match self.find(head.uri.path()) {
            Some((mount, path))
                if head.method == Method::POST && !mount.internal && mount.takes_jsonrpc(path) =>
            {
                jsonrpc::fail(Dialect::V1_0, &RequestId::NULL, error)
            }
            _ => rest::fail(rest::wants_a2a_json(head), error),
        }
    }

    pub(super) async fn respond<B>(self: &Arc<Self>, head: Parts, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if let Some(problem) = hygiene::problem(&head) {
            // Not as JSON-RPC answers, which is with success: whoever relays this must not take it for one.
            let error = Error::with_message(ErrorCode::InvalidRequest, problem);
            return match grpc::is_grpc(&head) {
                true => grpc::fail(Version::V1_0, &error),
                false => rest::fail(false, &error),
            };
        }
        if grpc::is_grpc(&head) {
            return Box::pin(self.grpc(&head, body)).await;
        }
        if let Some(way) = self.routes.iter().find_map(|routes| routes.find(&head)) {
            return Box::pin(self.follow(way, head, body)).await;
        }
        let reads = head.method == Method::GET || head.method == Method::HEAD;
        if let Some(signer) = &self.mounter.card_signer
            && (reads && head.uri.path() == WELL_KNOWN_KEYS)
        {
            return respond_keys(&**signer, &head.method);
        }
        match self.find(head.uri.path()) {
            Some((mount, path)) => self.visit(&mount, &head, path, None, body).await,
            None => rest::no_route(rest::wants_a2a_json(&head), NoRoute::Path),
        }
    }

    /// Answers a request that somebody has a way of their own for.
    async fn follow<B>(self: &Arc<Self>, way: Way, head: Parts, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        let a2a_json = rest::wants_a2a_json(&head);
        match way {
            Way::Own(answer) => match answer(Visitor::new(self.clone(), head, body)).await {
                Ok(response) => response,
                Err(Refused { status: Some(status), error }) => rest::fail_with(status, a2a_json, &error),
                Err(Refused { status: None, error }) => rest::fail(a2a_json, &error),
            },
            Way::Agent { name, below, skill, plain } => {
                let mut head = head;
                if plain && !head.headers.contains_key(VERSION_HEADER) {
                    head.headers.insert(VERSION_HEADER, HeaderValue::from_static("1.0"));
                }
                let mount = self.table.load().named(&name).cloned();
                match mount {
                    Some(mount) => self.visit(&mount, &head, &below, skill, body).await,
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
            return mount.shown.now().respond(head);
        }
        if head.method == Method::POST && mount.takes_jsonrpc(path) {
            self.jsonrpc(mount, head, skill, body).await
        } else if let Some(below) = v0_3::rest::below(head, path) {
            Box::pin(self.old_rest(mount, head, below, skill, body)).await
        } else {
            Box::pin(self.rest(mount, head, path, skill, body)).await
        }
    }

    /// The agent that a path belongs to, and the path below it.
    fn find<'a>(&self, path: &'a str) -> Option<(Arc<Mount>, &'a str)> {
        self.table.load().find(path)
    }

    /// What is known about a call to an agent from its head.
    fn context(
        &self,
        mount: &Mount,
        head: &Parts,
        caller: Caller,
        skill: Option<Arc<str>>,
        looks: Option<Version>,
    ) -> Result<CallContext, Error> {
        let mut context = head::context(head, caller, &mount.name, &self.mounter.versions, looks)?;
        context.skill = skill;
        Ok(context)
    }

    async fn jsonrpc<B>(
        &self,
        mount: &Mount,
        head: &Parts,
        skill: Option<Arc<str>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let principal = match self.authenticate(head) {
            Ok(principal) => principal,
            Err(error) => return jsonrpc::fail(Dialect::V1_0, &RequestId::NULL, &error),
        };
        let body = match body::read(body, &self.limits).await {
            Ok(body) => body,
            Err(unread) => {
                let status = unread.status();
                return jsonrpc::fail_with(status, Dialect::V1_0, &RequestId::NULL, &unread.into());
            }
        };
        let jsonrpc::Decoded { id, dialect, wants_card, call } = jsonrpc::decode(head, &body);
        drop(body);
        let dialect = dialect.map(|dialect| self.served(dialect, &call));
        let looks = dialect.map(Dialect::version);
        let context = self.context(mount, head, principal, skill, looks);
        let dialect = dialect.unwrap_or(Dialect::V1_0);
        // Which version is spoken comes before whether the request is a good one.
        let (context, request) = match context.and_then(|context| Ok((context, call?))) {
            Ok(both) => both,
            Err(error) => return jsonrpc::fail(dialect, &id, &error),
        };
        if wants_card {
            return jsonrpc::succeed(dialect, &id, |out| mount.shown.now().write_old(out));
        }
        let (dialect, request, context) = match self.is_settled(dialect, &request) {
            true => (dialect, request, context),
            false => Box::pin(self.settled(mount, dialect, request, context)).await,
        };
        let (extensions, operation) = (context.extensions.clone(), request.operation());
        let reply = self.call(mount, dialect, request, context, None).await;
        let mut response = jsonrpc::respond(dialect, id, operation, reply);
        mount.echo_extensions(&mut response, dialect, &extensions);
        response
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
        let principal = match self.authenticate(head) {
            Ok(principal) => principal,
            Err(error) => return rest::fail(a2a_json, &error),
        };
        let looks = Some(Version::V1_0);
        let context = match self.context(mount, head, principal, skill, looks) {
            Ok(context) => context,
            Err(error) => return rest::fail(a2a_json, &error),
        };
        let body = match body::read(body, &self.limits).await {
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

    /// Where two versions have the same method and only the older one is served, it is that one.
    fn served(&self, dialect: Dialect, call: &Result<Request, Error>) -> Dialect {
        let is_older = call.as_ref().is_ok_and(|request| dialect.may_be_v0_1(request))
            && self.mounter.versions.serves(Version::V0_1)
            && !self.mounter.versions.serves(Version::V0_3);
        if is_older { Dialect::V0_1 } else { dialect }
    }

    /// Whether it is plain which version is spoken.
    fn is_settled(&self, dialect: Dialect, request: &Request) -> bool {
        !dialect.may_be_v0_1(request) || !self.mounter.versions.serves(Version::V0_1)
    }

    /// Where two versions have the same method and both are served, it is the one in which the task was begun.
    async fn settled(
        &self,
        mount: &Mount,
        dialect: Dialect,
        request: Request,
        mut context: CallContext,
    ) -> (Dialect, Request, CallContext) {
        if !v0_1::is_of_this(&*mount.served.endpoint(), &request, &context).await {
            return (dialect, request, context);
        }
        context.version = Version::V0_1;
        (Dialect::V0_1, request, context)
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
        use v0_3::rest;
        let route = match rest::find(&head.method, below) {
            Ok(route) => route,
            Err(why) => return rest::no_route(why),
        };
        let looks = Some(Version::V0_3);
        let context =
            self.authenticate(head).and_then(|principal| self.context(mount, head, principal, skill, looks));
        let context = match context {
            Ok(context) => context,
            Err(error) => return rest::fail(&error),
        };
        let body = match body::read(body, &self.limits).await {
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

    pub(super) fn authenticate(&self, head: &Parts) -> Result<Caller, Error> {
        let caller = self.authenticated(head)?;
        if let (Some(guard), Some(visit)) = (&self.mounter.guard, Visit::of(head)) {
            visit.count(&**guard, &caller)?;
        }
        Ok(caller)
    }

    fn authenticated(&self, head: &Parts) -> Result<Caller, Error> {
        match &self.authenticate {
            Some(decide) => contained("authenticate", || decide(head)).flatten().inspect_err(|error| {
                if error.code() == ErrorCode::Internal {
                    tracing::error!(?error, "cannot tell who is calling");
                }
            }),
            None => Ok(Caller::anonymous()),
        }
    }

    /// Has a call answered. It is on the heap before the future is made, which would otherwise carry it around.
    pub(super) fn call<'a>(
        &'a self,
        mount: &'a Mount,
        dialect: Dialect,
        request: Request,
        context: CallContext,
        path_tenant: Option<&str>,
    ) -> impl Future<Output = Result<(Reply, StreamSlot), Error>> + Send + use<'a> {
        let operation = request.operation();
        let begun = self.begin(mount, request, context, path_tenant);
        async move {
            let (elsewhere, call, slot) = begun?;
            let mount = elsewhere.as_deref().unwrap_or(mount);
            let reply = mount.call(dialect, *call).await;
            if let Err(error) = &reply
                && error.code() == ErrorCode::Internal
            {
                tracing::error!(agent = &*mount.name, operation = operation.method(), ?error, "call failed");
            }
            Ok((self.signed(reply?)?, slot))
        }
    }

    /// Who answers, if it is not the one that was found, and a place if it is a stream.
    fn begin(
        &self,
        mount: &Mount,
        mut request: Request,
        mut context: CallContext,
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
        let slot = self.streams.reserve(request.operation())?;
        let retired = self.retired(mount, &request, &context);
        Ok((retired.or(elsewhere), Box::new(Call { request, context }), slot))
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
        let named = self.table.load().named(tenant).cloned()?;
        if named.internal && !self.is_inside(context) {
            return None;
        }
        context.agent = named.name.clone();
        Some(named)
    }

    /// Whether a request comes from somebody for whom internal agents are there.
    fn is_insider(&self, head: &Parts) -> bool {
        let lineage = head.headers.get(LINEAGE_HEADER).and_then(|value| value.to_str().ok());
        let guard = self.mounter.guard.as_ref();
        guard.is_some_and(|guard| {
            self.authenticated(head).is_ok_and(|caller| guard.is_insider(&caller, lineage))
        })
    }

    /// The same of a call.
    pub(super) fn is_inside(&self, context: &CallContext) -> bool {
        let caller = Caller { principal: context.principal.clone(), identity: context.identity.clone() };
        let guard = self.mounter.guard.as_ref();
        guard.is_some_and(|guard| guard.is_insider(&caller, context.lineage.as_deref()))
    }

    /// Who was there before, if the request is for a task that it still works on.
    fn retired(&self, mount: &Mount, request: &Request, context: &CallContext) -> Option<Arc<Mount>> {
        let table = self.table.load();
        let (retired, task) = (table.retired(&mount.name)?, request.task()?);
        retired.served.has_live(&context.principal, task).then(|| retired.clone())
    }
}
