//! Connections by HTTP/1.1 without TLS, each driven by whoever calls over it.
//!
//! hyper's pooled client gives every connection a task of its own, so that a call goes from task to task and back, and each
//! answer begins one more task that waits for its end. Here whoever waits for an answer also reads and writes for it:
//! a call is woken once, when its answer is there. While nobody calls, a connection waits here, and nobody reads it; one
//! that its peer has closed meanwhile is found out when it is taken, before anything is sent.
//!
//! A connection is used in the runtime that it was made in, and nowhere else: another one would have to be woken by that,
//! and may outlive it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use http::{Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, sleep, timeout_at};
use tower_service::Service as _;

use super::ask::Ask;
use super::connector::Connector;
use super::http1::{self, Broken, Line};
use super::origin::Origin;
use super::patience::Patience;
use crate::alarm::Alarm;
use crate::egress::ConnectError;

/// The connections of one client.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shelf>);

struct Shelf {
    connector: Connector,
    /// How many wait for each origin in each runtime, at most, and for how long.
    most: usize,
    longest: Duration,
    /// Of each runtime in which a [`Sweeper`] looks after them.
    idle: Mutex<HashMap<runtime::Id, Idle, RandomState>>,
}

type Idle = HashMap<Arc<Origin>, Waiting, RandomState>;

/// Since when each has waited, the longest first.
type Waiting = Vec<(Box<Line>, Instant)>;

/// Closes what has waited for too long in one runtime, and everything when that ends.
struct Sweeper {
    shelf: Weak<Shelf>,
    runtime: runtime::Id,
}

/// The body of an answer, which brings the connection that it comes over along.
pub(crate) enum AnswerBody {
    Held(Held),
    /// It has been read to its end.
    Over,
    /// Somebody else drives the connection.
    Driven(Box<Driven>),
}

pub(crate) struct Driven {
    body: Incoming,
    /// For how long it is waited for; none for one that goes on.
    patience: Option<(Patience, Alarm)>,
}

pub(crate) struct Held {
    line: Box<Line>,
    origin: Arc<Origin>,
    shelf: Arc<Shelf>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    NotConnected(ConnectError),
    Late(Patience),
    /// The connection broke.
    Broken(http1::Unanswered),
}

// === impl Connections ===

impl Connections {
    pub(crate) fn new(connector: Connector, most: usize, longest: Duration) -> Self {
        Self(Arc::new(Shelf { connector, most, longest, idle: Mutex::default() }))
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn request(
        &self,
        ask: Ask,
        origin: &Arc<Origin>,
        patience: Option<Patience>,
    ) -> Result<Response<AnswerBody>, Unanswered> {
        loop {
            let known = self.0.take(origin);
            let is_known = known.is_some();
            let mut line = match known {
                Some(line) => line,
                None => Box::pin(self.0.dial(ask.uri.clone(), patience)).await?,
            };
            match line.exchange(&ask, patience).await {
                Ok(head) => {
                    let held = Held { line, origin: origin.clone(), shelf: self.0.clone() };
                    return Ok(Response::from_parts(head, AnswerBody::Held(held)));
                }
                Err(http1::Unanswered { error: Broken::Late(patience), .. }) => {
                    return Err(Unanswered::Late(patience));
                }
                // It was closed while it waited.
                Err(unanswered) if is_known && !unanswered.was_sent => {}
                Err(unanswered) => return Err(Unanswered::Broken(unanswered)),
            }
        }
    }
}

// === impl Shelf ===

impl Shelf {
    async fn dial(&self, uri: Uri, patience: Option<Patience>) -> Result<Box<Line>, Unanswered> {
        let dialled = self.connector.clone().call(uri);
        let connected = match patience {
            Some(patience) => match timeout_at(patience.until, dialled).await {
                Ok(connected) => connected,
                Err(_) => return Err(Unanswered::Late(patience)),
            },
            None => dialled.await,
        };
        Ok(Box::new(Line::new(connected.map_err(Unanswered::NotConnected)?)))
    }

    /// The connection that has waited least, so that those that are not needed grow old.
    fn take(&self, origin: &Arc<Origin>) -> Option<Box<Line>> {
        let here = Handle::try_current().ok()?.id();
        loop {
            let (mut line, since) = self.idle.lock().get_mut(&here)?.get_mut(origin)?.pop()?;
            if since.elapsed() < self.longest && line.is_open() {
                return Some(line);
            }
        }
    }

    fn put(self: &Arc<Self>, origin: Arc<Origin>, line: Box<Line>) {
        let Ok(here) = Handle::try_current() else { return };
        let mut idle = self.idle.lock();
        let is_swept = idle.contains_key(&here.id());
        let waiting = idle.entry(here.id()).or_default().entry(origin).or_default();
        if waiting.len() < self.most {
            waiting.push((line, Instant::now()));
        }
        drop(idle);
        if !is_swept {
            here.spawn(Sweeper { shelf: Arc::downgrade(self), runtime: here.id() }.run(self.longest));
        }
    }

    /// Closes what has waited for too long in a runtime. Says whether anything is left.
    fn close_old(&self, runtime: runtime::Id) -> bool {
        let mut old = Vec::new();
        let mut idle = self.idle.lock();
        let Some(idle) = idle.get_mut(&runtime) else { return false };
        idle.retain(|_, waiting| {
            let young = waiting.partition_point(|(_, since)| since.elapsed() >= self.longest);
            old.extend(waiting.drain(..young));
            !waiting.is_empty()
        });
        !idle.is_empty()
    }
}

// === impl Sweeper ===

impl Sweeper {
    async fn run(self, longest: Duration) {
        loop {
            sleep(longest).await;
            if !self.shelf.upgrade().is_some_and(|shelf| shelf.close_old(self.runtime)) {
                return;
            }
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        let Some(shelf) = self.shelf.upgrade() else { return };
        let left = shelf.idle.lock().remove(&self.runtime);
        drop(left);
    }
}

// === impl AnswerBody ===

impl AnswerBody {
    /// Of a connection that somebody else drives.
    pub(crate) fn driven(body: Incoming, patience: Option<Patience>) -> Self {
        let patience = patience.map(|patience| (patience, Alarm::at(patience.until)));
        Self::Driven(Box::new(Driven { body, patience }))
    }

    /// From now on it may take as long as it likes.
    pub(crate) fn let_go_on(&mut self) {
        match self {
            Self::Held(held) => held.line.let_go_on(),
            Self::Driven(driven) => driven.patience = None,
            Self::Over => {}
        }
    }
}

impl Driven {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Broken::Hyper)));
        }
        let Some((patience, alarm)) = &mut self.patience else { return Poll::Pending };
        alarm.poll(context).map(|()| Some(Err(Broken::Late(*patience))))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let polled = match &mut *self {
            Self::Held(held) => ready!(held.line.poll_piece(context)).map(|piece| piece.map(Frame::data)),
            Self::Over => None,
            Self::Driven(driven) => return driven.poll_frame(context),
        };
        if !matches!(polled, Some(Ok(_)))
            && let Self::Held(Held { mut line, origin, shelf }) = std::mem::replace(&mut *self, Self::Over)
            && line.is_reusable()
        {
            shelf.put(origin, line);
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Held(_) => false,
            Self::Over => true,
            Self::Driven(driven) => driven.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Held(held) => held.line.announced().map_or_else(SizeHint::default, SizeHint::with_exact),
            Self::Over => SizeHint::with_exact(0),
            Self::Driven(driven) => driven.body.size_hint(),
        }
    }
}
