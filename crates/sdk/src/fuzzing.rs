//! Every decoder, as a function of any bytes: for the fuzzer in `fuzz/`, and for the replay of what it found.
//!
//! None may panic. Where more can be asked of it, more is: what was read and written again is read as the same, and
//! how bytes are cut makes no difference. Not for users: nothing here is stable.

use chancery_protocol::jsonrpc::{Envelope, decode_call};
use chancery_protocol::{AgentCard, Operation, StreamResponse, decode_reply};
use http::{Method, Request as HttpRequest, Response};

use crate::binding::{grpc as server_grpc, rest as server_rest};
use crate::client::fuzzed as client;
use crate::dialect::{card, v0_1, v0_3};
use crate::{grpc, protobuf};

/// One decoder, and the name of its corpus.
#[derive(Debug)]
pub struct Target {
    /// A folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Tries it on some bytes; panics if they get the better of it.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// All of them.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), run: $name }),*];
    };
}

targets!(
    jsonrpc_request,
    rest_request,
    v0_3_jsonrpc_request,
    v0_3_rest_request,
    v0_1_jsonrpc_request,
    answer,
    grpc_request,
    grpc_answer,
    grpc_frames,
    grpc_status,
    grpc_timeout,
    protobuf_to_json,
    protobuf_from_json,
    sse,
    event,
    card
);

/// A body posted to the JSON-RPC binding.
pub fn jsonrpc_request(bytes: &[u8]) {
    let (id, Ok(request)) = decode_call(bytes) else { return };
    let mut params = Vec::new();
    request.write_json(&mut params).expect("what was read can be written");
    let again = chancery_protocol::Request::decode(request.operation(), &params);
    let again = again.expect("what was written can be read");
    assert_eq!(format!("{request:?}"), format!("{again:?}"));
    assert!(!id.as_str().is_empty());
}

/// A request line of HTTP+JSON and a body: the verb, a space, the path with its query, a line feed, the body.
pub fn rest_request(bytes: &[u8]) {
    let Some((head, body)) = request_line(bytes) else { return };
    let Ok(target) = server_rest::find(&head.method, head.uri.path()) else { return };
    let _ = server_rest::decode(&target.route, &head, body);
}

fn request_line(bytes: &[u8]) -> Option<(http::request::Parts, &[u8])> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = bytes.split_at(line_end);
    let line = std::str::from_utf8(line).ok()?;
    let (verb, uri) = line.split_once(' ').unwrap_or(("GET", line));
    let method = Method::from_bytes(verb.as_bytes()).ok()?;
    let request = HttpRequest::builder().method(method).uri(uri.parse::<http::Uri>().ok()?).body(()).ok()?;
    Some((request.into_parts().0, body.strip_prefix(b"\n").unwrap_or(body)))
}

/// A body posted to the JSON-RPC binding, in v0.3.
pub fn v0_3_jsonrpc_request(bytes: &[u8]) {
    let Ok(envelope) = Envelope::decode(bytes) else { return };
    let Some(operation) = v0_3::jsonrpc::operation(&envelope.method) else { return };
    let Ok(request) = v0_3::jsonrpc::decode(operation, envelope.params()) else { return };
    let mut again = Vec::new();
    v0_3::jsonrpc::write_call(&mut again, 1, &request).expect("what was read can be written");
    let envelope = Envelope::decode(&again).expect("what was written is a request");
    let again = v0_3::jsonrpc::decode(operation, envelope.params()).expect("what was written can be read");
    assert_eq!(request.operation(), again.operation());
}

/// A body posted to the JSON-RPC binding, in v0.1.
pub fn v0_1_jsonrpc_request(bytes: &[u8]) {
    let Ok(envelope) = Envelope::decode(bytes) else { return };
    let Some(operation) = v0_1::jsonrpc::operation(&envelope.method) else { return };
    let Ok(request) = v0_1::jsonrpc::decode(operation, envelope.params()) else { return };
    let mut again = Vec::new();
    v0_1::jsonrpc::write_call(&mut again, 1, &request).expect("what was read can be written");
    let envelope = Envelope::decode(&again).expect("what was written is a request");
    let again = v0_1::jsonrpc::decode(operation, envelope.params()).expect("what was written can be read");
    assert_eq!(request.operation(), again.operation());
}

/// The same as [`rest_request`], below `/v1`.
pub fn v0_3_rest_request(bytes: &[u8]) {
    let Some((head, body)) = request_line(bytes) else { return };
    let Some(below) = v0_3::rest::below(&head, head.uri.path()) else { return };
    let Ok(route) = v0_3::rest::find(&head.method, below) else { return };
    let form = v0_3::Form::for_caller(&head.headers, body);
    let _ = v0_3::rest::decode(form, &route, &head, body);
}

/// An answer to any of our own calls, on any wire: the first byte says to which, the rest is the body.
pub fn answer(bytes: &[u8]) {
    let Some((operation, body)) = operation(bytes) else { return };
    let success = Response::builder().header("content-type", "application/json").body(());
    let Ok(success) = success else { return };
    client::answer(operation, &success.into_parts().0, body);
}

/// The operation that the first byte names, and the rest.
fn operation(bytes: &[u8]) -> Option<(Operation, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let operations = chancery_protocol::OPERATIONS.each_ref().map(|row| row.operation);
    Some((operations[usize::from(*first) % operations.len()], rest))
}

/// A call by gRPC in either version, and what else can be asked there: the first byte says which operation, the rest is
/// the message.
pub fn grpc_request(bytes: &[u8]) {
    let Some((operation, message)) = operation(bytes) else { return };
    let mut body = Vec::new();
    let _: Result<(), ()> = grpc::frame::put(&mut body, |out| {
        out.extend_from_slice(message);
        Ok(())
    });
    let _ = server_grpc::decode(operation, &body);
    let _ = server_grpc::decode_old(None, operation, &http::HeaderMap::new(), &body);
    let _ = server_grpc::health::asked(&body);
    server_grpc::reflection::fuzzed(message);
}

/// The same as [`answer`], on the wires of gRPC: the rest is a message.
pub fn grpc_answer(bytes: &[u8]) {
    let Some((operation, message)) = operation(bytes) else { return };
    let mut body = Vec::new();
    let _: Result<(), ()> = grpc::frame::put(&mut body, |out| {
        out.extend_from_slice(message);
        Ok(())
    });
    let success = Response::builder().header("content-type", grpc::CONTENT_TYPE).header("grpc-status", "0");
    let Ok(success) = success.body(()) else { return };
    client::answer(operation, &success.into_parts().0, &body);
    client::grpc_event(message);
}

/// A body of gRPC, as it comes.
pub fn grpc_frames(bytes: &[u8]) {
    grpc::fuzzed::frames(bytes);
}

/// The trailers of a call by gRPC, a line each.
pub fn grpc_status(bytes: &[u8]) {
    grpc::fuzzed::trailers(bytes);
}

/// `grpc-timeout`.
pub fn grpc_timeout(bytes: &[u8]) {
    grpc::fuzzed::wait(bytes);
}

/// Any message as bytes: the first one says which.
pub fn protobuf_to_json(bytes: &[u8]) {
    protobuf::fuzzed::from_bytes(bytes);
}

/// Any message as JSON: the first byte says which.
pub fn protobuf_from_json(bytes: &[u8]) {
    protobuf::fuzzed::from_text(bytes);
}

/// A stream of server-sent events.
pub fn sse(bytes: &[u8]) {
    client::sse(bytes);
}

/// One event of a stream in v1.0.
pub fn event(bytes: &[u8]) {
    let Ok(payload) = decode_reply::<StreamResponse>(bytes) else { return };
    let written = serde_json::to_vec(&payload).expect("what was read can be written");
    assert!(!written.contains(&b'\n'), "what is an event is on one line");
    let again: StreamResponse = decode_reply(&written).expect("what was written can be read");
    assert_eq!(payload, again);
}

/// The card of an agent, of any generation.
pub fn card(bytes: &[u8]) {
    if let Ok(card) = card::read(bytes) {
        let mut union = Vec::new();
        v0_3::card::write_union(&mut union, &card, true).expect("what was read can be written");
        assert_eq!(card::read(&union).expect("what was written can be read").name, card.name);
    }
    let Ok(card) = decode_reply::<AgentCard>(bytes) else { return };
    let written = serde_json::to_vec(&card).expect("what was read can be written");
    let again: AgentCard = decode_reply(&written).expect("what was written can be read");
    assert_eq!(card, again);
}
