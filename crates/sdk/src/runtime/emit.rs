//! What a turn awaits of its sink: room for an event, its commit, the commit of the call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::sink::{DispatchState, Entry, Sink, is_full};
use crate::turn::TurnOver;

/// An event on its way into the batch.
#[derive(Debug)]
#[must_use = "an event is emitted only when awaited"]
pub struct Emit<'a> {
    pub(super) sink: &'a Sink,
    pub(super) entry: Option<Entry>,
}

/// Waits until the call is written down.
#[derive(Debug)]
#[must_use = "nothing is written down before this is awaited"]
pub struct Dispatch<'a>(pub(super) &'a Sink);

/// Waits until all that was emitted is committed.
#[derive(Debug)]
pub(crate) struct Flush<'a> {
    pub(super) sink: &'a Sink,
    pub(super) target: u64,
}

// === impl Emit ===

impl Future for Emit<'_> {
    type Output = Result<(), TurnOver>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let sink = self.sink;
        let mut inner = sink.inner.lock();
        if inner.closed {
            return Poll::Ready(Err(TurnOver));
        }
        if is_full(&inner.batch) {
            inner.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        let Some(entry) = self.entry.take() else { return Poll::Ready(Ok(())) };
        match entry {
            Entry::Task(_) => {}
            Entry::Artifact { .. } if !sink.is_patient => inner.ensure_working(sink),
            Entry::Status { .. } | Entry::Artifact { .. } => inner.open(),
        }
        inner.record(sink, entry);
        let driver = inner.driver.take();
        drop(inner);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(Ok(()))
    }
}

// === impl Dispatch ===

impl Future for Dispatch<'_> {
    type Output = Result<(), TurnOver>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.0.inner.lock();
        if inner.closed {
            return Poll::Ready(Err(TurnOver));
        }
        if inner.dispatch == DispatchState::Done && inner.batch.state.is_none() {
            return Poll::Ready(Ok(()));
        }
        inner.dispatch = DispatchState::Asked;
        inner.waiting.push(context.waker().clone());
        let driver = inner.driver.take();
        drop(inner);
        driver.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

// === impl Flush ===

impl Future for Flush<'_> {
    type Output = Result<(), TurnOver>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.sink.inner.lock();
        if inner.committed >= self.target {
            return Poll::Ready(Ok(()));
        }
        if inner.closed {
            return Poll::Ready(Err(TurnOver));
        }
        inner.waiting.push(context.waker().clone());
        Poll::Pending
    }
}
