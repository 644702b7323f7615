//! The JSON-RPC half of the client: one URL, the operation named in the envelope.

use chancery_protocol::jsonrpc::{NoAnswer, answer_result, answer_result_by, decode_answer};
use chancery_protocol::{Error, ErrorNumbers, Operation, Request};
use http::response::Parts;
use http::{HeaderValue, Method};
use serde::de::DeserializeOwned;

use super::error::ClientError;
use super::peer::Interface;
use super::replied::{Json, Replied, StreamEvent};
use super::transport::{Outgoing, bare_status, is_of_type, wrong_type};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// Writes a whole call with a number as its id.
type WriteCall = fn(&mut Vec<u8>, u64, &Request) -> Result<(), Error>;

pub(crate) fn encode(
    interface: &Interface,
    id: u64,
    request: &Request,
    write_call: WriteCall,
) -> Result<Outgoing, ClientError> {
    let mut body = Vec::with_capacity(512);
    write_call(&mut body, id, request).map_err(ClientError::Peer)?;
    let operation = request.operation();
    Ok(Outgoing {
        operation: Some(operation),
        version: interface.wire.version(),
        method: Method::POST,
        uri: interface.uri.clone(),
        origin: interface.origin.clone(),
        accept: if operation.is_streaming() { EVENTS } else { JSON },
        content_type: Some(JSON),
        body: body.into(),
        is_grpc: false,
    })
}

pub(crate) fn decode(
    operation: Operation,
    id: u64,
    head: &Parts,
    body: &[u8],
) -> Result<Replied, ClientError> {
    check(head, body, id, |_| None)?;
    Replied::read(operation, &Answer { body, id })
}

/// The text of the result in an answer.
pub(crate) fn result<'a>(
    id: u64,
    head: &Parts,
    body: &'a [u8],
    numbers: ErrorNumbers,
) -> Result<&'a str, ClientError> {
    check(head, body, id, numbers)?;
    answer_result_by(body, id, numbers).map_err(no_answer)
}

struct Answer<'a> {
    body: &'a [u8],
    id: u64,
}

impl Json for Answer<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        decode_answer(self.body, self.id).map_err(no_answer)
    }

    fn check(&self) -> Result<(), ClientError> {
        answer_result(self.body, self.id).map(|_| ()).map_err(no_answer)
    }
}

/// An error of the protocol may come with any status; a success may not.
fn check(head: &Parts, body: &[u8], id: u64, numbers: ErrorNumbers) -> Result<(), ClientError> {
    if head.status.is_success() {
        return if is_of_type(head, &["application/json"]) {
            Ok(())
        } else {
            Err(wrong_type(head, "application/json"))
        };
    }
    Err(failure(head, body, id, numbers))
}

/// What an answer says that has no success to tell.
pub(crate) fn failure(head: &Parts, body: &[u8], id: u64, numbers: ErrorNumbers) -> ClientError {
    match answer_result_by(body, id, numbers) {
        Err(NoAnswer::Failed(error)) => ClientError::Peer(error),
        _ => bare_status(head, body),
    }
}

/// The event in a frame of a stream.
pub(crate) fn event(data: &[u8], id: u64) -> Result<StreamEvent, ClientError> {
    decode_answer(data, id).map(|payload| StreamEvent::new(0, payload)).map_err(no_answer)
}

/// The text of an event in a version that is translated. One without a result is none.
pub(crate) fn event_text(data: &[u8], id: u64, numbers: ErrorNumbers) -> Result<&str, ClientError> {
    match answer_result_by(data, id, numbers).map_err(no_answer)? {
        "null" => Err(ClientError::bad("an event of it has no result")),
        text => Ok(text),
    }
}

fn no_answer(why: NoAnswer) -> ClientError {
    match why {
        NoAnswer::Failed(error) => ClientError::Peer(error),
        NoAnswer::Unreadable(what) => ClientError::BadAnswer(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_a_result_is_none() {
        let task = r#"{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}"#;
        let whole = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{task}}}"#);
        assert!(event(whole.as_bytes(), 7).is_ok());
        assert_eq!(event_text(whole.as_bytes(), 7, |_| None).unwrap(), task);
        for text in [r#"{"jsonrpc":"2.0","id":7}"#, r#"{"jsonrpc":"2.0","id":7,"result":null}"#, "{}", "7"] {
            assert!(matches!(event(text.as_bytes(), 7), Err(ClientError::BadAnswer(_))), "{text}");
            let read = event_text(text.as_bytes(), 7, |_| None);
            assert!(matches!(read, Err(ClientError::BadAnswer(_))), "{text}");
        }
    }
}
