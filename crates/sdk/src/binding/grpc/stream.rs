//! A stream of journal events as messages of gRPC.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_protocol::{Error, Event, EventStream};
use http::HeaderMap;
use http_body::Frame;
use tokio::time::{Sleep, sleep_until, timeout};

use super::{Frames, Wanted, put_failure, put_late, write_event};
use crate::dialect::Dialect;
use crate::grpc::status;
use crate::server::{Share, StreamSlot};

/// The messages of a stream. Events that are ready together leave together.
pub(crate) struct EventMessages {
    events: EventStream,
    dialect: Dialect,
    /// What was there before the head went out.
    first: Option<Event>,
    wanted: Wanted,
    deadline: Option<Pin<Box<Sleep>>>,
    /// How it ended, once it has.
    trailers: Option<HeaderMap>,
    over: bool,
    _permit: Option<Share>,
}

/// How many bytes leave in one piece, about.
const PIECE_BYTES: usize = 16 << 10;

impl EventMessages {
    /// Waits for the first event, but not so long that the caller takes us for dead.
    pub(crate) async fn begin(
        mut events: EventStream,
        slot: StreamSlot,
        wanted: Wanted,
        dialect: Dialect,
    ) -> Result<Self, Error> {
        let first = poll_fn(|context| events.as_mut().poll_next(context));
        let first = match timeout(slot.keep_alive, first).await {
            Ok(Some(first)) => Some(first?),
            Ok(None) | Err(_) => None,
        };
        let deadline = wanted.deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        Ok(Self {
            events,
            dialect,
            first,
            wanted,
            deadline,
            trailers: None,
            over: false,
            _permit: slot.permit,
        })
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event, Error>>> {
        match self.first.take() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None => self.events.as_mut().poll_next(context),
        }
    }

    fn fail(&mut self, error: &Error) {
        let mut trailers = HeaderMap::new();
        put_failure(&mut trailers, self.dialect.version(), error);
        self.trailers = Some(trailers);
    }

    fn write(&mut self, out: &mut Vec<u8>, event: &Event) {
        if let Err(error) = write_event(out, self.dialect, event, self.wanted.numbered) {
            tracing::error!(?error, "an event cannot be written");
            self.fail(&error);
        }
    }

    /// Whether the caller has stopped waiting.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready())
    }
}

impl Frames for EventMessages {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let mut out = Vec::new();
        while !self.over && self.trailers.is_none() && out.len() < PIECE_BYTES {
            match self.poll_event(context) {
                Poll::Ready(Some(Ok(event))) => self.write(&mut out, &event),
                Poll::Ready(Some(Err(error))) => self.fail(&error),
                Poll::Ready(None) => self.trailers = Some(status::ok()),
                Poll::Pending => break,
            }
        }
        if !out.is_empty() {
            return Poll::Ready(Some(Frame::data(out.into())));
        }
        if !self.over && self.trailers.is_none() {
            if !self.is_late(context) {
                return Poll::Pending;
            }
            let mut trailers = HeaderMap::new();
            put_late(&mut trailers);
            self.trailers = Some(trailers);
        }
        self.over = true;
        Poll::Ready(self.trailers.take().map(Frame::trailers))
    }
}
