//! One request to a receiver.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::PushLimits;
use super::backoff::retry_after;
use crate::egress::{ConnectError, Connector, Egress};
use crate::protocol::{TaskPushNotificationConfig, Version};
use crate::runtime::chain;

/// Posts events.
pub(super) struct Poster {
    egress: Egress,
    client: Client<Connector, Full<Bytes>>,
    timeout: Duration,
}

/// What became of an event.
#[derive(Debug)]
pub(super) enum Posted {
    /// The receiver has it.
    Accepted,
    /// The receiver will never take it.
    Rejected(Reason),
    /// It may work later: after this time, if the receiver named one.
    Failed(Reason, Option<Duration>),
}

/// Why not, in words that may be logged: neither URL nor secrets are in them.
#[derive(Debug)]
pub(super) enum Reason {
    Answer(StatusCode),
    NoAnswer(String),
    Timeout,
    Unfit(&'static str),
}

/// The two spellings in use: v1.0 names none, v0.3 the first.
const TOKEN_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-a2a-notification-token"), HeaderName::from_static("a2a-notification-token")];
const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");

/// How much of an answer's body is read, and for how long, so that the connection can be used again.
const BODY_BYTES: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long an idle connection is kept, and how many of a host.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_PER_HOST: usize = 4;

// === impl Poster ===

impl Poster {
    pub(super) fn new(egress: Egress, limits: &PushLimits) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .build(egress.connector());
        Self { egress, client, timeout: limits.request_timeout }
    }

    /// The host that a configuration names: whose time its deliveries take. Nothing if it may not be dialled.
    pub(super) fn host(&self, config: &TaskPushNotificationConfig) -> String {
        self.egress.check(&config.url).map(|checked| checked.authority()).unwrap_or_default()
    }

    pub(super) async fn post(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
        body: Bytes,
    ) -> Posted {
        let request = match self.request(config, version, body) {
            Ok(request) => request,
            Err(reason) => return Posted::Rejected(reason),
        };
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Err(_) => Posted::Failed(Reason::Timeout, None),
            Ok(Ok(response)) => judge(response).await,
            Ok(Err(error)) => {
                // None of the texts in it holds a URL.
                let reason = Reason::NoAnswer(chain(&error));
                let refused = ConnectError::refusal(&error).is_some();
                if refused { Posted::Rejected(reason) } else { Posted::Failed(reason, None) }
            }
        }
    }

    /// Everything that goes to a receiver is put together here.
    fn request(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Reason> {
        let checked =
            self.egress.check(&config.url).map_err(|refused| Reason::NoAnswer(refused.to_string()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = checked.uri().clone();
        let headers = request.headers_mut();
        let is_old = version < Version::V1_0;
        let content_type = if is_old { "application/json" } else { "application/a2a+json" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if !is_old {
            headers.insert(VERSION_HEADER, HeaderValue::from_static("1.0"));
        }
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("chancery/", env!("CARGO_PKG_VERSION"))));
        if !config.token.is_empty() {
            let token = secret(&config.token, "the token is no header value")?;
            for name in TOKEN_HEADERS.into_iter().take(if is_old { 1 } else { 2 }) {
                headers.insert(name, token.clone());
            }
        }
        if let Some(info) = config.authentication.as_ref().filter(|info| !info.credentials.is_empty()) {
            let value = format!("{} {}", info.scheme, info.credentials);
            headers.insert(AUTHORIZATION, secret(&value, "the credentials are no header value")?);
        }
        Ok(request)
    }
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").field("egress", &self.egress).finish_non_exhaustive()
    }
}

fn secret(text: &str, unfit: &'static str) -> Result<HeaderValue, Reason> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Reason::Unfit(unfit))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn judge(response: Response<Incoming>) -> Posted {
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let after = after.and_then(|value| retry_after(value, SystemTime::now()));
    // What it says does not matter; that it has been said lets the connection be used again.
    let body = Limited::new(response.into_body(), BODY_BYTES).collect();
    tokio::time::timeout(BODY_TIMEOUT, body).await.ok();
    if status.is_success() {
        Posted::Accepted
    } else if is_final(status) {
        Posted::Rejected(Reason::Answer(status))
    } else {
        Posted::Failed(Reason::Answer(status), after)
    }
}

/// Whether asking again would get the same answer.
fn is_final(status: StatusCode) -> bool {
    let passing = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    (status.is_client_error() || status.is_redirection()) && !passing.contains(&status)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(status) => write!(f, "answered {status}"),
            Self::NoAnswer(why) => write!(f, "not reached: {why}"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Unfit(why) => f.write_str(why),
        }
    }
}
