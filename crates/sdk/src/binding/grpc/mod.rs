//! The gRPC binding: an operation is a path, its request and its answer are messages in frames, how it ended is said in
//! trailers. What the messages are is in [`crate::protobuf`].

pub(crate) mod health;
pub(crate) mod reflection;
mod stream;

use std::fmt;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_protocol::{Error, ErrorCode, Event, Operation, Reply, Request, Version};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use tokio::time::Instant;

use super::head::{content_type, error_headers};
use crate::dialect::{Dialect, v0_3};
use crate::grpc::frame::{self, Unframed};
use crate::grpc::{CONTENT_TYPE, EVENT_NUMBERS, NUMBER_FIELD, SERVICE, status, timeout};
use crate::protobuf::{Malformed, a2a_v1, from_json, request_to_json, wire};
use crate::server::{Body, Share, StreamSlot};

pub(crate) use stream::EventMessages;

/// What a path of gRPC names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// In a version, as its service says.
    A2a(Version, Operation),
    Health(health::Method),
    Reflection,
}

/// A service of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// A2A in a version.
    A2a(Version),
    Health,
    Reflection,
}

/// Every service that is served, by its name.
static SERVICES: [(&str, Service); 5] = [
    (SERVICE, Service::A2a(Version::V1_0)),
    (v0_3::grpc::SERVICE, Service::A2a(Version::V0_3)),
    (health::SERVICE, Service::Health),
    (reflection::SERVICES[0], Service::Reflection),
    (reflection::SERVICES[1], Service::Reflection),
];

/// A body that ends with trailers.
pub(crate) trait Frames: Send {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>>;
}

/// What a caller says about the answer, besides what all bindings read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Until when it is waited for.
    pub(crate) deadline: Option<Instant>,
    /// Whether events are to be numbered.
    pub(crate) numbered: bool,
}

// === requests ===

/// Whether a request is one of gRPC's, and not of gRPC-Web's or of HTTP's.
pub(crate) fn is_grpc(head: &Parts) -> bool {
    // Every request is asked this, and few begin like one.
    let begins = |value: &HeaderValue| value.as_bytes().starts_with(CONTENT_TYPE.as_bytes());
    head.headers.get(header::CONTENT_TYPE).is_some_and(begins)
        && content_type(head).is_some_and(|actual| {
            actual.strip_prefix(CONTENT_TYPE).is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
        })
}

/// Whether a request that is none of gRPC's goes where only those of gRPC go.
pub(crate) fn is_path(head: &Parts) -> bool {
    let service = || head.uri.path().strip_prefix('/')?.split_once('/').and_then(|(name, _)| service(name));
    head.method == http::Method::POST && service().is_some()
}

fn service(name: &str) -> Option<Service> {
    SERVICES.iter().find(|(known, _)| *known == name).map(|(_, service)| *service)
}

/// Whether a request asks whether the server is well.
pub(crate) fn is_health(head: &Parts) -> bool {
    is_grpc(head) && matches!(find(head), Ok(Method::Health(_)))
}

/// The method that a path names.
pub(crate) fn find(head: &Parts) -> Result<Method, Error> {
    let unknown = |what: &str| Err(Error::with_message(ErrorCode::MethodNotFound, what.to_owned()));
    if head.method != http::Method::POST {
        return unknown("a call of gRPC is a POST");
    }
    if content_type(head).is_some_and(|actual| actual.contains('+') && !actual.ends_with("+proto")) {
        return unknown("messages are taken as Protocol Buffers only; send `application/grpc`");
    }
    let path = head.uri.path().strip_prefix('/').and_then(|path| path.split_once('/'));
    let Some((name, method)) = path else { return unknown("the path names no method") };
    let Some(service) = service(name) else { return unknown("this service is not served here") };
    let found = service.method(method);
    found.ok_or_else(|| Error::with_message(ErrorCode::MethodNotFound, "the service has no such method"))
}

/// The path of every method that is served.
#[cfg(feature = "testing")]
pub(crate) fn paths() -> impl Iterator<Item = (String, Method)> {
    SERVICES.iter().flat_map(|(service_name, service)| {
        let named = move |name| Some((format!("/{service_name}/{name}"), service.method(name)?));
        service.names().into_iter().filter_map(named)
    })
}

impl Service {
    fn method(self, name: &str) -> Option<Method> {
        match self {
            Self::A2a(Version::V0_3) => {
                v0_3::grpc::operation(name).map(|found| Method::A2a(Version::V0_3, found))
            }
            Self::A2a(version) => Operation::from_method(name).map(|found| Method::A2a(version, found)),
            Self::Health => health::METHODS
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, method)| Method::Health(*method)),
            Self::Reflection => (name == reflection::METHOD).then_some(Method::Reflection),
        }
    }

    /// The names of its methods.
    #[cfg(feature = "testing")]
    fn names(self) -> Vec<&'static str> {
        match self {
            Self::A2a(Version::V0_3) => v0_3::grpc::METHODS.iter().map(|(name, _)| *name).collect(),
            Self::A2a(_) => {
                let mut names: Vec<_> = chancery_protocol::OPERATIONS.iter().map(|row| row.method).collect();
                names.dedup();
                names
            }
            Self::Health => health::METHODS.iter().map(|(name, _)| *name).collect(),
            Self::Reflection => vec![reflection::METHOD],
        }
    }
}

impl Wanted {
    pub(crate) fn of(head: &Parts) -> Result<Self, Error> {
        let text = |name| head.headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let deadline = match text(timeout::GRPC_TIMEOUT).map(timeout::read) {
            None => None,
            Some(Some(time)) => Instant::now().checked_add(time),
            Some(None) => {
                return Err(Error::invalid_field(timeout::GRPC_TIMEOUT, "must be a number and a unit"));
            }
        };
        Ok(Self { deadline, numbered: text(EVENT_NUMBERS) == Some("1") })
    }
}

/// The message of a body.
pub(crate) fn message(body: &[u8]) -> Result<&[u8], Error> {
    frame::single(body).map_err(|why| match why {
        Unframed::Compressed => {
            Error::with_message(ErrorCode::MethodNotFound, "Messages are taken as they are, not compressed")
        }
        Unframed::TooLarge | Unframed::NotOne => Error::with_message(
            ErrorCode::InvalidRequest,
            "The request must have one message, in a frame of gRPC",
        ),
    })
}

/// Reads the request of an operation.
pub(crate) fn decode(operation: Operation, body: &[u8]) -> Result<Request, Error> {
    let (request, _) = a2a_v1::messages(operation);
    let json = request_to_json(request, message(body)?).map_err(|why| unreadable(&why))?;
    Request::decode(operation, &json)
}

/// Reads one of v0.3, and says how it is to be answered, if that is not settled.
pub(crate) fn decode_old(
    form: Option<v0_3::Form>,
    operation: Operation,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Dialect, Request), Error> {
    let (request, json) = v0_3::grpc::decode(operation, message(body)?)?;
    let form = form.unwrap_or_else(|| v0_3::Form::for_caller(headers, &json));
    Ok((Dialect::V0_3(form), request))
}

pub(crate) fn unreadable(why: &Malformed) -> Error {
    Error::with_message(ErrorCode::ParseError, format!("Invalid protobuf payload: {why}"))
}

// === answers ===

/// Answers with what came of a call. The first event of a stream is waited for, so that a stream that fails at once is a
/// failure like any other.
pub(crate) async fn respond(
    dialect: Dialect,
    operation: Operation,
    reply: Result<(Reply, StreamSlot), Error>,
    wanted: Wanted,
) -> Result<Response<Body>, Error> {
    match reply? {
        (Reply::Stream(events), slot) => {
            let events = dialect.events(operation, events);
            Ok(head(Body::frames(EventMessages::begin(events, slot, wanted, dialect).await?)))
        }
        (reply, slot) => {
            let mut message = Vec::with_capacity(1024);
            frame::put(&mut message, |out| put_reply(out, dialect, operation, &reply))?;
            Ok(whole(Share::hold(slot.unread, message)))
        }
    }
}

/// An answer that went well.
pub(crate) fn whole(message: impl Into<Bytes>) -> Response<Body> {
    head(Body::frames(Whole { message: Some(message.into()), trailers: Some(status::ok()) }))
}

fn put_reply(out: &mut Vec<u8>, dialect: Dialect, operation: Operation, reply: &Reply) -> Result<(), Error> {
    if let Dialect::V0_3(form) = dialect {
        return v0_3::grpc::put_reply(out, form, operation, reply);
    }
    let mut json = Vec::with_capacity(1024);
    reply.write_json(&mut json)?;
    from_json(out, a2a_v1::messages(operation).1, &json).map_err(Error::internal)
}

fn write_event(out: &mut Vec<u8>, dialect: Dialect, event: &Event, numbered: bool) -> Result<(), Error> {
    frame::put(out, |out| {
        match dialect {
            Dialect::V0_3(_) => v0_3::grpc::put_event(out, event)?,
            // v0.1 has no gRPC.
            Dialect::V1_0 | Dialect::V0_1 => from_json(out, &a2a_v1::STREAM_RESPONSE, &event.json)?,
        }
        if numbered && event.number > 0 {
            wire::put_number(out, NUMBER_FIELD, event.number);
        }
        Ok(())
    })
    .map_err(|why: Malformed| Error::internal(why))
}

/// A failure, said in the head of an answer that has nothing else.
pub(crate) fn fail(version: Version, error: &Error) -> Response<Body> {
    let mut response = head(Body::empty());
    put_failure(response.headers_mut(), version, error);
    error_headers(&mut response, error);
    response
}

fn put_failure(headers: &mut HeaderMap, version: Version, error: &Error) {
    let code = match version {
        Version::V0_3 => v0_3::grpc::error_status(error.code()),
        _ => error.code().row().grpc.0,
    };
    status::put_as(headers, code, error);
}

/// The caller has stopped waiting.
pub(crate) fn late() -> Response<Body> {
    let mut response = head(Body::empty());
    put_late(response.headers_mut());
    response
}

fn put_late(headers: &mut HeaderMap) {
    let error = Error::with_message(ErrorCode::Unavailable, "The deadline of the call has passed");
    status::put_as(headers, status::DEADLINE_EXCEEDED, &error);
}

/// gRPC has one HTTP status for everything.
fn head(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

/// One message, then how it went.
pub(crate) struct Whole {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Frames for Whole {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Frame::data(message)));
        }
        Poll::Ready(self.trailers.take().map(Frame::trailers))
    }
}

impl fmt::Debug for dyn Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Frames")
    }
}
