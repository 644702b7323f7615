//! What both HTTP bindings read from the head of a request, and what they answer in theirs.

use std::borrow::Cow;
use std::sync::Arc;

use chancery_protocol::{
    CallContext, EXTENSIONS_HEADER, Error, ErrorCode, Principal, VERSION_HEADER, Version, parse_extensions,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use percent_encoding::percent_decode_str;

use crate::server::Body;

/// The versions that are served.
pub(crate) const SERVED: [Version; 1] = [Version::V1_0];

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The most extensions that one call may activate.
const MAX_EXTENSIONS: usize = 64;

/// Checks the version and lifts the rest of the head into the call's context.
pub(crate) fn context(
    head: &Parts,
    principal: Principal,
    agent: &Arc<str>,
    lenient: bool,
) -> Result<CallContext, Error> {
    let version = version(head, lenient)?;
    let mut extensions = Vec::new();
    for value in head.headers.get_all(EXTENSIONS_HEADER) {
        parse_extensions(value.to_str().unwrap_or_default(), &mut extensions);
    }
    if extensions.len() > MAX_EXTENSIONS {
        return Err(Error::invalid_field(
            "A2A-Extensions",
            format!("must have at most {MAX_EXTENSIONS} entries"),
        ));
    }
    Ok(CallContext {
        version,
        extensions,
        idempotency_key: text(&head.headers, &IDEMPOTENCY_KEY)?.map(str::to_owned),
        last_event: last_event(&head.headers)?,
        traceparent: text(&head.headers, &TRACEPARENT)?.map(str::to_owned),
        ..CallContext::new(principal, agent.clone())
    })
}

fn version(head: &Parts, lenient: bool) -> Result<Version, Error> {
    match head.headers.get(VERSION_HEADER) {
        Some(value) => Version::negotiate(Some(value.to_str().unwrap_or("?")), &SERVED, lenient),
        None => {
            let asked = query(head).find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
            Version::negotiate(asked.as_ref().map(|(_, value)| &**value), &SERVED, lenient)
        }
    }
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(text) = text(headers, &LAST_EVENT_ID)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let number =
        text.parse().map_err(|_| Error::invalid_field("Last-Event-ID", "must be the number of an event"))?;
    Ok(Some(number))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Error> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    value.to_str().map(Some).map_err(|_| Error::invalid_field(name.as_str(), "must be visible ASCII"))
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

/// A body of a media type that the binding does not take.
pub(crate) fn wrong_content_type(actual: &str, expected: &str) -> Error {
    let shown: String = actual.chars().filter(|c| !c.is_control()).take(64).collect();
    let text = format!("Content type not supported: `{shown}`; send `{expected}`");
    Error::with_message(ErrorCode::ContentTypeNotSupported, text)
}

/// Tells the client which of the extensions it asked for are active.
pub(crate) fn echo_extensions(response: &mut Response<Body>, asked: &[String], known: &[String]) {
    let active: Vec<_> = asked.iter().filter(|uri| known.contains(uri)).map(String::as_str).collect();
    if !active.is_empty()
        && let Ok(value) = HeaderValue::try_from(active.join(", "))
    {
        response.headers_mut().insert(HeaderName::from_static(EXTENSIONS_HEADER), value);
    }
}

/// Headers that some errors bring along on every binding.
pub(crate) fn error_headers(response: &mut Response<Body>, error: &Error) {
    if error.code() == ErrorCode::Unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = error.wait() {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}
