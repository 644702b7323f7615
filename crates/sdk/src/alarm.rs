//! A timer that is looked at often and seldom fires.
//!
//! Polling tokio's `Sleep` registers the waker anew each time. Whoever polls again with the same waker only needs
//! to know whether it has fired.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// Who is woken when it fires.
    registered: Option<Waker>,
}

impl Alarm {
    pub(crate) fn at(time: Instant) -> Self {
        Self { sleep: Box::pin(sleep_until(time)), registered: None }
    }

    #[cfg(feature = "client")]
    pub(crate) fn reset(&mut self, time: Instant) {
        self.sleep.as_mut().reset(time);
        self.registered = None;
    }

    /// Ready when it has fired, which is not before this time. One that is put off again and again is only set anew when it
    /// would fire too early.
    #[cfg(feature = "client")]
    pub(crate) fn poll_until(&mut self, context: &mut Context<'_>, until: Instant) -> Poll<()> {
        if until < self.sleep.deadline() {
            self.reset(until);
        }
        loop {
            std::task::ready!(self.poll(context));
            if self.sleep.deadline() >= until {
                return Poll::Ready(());
            }
            self.reset(until);
        }
    }

    /// Ready when it has fired.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.sleep.is_elapsed() {
            return Poll::Ready(());
        }
        let waker = context.waker();
        if self.registered.as_ref().is_some_and(|registered| registered.will_wake(waker)) {
            return Poll::Pending;
        }
        // A task that has done much in one go is sent back by tokio before the timer has heard of it.
        let is_heard = has_budget_remaining();
        let polled = self.sleep.as_mut().poll(context);
        self.registered = is_heard.then(|| waker.clone());
        polled
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::task::coop::consume_budget;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_fires_for_whoever_polled_last_and_after_a_reset() {
        let mut alarm = Alarm::at(Instant::now() + Duration::from_secs(1));
        let noop = &mut Context::from_waker(Waker::noop());
        assert!(alarm.poll(noop).is_pending());
        assert!(alarm.poll(noop).is_pending());
        // Another waker is registered in its place.
        poll_fn(|context| alarm.poll(context)).await;
        assert!(alarm.poll(noop).is_ready());
        let again = Instant::now() + Duration::from_secs(5);
        alarm.reset(again);
        poll_fn(|context| alarm.poll(context)).await;
        assert!(Instant::now() >= again);
    }

    #[tokio::test(start_paused = true)]
    async fn it_can_be_put_off_and_brought_forward() {
        let start = Instant::now();
        let second = |count| start + Duration::from_secs(count);
        let mut alarm = Alarm::at(second(1));
        assert!(alarm.poll_until(&mut Context::from_waker(Waker::noop()), second(9)).is_pending());
        for until in [3, 5] {
            poll_fn(|context| alarm.poll_until(context, second(until))).await;
            assert_eq!(Instant::now(), second(until));
            assert!(alarm.poll_until(&mut Context::from_waker(Waker::noop()), second(9)).is_pending());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_fires_although_its_task_was_sent_back_before_it_was_set() {
        let mut alarm = Alarm::at(Instant::now() + Duration::from_secs(1));
        let mut is_first = true;
        poll_fn(|context| {
            while is_first && has_budget_remaining() {
                let _ = std::pin::pin!(consume_budget()).poll(context);
            }
            is_first = false;
            alarm.poll(context)
        })
        .await;
    }
}
