//! How much of one peer's attention this client takes: a rate, and a number of calls at a time.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// A rate as a bucket of tokens: one call takes one, and they come back one by one.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    burst: f64,
    /// May be below zero: then as many calls are waiting already.
    bucket: Mutex<(f64, Instant)>,
}

impl Rate {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: f64::from(per_second.max(1)), burst, bucket: Mutex::new((burst, Instant::now())) }
    }

    /// Waits for the next token. Whoever gives up waiting has used up its token.
    pub(crate) async fn take(&self) {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }

    /// Takes a token that may yet have to come, and says when it will have.
    fn reserve(&self, now: Instant) -> Duration {
        let mut bucket = self.bucket.lock();
        let (tokens, since) = *bucket;
        let come = now.saturating_duration_since(since).as_secs_f64() * self.per_second;
        let left = (tokens + come).min(self.burst) - 1.0;
        *bucket = (left, now);
        if left < 0.0 { Duration::from_secs_f64(-left / self.per_second) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_keeps_to_the_rate() {
        let rate = Rate::new(10, 2);
        let start = Instant::now();
        let waits: Vec<_> = (0..4).map(|_| rate.reserve(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        let later = start + Duration::from_secs(10);
        assert_eq!(rate.reserve(later), Duration::ZERO);
        assert_eq!(rate.reserve(later), Duration::ZERO);
        assert!(!rate.reserve(later).is_zero());
    }
}
