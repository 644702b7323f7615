//! The gRPC half of the client: an operation is a path, its request and its answer are messages in frames.

use chancery_protocol::{Operation, Request, decode_reply};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde::de::DeserializeOwned;

use super::error::ClientError;
use super::peer::Interface;
use super::replied::{Json, Replied, StreamEvent};
use super::sse::Frame;
use super::transport::{Outgoing, bare_status, is_of_type, wrong_type};
use crate::grpc::frame::{self, Frames, Unframed};
use crate::grpc::{CONTENT_TYPE, NUMBER_FIELD, SERVICE, status};
use crate::protobuf::wire::{Record, records};
use crate::protobuf::{Message, a2a_v1, from_json, to_json};

/// The URL that an interface of gRPC is called at. Cards name `host:port`, which is as safe as the way the card came; older
/// ones name a URL. A path says nothing, since gRPC has its own.
pub(crate) fn url(text: &str, over_tls: bool) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" | "grpcs" => "https",
        "http" => "http",
        _ if over_tls => "https",
        _ => "http",
    };
    format!("{scheme}://{authority}")
}

pub(crate) fn encode(interface: &Interface, request: &Request) -> Result<Outgoing, ClientError> {
    let operation = request.operation();
    let mut json = Vec::with_capacity(512);
    request.write_json(&mut json).map_err(ClientError::Peer)?;
    let (message, _) = a2a_v1::messages(operation);
    encode_as(interface, operation, (SERVICE, operation.method()), message, &json)
}

/// How a request looks whose JSON and table are these, as a call to a method of a service.
pub(crate) fn encode_as(
    interface: &Interface,
    operation: Operation,
    (service, method): (&str, &str),
    message: &'static Message,
    json: &[u8],
) -> Result<Outgoing, ClientError> {
    let uri: Uri = format!("{}/{service}/{method}", interface.base)
        .parse()
        .map_err(|_| ClientError::bad("its address does not make a URL"))?;
    let mut body = Vec::with_capacity(json.len());
    frame::put(&mut body, |out| from_json(out, message, json))
        .map_err(|why| ClientError::Configuration(format!("the request cannot be sent by gRPC: {why}")))?;
    Ok(Outgoing {
        operation: Some(operation),
        version: interface.wire.version(),
        method: Method::POST,
        uri,
        origin: interface.origin.clone(),
        accept: HeaderValue::from_static(CONTENT_TYPE),
        content_type: Some(HeaderValue::from_static(CONTENT_TYPE)),
        body: body.into(),
        is_grpc: true,
    })
}

// === answers ===

pub(crate) fn decode(operation: Operation, head: &Parts, body: &[u8]) -> Result<Replied, ClientError> {
    Replied::read(operation, &Answer::new(a2a_v1::messages(operation).1, head, body))
}

/// An answer of which the trailers have been put to the head.
pub(crate) struct Answer<'a> {
    message: &'static Message,
    head: &'a Parts,
    body: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(crate) fn new(message: &'static Message, head: &'a Parts, body: &'a [u8]) -> Self {
        Self { message, head, body }
    }

    /// Its message as JSON, if it went well.
    pub(crate) fn json(&self) -> Result<Vec<u8>, ClientError> {
        self.check()?;
        json_of(self.message, frame::single(self.body).map_err(unframed)?)
    }
}

impl Json for Answer<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        decode_reply(&self.json()?).map_err(|error| ClientError::unreadable(&error))
    }

    fn check(&self) -> Result<(), ClientError> {
        match status::read(&self.head.headers) {
            Some(Ok(())) if is_grpc(self.head) => Ok(()),
            _ => Err(failure(self.head, self.body)),
        }
    }
}

/// Whether an answer is one of gRPC's.
pub(crate) fn is_grpc(head: &Parts) -> bool {
    head.status.is_success() && is_of_type(head, &[CONTENT_TYPE, "application/grpc+proto"])
}

/// Whether a stream begins with this head.
pub(crate) fn is_stream(head: &Parts) -> bool {
    is_grpc(head) && status::read(&head.headers).is_none()
}

/// What an answer says that has no success to tell.
pub(crate) fn failure(head: &Parts, body: &[u8]) -> ClientError {
    match status::read(&head.headers) {
        Some(Err(error)) => ClientError::Peer(error),
        _ if !head.status.is_success() => bare_status(head, body),
        Some(Ok(())) if !is_grpc(head) => wrong_type(head, CONTENT_TYPE),
        Some(Ok(())) => ClientError::bad("it says that it went well, and nothing else"),
        None if is_grpc(head) => ClientError::bad("it does not say how it ended"),
        None => wrong_type(head, CONTENT_TYPE),
    }
}

/// The event in a message of a stream.
pub(crate) fn event(data: &[u8]) -> Result<StreamEvent, ClientError> {
    StreamEvent::read(&json_of(&a2a_v1::STREAM_RESPONSE, data)?)
}

/// A message as JSON.
pub(crate) fn json_of(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, ClientError> {
    to_json(message, bytes).map_err(|why| ClientError::bad(format!("a message of it is none: {why}")))
}

fn unframed(why: Unframed) -> ClientError {
    ClientError::bad(match why {
        Unframed::Compressed => "it is compressed, which nobody asked for",
        Unframed::TooLarge | Unframed::NotOne => "it is not one message in a frame of gRPC",
    })
}

// === streams ===

/// Reads the messages of a stream.
#[derive(Debug)]
pub(crate) struct Reader {
    frames: Frames,
    /// How the peer said that it ended.
    ended: Option<Result<(), ClientError>>,
}

/// What a reader has.
pub(crate) enum Next {
    Frame(Frame),
    TooLarge,
    Failed(ClientError),
    Nothing,
}

impl Reader {
    pub(crate) fn new(limit: usize) -> Self {
        Self { frames: Frames::new(limit), ended: None }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.frames.push(piece);
    }

    /// Takes what stands after the messages.
    pub(crate) fn end(&mut self, trailers: &HeaderMap) {
        self.ended = status::read(trailers).map(|ended| ended.map_err(ClientError::Peer));
    }

    /// Whether the peer has said that it is over, and not just gone.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_some() && !self.frames.is_within()
    }

    pub(crate) fn next(&mut self) -> Next {
        match self.frames.next() {
            Ok(Some(data)) => Next::Frame(Frame { number: number(&data), data }),
            Ok(None) => match self.ended.take() {
                Some(Err(error)) => Next::Failed(error),
                ended => {
                    self.ended = ended;
                    Next::Nothing
                }
            },
            Err(Unframed::TooLarge) => Next::TooLarge,
            Err(why) => Next::Failed(unframed(why)),
        }
    }
}

/// The number that a peer of our own kind has put to an event; 0 if there is none.
pub(super) fn number(message: &[u8]) -> u64 {
    let records = records(message).unwrap_or_default();
    let found = records.iter().rfind(|(field, _)| *field == NUMBER_FIELD);
    match found {
        Some((_, Record::Varint(number))) => *number,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_safe_as_the_card_was() {
        assert_eq!(url("a.example:50051", false), "http://a.example:50051");
        assert_eq!(url("a.example:443", true), "https://a.example:443");
        assert_eq!(url("grpc://a.example:1", true), "https://a.example:1");
        assert_eq!(url("grpc://a.example:1", false), "http://a.example:1");
        assert_eq!(url("https://a.example/x", false), "https://a.example");
        assert_eq!(url("http://a.example:80/", true), "http://a.example:80");
        assert_eq!(url("[::1]:9", false), "http://[::1]:9");
    }

    #[test]
    fn events_bring_their_number() {
        assert_eq!(number(&[0xc0, 0x3e, 7]), 7);
        assert_eq!(number(&[0x0a, 0]), 0);
        assert_eq!(number(&[0xff]), 0);
    }
}
