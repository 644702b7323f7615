//! The timer of one connection, for hyper, which waits for the head of every request with a new one.
//!
//! Nearly every head comes in time, so the timer that ran for the last one goes on for the next: it is set anew only when it fires
//! too early.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;

use crate::alarm::Alarm;

#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionTimer(Arc<Mutex<Option<Alarm>>>);

struct Wait {
    timer: ConnectionTimer,
    until: tokio::time::Instant,
}

impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait { timer: self.clone(), until: deadline.into() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.timer.0.lock();
        alarm.get_or_insert_with(|| Alarm::at(self.until)).poll_until(context, self.until)
    }
}

impl Sleep for Wait {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_in_its_time_although_they_share_a_timer() {
        let (timer, start) = (ConnectionTimer::default(), tokio::time::Instant::now());
        let seconds = Duration::from_secs;
        drop(timer.sleep(seconds(1)));
        timer.sleep(seconds(5)).await;
        assert_eq!(start.elapsed(), seconds(5));
        tokio::join!(timer.sleep(seconds(9)), timer.sleep(seconds(2)), async {
            timer.sleep(seconds(3)).await;
            assert_eq!(start.elapsed(), seconds(8));
        });
        assert_eq!(start.elapsed(), seconds(14));
    }
}
