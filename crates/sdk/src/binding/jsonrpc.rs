//! The JSON-RPC binding: one POST endpoint, the operation named in the envelope.

use chancery_protocol::jsonrpc::{RequestId, decode_call, write_error, write_result_head};
use chancery_protocol::{Error, ErrorCode, Reply, Request};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};

use super::head::{content_type, error_headers, wrong_content_type};
use super::sse::{EventFrames, Framing};
use crate::server::{Body, StreamSlot};

/// A call together with what its answer needs.
pub(crate) struct Decoded {
    pub(crate) id: RequestId<'static>,
    pub(crate) call: Result<Request, Error>,
}

/// Reads a body: the id always comes along, so that every answer can carry it.
pub(crate) fn decode(head: &Parts, body: &[u8]) -> Decoded {
    if let Some(actual) = content_type(head)
        && !actual.eq_ignore_ascii_case("application/json")
    {
        return Decoded { id: RequestId::NULL, call: Err(wrong_content_type(actual, "application/json")) };
    }
    let (id, call) = decode_call(body);
    Decoded { id, call }
}

pub(crate) fn respond(id: RequestId<'static>, reply: Result<(Reply, StreamSlot), Error>) -> Response<Body> {
    match reply {
        Ok((Reply::Stream(events), slot)) => {
            EventFrames::new(events, Framing::JsonRpc(id), slot).into_response()
        }
        Ok((reply, _)) => {
            let mut body = Vec::with_capacity(1024);
            write_result_head(&mut body, &id);
            match reply.write_json(&mut body) {
                Ok(()) => {
                    body.push(b'}');
                    json(StatusCode::OK, body)
                }
                Err(error) => fail(&id, &error),
            }
        }
        Err(error) => fail(&id, &error),
    }
}

/// An error of the protocol is an answer, so its HTTP status is 200. What concerns HTTP itself, who is calling
/// or how much, has its own status too.
pub(crate) fn fail(id: &RequestId<'_>, error: &Error) -> Response<Body> {
    let row = error.code().row();
    let own_status = row.jsonrpc > -32000 || error.code() == ErrorCode::Unavailable;
    fail_with(if own_status { row.http } else { StatusCode::OK }, id, error)
}

pub(crate) fn fail_with(status: StatusCode, id: &RequestId<'_>, error: &Error) -> Response<Body> {
    let mut body = Vec::with_capacity(512);
    write_error(&mut body, id, error);
    let mut response = json(status, body);
    error_headers(&mut response, error);
    response
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
