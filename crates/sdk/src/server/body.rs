//! Bodies: reading a request's within its limits, and what a response's can be.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chancery_protocol::{Error, ErrorCode};
use futures_core::Stream;
use http::StatusCode;
use http::request::Parts;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::binding::grpc::Frames;
use crate::binding::head::{content_type, wrong_content_type};
use crate::binding::sse::EventFrames;
use crate::server::Share;

/// The body of a response.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Stream(Box<EventFrames>),
    /// With trailers at its end.
    Frames(Box<dyn Frames>),
    Pieces(Pieces),
}

/// What comes piece by piece.
struct Pieces(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

pin_project! {
    /// The body of a request, and whether it was read to its end.
    pub(super) struct RequestBody<B> {
        #[pin]
        body: B,
        is_read: Arc<AtomicBool>,
    }
}

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    TooLarge(usize),
    TooSlow,
    Cut,
    /// It is of a media type that its route does not take, or says none.
    Undeclared(Box<Error>),
}

// === impl Body ===

impl Body {
    /// Nothing.
    pub fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    /// What comes piece by piece, such as events of one's own.
    pub fn pieces(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Pieces(Pieces(Box::pin(pieces))))
    }

    /// The same within somebody's share, until it is read.
    pub(super) fn within(self, share: Option<Share>) -> Self {
        match self.0 {
            Kind::Whole(Some(bytes)) => Self::whole(Share::hold(share, bytes)),
            kind => Self(kind),
        }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    pub(crate) fn stream(frames: EventFrames) -> Self {
        Self(Kind::Stream(Box::new(frames)))
    }

    pub(crate) fn frames(frames: impl Frames + 'static) -> Self {
        Self(Kind::Frames(Box::new(frames)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(frames) => frames.poll_bytes(context).map(|bytes| bytes.map(|b| Ok(Frame::data(b)))),
            Kind::Frames(frames) => frames.poll_frame(context).map(|frame| frame.map(Ok)),
            Kind::Pieces(Pieces(pieces)) => {
                pieces.as_mut().poll_next(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(_) | Kind::Frames(_) | Kind::Pieces(_) => SizeHint::default(),
        }
    }
}

/// Nothing.
impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::whole(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::whole(text)
    }
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pieces")
    }
}

// === impl RequestBody ===

impl<B: HttpBody> RequestBody<B> {
    /// The body, and what tells whether it was read.
    pub(super) fn new(body: B) -> (Self, Arc<AtomicBool>) {
        let is_read = Arc::new(AtomicBool::new(body.is_end_stream()));
        (Self { body, is_read: is_read.clone() }, is_read)
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let polled = this.body.as_mut().poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || this.body.is_end_stream() {
            this.is_read.store(true, Ordering::Relaxed);
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

// === impl Unread ===

impl Unread {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Cut => StatusCode::BAD_REQUEST,
            Self::Undeclared(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        let text = match unread {
            Unread::TooLarge(limit) => format!("The request body is larger than {limit} bytes"),
            Unread::TooSlow => "The request body took too long to arrive".to_owned(),
            Unread::Cut => "The request body ended early".to_owned(),
            Unread::Undeclared(error) => return *error,
        };
        Self::with_message(ErrorCode::InvalidRequest, text)
    }
}

/// Reads a body whose media type is one of those that its route takes. A request without a body need not say any.
pub(crate) fn read<'a, B>(
    head: &'a Parts,
    body: B,
    takes: &'static [&'static str],
    limit: usize,
    timeout: Duration,
) -> impl Future<Output = Result<Bytes, Unread>> + use<'a, B>
where
    B: HttpBody<Data = Bytes>,
{
    collect(body, limit, timeout, move || declared(head, takes))
}

fn declared(head: &Parts, takes: &[&str]) -> Result<(), Unread> {
    let actual = content_type(head);
    if actual.is_some_and(|actual| takes.iter().any(|taken| taken.eq_ignore_ascii_case(actual))) {
        return Ok(());
    }
    Err(Unread::Undeclared(Box::new(wrong_content_type(actual, &takes.join("` or `")))))
}

/// Reads a body, of so many bytes at most; none of it before it is known that there is one and that it may be read. The usual
/// one is there already, in one piece, and is not copied.
pub(crate) async fn collect<B>(
    body: B,
    limit: usize,
    timeout: Duration,
    check: impl Fn() -> Result<(), Unread>,
) -> Result<Bytes, Unread>
where
    B: HttpBody<Data = Bytes>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge(limit));
    }
    let mut body = std::pin::pin!(body);
    let mut slow = None;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while !body.is_end_stream() {
        let frame = poll_fn(|context| {
            if let Poll::Ready(frame) = body.as_mut().poll_frame(context) {
                return Poll::Ready(Ok(frame));
            }
            let slow = slow.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            slow.as_mut().poll(context).map(|()| Err(Unread::TooSlow))
        })
        .await?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|_| Unread::Cut)?.into_data() else { continue };
        if first.is_empty() && !data.is_empty() {
            check()?;
        }
        if first.len() + rest.len() + data.len() > limit {
            return Err(Unread::TooLarge(limit));
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    Ok([first, rest.freeze()].concat().into())
}
