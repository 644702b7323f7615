//! Calls whose answer is a stream: one that takes itself up again when it breaks, and never ends as if all were
//! said when it is not.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{BoxFuture, Event, Request, TaskId, Version};
use futures_core::Stream;
use http_body::Body as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use super::connections::AnswerBody;
use super::error::ClientError;
use super::grpc;
use super::progress::Progress;
use super::settings::Settings;
use super::sse::{Frame, Reader};
use super::transport::{is_of_type, whole, wrong_type};
use super::unary::{Answer, Finish, Options, is_safe};
use super::wire::Wire;
use super::{Client, retry};
use crate::alarm::Alarm;

/// How long a peer may take to end a stream after it has said everything.
const GOODBYE: Duration = Duration::from_secs(5);
/// How much of one stream is read before others get their turn: so many bytes, each piece counting as some more.
const TURN_BYTES: usize = 128 << 10;
const PIECE_BYTES: usize = 4 << 10;
/// The longest that a peer can make us wait before we come back.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The events of a task as they happen, in order, each once. When the connection breaks, the stream takes itself up
/// again where it was; when that does not work, its last item is an error. It ends without one only after the task has
/// ended, or waits for somebody, or the agent has answered directly.
pub struct Events {
    client: Client,
    /// What opened the stream.
    request: Request,
    options: Options,
    progress: Progress,
    ready: VecDeque<Event>,
    link: Link,
    /// How often in a row it broke without anything new having come.
    failed: u32,
    /// Whether what was said may be said again.
    may_say_again: bool,
    /// Whether the peer speaks an older version.
    is_old: bool,
    deadline: Option<Pin<Box<Sleep>>>,
    since: Instant,
    _slot: OwnedSemaphorePermit,
}

enum Link {
    Open(Box<Open>),
    Opening(BoxFuture<'static, Result<Opened, ClientError>>),
    Over,
}

/// A stream that has been opened again, or what came of its task meanwhile.
pub(super) enum Opened {
    Stream(Box<Open>),
    Outcome(Event),
}

/// A stream of frames.
pub(crate) struct Open {
    pub(super) wire: Wire,
    pub(super) id: u64,
    /// The task, if the stream does not show it by itself.
    pub(super) snapshot: Option<Event>,
    /// What has been read already.
    pub(super) kept: VecDeque<Heard>,
    body: AnswerBody,
    reader: Read,
    /// Whether the peer has said that this is all, which older versions do.
    pub(super) said_all: bool,
    idle: Duration,
    heard: Instant,
    quiet: Alarm,
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

impl Client {
    pub(crate) async fn watch(&self, request: Request, mut options: Options) -> Result<Events, ClientError> {
        let slot = self.stream_slot().await?;
        // The key has to be the same if the message has to be sent again.
        let peer = self.peer().await?;
        let may_say_again = is_safe(&peer, &request, &mut options, self.settings());
        let mut open = self.attempts(&mut request.clone(), &mut options.clone(), &Streamed).await?;
        if let Request::SubscribeToTask(asked) = &request {
            self.catch_up(&mut open, &asked.id, &options).await;
        }
        // What is said again there begins another task.
        let may_say_again = may_say_again && !open.wire.names_tasks();
        let progress = Progress::after(options.terms.last_event.unwrap_or_default());
        let deadline = options.deadline.map(|deadline| Box::pin(sleep_until(deadline.into())));
        let mut events = Events {
            client: self.clone(),
            request,
            options,
            progress,
            ready: VecDeque::new(),
            link: Link::Over,
            failed: 0,
            may_say_again,
            is_old: false,
            deadline,
            since: Instant::now(),
            _slot: slot,
        };
        events.begin(Box::new(open))?;
        Ok(events)
    }

    /// Waits for a place among the open streams.
    pub(super) async fn stream_slot(&self) -> Result<OwnedSemaphorePermit, ClientError> {
        let limit = self.settings().request_timeout;
        match timeout(limit, self.0.streams.clone().acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(ClientError::TimedOut { what: "a free place for a stream", after: limit }),
        }
    }

    /// Says the same thing again, which the peer will run only once.
    async fn say_again(
        self,
        mut request: Request,
        mut options: Options,
        pause: Duration,
    ) -> Result<Opened, ClientError> {
        sleep(pause).await;
        options.retries = Some(0);
        let open = self.attempts(&mut request, &mut options, &Streamed).await?;
        Ok(Opened::Stream(Box::new(open)))
    }
}

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
        let quiet = Alarm::at(heard + idle);
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
            ready!(self.quiet.poll(context));
            let due = self.heard + self.idle;
            if due <= Instant::now() {
                return Poll::Ready(Heard::Nothing);
            }
            self.quiet.reset(due);
        }
    }

    /// Everything has been said: the peer has only to end the stream.
    fn expect_end(&mut self) {
        self.idle = self.idle.min(GOODBYE);
        self.quiet.reset(self.heard + self.idle);
    }

    pub(super) fn event(&mut self, frame: &Frame, is_first: bool) -> Result<Event, ClientError> {
        let heard = self.wire.event(self.id, &frame.data, is_first)?;
        self.said_all |= heard.is_last;
        Ok(Event::received(frame.number, heard.json))
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

    /// How long the peer wants us to wait before coming back.
    fn retry(&self) -> Duration {
        match self {
            Self::Events(reader) => reader.retry.unwrap_or_default().min(LONGEST_RETRY),
            Self::Messages(_) => Duration::ZERO,
        }
    }
}

// === impl Events ===

impl Events {
    /// The next event. An error is the last item.
    pub async fn next(&mut self) -> Option<Result<Event, ClientError>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The task that is watched, once that is known.
    pub fn task_id(&self) -> Option<&TaskId> {
        match &self.request {
            Request::SubscribeToTask(request) => Some(&request.id),
            _ => self.progress.task.as_ref(),
        }
    }

    /// The number of the last event; 0 if the agent does not number them.
    pub fn last_event(&self) -> u64 {
        self.progress.last
    }

    /// Takes what the peer said. An error ends the stream.
    fn take(&mut self, heard: Heard) -> Result<(), ClientError> {
        let frame = match heard {
            Heard::Frame(frame) => frame,
            Heard::End if self.is_over() || self.progress.is_waiting() => return self.end(),
            Heard::Cut(_) | Heard::Nothing if self.is_over() => return self.end(),
            Heard::End => return self.broken("the agent ended it before the task"),
            Heard::Cut(why) => {
                self.options.watch.broke_off();
                return self.broken(&why);
            }
            Heard::Failed(error) => return self.gave_up(error),
            Heard::Nothing => {
                // A peer that has nothing to say is not one that fails.
                self.failed = 0;
                return self.broken("the agent was silent for too long");
            }
            Heard::TooLarge => {
                let limit = self.client.settings().event_bytes;
                return Err(ClientError::TooLarge { what: "an event of the stream", limit });
            }
        };
        let Link::Open(open) = &mut self.link else { return Ok(()) };
        if frame.data.is_empty() {
            return Ok(());
        }
        let event = match open.event(&frame, self.progress.task.is_none()) {
            Ok(event) => event,
            Err(error) => return self.gave_up(error),
        };
        let mut new = Vec::new();
        self.progress.take(event, &mut new)?;
        self.options.watch.heard();
        if !new.is_empty() {
            self.failed = 0;
            self.ready.extend(new);
        }
        if self.progress.is_over() || open.said_all {
            open.expect_end();
        }
        Ok(())
    }

    /// The peer says that it cannot go on.
    fn gave_up(&mut self, error: ClientError) -> Result<(), ClientError> {
        match error {
            // It says that coming back helps.
            ClientError::Peer(error) if error.is_retryable() => self.broken(error.message()),
            error => Err(error),
        }
    }

    /// Whether nothing more has to come.
    fn is_over(&self) -> bool {
        self.progress.is_over() || matches!(&self.link, Link::Open(open) if open.said_all)
    }

    /// Reads from a stream that has been opened, after the task if that has been asked for.
    fn begin(&mut self, mut open: Box<Open>) -> Result<(), ClientError> {
        let snapshot = open.snapshot.take();
        self.is_old = open.wire.version() < Version::V1_0;
        self.link = Link::Open(open);
        let Some(snapshot) = snapshot else { return Ok(()) };
        let mut new = Vec::new();
        self.progress.take(snapshot, &mut new)?;
        self.ready.extend(new);
        // If the stream shows the task too, only what is new in it counts.
        self.progress.resume();
        if self.progress.is_over() { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), ClientError> {
        self.link = Link::Over;
        self.options.watch.answered();
        Ok(())
    }

    /// Takes the stream up again, if that is possible at all.
    fn broken(&mut self, why: &str) -> Result<(), ClientError> {
        let last = self.progress.last;
        let cut = |why: String| Err(ClientError::StreamCut { last_event: last, why });
        self.failed += 1;
        if self.failed > self.client.settings().resumes {
            return cut(why.to_owned());
        }
        let asked = match &self.link {
            Link::Open(open) => open.reader.retry(),
            _ => Duration::ZERO,
        };
        let pause = asked.max(retry::jittered(self.failed));
        let (client, options) = (self.client.clone(), self.options.clone());
        self.link = Link::Opening(match self.task_id().cloned() {
            Some(id) => Box::pin(client.reopen(id, options, last, pause, self.is_old)),
            None if self.may_say_again => Box::pin(client.say_again(self.request.clone(), options, pause)),
            None => return cut(format!("{why}, and which task it was is not known yet")),
        });
        Ok(())
    }

    fn opened(&mut self, opened: Result<Opened, ClientError>) -> Result<(), ClientError> {
        match opened {
            Ok(Opened::Stream(open)) => {
                self.progress.resume();
                self.begin(open)
            }
            Ok(Opened::Outcome(event)) => {
                self.ready.push_back(event);
                self.end()
            }
            Err(error @ ClientError::StreamCut { .. }) => Err(error),
            Err(error) if error.is_retryable() => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                self.broken(&format!("{error}{}", cause.unwrap_or_default()))
            }
            Err(error) => Err(error),
        }
    }

    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event, ClientError>>> {
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(context));
        self.link = Link::Over;
        let after = self.since.elapsed();
        Poll::Ready(Some(Err(ClientError::TimedOut { what: "the stream", after })))
    }
}

impl Stream for Events {
    type Item = Result<Event, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            let outcome = match &mut this.link {
                Link::Over => return Poll::Ready(None),
                Link::Opening(opening) => match opening.as_mut().poll(context) {
                    Poll::Ready(opened) => this.opened(opened),
                    Poll::Pending => return this.poll_deadline(context),
                },
                Link::Open(open) => match open.poll(context) {
                    Poll::Ready(heard) => this.take(heard),
                    Poll::Pending => return this.poll_deadline(context),
                },
            };
            if let Err(error) = outcome {
                this.link = Link::Over;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("progress", &self.progress).finish_non_exhaustive()
    }
}
