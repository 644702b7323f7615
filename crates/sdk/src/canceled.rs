//! Waiting to be canceled, which is looked at often and seldom happens.
//!
//! Polling the wait of a `CancellationToken` registers the waker anew each time. Like with an [`Alarm`](crate::alarm::Alarm), whoever
//! polls again with the same waker only needs to know whether it has happened.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pub(crate) struct Canceled {
    token: CancellationToken,
    wait: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Who is woken.
    registered: Option<Waker>,
}

impl Canceled {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { wait: Box::pin(token.clone().cancelled_owned()), token, registered: None }
    }

    /// Ready when it has been canceled.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.registered.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            return if self.token.is_cancelled() { Poll::Ready(()) } else { Poll::Pending };
        }
        let polled = self.wait.as_mut().poll(context);
        self.registered = Some(context.waker().clone());
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn whoever_polled_last_is_woken() {
        let token = CancellationToken::new();
        let mut canceled = Canceled::new(token.clone());
        let noop = &mut Context::from_waker(Waker::noop());
        assert!(canceled.poll(noop).is_pending());
        assert!(canceled.poll(noop).is_pending());
        let canceling = tokio::spawn(async move {
            tokio::task::yield_now().await;
            token.cancel();
        });
        poll_fn(|context| canceled.poll(context)).await;
        assert!(canceled.poll(noop).is_ready());
        canceling.await.unwrap();
    }
}
