//! The time that decisions go by. It goes on evenly: a clock of the machine that is set back does not keep what was spent
//! from ageing, and one that is set forward does not let it age at once.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use chancery_control::Millis;
use chancery_store::Clock;

/// How often it is compared with the clock of the machine, in milliseconds.
const COMPARE_EVERY: u64 = 1_000;

/// Counts the time since it was made, and follows the clock of the machine where that goes another way: by at most half a
/// second in a second.
#[derive(Debug)]
pub(super) struct SteadyClock {
    machine: Clock,
    began: Instant,
    /// What the machine's clock said when this began, as far as that has been followed since.
    origin: AtomicI64,
    /// When it was last compared, in milliseconds since it began.
    compared: AtomicU64,
    /// The latest time that was given.
    latest: AtomicU64,
}

impl SteadyClock {
    pub(super) fn new(machine: Clock) -> Self {
        let origin = AtomicI64::new(machine.millis().as_millis());
        let (compared, latest) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { machine, began: Instant::now(), origin, compared, latest }
    }

    /// The time. Never earlier than one that was given before.
    pub(super) fn now(&self) -> Millis {
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.after(passed)
    }

    fn after(&self, passed: u64) -> Millis {
        let compared = self.compared.load(Ordering::Relaxed);
        let since = passed.saturating_sub(compared);
        let is_due = since >= COMPARE_EVERY;
        if is_due
            && self.compared.compare_exchange(compared, passed, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let most = i64::try_from(since / 2).unwrap_or(i64::MAX);
            let here = self.origin.load(Ordering::Relaxed).saturating_add_unsigned(passed);
            let gap = self.machine.millis().as_millis().saturating_sub(here);
            self.origin.fetch_add(gap.clamp(-most, most), Ordering::Relaxed);
        }
        let here = self.origin.load(Ordering::Relaxed).saturating_add_unsigned(passed);
        let here = u64::try_from(here).unwrap_or_default();
        Millis(self.latest.fetch_max(here, Ordering::Relaxed).max(here))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chancery_protocol::Timestamp;

    use super::*;

    const NOON: i64 = 1_768_478_400_000;

    /// A clock, and that of its machine.
    fn at_noon() -> (SteadyClock, Clock) {
        let machine = Clock::manual(Timestamp::from_millis(NOON));
        (SteadyClock::new(machine.clone()), machine)
    }

    fn since_noon(time: Millis) -> u64 {
        time.0 - NOON.unsigned_abs()
    }

    #[test]
    fn it_goes_with_the_machine() {
        let (clock, machine) = at_noon();
        for second in 1..100 {
            machine.advance(Duration::from_secs(1));
            assert_eq!(since_noon(clock.after(second * 1_000)), second * 1_000);
        }
    }

    #[test]
    fn a_jump_ahead_is_made_up_for_by_and_by() {
        let (clock, machine) = at_noon();
        machine.advance(Duration::from_secs(60));
        let times: Vec<_> = (1..=200)
            .map(|second| {
                machine.advance(Duration::from_secs(1));
                since_noon(clock.after(second * 1_000))
            })
            .collect();
        assert!(times.windows(2).all(|two| two[1] - two[0] <= 1_500), "{times:?}");
        assert_eq!(times[199], 260_000);
    }

    #[test]
    fn a_jump_back_slows_it_down_and_never_turns_it_back() {
        let (clock, machine) = at_noon();
        machine.advance(Duration::from_secs(100));
        let before = since_noon(clock.after(100_000));
        assert_eq!(before, 100_000);
        // The store's clock stands until the machine's has caught up.
        let times: Vec<_> = (101..=150).map(|second| since_noon(clock.after(second * 1_000))).collect();
        assert!(times.is_sorted() && times[0] >= before, "{times:?}");
        assert!(times.windows(2).all(|two| two[1] - two[0] <= 1_000), "{times:?}");
        assert!(times[49] < 150_000);
    }
}
