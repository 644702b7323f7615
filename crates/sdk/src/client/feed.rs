//! A stream as it comes, for who keeps the task elsewhere and so can tell by itself what is new.
//!
//! [`Events`](super::Events) remembers what has come, takes a broken stream up again and tells what is new in a task that
//! is shown whole. A feed does none of that: it reads one connection, and a break is an error.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use chancery_protocol::Request;
use tokio::sync::OwnedSemaphorePermit;

use super::Client;
use super::error::ClientError;
use super::open::{Heard, Open, Streamed};
use super::replied::StreamEvent;
use super::unary::Options;
use super::watch::Watch;

pub(crate) struct Feed {
    open: Box<Open>,
    /// The number of the last event that came; 0 if it had none, or none came.
    last: u64,
    event_bytes: usize,
    begun: bool,
    over: bool,
    watch: Watch,
    _slot: OwnedSemaphorePermit,
}

impl Client {
    /// Opens a stream that is not taken up again.
    pub(crate) async fn feed(&self, mut request: Request, mut options: Options) -> Result<Feed, ClientError> {
        let slot = self.stream_slot().await?;
        let open = Box::new(self.attempts(&mut request, &mut options, &Streamed).await?);
        Ok(Feed {
            open,
            last: 0,
            event_bytes: self.settings().event_bytes,
            begun: false,
            over: false,
            watch: options.watch,
            _slot: slot,
        })
    }
}

impl Feed {
    /// The number of the last event that came; 0 if the agent does not number them.
    pub(crate) fn last_event(&self) -> u64 {
        self.last
    }

    /// Whether an event has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// All that mattered has been said, however the stream ends.
    pub(crate) fn satisfied(&mut self) {
        std::mem::take(&mut self.watch).answered();
    }

    /// Reads what else comes, whatever it says, until the agent ends the stream or is silent for too long.
    pub(crate) async fn read_to_end(mut self: Box<Self>) {
        self.satisfied();
        while let Some(event) = self.next().await {
            if event.is_err_and(|error| !matches!(error, ClientError::BadEvent { .. })) {
                return;
            }
        }
    }

    /// The next event. None when the agent has ended the stream. After an error nothing more comes, unless that was one event that cannot be read.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, ClientError>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamEvent, ClientError>>> {
        while !self.over {
            let taken = match ready!(self.open.poll(context)) {
                Heard::Frame(frame) if frame.data.is_empty() => continue,
                Heard::Frame(frame) => {
                    let is_first = !std::mem::replace(&mut self.begun, true);
                    self.open.event(&frame, is_first)
                }
                Heard::End => {
                    self.over = true;
                    self.satisfied();
                    break;
                }
                Heard::Failed(error) => Err(error),
                Heard::Cut(why) => {
                    self.watch.broke_off();
                    Err(self.cut(why))
                }
                Heard::Nothing => Err(self.cut("the agent was silent for too long".to_owned())),
                Heard::TooLarge => {
                    Err(ClientError::TooLarge { what: "an event of the stream", limit: self.event_bytes })
                }
            };
            match taken {
                // Some agents say a thing twice.
                Ok(event) if event.number > 0 && event.number <= self.last => {
                    self.over |= event.is_last;
                }
                Ok(event) => {
                    self.last = event.number;
                    self.over |= event.is_last;
                    self.watch.heard();
                    if self.over {
                        self.satisfied();
                    }
                    return Poll::Ready(Some(Ok(event)));
                }
                Err(error) => {
                    self.over = !matches!(error, ClientError::BadEvent { .. });
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }

    fn cut(&self, why: String) -> ClientError {
        ClientError::StreamCut { last_event: self.last, why }
    }
}
