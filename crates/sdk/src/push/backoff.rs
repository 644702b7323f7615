//! How long to wait after a failure.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, SystemTime};

use chancery_store::Store;

use super::PushLimits;
use crate::protocol::Timestamp;

/// The wait after so many failures in a row: doubled each time, up to the longest, and of that a random half to
/// whole, so that receivers that come back are not met by everybody at once.
pub(super) fn wait(attempts: u32, asked: Option<Duration>, limits: &PushLimits) -> Duration {
    if let Some(asked) = asked {
        return asked.max(limits.first_wait).min(limits.longest_retry_after);
    }
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    let whole = limits.first_wait.saturating_mul(doubled).min(limits.longest_wait);
    whole / 2 + (whole / 2).mul_f64(fraction())
}

/// Between 0 and 1. Every state of the standard library's hasher has keys of its own, which is as much chance as
/// this needs.
fn fraction() -> f64 {
    let random = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}

/// What `Retry-After` asks for: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// A time from now, by the clock of the store.
pub(super) fn from_now(store: &Store, wait: Duration) -> Timestamp {
    let wait = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(store.now().as_micros().saturating_add(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let limits = PushLimits::default();
        for (attempts, seconds) in [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 300), (40, 300)] {
            let whole = Duration::from_secs(seconds);
            for _ in 0..100 {
                let wait = wait(attempts, None, &limits);
                assert!((whole / 2..=whole).contains(&wait), "{attempts}: {wait:?}");
            }
        }
    }

    #[test]
    fn waits_are_not_all_the_same() {
        let waits: std::collections::HashSet<_> =
            (0..50).map(|_| wait(5, None, &PushLimits::default())).collect();
        assert!(waits.len() > 25, "{waits:?}");
    }

    #[test]
    fn what_is_asked_for_is_bounded() {
        let limits = PushLimits::default();
        for (asked, given) in [(0, 1), (1, 1), (30, 30), (900, 900), (1_000_000, 900)] {
            assert_eq!(wait(1, Some(Duration::from_secs(asked)), &limits), Duration::from_secs(given));
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let table = [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (value, seconds) in table {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value}");
        }
    }
}
