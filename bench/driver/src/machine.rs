//! How much of the machine goes to others while something is timed.
//!
//! It may be a virtual one, from which its host takes CPU away at times, and others may work on it. Whoever is timed then pays for
//! more than it does, and the ratio of two such windows says little.

use std::fs;
use std::time::Duration;

use crate::family;

/// CPU time of the whole machine so far, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    all: u64,
    /// By processes, of whomever.
    used: u64,
    stolen: u64,
}

/// A moment of a timed window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    ticks: Ticks,
    /// The CPU time of the benchmark and all that it started.
    own: Duration,
}

/// So many ticks are a second, on every Linux.
const TICKS: f64 = 100.0;
/// The places of the time that processes used.
const USED: std::ops::RangeInclusive<usize> = 0..=2;
/// The place of stolen time in a line of `/proc/stat`. What comes after it is counted before it as well.
const STOLEN: usize = 7;

impl Ticks {
    /// None where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(fs::read_to_string("/proc/stat").ok()?.lines().next()?)
    }

    fn parse(line: &str) -> Option<Self> {
        let ticks: Result<Vec<u64>, _> =
            line.strip_prefix("cpu ")?.split_ascii_whitespace().map(str::parse).collect();
        let ticks = ticks.ok()?;
        Some(Self {
            all: ticks.get(..=STOLEN)?.iter().sum(),
            used: ticks[USED].iter().sum(),
            stolen: ticks[STOLEN],
        })
    }

    /// The share of the machine that was taken away between two moments, of 1.
    pub(crate) fn stolen_since(self, before: Self) -> f64 {
        (self.stolen - before.stolen) as f64 / (self.all - before.all).max(1) as f64
    }
}

impl Moment {
    pub(crate) fn now() -> Option<Self> {
        Some(Self { ticks: Ticks::now()?, own: family::cpu(std::process::id()) })
    }

    /// The share of the machine that was taken away between two moments, and that of other processes on it, of 1.
    pub(crate) fn lost_since(self, before: Self) -> [f64; 2] {
        let all = (self.ticks.all - before.ticks.all).max(1) as f64;
        let used = (self.ticks.used - before.ticks.used) as f64;
        let own = self.own.saturating_sub(before.own).as_secs_f64() * TICKS;
        [self.ticks.stolen_since(before.ticks), (used - own).max(0.0) / all]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stolen_is_a_share_of_all() {
        let before = Ticks::parse("cpu  100 0 100 700 0 0 0 100 50 0").unwrap();
        let after = Ticks::parse("cpu  150 0 120 720 0 0 0 110 90 0").unwrap();
        assert_eq!(before, Ticks { all: 1000, used: 200, stolen: 100 });
        assert!((after.stolen_since(before) - 0.1).abs() < 1e-9);
        assert_eq!(after.stolen_since(after), 0.0);
    }

    #[test]
    fn what_others_use_is_what_is_left_of_all_that_is_used() {
        let moment = |used, own| Moment {
            ticks: Ticks { all: used * 4, used, stolen: 0 },
            own: Duration::from_millis(own),
        };
        let [stolen, others] = moment(200, 1_500).lost_since(moment(100, 1_000));
        assert_eq!(stolen, 0.0);
        assert!((others - 0.125).abs() < 1e-9);
        assert_eq!(moment(200, 9_000).lost_since(moment(100, 1_000))[1], 0.0);
    }

    #[test]
    fn what_is_no_such_line_is_not_read() {
        for line in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(Ticks::parse(line), None);
        }
    }
}
