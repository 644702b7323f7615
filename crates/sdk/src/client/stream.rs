//! Calls whose answer is a stream: one that takes itself up again when it breaks, and never ends as if all were
//! said when it is not.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use chancery_protocol::{BoxFuture, Event, Request, TaskId, Version};
use futures_core::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use super::error::ClientError;
use super::open::{Heard, Open, Streamed};
use super::progress::Progress;
use super::replied::StreamEvent;
use super::unary::{Options, is_safe};
use super::{Client, retry};

/// The events of a task as they happen, in order, each once. When the connection breaks, the stream takes itself up
/// again where it was; when that does not work, its last item is an error. It ends without one only after the task has
/// ended, or waits for somebody, or the agent has answered directly.
pub struct Events {
    client: Client,
    /// What opened the stream.
    request: Request,
    options: Options,
    progress: Progress,
    ready: VecDeque<StreamEvent>,
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
    Outcome(StreamEvent),
}

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
            Link::Open(open) => open.retry(),
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
                return Poll::Ready(Some(event.written()));
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
