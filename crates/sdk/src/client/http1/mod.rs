//! HTTP/1.1 as a client speaks it over one connection, one exchange at a time.
//!
//! hyper's half of this is made to run in a task of its own: a request reaches it through a channel, its answer comes back
//! through a second and the body through a third. Here whoever waits reads and writes by itself, so nothing has to be
//! handed over, and nobody woken. Heads are parsed by `httparse`, as hyper's are; what a peer may send is what
//! RFC 9112 lets it send, within limits, and what could be read in two ways is refused.

mod framing;
mod head;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::response;
use hyper_util::rt::TokioIo;
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::ask::Ask;
use super::patience::Patience;
use crate::alarm::Alarm;
use crate::egress::Stream;
use framing::{Framing, Piece};
use head::Head;

pub(crate) use head::MAX_HEAD_BYTES;

/// How much is read at a time, at least and at most; the more the longer an answer is.
const LEAST_READ: usize = 8 << 10;
const MOST_READ: usize = 256 << 10;
/// How much of a buffer a connection keeps while nobody uses it.
const MOST_KEPT: usize = 16 << 10;
/// Room that is not worth a new buffer.
const ENOUGH_ROOM: usize = 1 << 10;

/// One connection.
pub(crate) struct Line {
    stream: TokioIo<Stream>,
    /// What is left to be written of a request.
    head: BytesMut,
    body: Bytes,
    /// Why the rest of it cannot be written. The peer may have answered all the same.
    unwritable: Option<io::Error>,
    /// What has been read, and has yet to be taken.
    read: BytesMut,
    next_read: usize,
    /// How the body that is being read ends.
    framing: Framing,
    keeps_open: bool,
    /// For how long the answer is waited for; none for one that goes on.
    patience: Option<Patience>,
    /// Kept from one exchange to the next, since hardly any takes too long.
    alarm: Option<Alarm>,
}

/// Why there is no answer, or no more of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("it is not HTTP")]
    NotHttp,
    #[error("the head of the answer is too large")]
    HeadTooLarge,
    #[error("the connection was closed before the answer was complete")]
    Incomplete,
    #[error("it took too long")]
    Late(Patience),
    #[error("the connection broke")]
    Io(#[source] io::Error),
    /// By TLS and gRPC.
    #[error(transparent)]
    Hyper(hyper::Error),
}

/// A request that has not been answered.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) error: Broken,
    /// Whether the peer may have seen any of it.
    pub(crate) was_sent: bool,
}

impl Line {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream: TokioIo::new(stream),
            head: BytesMut::new(),
            body: Bytes::new(),
            unwritable: None,
            read: BytesMut::new(),
            next_read: LEAST_READ,
            framing: Framing::Length(0),
            keeps_open: true,
            patience: None,
            alarm: None,
        }
    }

    /// Whether another request may follow the last one. Lets go of what that does not need.
    pub(crate) fn is_reusable(&mut self) -> bool {
        let is_done = self.framing.is_over() && self.head.is_empty() && self.body.is_empty();
        if !is_done || !self.keeps_open || !self.read.is_empty() {
            return false;
        }
        self.next_read = LEAST_READ;
        if self.read.capacity() > MOST_KEPT {
            self.read = BytesMut::new();
        }
        true
    }

    /// Whether the peer has kept the connection open, and has said nothing that nobody asked for.
    pub(crate) fn is_open(&mut self) -> bool {
        self.poll_more(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn exchange(
        &mut self,
        ask: &Ask,
        patience: Option<Patience>,
    ) -> Result<response::Parts, Unanswered> {
        self.patience = patience;
        head::write(ask, &mut self.head);
        self.body = ask.body.clone();
        let (whole, mut seen) = (self.head.len(), 0);
        let answered = poll_fn(|context| self.poll_head(context, ask, &mut seen)).await;
        let Head { parts, framing, keeps_open } = answered.map_err(|error| {
            let was_sent = self.head.len() < whole;
            Unanswered { error, was_sent }
        })?;
        self.framing = framing;
        self.keeps_open = keeps_open && !head::closes(ask);
        Ok(parts)
    }

    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        ask: &Ask,
        seen: &mut usize,
    ) -> Poll<Result<Head, Broken>> {
        loop {
            self.poll_write(context);
            match ready!(self.poll_in_time(context)) {
                Ok(0) => return Poll::Ready(Err(self.end())),
                Ok(_) => {}
                Err(broken) => return Poll::Ready(Err(broken)),
            }
            if let Some(head) = head::read(&mut self.read, seen, ask).transpose() {
                return Poll::Ready(head);
            }
        }
    }

    /// The next piece of the body; none after its end.
    pub(crate) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            self.poll_write(context);
            let piece = match self.framing.next(&mut self.read) {
                Ok(Piece::Wanting) => match ready!(self.poll_in_time(context)) {
                    Ok(0) => self.framing.closed(),
                    Ok(_) => continue,
                    Err(broken) => Err(broken),
                },
                next => next,
            };
            return Poll::Ready(match piece {
                Ok(Piece::Data(data)) => Some(Ok(data)),
                Ok(Piece::Wanting | Piece::End) => None,
                Err(error) => Some(Err(error)),
            });
        }
    }

    /// From now on the answer may take as long as it likes.
    pub(crate) fn let_go_on(&mut self) {
        self.patience = None;
    }

    /// Reads more, as long as there is time.
    fn poll_in_time(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, Broken>> {
        if let Poll::Ready(read) = self.poll_more(context) {
            return Poll::Ready(read.map_err(Broken::Io));
        }
        let Some(patience) = self.patience else { return Poll::Pending };
        let alarm = self.alarm.get_or_insert_with(|| Alarm::at(patience.until));
        alarm.poll_until(context, patience.until).map(|()| Err(Broken::Late(patience)))
    }

    /// How much of the body is yet to come, as far as is known.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.framing.announced()
    }

    /// Writes as much of the request as can be.
    fn poll_write(&mut self, context: &mut Context<'_>) {
        while self.unwritable.is_none() && !(self.head.is_empty() && self.body.is_empty()) {
            let rest = &mut (&mut self.head).chain(&mut self.body);
            match poll_write_buf(Pin::new(&mut self.stream), context, rest) {
                Poll::Pending => return,
                Poll::Ready(Ok(written)) if written > 0 => {}
                Poll::Ready(failed) => {
                    self.unwritable = Some(failed.err().unwrap_or(io::ErrorKind::WriteZero.into()));
                }
            }
        }
    }

    /// Reads more. Gives how much that was; nothing at the end.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < ENOUGH_ROOM.max(self.next_read - LEAST_READ) {
            self.read.reserve(self.next_read);
        }
        let room = self.read.capacity() - self.read.len();
        let length = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut self.read))?;
        if length == room {
            self.next_read = (2 * self.next_read).min(MOST_READ);
        }
        Poll::Ready(Ok(length))
    }

    /// What it means that the peer has closed the connection instead of answering.
    fn end(&mut self) -> Broken {
        self.unwritable.take().map_or(Broken::Incomplete, Broken::Io)
    }
}

/// Reads an answer that comes in pieces of a size: its status and its body, as far as they can be read, and whether they
/// came to their end.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_in_pieces(bytes: &[u8], size: usize) -> Result<(u16, Vec<u8>, bool), String> {
    let (mut pieces, mut read, mut seen) = (bytes.chunks(size), BytesMut::new(), 0);
    let ask = Ask::new(http::Method::POST, http::Uri::default(), Bytes::new());
    let mut head = loop {
        let Some(piece) = pieces.next() else { return Ok((0, Vec::new(), false)) };
        read.extend_from_slice(piece);
        let head = head::read(&mut read, &mut seen, &ask).map_err(|error| error.to_string())?;
        if let Some(head) = head {
            break head;
        }
    };
    let (status, mut body) = (head.parts.status.as_u16(), Vec::new());
    loop {
        match head.framing.next(&mut read).map_err(|error| error.to_string())? {
            Piece::Data(data) => body.extend_from_slice(&data),
            Piece::End => return Ok((status, body, true)),
            Piece::Wanting => match pieces.next() {
                Some(piece) => read.extend_from_slice(piece),
                None => return Ok((status, body, head.framing.closed().is_ok())),
            },
        }
    }
}
