//! The answers that are under way on one HTTP/2 connection, and for how long the other end has taken nothing of one. There the
//! other end says for each answer how much it takes, so the connection may be fine while an answer is stuck.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::body::Body;

/// How much of an answer is handed over at once.
const PIECE: usize = 16 << 10;

/// Answers of fewer bytes are gone once they are handed over: so little of each can be kept for as long as the connection.
const SMALL: usize = 4 << 10;

/// The answers of one connection.
#[derive(Debug)]
pub(super) struct OpenAnswers {
    began: Instant,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    next: u64,
    open: HashMap<u64, Arc<AtomicU64>, RandomState>,
    /// When there was last an answer under way.
    idle_since: Option<Instant>,
}

/// An answer under way, from the request on.
#[derive(Debug)]
pub(super) struct OpenAnswer {
    all: Arc<OpenAnswers>,
    number: u64,
    /// Since when it waits to be taken, in milliseconds after the connection began; nothing if it does not.
    waits_since: Arc<AtomicU64>,
}

/// The body of an answer, handed over piece by piece as it is taken.
#[derive(Debug)]
pub(super) struct WatchedBody {
    body: Body,
    /// What is left of a piece that was large.
    rest: Bytes,
    /// Whether its end is handed over by itself, when all before it was taken.
    ends_apart: bool,
    answer: OpenAnswer,
}

/// Stands for not waiting.
const NOT: u64 = 0;

// === impl OpenAnswers ===

impl OpenAnswers {
    pub(super) fn new() -> Arc<Self> {
        let now = Instant::now();
        let answers = Answers { idle_since: Some(now), ..Answers::default() };
        Arc::new(Self { began: now, answers: Mutex::new(answers) })
    }

    pub(super) fn open(self: &Arc<Self>) -> OpenAnswer {
        let waits_since = Arc::new(AtomicU64::new(NOT));
        let mut answers = self.answers.lock();
        let number = answers.next;
        answers.next += 1;
        answers.open.insert(number, waits_since.clone());
        answers.idle_since = None;
        OpenAnswer { all: self.clone(), number, waits_since }
    }

    /// Whether an answer has waited for so long.
    pub(super) fn is_stuck(&self, timeout: Duration) -> bool {
        let now = self.now();
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let answers = self.answers.lock();
        answers.open.values().any(|since| match since.load(Ordering::Relaxed) {
            NOT => false,
            since => now.saturating_sub(since) >= timeout,
        })
    }

    /// Whether there has been nothing to answer for so long.
    pub(super) fn is_idle(&self, timeout: Duration) -> bool {
        self.answers.lock().idle_since.is_some_and(|since| since.elapsed() >= timeout)
    }

    /// Never [`NOT`].
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

// === impl OpenAnswer ===

impl OpenAnswer {
    pub(super) fn watch(self, body: Body) -> WatchedBody {
        self.waits(true);
        WatchedBody { body, rest: Bytes::new(), ends_apart: false, answer: self }
    }

    fn waits(&self, waits: bool) {
        let since = if waits { self.all.now() } else { NOT };
        self.waits_since.store(since, Ordering::Relaxed);
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        let mut answers = self.all.answers.lock();
        answers.open.remove(&self.number);
        if answers.open.is_empty() {
            answers.idle_since = Some(Instant::now());
        }
    }
}

// === impl WatchedBody ===

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    /// Asked when there is room for more, and not before.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => {
                    this.answer.waits(false);
                    return other;
                }
            };
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(frame) => {
                    this.answer.waits(true);
                    return Poll::Ready(Some(Ok(frame)));
                }
            }
        }
        this.ends_apart |= this.rest.len() > SMALL;
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.answer.waits(true);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && !self.ends_apart && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        match hint.exact() {
            Some(exact) => SizeHint::with_exact(exact + rest),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn polled(body: &mut WatchedBody) -> Option<usize> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok().map(|data| data.len()),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_stuck_and_one_that_is_or_has_nothing_to_say_is_not() {
        let answers = OpenAnswers::new();
        let silent = answers.open();
        tokio::time::advance(2 * LONG).await;
        assert!(!answers.is_stuck(LONG), "there is no answer yet");
        drop(silent);
        let mut body = answers.open().watch(Body::whole(vec![0; 2 * PIECE]));
        tokio::time::advance(LONG / 2).await;
        assert_eq!(polled(&mut body), Some(PIECE));
        tokio::time::advance(LONG / 2).await;
        assert!(!answers.is_stuck(LONG), "a piece was taken since");
        tokio::time::advance(LONG / 2).await;
        assert!(answers.is_stuck(LONG));
        assert_eq!(polled(&mut body), Some(PIECE));
        assert!(!body.is_end_stream(), "that it ends is said when all of it was taken");
        assert_eq!(polled(&mut body), None);
        tokio::time::advance(2 * LONG).await;
        assert!(!answers.is_stuck(LONG));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_nothing_is_asked_of_it() {
        let answers = OpenAnswers::new();
        tokio::time::advance(LONG).await;
        assert!(answers.is_idle(LONG));
        let body = answers.open().watch(Body::whole("x"));
        tokio::time::advance(LONG).await;
        assert!(!answers.is_idle(LONG));
        drop(body);
        assert!(!answers.is_idle(LONG));
        tokio::time::advance(LONG).await;
        assert!(answers.is_idle(LONG));
    }

    #[test]
    fn a_small_answer_ends_with_its_only_piece() {
        let mut body = OpenAnswers::new().open().watch(Body::whole(vec![0; SMALL]));
        assert_eq!(body.size_hint().exact(), Some(SMALL as u64));
        assert_eq!(polled(&mut body), Some(SMALL));
        assert!(body.is_end_stream());
    }
}
