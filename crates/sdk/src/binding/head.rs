//! What both HTTP bindings read from the head of a request, and what they answer in theirs.

use std::borrow::Cow;
use std::sync::Arc;

use chancery_protocol::{
    BUDGET_HEADER, CallContext, Caller, EXTENSIONS_HEADER, Error, ErrorCode, LINEAGE_HEADER, Quota,
    RequestLabels, VERSION_HEADER, Version, parse_extensions, parse_usd,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use percent_encoding::percent_decode_str;

use crate::dialect::{Dialect, v0_3};
use crate::server::{Body, Versions, Visit};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const LAST_EVENT_ID: &str = "last-event-id";
const TRACEPARENT: &str = "traceparent";
const REQUEST_ID: &str = "x-request-id";
const AGENT_ID: &str = "x-agent-id";

/// The most extensions that one call may activate.
const MAX_EXTENSIONS: usize = 64;

/// Checks the version and lifts the rest of the head into the call's context. What the call looks like is the version of
/// its method or path, if it has any that is known.
pub(crate) fn context(
    head: &Parts,
    caller: Caller,
    agent: &Arc<str>,
    versions: &Versions,
    looks: Option<Version>,
) -> Result<Box<CallContext>, Error> {
    let mut context = CallContext::new(caller.principal, agent.clone());
    context.identity = caller.identity;
    context.source = Visit::of(head).and_then(Visit::source);
    let (mut version, mut request_id, mut agent_id) = (None, None, None);
    // One walk over the few headers that there are costs less than a look-up for each that there might be.
    for (name, value) in &head.headers {
        match name.as_str() {
            VERSION_HEADER => version = version.or(Some(value.to_str().unwrap_or("?"))),
            EXTENSIONS_HEADER | v0_3::EXTENSIONS_HEADER => {
                parse_extensions(text(name, value)?, &mut context.extensions);
            }
            IDEMPOTENCY_KEY => once(&mut context.idempotency_key, name, text(name, value)?.to_owned())?,
            LAST_EVENT_ID => context.last_event = last_event(text(name, value)?)?,
            TRACEPARENT => context.traceparent = Some(text(name, value)?.to_owned()),
            REQUEST_ID => request_id = value.to_str().ok(),
            AGENT_ID => agent_id = value.to_str().ok(),
            LINEAGE_HEADER => once(&mut context.lineage, name, text(name, value)?.to_owned())?,
            BUDGET_HEADER => once(&mut context.ceiling_micro_usd, name, ceiling(text(name, value)?)?)?,
            _ => {}
        }
    }
    context.labels = RequestLabels::of(request_id, agent_id);
    context.version = match version {
        Some(asked) => versions.agree(Some(asked), looks)?,
        None => {
            let asked = query(head).find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
            versions.agree(asked.as_ref().map(|(_, value)| &**value), looks)?
        }
    };
    // What the credential proves cannot be lost by leaving the header out, nor be another call's by sending it.
    if let Some(proven) = context.identity.lineage.as_deref() {
        context.lineage = Some(proven.to_owned());
    }
    if context.extensions.len() > MAX_EXTENSIONS {
        let text = format!("must have at most {MAX_EXTENSIONS} entries");
        return Err(Error::invalid_field("A2A-Extensions", text));
    }
    Ok(context)
}

/// What a request says about itself, for logs alone: `X-Request-ID` and `X-Agent-ID`.
pub fn request_labels(headers: &HeaderMap) -> Option<Arc<RequestLabels>> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    RequestLabels::of(text(REQUEST_ID), text(AGENT_ID))
}

/// The version that a header asks for.
pub(crate) fn asked_version(head: &Parts) -> Option<Version> {
    Version::parse(head.headers.get(VERSION_HEADER)?.to_str().ok()?.trim())
}

fn last_event(text: &str) -> Result<Option<u64>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| Error::invalid_field("Last-Event-ID", "must be the number of an event"))
}

fn ceiling(text: &str) -> Result<u64, Error> {
    parse_usd(text)
        .ok_or_else(|| Error::invalid_field("X-Budget-USD", "must be an amount in US dollars, such as 0.25"))
}

/// Two values for what can have one are refused: whichever counted, somebody on the way may have read the other.
fn once<T>(place: &mut Option<T>, name: &HeaderName, value: T) -> Result<(), Error> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::invalid_field(name.as_str(), "must be sent only once")),
    }
}

fn text<'a>(name: &HeaderName, value: &'a HeaderValue) -> Result<&'a str, Error> {
    value.to_str().map_err(|_| Error::invalid_field(name.as_str(), "must be visible ASCII"))
}

/// The query of a request: names and values, decoded.
pub(crate) fn query(head: &Parts) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let decode = |text| percent_decode_str(text).decode_utf8_lossy();
    let pairs = head.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// The media type of a request body, without its parameters.
pub(crate) fn content_type(head: &Parts) -> Option<&str> {
    let value = head.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// A body of a media type that its route does not take, or that says none.
pub(crate) fn wrong_content_type(actual: Option<&str>, expected: &str) -> Error {
    let text = match actual {
        Some(actual) => {
            let shown: String = actual.chars().filter(|c| !c.is_control()).take(64).collect();
            format!("Content type not supported: `{shown}`; send `{expected}`")
        }
        None => format!("The body has no Content-Type; send `{expected}`"),
    };
    Error::with_message(ErrorCode::ContentTypeNotSupported, text)
}

/// Tells the client which of the extensions it asked for are active.
pub(crate) fn echo_extensions(
    response: &mut Response<Body>,
    dialect: Dialect,
    asked: &[String],
    known: &[String],
) {
    let active: Vec<_> = asked.iter().filter(|uri| known.contains(uri)).map(String::as_str).collect();
    if !active.is_empty()
        && let Ok(value) = HeaderValue::try_from(active.join(", "))
    {
        response.headers_mut().insert(dialect.extensions_header(), value);
    }
}

/// Headers that some errors bring along on every binding.
pub(crate) fn error_headers(response: &mut Response<Body>, error: &Error) {
    if let Some(challenge) = error.challenged() {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(wait) = error.wait() {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(quota) = error.denied().and_then(|denied| denied.quota.as_deref()) {
        put_quota(response.headers_mut(), quota);
    }
}

/// Tells how much of something is left.
pub(crate) fn put_quota(headers: &mut HeaderMap, quota: &Quota) {
    for (name, value) in quota.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
}

/// Whether an answer tells already how much of something is left.
pub(crate) fn is_told(headers: &HeaderMap) -> bool {
    headers.contains_key("ratelimit-limit")
}
