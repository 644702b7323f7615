//! When to try again, and how long to wait before.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::ClientError;

/// The first pause is at most this long, and each further one at most twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Retries are paid for: each call earns a part of one, and a few a second are free. So a peer that is down is not
/// pushed further down by everybody trying four times.
const EARNED_BY_A_CALL: f64 = 0.2;
const FREE_PER_SECOND: f64 = 10.0;
const MOST_SAVED: f64 = 100.0;

/// How many retries all calls to one peer may still make together.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<(f64, Instant)>);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((FREE_PER_SECOND, Instant::now())))
    }

    /// A call is made.
    pub(crate) fn earn(&self) {
        let mut saved = self.0.lock();
        saved.0 = (saved.0 + EARNED_BY_A_CALL).min(MOST_SAVED);
    }

    /// Whether a retry may be made now.
    pub(crate) fn spend(&self) -> bool {
        self.spend_at(Instant::now())
    }

    fn spend_at(&self, now: Instant) -> bool {
        let mut saved = self.0.lock();
        let (tokens, since) = *saved;
        let free = now.saturating_duration_since(since).as_secs_f64() * FREE_PER_SECOND;
        // What is free is not saved beyond a second's worth; what is earned is.
        let tokens = if tokens < FREE_PER_SECOND { (tokens + free).min(FREE_PER_SECOND) } else { tokens };
        let may = tokens >= 1.0;
        *saved = (if may { tokens - 1.0 } else { tokens }, now);
        may
    }
}

/// Whether, and after which pause, a call that failed is made again; `failed` counts the failures so far, from 1.
/// What the peer may have done already is repeated only if that is `safe`.
pub(crate) fn pause(error: &ClientError, safe: bool, failed: u32, retries: u32) -> Option<Duration> {
    let may = error.is_retryable() && (safe || error.was_never_sent());
    if !may || failed > retries {
        return None;
    }
    let asked = error.retry_after().unwrap_or_default();
    // Whoever wants to be left alone for longer than we wait is left alone.
    (asked <= LONGEST_PAUSE).then(|| asked.max(jittered(failed)))
}

/// Anything up to twice what the last one was at most: many clients that failed together do not come back together.
pub(crate) fn jittered(failed: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
    // The standard library's hash keys are random, and others each time.
    let random = RandomState::new().hash_one(failed) >> 32;
    most.mul_f64((random as f64 / f64::from(u32::MAX)).clamp(0.1, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chancery_protocol::{Error, ErrorCode};

    #[test]
    fn only_what_is_safe_is_repeated() {
        let refused = ClientError::Connect { origin: String::new(), source: "x".into() };
        let cut = ClientError::Cut { origin: String::new(), source: "x".into() };
        assert!(pause(&refused, false, 3, 3).is_some() && pause(&refused, false, 4, 3).is_none());
        assert!(pause(&cut, true, 1, 3).is_some() && pause(&cut, false, 1, 3).is_none());
        assert!(pause(&ClientError::bad("x"), true, 1, 3).is_none());
    }

    #[test]
    fn the_peer_says_how_long_to_wait_within_reason() {
        let busy = |seconds| {
            ClientError::Peer(Error::new(ErrorCode::Unavailable).retry_after(Duration::from_secs(seconds)))
        };
        assert!(pause(&busy(2), true, 1, 3).unwrap() >= Duration::from_secs(2));
        assert!(pause(&busy(3600), true, 1, 3).is_none());
    }

    #[test]
    fn a_peer_that_is_down_is_hardly_asked_more_often_than_one_that_is_up() {
        let budget = Budget::new();
        let start = Instant::now();
        let retries = (0..1000).map(|call| {
            budget.earn();
            // A thousand calls in ten seconds, each of which would like to be retried three times.
            let now = start + Duration::from_millis(10 * call);
            (0..3).filter(|_| budget.spend_at(now)).count()
        });
        let retries: usize = retries.sum();
        assert!((200..=200 + 110).contains(&retries), "{retries}");
        // Somebody who calls now and then is not held back.
        let later = start + Duration::from_secs(60);
        assert!((0..3).all(|_| budget.spend_at(later)));
    }

    #[test]
    fn pauses_grow_and_differ() {
        let pauses: Vec<_> = (0..32).map(|_| jittered(1)).collect();
        assert!(pauses.iter().all(|pause| *pause <= FIRST_PAUSE && !pause.is_zero()));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
        assert!((0..32).any(|_| jittered(3) > FIRST_PAUSE));
        assert!((0..32).all(|_| jittered(40) <= LONGEST_PAUSE));
    }
}
