//! One HTTP exchange with a peer: limits, credentials, interceptors, and every way in which it can fail.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chancery_protocol::{EXTENSIONS_HEADER, LINEAGE_HEADER, Operation, VERSION_HEADER, Version};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connections::{AnswerBody, BodyError, ConnectionPools, MAX_HEAD_BYTES};
use super::connector::Connector;
use super::credentials::Audience;
use super::error::ClientError;
use super::limit::Rate;
use super::origin::Origin;
use super::patience::Patience;
use super::retry::Budget;
use super::settings::Settings;
use crate::dialect::v0_3;
use crate::egress::ConnectError;
use crate::grpc::{EVENT_NUMBERS, timeout};

/// How much of an answer that is none is repeated.
const EXCERPT_CHARS: usize = 200;
/// How many headers most requests have, at most.
const FEW_HEADERS: usize = 12;

/// Older versions do not say which one they are.
const V1_0: HeaderValue = HeaderValue::from_static("1.0");
const VERSION: HeaderName = HeaderName::from_static(VERSION_HEADER);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The way to one peer, shared by all calls to it.
pub(crate) struct Transport {
    connections: ConnectionPools,
    settings: Arc<Settings>,
    audience: Audience,
    places: Arc<Semaphore>,
    rate: Option<Rate>,
    /// What retries are paid from.
    pub(crate) budget: Budget,
    extensions: Option<HeaderValue>,
}

/// A request as a binding wants it.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// None for the card.
    pub(crate) operation: Option<Operation>,
    /// The version that it speaks.
    pub(crate) version: Version,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// Where the URI leads.
    pub(crate) origin: Arc<Origin>,
    pub(crate) accept: HeaderValue,
    /// None if there is no body.
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) body: Bytes,
    /// Whether it needs HTTP/2, trailers, and to say how long it is waited for.
    pub(crate) is_grpc: bool,
}

/// What a call says besides its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) extensions: Vec<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) last_event: Option<u64>,
    pub(crate) traceparent: Option<String>,
    pub(crate) lineage: Option<String>,
    /// When it is no longer waited for.
    pub(crate) until: Option<Instant>,
    /// Conditions on the card.
    pub(crate) conditions: Vec<(HeaderName, HeaderValue)>,
}

// === impl Transport ===

impl Transport {
    pub(crate) fn new(settings: Arc<Settings>, named: Origin) -> Self {
        let connector = Connector::new(&settings, named.clone());
        let connections = ConnectionPools::new(&connector, settings.concurrent_calls);
        let extensions = settings.extensions.join(", ");
        Self {
            connections,
            audience: Audience { named, allowed: settings.credentials_to.clone() },
            places: Arc::new(Semaphore::new(settings.concurrent_calls)),
            rate: settings.rate.map(|(per_second, burst)| Rate::new(per_second, burst)),
            budget: Budget::new(),
            extensions: HeaderValue::try_from(extensions).ok().filter(|value| !value.is_empty()),
            settings,
        }
    }

    /// Waits for its turn, sends a request and waits for the head of the answer. The place is held for as long
    /// as the answer is being read, which is waited for no longer than all of this.
    pub(crate) async fn exchange(
        &self,
        outgoing: &Outgoing,
        terms: &Terms,
        patience: Option<Patience>,
    ) -> Result<(Response<AnswerBody>, OwnedSemaphorePermit), ClientError> {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) if self.rate.is_none() => place,
            place => Box::pin(self.turn(place.ok(), patience)).await?,
        };
        let request = self.request(outgoing, terms)?;
        let response = self.answer(outgoing, request, patience).await?;
        if self.settings.interceptors.is_empty() {
            return Ok((response, place));
        }
        let (head, body) = response.into_parts();
        for interceptor in &self.settings.interceptors {
            interceptor.after(outgoing.operation, &head);
        }
        Ok((Response::from_parts(head, body), place))
    }

    /// Waits for a place, unless there is one, and until the rate allows for another call.
    async fn turn(
        &self,
        place: Option<OwnedSemaphorePermit>,
        patience: Option<Patience>,
    ) -> Result<OwnedSemaphorePermit, ClientError> {
        let turn = async {
            let place = match place {
                Some(place) => Ok(place),
                None => self.places.clone().acquire_owned().await,
            };
            if let Some(rate) = &self.rate {
                rate.take().await;
            }
            place.map_err(|_| ClientError::bad("the client is closed"))
        };
        match patience {
            Some(patience) => patience.wait_for(turn).await?,
            None => turn.await,
        }
    }

    /// Sends a request and waits for the head of the answer.
    async fn answer(
        &self,
        outgoing: &Outgoing,
        request: Request<Full<Bytes>>,
        patience: Option<Patience>,
    ) -> Result<Response<AnswerBody>, ClientError> {
        let asked = self.connections.request(request, outgoing.is_grpc);
        let answered = match patience {
            Some(patience) => patience.wait_for(asked).await?,
            None => asked.await,
        };
        let answer = answered.map_err(|error| self.failed(error, &outgoing.origin))?;
        Ok(answer.map(|body| AnswerBody::new(body, patience)))
    }

    /// Tells apart why there is no answer: it matters whether anything was sent.
    fn failed(&self, error: legacy::Error, origin: &Origin) -> ClientError {
        if let Some(refused) = ConnectError::refusal(&error)
            && (!self.audience.named.is_same(origin) || self.settings.found_at.is_some())
        {
            return ClientError::Refused { origin: origin.to_string(), why: refused.to_string() };
        }
        let inner = find::<hyper::Error>(&error);
        if inner.is_some_and(hyper::Error::is_parse_too_large) {
            return ClientError::TooLarge { what: "the head of the answer", limit: MAX_HEAD_BYTES };
        }
        if inner.is_some_and(hyper::Error::is_parse) {
            return ClientError::bad("it is not HTTP");
        }
        let unsent =
            error.is_connect() || inner.is_some_and(hyper::Error::is_canceled) || was_refused(&error);
        let (origin, source) = (origin.to_string(), Box::new(error));
        if unsent { ClientError::Connect { origin, source } } else { ClientError::Cut { origin, source } }
    }

    fn request(&self, outgoing: &Outgoing, terms: &Terms) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::new(Full::new(outgoing.body.clone()));
        *request.method_mut() = outgoing.method.clone();
        *request.uri_mut() = outgoing.uri.clone();
        let mut headers = HeaderMap::with_capacity(FEW_HEADERS);
        if outgoing.version == Version::V1_0 {
            headers.insert(VERSION, V1_0);
        }
        if outgoing.is_grpc {
            write_grpc(outgoing, terms, &mut headers);
        } else {
            headers.insert(header::ACCEPT, outgoing.accept.clone());
        }
        if let Some(content_type) = &outgoing.content_type {
            headers.insert(header::CONTENT_TYPE, content_type.clone());
        }
        self.write_terms(outgoing.version, terms, &mut headers)?;
        if self.audience.includes(&outgoing.origin) {
            self.settings.credentials.write(&mut headers);
            if let Some(source) = &self.settings.credential_source {
                source().write(&mut headers);
            }
        }
        *request.headers_mut() = headers;
        if self.settings.interceptors.is_empty() { Ok(request) } else { self.intercepted(outgoing, request) }
    }

    fn intercepted(
        &self,
        outgoing: &Outgoing,
        request: Request<Full<Bytes>>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let (mut head, body) = request.into_parts();
        for interceptor in &self.settings.interceptors {
            interceptor.before(outgoing.operation, &mut head).map_err(ClientError::Intercepted)?;
        }
        if !Origin::of(&head.uri).is_ok_and(|led| led == *outgoing.origin) {
            return Err(ClientError::Intercepted("an interceptor may not lead a call elsewhere".into()));
        }
        // How long the body is, only hyper knows.
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::TRANSFER_ENCODING);
        Ok(Request::from_parts(head, body))
    }

    fn write_terms(
        &self,
        version: Version,
        terms: &Terms,
        headers: &mut HeaderMap,
    ) -> Result<(), ClientError> {
        let extensions = if terms.extensions.is_empty() {
            self.extensions.clone()
        } else {
            let own = self.settings.extensions.iter().filter(|uri| !terms.extensions.contains(uri));
            let all: Vec<_> = own.chain(&terms.extensions).map(String::as_str).collect();
            Some(value("an extension", &all.join(", "))?)
        };
        if let Some(extensions) = extensions {
            if version < Version::V1_0 {
                headers.insert(HeaderName::from_static(v0_3::EXTENSIONS_HEADER), extensions.clone());
            }
            headers.insert(HeaderName::from_static(EXTENSIONS_HEADER), extensions);
        }
        if let Some(key) = &terms.idempotency_key {
            headers.insert(IDEMPOTENCY_KEY, value("the idempotency key", key)?);
        }
        if let Some(number) = terms.last_event {
            headers.insert(LAST_EVENT_ID, HeaderValue::from(number));
        }
        if let Some(trace) = &terms.traceparent {
            headers.insert(TRACEPARENT, value("the traceparent", trace)?);
        }
        if let Some(lineage) = &terms.lineage {
            headers.insert(HeaderName::from_static(LINEAGE_HEADER), value("the lineage", lineage)?);
        }
        for (name, value) in &terms.conditions {
            headers.insert(name.clone(), value.clone());
        }
        Ok(())
    }
}

/// What only gRPC says.
fn write_grpc(outgoing: &Outgoing, terms: &Terms, headers: &mut HeaderMap) {
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    if outgoing.operation.is_some_and(Operation::is_streaming) {
        headers.insert(HeaderName::from_static(EVENT_NUMBERS), HeaderValue::from_static("1"));
    }
    let left = terms.until.map(|until| until.saturating_duration_since(Instant::now()));
    if let Some(Ok(value)) = left.map(|left| HeaderValue::try_from(timeout::write(left))) {
        headers.insert(HeaderName::from_static(timeout::GRPC_TIMEOUT), value);
    }
}

fn value(what: &str, text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(text)
        .map_err(|_| ClientError::Configuration(format!("{what} must be visible ASCII to be sent")))
}

/// Whether a peer by HTTP/2 says that it has not looked at a request: it refuses the stream, or goes away and has taken none as new.
fn was_refused(error: &(dyn StdError + 'static)) -> bool {
    find::<h2::Error>(error).is_some_and(|error| {
        let is_going = error.is_go_away() && error.is_remote();
        is_going || error.reason() == Some(h2::Reason::REFUSED_STREAM)
    })
}

/// Looks for a cause along the chain.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

// === answers ===

/// Reads a body to its end, as long as that is not too far away.
pub(crate) async fn whole(body: AnswerBody, origin: &Origin, limit: usize) -> Result<Bytes, ClientError> {
    Ok(whole_with_trailers(body, origin, limit).await?.0)
}

/// The same, with what stands after it.
pub(crate) async fn whole_with_trailers(
    body: AnswerBody,
    origin: &Origin,
    limit: usize,
) -> Result<(Bytes, Option<HeaderMap>), ClientError> {
    let too_large = ClientError::TooLarge { what: "the answer", limit };
    let announced = http_body::Body::size_hint(&body).lower();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(too_large);
    }
    let mut body = body;
    let mut trailers = None;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error {
            BodyError::Late(patience) => patience.late(),
            cut @ BodyError::Cut(_) => ClientError::Cut { origin: origin.to_string(), source: Box::new(cut) },
        })?;
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                continue;
            }
        };
        if first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len() > limit {
            return Err(too_large);
        }
        // An answer that comes in one piece is not copied.
        match first {
            None => first = Some(data),
            Some(_) => rest.extend_from_slice(&data),
        }
    }
    let first = first.unwrap_or_default();
    if rest.is_empty() {
        return Ok((first, trailers));
    }
    let mut all = BytesMut::with_capacity(first.len() + rest.len());
    all.extend_from_slice(&first);
    all.extend_from_slice(&rest);
    Ok((all.freeze(), trailers))
}

/// Whether an answer says that it is of one of these media types.
pub(crate) fn is_of_type(head: &Parts, known: &[&str]) -> bool {
    let value = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    known.iter().any(|known| essence.eq_ignore_ascii_case(known))
}

/// An answer of another media type than the binding has.
pub(crate) fn wrong_type(head: &Parts, expected: &str) -> ClientError {
    let actual = head.headers.get(header::CONTENT_TYPE).map_or(&b"none"[..], HeaderValue::as_bytes);
    let shown = excerpt(actual);
    ClientError::bad(format!("its content type is `{shown}`, where `{expected}` is expected"))
}

/// An answer that only HTTP understands.
pub(crate) fn bare_status(head: &Parts, body: &[u8]) -> ClientError {
    let after = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let mut body = excerpt(body);
    if head.status.is_redirection() {
        body = "redirects are not followed; name the URL that it leads to".to_owned();
    }
    ClientError::Status { status: head.status, body, retry_after: after.and_then(retry_after) }
}

/// `Retry-After`: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

fn excerpt(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * EXCERPT_CHARS)]);
    text.chars().filter(|character| !character.is_control()).take(EXCERPT_CHARS).collect()
}
