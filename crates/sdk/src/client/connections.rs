//! Connections to one peer: hyper's pooled client.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Sleep, sleep_until};

use super::connector::Connector;
use super::patience::Patience;

/// How large the head of an answer may be, and how many headers it may have.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 100;
/// How long an idle connection is kept. Servers close theirs after 5 seconds or more: a message that is sent just then is lost, and
/// a lost message counts as dispatched.
const IDLE: Duration = Duration::from_secs(3);
/// How often a peer is asked whether it is still there, by HTTP/2, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The connections of one client.
pub(crate) struct ConnectionPools {
    /// HTTP/1.1, or by TLS the version that both sides agree on.
    http1: HttpClient,
    /// HTTP/2 without asking, for gRPC.
    http2: HttpClient,
}

type HttpClient = legacy::Client<Connector, Full<Bytes>>;

/// The body of an answer, and the time that there is to read it.
pub(crate) struct AnswerBody {
    body: Incoming,
    /// None for one that goes on.
    patience: Option<Patience>,
    /// Set when the body has to be waited for.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Why there is no more of an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("it took too long")]
    Late(Patience),
    #[error(transparent)]
    Cut(hyper::Error),
}

// === impl ConnectionPools ===

impl ConnectionPools {
    pub(crate) fn new(connector: &Connector, max_idle: usize) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(max_idle)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .http1_max_headers(MAX_HEADERS)
            .http2_keep_alive_interval(PING_EVERY)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX));
        let http1 = builder.build(connector.clone());
        let http2 = builder.http2_only(true).build(connector.clone());
        Self { http1, http2 }
    }

    pub(crate) fn request(&self, request: Request<Full<Bytes>>, needs_http2: bool) -> ResponseFuture {
        if needs_http2 { self.http2.request(request) } else { self.http1.request(request) }
    }
}

// === impl AnswerBody ===

impl AnswerBody {
    pub(crate) fn new(body: Incoming, patience: Option<Patience>) -> Self {
        Self { body, patience, alarm: None }
    }

    /// From now on it may take as long as it likes.
    pub(crate) fn let_go_on(&mut self) {
        self.patience = None;
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Cut)));
        }
        let Some(patience) = self.patience else { return Poll::Pending };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(patience.until)));
        alarm.as_mut().poll(context).map(|()| Some(Err(BodyError::Late(patience))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
