//! What a peer has written, beside what it means: for whoever passes it on token for token.
//!
//! Where an answer looks as nearly all do, what stands around the task or event is cut off without being read, and the rest
//! is read once. That it can be read as one whole value shows that the cuts were right.

use std::ops::Range;

use bytes::Bytes;
use chancery_protocol::jsonrpc::plain_result;
use chancery_protocol::{
    Error, Event, Message, Request, SendMessageResponse, StreamResponse, Task, TaskOutline, field,
};
use http::response::Parts;

use super::Client;
use super::error::ClientError;
use super::settings::Settings;
use super::transport::{is_of_type, whole_with_trailers};
use super::unary::{Answer, Finish, Options};
use super::wire::Wire;

/// An event, and what it says.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) payload: Result<StreamResponse, Error>,
    /// Whether the peer says that no other follows.
    pub(super) is_last: bool,
}

/// The answer to a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A task, and `{"task":…}` with nothing beside the task, on one line, if that is how it came.
    Task(Box<Task>, Option<Bytes>),
    /// The same of a task that has ended, and has a date: it is not going to change, so it is read only in outline.
    Ended(TaskOutline, Bytes),
    Message(Message),
}

/// Reads the answer to a message.
struct AsWritten;

impl Client {
    /// Sends a message, and gives the task that comes of it also as it is written.
    pub(crate) async fn send_as_written(
        &self,
        request: &mut Request,
        options: &mut Options,
    ) -> Result<Sent, ClientError> {
        self.attempts(request, options, &AsWritten).await
    }
}

impl Finish for AsWritten {
    type Output = Sent;

    async fn finish(&self, answer: Answer<'_>, settings: &Settings) -> Result<Sent, ClientError> {
        let (mut head, body) = answer.response.into_parts();
        let (body, trailers) = whole_with_trailers(body, answer.origin, settings.response_bytes).await?;
        if let Some(sent) = answer.wire.plain_task(answer.id, &head, &body) {
            return Ok(sent);
        }
        if answer.wire.is_grpc() {
            head.headers.extend(trailers.unwrap_or_default());
        }
        let replied = answer.wire.decode(answer.operation, answer.id, &head, &body)?;
        Ok(match replied.expect()? {
            SendMessageResponse::Task(task) => Sent::Task(Box::new(task), None),
            SendMessageResponse::Message(message) => Sent::Message(message),
        })
    }
}

impl Wire {
    /// The event in a frame of a stream, as [`event`](Self::event) gives it, what it says, and where it stands in the
    /// data if it stands there.
    pub(super) fn told(
        self,
        id: u64,
        (number, data): (u64, &Bytes),
        is_first: bool,
    ) -> Result<(Told, Option<Range<usize>>), ClientError> {
        if let Some(json) = self.plain(id, data)
            && let Ok(field::Object(payload)) = serde_json::from_str(json)
        {
            let end = data.len() - self.envelope_end();
            let event = Event::received(number, data.slice_ref(json.as_bytes()));
            let told = Told { event, payload: Ok(payload), is_last: false };
            return Ok((told, Some(end - json.len()..end)));
        }
        let heard = self.event(id, data, is_first)?;
        let event = Event::received(number, heard.json);
        let payload = heard.payload.map_or_else(|| event.payload(), Ok);
        Ok((Told { event, payload, is_last: heard.is_last }, None))
    }

    /// The task in an answer that looks as nearly all do.
    fn plain_task(self, id: u64, head: &Parts, body: &Bytes) -> Option<Sent> {
        let types: &[&str] = match self {
            Self::JsonRpc => &["application/json"],
            _ => &["application/a2a+json", "application/json"],
        };
        if !head.status.is_success() || !is_of_type(head, types) {
            return None;
        }
        let json = self.plain(id, body)?;
        let (task, json) = (only_task(json)?, body.slice_ref(json.as_bytes()));
        let outline = TaskOutline::read(task).ok()?;
        if outline.status.state.is_terminal() && outline.status.timestamp.is_some() {
            return Some(Sent::Ended(outline, json));
        }
        let field::Object(task) = serde_json::from_str(task).ok()?;
        Some(Sent::Task(task, Some(json)))
    }

    /// How many bytes of an envelope stand after what is in it.
    fn envelope_end(self) -> usize {
        usize::from(self == Self::JsonRpc)
    }

    /// What is left of an answer or event when its envelope is cut off. None in versions and bindings that are translated.
    fn plain(self, id: u64, data: &[u8]) -> Option<&str> {
        let text = std::str::from_utf8(data).ok()?;
        match self {
            Self::JsonRpc => plain_result(text, id),
            Self::Rest => Some(text),
            _ => None,
        }
    }
}

/// The task in `{"task":…}`, as long as it is one JSON value. None if there are lines, which nothing can be kept in.
pub(crate) fn only_task(json: &str) -> Option<&str> {
    let has_lines = memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some();
    if has_lines { None } else { json.strip_prefix(r#"{"task":"#)?.strip_suffix('}') }
}
