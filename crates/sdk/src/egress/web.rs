//! Plain HTTP to a service that is no agent, such as the endpoint of a model: a request, and an answer that is read as a
//! whole or as server-sent events, within limits.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::{Connector, Egress};
use crate::client::sse::Reader;

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Asks a service that is no agent. Connections are made by the policy that it is made with, and kept for the next request;
/// redirects are not followed.
#[derive(Clone, Debug)]
pub struct Web {
    client: Client<Connector, Full<Bytes>>,
}

/// The head of an answer, and the body to come.
#[derive(Debug)]
pub struct WebAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
}

/// The events of an answer, as they come.
#[derive(Debug)]
pub struct WebEvents {
    body: Incoming,
    reader: Reader,
}

/// Why there is no answer, or no more of it. No URL is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// Nobody was reached.
    #[error("cannot be reached")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke.
    #[error("the connection broke")]
    Cut(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It says more than it may.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl Web {
    /// Dials by this policy.
    pub fn new(egress: &Egress) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(egress.connector());
        Self { client }
    }

    /// Posts JSON, and waits for the head of the answer.
    pub async fn post(&self, url: Uri, headers: HeaderMap, body: Bytes) -> Result<WebAnswer, WebError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        self.ask(request, headers).await
    }

    /// Asks for a document in JSON, and waits for the head of the answer.
    pub async fn get(&self, url: Uri, headers: HeaderMap) -> Result<WebAnswer, WebError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = url;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        self.ask(request, headers).await
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>, more: HeaderMap) -> Result<WebAnswer, WebError> {
        let agent = concat!("chancery/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
        request.headers_mut().extend(more);
        let answer = self.client.request(request).await.map_err(|error| {
            let (unsent, error) = (error.is_connect(), Box::new(error));
            if unsent { WebError::Connect(error) } else { WebError::Cut(error) }
        })?;
        let (head, body) = answer.into_parts();
        Ok(WebAnswer { status: head.status, headers: head.headers, body })
    }
}

impl WebAnswer {
    /// Whether it went well.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// How long to wait before asking again, if it says so: in seconds, or by a date.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = httpdate::parse_http_date(text).ok()?;
        Some(until.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Whether events come.
    pub fn is_events(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
    }

    /// All of it, if that is not more than this.
    pub async fn whole(mut self, limit: usize) -> Result<Bytes, WebError> {
        let mut all = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| WebError::Cut(Box::new(error)))?;
            let Ok(data) = frame.into_data() else { continue };
            if all.len().saturating_add(data.len()) > limit {
                return Err(WebError::TooLarge(limit));
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    }

    /// Event by event, each no larger than this.
    pub fn events(self, limit: usize) -> WebEvents {
        WebEvents { body: self.body, reader: Reader::new(limit) }
    }
}

impl WebEvents {
    /// The data of the next event; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, WebError> {
        loop {
            if let Some(frame) = self.reader.next() {
                return Ok(Some(frame.data));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| WebError::Cut(Box::new(error)))?;
            if let Ok(data) = frame.into_data() {
                let limit = self.reader.limit();
                self.reader.push(&data).map_err(|_| WebError::TooLarge(limit))?;
            }
        }
    }
}
