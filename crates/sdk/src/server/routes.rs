//! Routes of one's own beside the operations of A2A: other names for an agent's paths, and answers of another kind.
//!
//! Who calls is found out and counted exactly as for an operation, and a body is read within the same limits.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{AgentCard, BoxFuture, Caller, Error};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;

use super::body::{self, Body, Unread};
use super::card::Cards;
use super::site::Site;
use crate::binding::head;

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
    site: Arc<Site>,
    head: Parts,
    body: Mutex<Option<UnsyncBoxBody<Bytes, ()>>>,
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
    pub(super) fn new<B>(site: Arc<Site>, head: Parts, body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        Self { site, head, body: Mutex::new(Some(body.map_err(drop).boxed_unsync())) }
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
        Ok(self.site.authenticate(&self.head)?)
    }

    /// A card that is for this visitor alone, as the cards of agents are served: see [`Service::complete_card`](super::Service::complete_card).
    pub fn show_card(&self, path: &str, tenant: &str, mut card: AgentCard) -> Result<Response<Body>, Error> {
        let mounter = &self.site.mounter;
        mounter.place(path, tenant).put_to(&mut card);
        let mut response =
            Cards::new(&card, &mounter.versions, mounter.card_signer.as_ref())?.respond(&self.head);
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("A2A-Version, Authorization"));
        Ok(response)
    }

    /// The body, within the limits of the server. It can be read once; what is read again is empty.
    pub async fn body(&self) -> Result<Bytes, Refused> {
        let body = self.body.lock().take();
        let Some(body) = body else { return Ok(Bytes::new()) };
        Ok(body::read(body, &self.site.limits).await?)
    }
}

impl std::fmt::Debug for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visitor").field("uri", &self.head.uri).finish_non_exhaustive()
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
