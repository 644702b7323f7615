//! The time that a store goes by. It never goes back, so that what was committed later is also dated later.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chancery_protocol::Timestamp;

/// Gives points in time, each later than the one before, whatever the clock of the machine does. Clones are the
/// same clock.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    /// The last time that was given, in microseconds.
    last: AtomicI64,
    /// What stands in for the machine's clock, in microseconds.
    manual: Option<AtomicI64>,
}

// === impl Clock ===

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self(Arc::new(Hands { last: AtomicI64::new(i64::MIN), manual: None }))
    }

    /// A clock that stands until it is [`set`](Self::set) or [`advance`](Self::advance)d. Only the microsecond
    /// by which each time is later than the one before passes by itself.
    pub fn manual(start: Timestamp) -> Self {
        let manual = Some(AtomicI64::new(start.as_micros()));
        Self(Arc::new(Hands { last: AtomicI64::new(i64::MIN), manual }))
    }

    /// The time, or if that has been given already, a microsecond after the last one given.
    pub fn now(&self) -> Timestamp {
        let now = match &self.0.manual {
            None => Timestamp::now().as_micros(),
            Some(manual) => manual.load(Ordering::Acquire),
        };
        let later = |last: i64| now.max(last.saturating_add(1));
        let last = self.0.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(later(last)));
        Timestamp::from_micros(later(last.unwrap_or_else(|unchanged| unchanged)))
    }

    /// The time to the millisecond, as the wire has it: never earlier than one that was given before.
    pub fn millis(&self) -> Timestamp {
        Timestamp::from_millis(self.now().as_millis())
    }

    /// From now on gives only times later than this one. A store that is opened again calls it with the newest
    /// time in it, so that a machine whose clock has jumped back neither reorders nor hides tasks.
    pub fn seed(&self, newest: Timestamp) {
        self.0.last.fetch_max(newest.as_micros(), Ordering::AcqRel);
    }

    /// Sets a manual clock, also back: the times that it gives go on regardless. No other clock can be set.
    pub fn set(&self, time: Timestamp) {
        if let Some(manual) = &self.0.manual {
            manual.store(time.as_micros(), Ordering::Release);
        }
    }

    /// Moves a manual clock on.
    pub fn advance(&self, by: std::time::Duration) {
        if let Some(manual) = &self.0.manual {
            manual.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::AcqRel);
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_time_is_later_than_the_one_before() {
        let clock = Clock::system();
        let start = Timestamp::now();
        let times: Vec<_> = (0..10_000).map(|_| clock.now()).collect();
        assert!(times[0] >= start);
        assert!(times.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn no_time_is_given_twice() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let given = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..1_000).map(|_| clock.now()).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let distinct: std::collections::BTreeSet<_> = given.iter().collect();
        assert_eq!((given.len(), distinct.len()), (4_000, 4_000));
    }

    #[test]
    fn a_jump_back_is_not_followed() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        clock.set(Timestamp::from_millis(10));
        assert_eq!(clock.now(), Timestamp::from_micros(1_000_001));
        clock.set(Timestamp::from_millis(1_001));
        assert_eq!(clock.now(), Timestamp::from_millis(1_001));
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), Timestamp::from_millis(2_001));
    }

    #[test]
    fn a_seed_is_always_in_the_past() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        clock.seed(Timestamp::from_millis(5_000));
        assert_eq!(clock.now(), Timestamp::from_micros(5_000_001));
        clock.seed(Timestamp::from_millis(2_000));
        assert_eq!(clock.now(), Timestamp::from_micros(5_000_002));
    }
}
