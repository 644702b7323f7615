//! Which web pages may call from a browser. The headers are those of the bindings here; a browser sends and shows no others.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// What a page may send.
const SENT: [&str; 14] = [
    "a2a-extensions",
    "a2a-version",
    "accept",
    "authorization",
    "chancery-lineage",
    "content-type",
    "idempotency-key",
    "if-none-match",
    "last-event-id",
    "traceparent",
    "x-agent-id",
    "x-api-key",
    "x-budget-usd",
    "x-request-id",
];

/// What a page may see of an answer, besides what every page may.
const SHOWN: [&str; 9] = [
    "a2a-extensions",
    "a2a-version",
    "etag",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
    "www-authenticate",
    "x-request-id",
];

/// Which web pages may call from a browser, by where they come from. Credentials that a browser adds by itself are not
/// asked for: who calls says so in a header.
#[derive(Clone, Debug)]
pub struct Cors {
    pub(super) layer: CorsLayer,
    pub(super) origins: Origins,
}

/// Where pages come from that may call.
#[derive(Clone, Debug)]
pub(super) enum Origins {
    Any,
    Listed(Vec<Box<str>>),
}

impl Origins {
    pub(super) fn contains(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(listed) => listed.iter().any(|listed| **listed == *origin),
        }
    }
}

impl Default for Origins {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Cors {
    /// Pages from these origins, such as `https://app.example`; from anywhere, if one of them is `*`. What is no origin is
    /// nobody's. A browser may remember it for so long.
    pub fn new<'a>(origins: impl IntoIterator<Item = &'a str>, max_age: Duration) -> Self {
        let origins: Vec<_> = origins.into_iter().collect();
        let (allowed, origins): (AllowOrigin, _) = match origins.contains(&"*") {
            true => (Any.into(), Origins::Any),
            false => {
                let values = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
                let listed = origins.iter().map(|origin| (*origin).into()).collect();
                (AllowOrigin::list(values), Origins::Listed(listed))
            }
        };
        let layer = CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::DELETE])
            .allow_headers(SENT.map(HeaderName::from_static))
            .expose_headers(SHOWN.map(HeaderName::from_static))
            .vary([header::ORIGIN])
            .max_age(max_age);
        Self { layer, origins }
    }
}
