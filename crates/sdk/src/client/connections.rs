//! Connections by HTTP/1.1 without TLS, each driven by whoever calls over it.
//!
//! hyper's pooled client gives every connection a task of its own, so that a call goes from task to task and back, and each
//! answer begins one more task that waits for its end. Here whoever waits for an answer also reads and writes for it:
//! a call is woken once, when its answer is there. While nobody calls, a connection waits here, and nobody reads it; one
//! that its peer has closed meanwhile is found out when it is taken, before anything is sent.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header, uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tower_service::Service as _;

use super::connector::Connector;
use super::origin::Origin;
use crate::egress::{ConnectError, Stream};
use crate::muffler::Muffler;

/// The connections of one client.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shelf>);

struct Shelf {
    connector: Connector,
    builder: http1::Builder,
    /// How many wait for each origin, at most, and for how long.
    most: usize,
    longest: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    by_origin: HashMap<Arc<Origin>, Vec<(Box<Line>, Instant)>>,
    is_swept: bool,
}

/// One connection.
struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: http1::Connection<Stream, Full<Bytes>>,
    muffler: Muffler,
}

/// The body of an answer, which brings the connection that it comes over along.
pub(crate) struct AnswerBody {
    body: Incoming,
    /// None if somebody else drives it.
    held: Option<Held>,
}

struct Held {
    line: Box<Line>,
    origin: Arc<Origin>,
    shelf: Arc<Shelf>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    NotConnected(ConnectError),
    /// The connection broke. Whether anything was sent, only the error can tell.
    Broken(hyper::Error),
}

// === impl Connections ===

impl Connections {
    pub(crate) fn new(connector: Connector, builder: http1::Builder, most: usize, longest: Duration) -> Self {
        Self(Arc::new(Shelf { connector, builder, most, longest, idle: Mutex::default() }))
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn request(
        &self,
        mut request: Request<Full<Bytes>>,
        origin: &Arc<Origin>,
    ) -> Result<Response<AnswerBody>, Unanswered> {
        let absolute = std::mem::take(request.uri_mut());
        request.headers_mut().entry(header::HOST).or_insert_with(|| host(&absolute));
        *request.uri_mut() = below_origin(&absolute);
        loop {
            let known = self.0.take(origin);
            let is_known = known.is_some();
            let mut line = match known {
                Some(line) => line,
                None => self.0.dial(absolute.clone()).await?,
            };
            match line.exchange(request).await {
                Ok((response, is_open)) => {
                    let held = is_open.then(|| Held { line, origin: origin.clone(), shelf: self.0.clone() });
                    return Ok(response.map(|body| AnswerBody { body, held }));
                }
                // It was closed while it waited.
                Err((_, Some(unsent))) if is_known => request = *unsent,
                Err((error, _)) => return Err(Unanswered::Broken(error)),
            }
        }
    }
}

// === impl Shelf ===

impl Shelf {
    async fn dial(&self, uri: Uri) -> Result<Box<Line>, Unanswered> {
        let stream = self.connector.clone().call(uri).await.map_err(Unanswered::NotConnected)?;
        let (sender, connection) = self.builder.handshake(stream).await.map_err(Unanswered::Broken)?;
        Ok(Box::new(Line { sender, connection, muffler: Muffler::default() }))
    }

    /// The connection that has waited least, so that those that are not needed grow old.
    fn take(&self, origin: &Arc<Origin>) -> Option<Box<Line>> {
        loop {
            let (mut line, since) = self.idle.lock().by_origin.get_mut(origin)?.pop()?;
            if since.elapsed() < self.longest && line.is_ready() {
                return Some(line);
            }
        }
    }

    fn put(self: &Arc<Self>, origin: Arc<Origin>, line: Box<Line>) {
        line.muffler.rest();
        let mut idle = self.idle.lock();
        let waiting = idle.by_origin.entry(origin).or_default();
        if waiting.len() < self.most {
            waiting.push((line, Instant::now()));
        }
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.longest));
        }
    }

    /// Closes what has waited for too long. Says whether anything is left.
    fn close_old(&self) -> bool {
        let mut old = Vec::new();
        let mut idle = self.idle.lock();
        idle.by_origin.retain(|_, waiting| {
            let young = waiting.partition_point(|(_, since)| since.elapsed() >= self.longest);
            old.extend(waiting.drain(..young));
            !waiting.is_empty()
        });
        idle.is_swept = !idle.by_origin.is_empty();
        idle.is_swept
    }
}

async fn sweep(shelf: Weak<Shelf>, longest: Duration) {
    loop {
        sleep(longest).await;
        if !shelf.upgrade().is_some_and(|shelf| shelf.close_old()) {
            return;
        }
    }
}

// === impl Line ===

impl Line {
    /// Whether a request can be sent, as far as is known.
    fn is_ready(&mut self) -> bool {
        let nobody = &mut Context::from_waker(Waker::noop());
        Pin::new(&mut self.connection).poll(nobody).is_pending() && self.sender.is_ready()
    }

    /// The answer, and whether the connection is still there. Gives the request back if nothing of it was sent.
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, bool), (hyper::Error, Option<Box<Request<Full<Bytes>>>>)> {
        let Self { sender, connection, muffler } = self;
        muffler.rest();
        let mut answer = std::pin::pin!(sender.try_send_request(request));
        let mut is_open = true;
        let answered = poll_fn(|context| {
            muffler.poll(context, |context| {
                // What becomes of the connection, its answer tells.
                is_open = is_open && Pin::new(&mut *connection).poll(context).is_pending();
                answer.as_mut().poll(context)
            })
        });
        match answered.await {
            Ok(response) => Ok((response, is_open)),
            Err(mut failed) => {
                let unsent = failed.take_message().map(Box::new);
                Err((failed.into_error(), unsent))
            }
        }
    }
}

// === impl AnswerBody ===

impl From<Incoming> for AnswerBody {
    fn from(body: Incoming) -> Self {
        Self { body, held: None }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body, held } = &mut *self;
        let Some(Held { line, .. }) = held else { return Pin::new(body).poll_frame(context) };
        let Line { connection, muffler, .. } = &mut **line;
        let mut is_open = true;
        let polled = muffler.poll(context, |context| {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
                return Poll::Ready(frame);
            }
            is_open = is_open && Pin::new(&mut *connection).poll(context).is_pending();
            Pin::new(&mut *body).poll_frame(context)
        });
        if !is_open {
            *held = None;
        } else if matches!(polled, Poll::Ready(None))
            && let Some(Held { mut line, origin, shelf }) = held.take()
            && line.is_ready()
        {
            shelf.put(origin, line);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The `Host` of a request. The port is left out where the scheme says it.
fn host(absolute: &Uri) -> HeaderValue {
    let authority = absolute.authority().map_or("", uri::Authority::as_str);
    let named = authority.strip_suffix(":80").unwrap_or(authority);
    HeaderValue::from_str(named).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// What is asked for, without saying of whom.
fn below_origin(absolute: &Uri) -> Uri {
    match absolute.path_and_query() {
        Some(path) if path.as_str() != "/" => Uri::from(path.clone()),
        _ => Uri::default(),
    }
}
