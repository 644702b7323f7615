//! Server-sent events: a stream of journal events as the body of a response.

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chancery_protocol::jsonrpc::{RequestId, write_error_as, write_result_head};
use chancery_protocol::{Error, Event, EventStream};
use http::{HeaderName, HeaderValue, Response, header};
use tokio::time::{Instant, Sleep, sleep_until};

use super::rest;
use crate::dialect::{Dialect, v0_3};
use crate::server::{Body, Share, StreamSlot};

/// What stands around each event.
#[derive(Debug)]
pub(crate) enum Framing {
    /// A JSON-RPC answer to this request.
    JsonRpc(RequestId<'static>, Dialect),
    /// Nothing.
    Rest(Dialect),
}

/// The frames of a stream. Events that are ready together leave together.
pub(crate) struct EventFrames {
    events: EventStream,
    /// What stands between `data: ` and an event.
    head: Vec<u8>,
    framing: Framing,
    keep_alive: Duration,
    quiet_since: Instant,
    /// Set when there is nothing to say for the first time.
    reminder: Option<Pin<Box<Sleep>>>,
    over: bool,
    _permit: Option<Share>,
}

/// Room for what stands before an event, with an id of the usual length.
const HEAD_BYTES: usize = 80;

/// How many bytes leave in one piece, about.
const FRAME_BYTES: usize = 16 << 10;

impl EventFrames {
    pub(crate) fn new(events: EventStream, framing: Framing, slot: StreamSlot) -> Self {
        let keep_alive = slot.keep_alive;
        let mut head = Vec::new();
        if let Framing::JsonRpc(id, _) = &framing {
            head.reserve(HEAD_BYTES);
            write_result_head(&mut head, id);
        }
        Self {
            events,
            head,
            framing,
            keep_alive,
            quiet_since: Instant::now(),
            reminder: None,
            over: false,
            _permit: slot.permit,
        }
    }

    /// The response that carries these frames.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::stream(self));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    pub(crate) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut out = BytesMut::new();
        while !self.over && out.len() < FRAME_BYTES {
            match self.events.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(event))) => self.write_event(&mut out, &event),
                Poll::Ready(Some(Err(error))) => {
                    self.write_failure(&mut out, &error);
                    self.over = true;
                }
                Poll::Ready(None) => self.over = true,
                Poll::Pending => break,
            }
        }
        if !out.is_empty() {
            self.quiet_since = Instant::now();
            return Poll::Ready(Some(out.freeze()));
        }
        if self.over {
            return Poll::Ready(None);
        }
        self.poll_reminder(context)
    }

    fn write_event(&self, out: &mut BytesMut, event: &Event) {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(event.number);
        let around = match self.framing {
            Framing::JsonRpc(..) => b"id: \ndata: }\n\n".len(),
            Framing::Rest(_) => b"id: \ndata: \n\n".len(),
        };
        let length = around + number.len() + self.head.len() + event.json.len();
        out.reserve(length);
        if event.number > 0 {
            out.extend_from_slice(b"id: ");
            out.extend_from_slice(number.as_bytes());
            out.extend_from_slice(b"\n");
        }
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&event.json);
        match self.framing {
            Framing::JsonRpc(..) => out.extend_from_slice(b"}\n\n"),
            Framing::Rest(_) => out.extend_from_slice(b"\n\n"),
        }
    }

    /// A failure in the middle of a stream: said in an event of its own, after which the stream ends.
    fn write_failure(&self, out: &mut BytesMut, error: &Error) {
        let mut json = Vec::new();
        match &self.framing {
            Framing::JsonRpc(id, dialect) => write_error_as(&mut json, id, dialect.error_code(error), error),
            Framing::Rest(Dialect::V1_0 | Dialect::V0_1) => rest::write_error(&mut json, error),
            Framing::Rest(Dialect::V0_3(_)) => v0_3::rest::write_error(&mut json, error),
        }
        out.extend_from_slice(b"event: error\ndata: ");
        out.extend_from_slice(&json);
        out.extend_from_slice(b"\n\n");
    }

    /// A comment when there has been nothing to say for a while. The timer is moved only when it fires, not
    /// with every event.
    fn poll_reminder(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let first = self.quiet_since + self.keep_alive;
        let reminder = self.reminder.get_or_insert_with(|| Box::pin(sleep_until(first)));
        while reminder.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let due = self.quiet_since + self.keep_alive;
            if due <= now {
                self.quiet_since = now;
                reminder.as_mut().reset(now + self.keep_alive);
                return Poll::Ready(Some(Bytes::from_static(b": keep-alive\n\n")));
            }
            reminder.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl fmt::Debug for EventFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFrames").field("framing", &self.framing).finish_non_exhaustive()
    }
}
