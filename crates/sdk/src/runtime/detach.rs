//! What goes on when the request that began it goes away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use chancery_protocol::{BoxFuture, box_future};

/// Polls something inside the request that started it. A request that goes away does not end it: what is left
/// is run on its own. So a turn goes on when its client is gone, and nothing stops between two commits.
pub(super) struct DetachOnDrop<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(super) fn new<F>(make: impl FnOnce() -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self::boxed(box_future(make))
    }

    pub(super) fn boxed(future: BoxFuture<'static, T>) -> Self {
        Self(Some(future))
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let done = future.as_mut().poll(context);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(rest) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                rest.await;
            });
        }
    }
}
