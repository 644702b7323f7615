//! The time that budgets go by. While a gateway runs it advances by the boot clock, so nobody who sets the clock of the machine
//! makes a budget older or younger. When it starts it believes the clock of the machine.

use std::time::Duration;

use chancery_control::Millis;
use chancery_protocol::Timestamp;

/// By how much the clock of the machine may differ from what is known before that is a jump.
const TOLERATED: Duration = Duration::from_secs(1);

/// The time at the start, and what has passed since.
#[derive(Debug)]
pub(super) struct LedgerClock {
    origin: Millis,
    began: BootTime,
}

// === impl LedgerClock ===

impl LedgerClock {
    /// Starts at the time of the machine, whatever an earlier process took it to be.
    pub(super) fn start(machine: Timestamp, newest_known: Timestamp) -> Self {
        let origin = Millis::from(machine);
        let jump = Millis::from(newest_known).since(origin);
        if jump > TOLERATED {
            tracing::warn!(
                ?jump,
                "the clock of the machine is {jump:?} behind the newest record; budgets go by it all the same, and what was \
                 charged in that time counts as charged now"
            );
        }
        Self { origin, began: BootTime::now() }
    }

    /// The time. Never earlier than one that was given before.
    pub(super) fn now(&self) -> Millis {
        self.after(self.began.elapsed())
    }

    fn after(&self, passed: Duration) -> Millis {
        self.origin + passed
    }
}

/// A moment since the machine was booted: nobody can set it, and it goes on while the machine sleeps.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
struct BootTime(Duration);

#[cfg(target_os = "linux")]
impl BootTime {
    fn now() -> Self {
        use nix::time::{ClockId, clock_gettime};
        // Every kernel of the last ten years has it; without it time would stand still, and no budget would ever age.
        Self(clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default())
    }

    fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Clone, Copy, Debug)]
struct BootTime(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl BootTime {
    fn now() -> Self {
        Self(std::time::Instant::now())
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_768_478_400_000;

    fn at(since_noon_ms: i64) -> Timestamp {
        Timestamp::from_millis(NOON + since_noon_ms)
    }

    #[test]
    fn it_advances_by_what_has_passed_and_by_nothing_else() {
        let clock = LedgerClock::start(at(0), at(-5));
        assert_eq!(clock.after(Duration::ZERO), Millis::from(at(0)));
        assert_eq!(clock.after(Duration::from_millis(90_250)), Millis::from(at(90_250)));
        let (first, second) = (clock.now(), clock.now());
        assert!(Millis::from(at(0)) <= first && first <= second);
    }

    #[test]
    fn at_the_start_the_machine_is_believed_also_if_it_was_later_before() {
        let clock = LedgerClock::start(at(0), at(86_400_000));
        assert_eq!(clock.after(Duration::from_secs(1)), Millis::from(at(1_000)));
    }
}
