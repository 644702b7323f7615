//! What goes on when the one who waits for it goes away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chancery_protocol::{BoxFuture, box_future};

/// Polls something inside the request that started it. A request that goes away does not end it: what is left
/// is run on its own. So a turn goes on when its client is gone, and nothing stops between two commits.
pub(crate) struct DetachOnDrop<T, D = fn(BoxFuture<'static, T>)>
where
    D: FnOnce(BoxFuture<'static, T>),
{
    future: Option<BoxFuture<'static, T>>,
    detach: Option<D>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(crate) fn new<F>(make: impl FnOnce() -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self::with(box_future(make), |rest| {
            spawn(async {
                rest.await;
            });
        })
    }
}

impl<T, D: FnOnce(BoxFuture<'static, T>)> DetachOnDrop<T, D> {
    /// Says what is done with what is left.
    pub(crate) fn with(future: BoxFuture<'static, T>, detach: D) -> Self {
        Self { future: Some(future), detach: Some(detach) }
    }
}

/// Runs something on its own, unless the process winds down.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(future);
    }
}

impl<T, D: FnOnce(BoxFuture<'static, T>) + Unpin> Future for DetachOnDrop<T, D> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let done = future.as_mut().poll(context);
        if done.is_ready() {
            self.future = None;
        }
        done
    }
}

impl<T, D: FnOnce(BoxFuture<'static, T>)> Drop for DetachOnDrop<T, D> {
    fn drop(&mut self) {
        if let (Some(rest), Some(detach)) = (self.future.take(), self.detach.take()) {
            detach(rest);
        }
    }
}
