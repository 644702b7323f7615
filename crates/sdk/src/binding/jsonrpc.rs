//! The JSON-RPC binding: one POST endpoint, the operation named in the envelope.

use bytes::Bytes;
use chancery_protocol::jsonrpc::{
    Envelope, RequestId, decode_call_at_once, method_not_found, write_error_as, write_result_head,
};
use chancery_protocol::{Error, ErrorCode, Operation, Reply, Request};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};

use super::head::{asked_version, error_headers};
use super::sse::{EventFrames, Framing};
use crate::dialect::{Dialect, v0_3};
use crate::server::{Body, Share, StreamSlot};

/// The media types of requests.
pub(crate) const MEDIA_TYPES: &[&str] = &["application/json"];

/// A call together with what its answer needs.
pub(crate) struct Decoded {
    pub(crate) id: RequestId<'static>,
    /// Nothing if no version has such a method.
    pub(crate) dialect: Option<Dialect>,
    /// Whether it asks for the card that anybody may see.
    pub(crate) wants_card: bool,
    pub(crate) call: Result<Request, Error>,
}

/// Reads a body: the id always comes along, so that every answer can carry it.
pub(crate) fn decode(head: &Parts, body: &[u8]) -> Decoded {
    let failed = |id, error| Decoded { id, dialect: None, wants_card: false, call: Err(error) };
    if let Some((id, request)) = decode_call_at_once(body) {
        return Decoded { id, dialect: Some(Dialect::V1_0), wants_card: false, call: Ok(request) };
    }
    let envelope = match Envelope::decode(body) {
        Ok(envelope) => envelope,
        Err((id, error)) => return failed(id, error),
    };
    let wants_card = envelope.method == v0_3::jsonrpc::CARD_METHOD;
    let (dialect, call) = match Dialect::of_method(&envelope.method, asked_version(head)) {
        Some((dialect, operation)) => (Some(dialect), dialect.decode(operation, envelope.params())),
        None => (None, Err(method_not_found(&envelope.method))),
    };
    Decoded { id: envelope.id.into_owned(), dialect, wants_card, call }
}

pub(crate) fn respond(
    dialect: Dialect,
    id: RequestId<'static>,
    operation: Operation,
    reply: Result<(Reply, StreamSlot), Error>,
) -> Response<Body> {
    match reply {
        Ok((Reply::Stream(events), slot)) => {
            let events = dialect.events(operation, events);
            EventFrames::new(events, Framing::JsonRpc(id, dialect), slot).into_response()
        }
        Ok((reply, slot)) => {
            succeed_within(slot.unread, dialect, &id, |body| dialect.write_reply(&reply, body))
        }
        Err(error) => fail(dialect, &id, &error),
    }
}

/// An answer whose result is written here.
pub(crate) fn succeed(
    dialect: Dialect,
    id: &RequestId<'_>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Response<Body> {
    succeed_within(None, dialect, id, write)
}

/// The same within somebody's share.
fn succeed_within(
    share: Option<Share>,
    dialect: Dialect,
    id: &RequestId<'_>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Response<Body> {
    let mut body = Vec::with_capacity(1024);
    write_result_head(&mut body, id);
    match write(&mut body) {
        Ok(()) => {
            body.push(b'}');
            json(StatusCode::OK, Share::hold(share, body))
        }
        Err(error) => fail(dialect, id, &error),
    }
}

/// An error of the protocol is an answer, so its HTTP status is 200. What concerns HTTP itself, who is calling
/// or how often, has its own status too.
pub(crate) fn fail(dialect: Dialect, id: &RequestId<'_>, error: &Error) -> Response<Body> {
    let row = error.code().row();
    let own_status = row.jsonrpc > -32000 || error.code() == ErrorCode::Unavailable;
    fail_with(if own_status { row.http } else { StatusCode::OK }, dialect, id, error)
}

pub(crate) fn fail_with(
    status: StatusCode,
    dialect: Dialect,
    id: &RequestId<'_>,
    error: &Error,
) -> Response<Body> {
    let mut body = Vec::with_capacity(512);
    write_error_as(&mut body, id, dialect.error_code(error), error);
    let mut response = json(status, body);
    error_headers(&mut response, error);
    response
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
