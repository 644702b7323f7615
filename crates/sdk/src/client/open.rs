//! A stream as one connection brings it: frames, until it ends, breaks or falls silent.
//!
//! What becomes of a stream that breaks is for others to decide: [`Events`](super::Events) takes it up again, and a feed says so.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::AnswerBody;
use super::error::ClientError;
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
        let (is_stream, expected) = match answer.wire.is_grpc() {
            true => (grpc::is_stream(&head), "application/grpc"),
            false => {
                (head.status.is_success() && is_of_type(&head, &["text/event-stream"]), "text/event-stream")
            }
        };
        if is_stream {
            body.let_go_on();
            return Ok(Open::new(answer.wire, answer.id, body, settings));
        }
        let body = whole(body, answer.origin, settings.response_bytes).await?;
        match answer.wire.failure(answer.operation, answer.id, &head, &body) {
            ClientError::Status { status, .. } if status.is_success() => Err(wrong_type(&head, expected)),
            failure => Err(failure),
        }
    }
}

// === impl Open ===

impl Open {
    fn new(wire: Wire, id: u64, body: AnswerBody, settings: &Settings) -> Self {
        let (heard, idle) = (Instant::now(), settings.idle_timeout);
        let quiet = Box::pin(sleep_until(heard + idle));
        let reader = match wire.is_grpc() {
            true => Read::Messages(grpc::Reader::new(settings.event_bytes)),
            false => Read::Events(Reader::new(settings.event_bytes)),
        };
        let (snapshot, kept) = (None, VecDeque::new());
        Self { wire, id, snapshot, kept, body, reader, said_all: false, idle, heard, quiet, taken: 0 }
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
        let event = self.wire.event(self.id, frame, is_first)?;
        self.said_all |= event.is_last;
        Ok(event)
    }
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
