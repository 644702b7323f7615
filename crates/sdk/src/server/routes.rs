//! Routes of one's own beside the operations of A2A: other names for an agent's paths, and answers of another kind.
//!
//! Who calls is found out and counted exactly as for an operation, and a body is read within the same limits.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{
    AgentCard, BoxFuture, CallContext, Caller, Error, ErrorCode, NoRoute, Reply, Request, VERSION_HEADER,
    Version,
};
use futures_util::StreamExt as _;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;

use super::body::{self, Body, Unread};
use super::card::Cards;
use super::shares::Share;
use super::site::View;
use crate::binding::{head, rest};
use crate::dialect::Dialect;

/// Says whose a request is, before the paths of the agents are looked at. Written by whoever serves something beside
/// agents; a server without any serves only them.
///
/// ```
/// use chancery_sdk::{Body, Routes, Way};
/// use http::request::Parts;
///
/// /// Tells callers who they are.
/// struct WhoAmI;
///
/// impl Routes for WhoAmI {
///     fn find(&self, head: &Parts) -> Option<Way> {
///         (head.uri.path() == "/whoami").then(|| {
///             Way::answer(|visitor| async move {
///                 let caller = visitor.caller()?;
///                 Ok(http::Response::new(Body::from(caller.principal.id.to_string())))
///             })
///         })
///     }
/// }
/// ```
pub trait Routes: Send + Sync + 'static {
    /// Where a request leads, if not to the agent at its path. Asked for every request, with its head alone; the request
    /// has been counted and is not malformed, but nobody knows yet whose it is. Requests of gRPC are not asked about.
    fn find(&self, head: &Parts) -> Option<Way>;

    /// Whether a request asks for the health of the server, by whatever name it calls it. Those who ask that, such as the agent of a
    /// load balancer, may know no other name than an address of their own making.
    fn is_probe(&self, head: &Parts) -> bool {
        let _ = head;
        false
    }

    /// How a request is refused that comes too often to be asked about: by a form of one's own, where those who ask at its
    /// path read another than that of A2A.
    fn refuse(&self, head: &Parts, error: &Error) -> Option<Response<Body>> {
        let _ = (head, error);
        None
    }
}

/// Where a request leads.
#[non_exhaustive]
pub enum Way {
    /// To an agent, as though the request had asked for this path below the agent's own.
    Agent {
        /// The agent's name. One that is not there is not found, like a path that is not.
        name: Arc<str>,
        /// The path below, with a slash before it, or empty.
        below: String,
        /// The skill that the path stands for, if it stands for one.
        skill: Option<Arc<str>>,
        /// Whether the path is for callers who know nothing of A2A, and need not say which version they speak.
        plain: bool,
    },
    /// To an answer of one's own.
    Own(Answer),
    /// Nowhere: it is answered like a path that does not exist.
    Nowhere,
}

/// Makes an answer.
type Answer = Box<dyn FnOnce(Visitor) -> BoxFuture<'static, Result<Response<Body>, Refused>> + Send>;

/// A request that an answer of one's own is made to.
pub struct Visitor {
    site: View,
    head: Parts,
    body: Mutex<Option<UnsyncBoxBody<Bytes, ()>>>,
    /// Room for what is answered, if a call has been answered with much.
    unread: Arc<Mutex<Option<Share>>>,
}

/// Why there is no answer. Written as HTTP+JSON writes errors.
#[derive(Debug)]
pub struct Refused {
    /// Where the error's own status is not the right one.
    pub status: Option<StatusCode>,
    /// What is wrong.
    pub error: Error,
}

// === impl Way ===

impl Way {
    /// An answer of one's own.
    pub fn answer<F>(make: impl FnOnce(Visitor) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Response<Body>, Refused>> + Send + 'static,
    {
        Self::Own(Box::new(move |visitor| Box::pin(make(visitor))))
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent { name, below, .. } => f.debug_tuple("Agent").field(name).field(below).finish(),
            Self::Own(_) => f.write_str("Own"),
            Self::Nowhere => f.write_str("Nowhere"),
        }
    }
}

// === impl Visitor ===

impl Visitor {
    pub(super) fn new<B>(site: View, head: Parts, body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        Self { site, head, body: Mutex::new(Some(body.map_err(drop).boxed_unsync())), unread: Arc::default() }
    }

    /// Where there is room for what is answered.
    pub(super) fn unread(&self) -> Arc<Mutex<Option<Share>>> {
        self.unread.clone()
    }

    /// The head of the request.
    pub fn head(&self) -> &Parts {
        &self.head
    }

    /// The query of the request: names and values, decoded.
    pub fn query(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        head::query(&self.head)
    }

    /// Finds out who is calling, and counts the request as theirs. To be asked once.
    pub fn caller(&self) -> Result<Caller, Refused> {
        Ok(self.site.authenticate(&self.head, None)?)
    }

    /// When the credential of a caller ends, if it can: what goes on until then is to end with it.
    pub fn revoked(&self, caller: &Caller) -> Option<BoxFuture<'static, ()>> {
        self.site.revoked(&caller.principal, &caller.identity)
    }

    /// The same for somebody who knows nothing of A2A, and need not say which version of it is spoken.
    #[must_use]
    pub fn plain(mut self) -> Self {
        speak_newest(&mut self.head);
        self
    }

    /// Whether there is an agent of this name for whoever asks: one that is internal is not there for everybody.
    pub fn sees(&self, agent: &str) -> bool {
        self.site.table.named(agent).is_some_and(|mount| !mount.internal || self.site.is_insider(&self.head))
    }

    /// Whether whoever asks has shown to be this agent. Nothing is counted.
    pub fn is_agent(&self, name: &str) -> bool {
        self.site.authenticated(&self.head).is_ok_and(|caller| caller.identity.agent.as_deref() == Some(name))
    }

    /// What is known from the head of the request about a call that this caller makes to an agent.
    pub fn context(&self, agent: &str, caller: Caller) -> Result<Box<CallContext>, Error> {
        let versions = &self.site.mounter.versions;
        head::context(&self.head, caller, &agent.into(), versions, Some(Version::V1_0))
    }

    /// Has the agent that the context names answer a call, through everything that stands in front of it, as though the
    /// request had come to the path of that agent.
    pub async fn call(&self, request: Request, context: Box<CallContext>) -> Result<Reply, Error> {
        let mount = self.site.table.named(&context.agent);
        let mount = mount.filter(|mount| !mount.internal || self.site.is_inside(&context));
        let mount = mount.ok_or_else(|| Error::new(ErrorCode::MethodNotFound))?;
        let (reply, slot) = self.site.call(mount, Dialect::V1_0, request, context, None).await?;
        Ok(match reply {
            // The place of a stream is taken for as long as the stream is there.
            Reply::Stream(events) => Reply::Stream(Box::pin(events.inspect(move |_| {
                let _taken = &slot;
            }))),
            reply => {
                *self.unread.lock() = slot.unread;
                reply
            }
        })
    }

    /// The answer to a path that does not exist.
    pub fn nowhere(&self) -> Response<Body> {
        rest::no_route(rest::wants_a2a_json(&self.head), NoRoute::Path)
    }

    /// A card that is for this visitor alone, as the cards of agents are served: see [`Service::complete_card`](super::Service::complete_card).
    pub fn show_card(&self, path: &str, tenant: &str, mut card: AgentCard) -> Result<Response<Body>, Error> {
        let mounter = &self.site.mounter;
        mounter.place(path, tenant).put_to(&mut card);
        let mut response =
            Cards::new(card, &mounter.versions, mounter.card_signer.as_ref()).respond(&self.head)?;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("A2A-Version, Authorization, X-API-Key"));
        Ok(response)
    }

    /// The body, within the limits of the server, if it is of one of these media types, such as `application/json`; refused with 415
    /// if it is of another or does not say. It can be read once; what is read again is empty.
    pub async fn body(&self, takes: &'static [&'static str]) -> Result<Bytes, Refused> {
        let body = self.body.lock().take();
        let Some(body) = body else { return Ok(Bytes::new()) };
        let limits = &self.site.limits;
        Ok(body::read(&self.head, body, takes, limits.body_bytes, limits.body_timeout).await?)
    }
}

impl std::fmt::Debug for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visitor").field("uri", &self.head.uri).finish_non_exhaustive()
    }
}

/// Has a caller who does not say which version is spoken be taken to speak the newest.
pub(super) fn speak_newest(head: &mut Parts) {
    if !head.headers.contains_key(VERSION_HEADER) {
        head.headers.insert(VERSION_HEADER, HeaderValue::from_static("1.0"));
    }
}

// === impl Refused ===

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { status: None, error }
    }
}

impl From<Unread> for Refused {
    fn from(unread: Unread) -> Self {
        Self { status: Some(unread.status()), error: unread.into() }
    }
}
