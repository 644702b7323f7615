//! A stream as one connection brings it: frames, until it ends, breaks or falls silent.
//!
//! What becomes of a stream that breaks is for others to decide: [`Events`](super::Events) takes it up again, and a feed says so.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{Operation, TaskId};
use http_body::Body as _;
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::AnswerBody;
use super::error::ClientError;
use super::faults::{Fault, Faults};
use super::grpc;
use super::replied::StreamEvent;
use super::settings::Settings;
use super::sse::{Frame, Reader};
use super::transport::{is_of_type, whole, wrong_type};
use super::unary::{Answer, Finish};
use super::wire::Wire;

/// How long a peer may take to end a stream after it has said everything.
const GOODBYE: Duration = Duration::from_secs(5);
/// How much of one stream is read before others get their turn: so many bytes, each piece counting as some more.
const TURN_BYTES: usize = 128 << 10;
const PIECE_BYTES: usize = 4 << 10;
/// The longest that a peer can make us wait before we come back.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A stream of frames.
pub(crate) struct Open {
    pub(super) wire: Wire,
    operation: Operation,
    pub(super) id: u64,
    /// The task, if the stream does not show it by itself.
    pub(super) snapshot: Option<StreamEvent>,
    /// What has been read already.
    pub(super) kept: VecDeque<Heard>,
    body: AnswerBody,
    reader: Read,
    /// Whether the peer has said that this is all, which older versions do.
    pub(super) said_all: bool,
    idle: Duration,
    heard: Instant,
    quiet: Pin<Box<Sleep>>,
    /// How much has been read since there was nothing to read.
    taken: usize,
    faults: Arc<Faults>,
}

/// How frames are read.
enum Read {
    Events(Reader),
    Messages(grpc::Reader),
}

/// What comes next from the peer.
pub(super) enum Heard {
    Frame(Frame),
    /// It says that it cannot go on.
    Failed(ClientError),
    /// The peer has ended the stream.
    End,
    /// The stream broke off.
    Cut(String),
    /// Nothing, for too long.
    Nothing,
    TooLarge,
}

/// Reads an answer that must be a stream.
pub(super) struct Streamed;

// === impl Streamed ===

impl Finish for Streamed {
    type Output = Open;

    async fn finish(&self, answer: Answer<'_>, settings: &Settings) -> Result<Open, ClientError> {
        let (head, mut body) = answer.response.into_parts();
        let Answer { wire, operation, id, origin, faults, .. } = answer;
        let (is_stream, expected) = match wire.is_grpc() {
            true => (grpc::is_stream(&head), "application/grpc"),
            false => {
                (head.status.is_success() && is_of_type(&head, &["text/event-stream"]), "text/event-stream")
            }
        };
        if is_stream {
            body.let_go_on();
            return Ok(Open::new(wire, (operation, id), body, (settings, faults)));
        }
        let body = whole(body, origin, settings.response_bytes).await?;
        match wire.failure(operation, id, &head, &body) {
            ClientError::Status { status, .. } if status.is_success() => Err(wrong_type(&head, expected)),
            failure => Err(failure),
        }
    }
}

// === impl Open ===

impl Open {
    fn new(
        wire: Wire,
        (operation, id): (Operation, u64),
        body: AnswerBody,
        (settings, faults): (&Settings, &Arc<Faults>),
    ) -> Self {
        let (heard, idle) = (Instant::now(), settings.idle_timeout);
        let quiet = Box::pin(sleep_until(heard + idle));
        let reader = match wire.is_grpc() {
            true => Read::Messages(grpc::Reader::new(settings.event_bytes)),
            false => Read::Events(Reader::new(settings.event_bytes)),
        };
        let (snapshot, kept, said_all, taken) = (None, VecDeque::new(), false, 0);
        let faults = faults.clone();
        Self {
            wire,
            operation,
            id,
            snapshot,
            kept,
            body,
            reader,
            said_all,
            idle,
            heard,
            quiet,
            taken,
            faults,
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        if let Some(heard) = self.kept.pop_front() {
            return Poll::Ready(heard);
        }
        loop {
            if let Some(heard) = self.reader.next() {
                return Poll::Ready(heard);
            }
            if self.taken >= TURN_BYTES {
                self.taken = 0;
                return give_way(context);
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(piece))) => {
                    self.heard = Instant::now();
                    self.taken += PIECE_BYTES + piece.data_ref().map_or(0, Bytes::len);
                    if !self.reader.take(&piece) {
                        return Poll::Ready(Heard::TooLarge);
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Heard::Cut(error.to_string())),
                Poll::Ready(None) => return Poll::Ready(self.reader.end()),
                Poll::Pending => {
                    self.taken = 0;
                    return self.poll_quiet(context);
                }
            }
        }
    }

    /// The timer is moved only when it fires, not with every piece.
    fn poll_quiet(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        loop {
            ready!(self.quiet.as_mut().poll(context));
            let due = self.heard + self.idle;
            if due <= Instant::now() {
                return Poll::Ready(Heard::Nothing);
            }
            self.quiet.as_mut().reset(due);
        }
    }

    /// Everything has been said: the peer has only to end the stream.
    pub(super) fn expect_end(&mut self) {
        self.idle = self.idle.min(GOODBYE);
        self.quiet.as_mut().reset(self.heard + self.idle);
    }

    /// How long the peer wants us to wait before coming back.
    pub(super) fn retry(&self) -> Duration {
        self.reader.retry()
    }

    pub(super) fn event(&mut self, frame: &Frame, is_first: bool) -> Result<StreamEvent, ClientError> {
        let event = self.wire.event(self.id, frame, is_first).or_else(|error| self.unread(frame, error))?;
        self.said_all |= event.is_last;
        Ok(event)
    }

    /// An event that breaks the protocol, unless it can be read another way.
    fn unread(&self, frame: &Frame, error: ClientError) -> Result<StreamEvent, ClientError> {
        let why = match self.faults.secrets(None).scrubbed(error) {
            ClientError::BadAnswer(why) => why,
            error => return Err(error),
        };
        if let Some(event) = self.wire.event_of_older_form(self.id, &frame.data) {
            self.faults.tell(Fault::OlderForm, self.operation, &why, &frame.data);
            return Ok(StreamEvent { number: frame.number, ..event });
        }
        self.faults.tell(Fault::UnreadableEvent, self.operation, &why, &frame.data);
        let found = serde_json::from_slice(&frame.data).ok();
        let task = found.as_ref().and_then(task_named_in).map(TaskId::from);
        Err(ClientError::BadEvent { why, task })
    }
}

/// The id of the task that an event is about, wherever it stands.
fn task_named_in(event: &Value) -> Option<&str> {
    const AROUND: [&str; 6] =
        ["result", "task", "statusUpdate", "status_update", "artifactUpdate", "artifact_update"];
    let object = event.as_object()?;
    let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let own = || if object.contains_key("status") { text("id") } else { None };
    let within = || AROUND.iter().find_map(|name| task_named_in(object.get(*name)?));
    text("taskId").or_else(|| text("task_id")).or_else(own).or_else(within)
}

/// Lets others have their turn, and comes back then. A connection that always has more to say would not.
fn give_way<T>(context: &mut Context<'_>) -> Poll<T> {
    let mut yielding = std::pin::pin!(yield_now());
    match yielding.as_mut().poll(context) {
        Poll::Pending => {}
        Poll::Ready(()) => context.waker().wake_by_ref(),
    }
    Poll::Pending
}

// === impl Read ===

impl Read {
    fn next(&mut self) -> Option<Heard> {
        match self {
            Self::Events(reader) => reader.next().map(Heard::Frame),
            Self::Messages(reader) => match reader.next() {
                grpc::Next::Frame(frame) => Some(Heard::Frame(frame)),
                grpc::Next::Failed(error) => Some(Heard::Failed(error)),
                grpc::Next::TooLarge => Some(Heard::TooLarge),
                grpc::Next::Nothing => None,
            },
        }
    }

    /// Takes the next piece; says whether it fits.
    fn take(&mut self, piece: &http_body::Frame<Bytes>) -> bool {
        match self {
            Self::Events(reader) => piece.data_ref().is_none_or(|data| reader.push(data).is_ok()),
            Self::Messages(reader) => {
                if let Some(data) = piece.data_ref() {
                    reader.push(data);
                }
                if let Some(trailers) = piece.trailers_ref() {
                    reader.end(trailers);
                }
                true
            }
        }
    }

    /// What it means that nothing more comes. Server-sent events have no other way to end.
    fn end(&self) -> Heard {
        match self {
            Self::Messages(reader) if !reader.is_ended() => {
                Heard::Cut("it ended without saying how".to_owned())
            }
            _ => Heard::End,
        }
    }

    fn retry(&self) -> Duration {
        match self {
            Self::Events(reader) => reader.retry.unwrap_or_default().min(LONGEST_RETRY),
            Self::Messages(_) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_task_of_an_event_is_found_wherever_it_stands() {
        let status = json!({"state": 7});
        for event in [
            json!({"jsonrpc": "2.0", "id": 1, "result": {"taskId": "t", "status": status}}),
            json!({"result": {"task": {"id": "t", "status": status}}}),
            json!({"status_update": {"task_id": "t"}}),
            json!({"id": "t", "status": status}),
        ] {
            assert_eq!(task_named_in(&event), Some("t"), "{event}");
        }
        for event in
            [json!({"id": "1", "result": {}}), json!(["t"]), json!({"taskId": 7}), json!({"taskId": ""})]
        {
            assert_eq!(task_named_in(&event), None, "{event}");
        }
    }
}
