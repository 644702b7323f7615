//! How much of the machine goes to others while something is timed.
//!
//! It may be a virtual one, from which its host takes CPU away at times. Whoever is timed then pays for more than it does, and the
//! ratio of two such windows says little.

use std::fs;

/// CPU time of the whole machine so far, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

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
        Some(Self { all: ticks.get(..=STOLEN)?.iter().sum(), stolen: ticks[STOLEN] })
    }

    /// The share of the machine that was taken away between two moments, of 1.
    pub(crate) fn stolen_since(self, before: Self) -> f64 {
        (self.stolen - before.stolen) as f64 / (self.all - before.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stolen_is_a_share_of_all() {
        let before = Ticks::parse("cpu  100 0 100 700 0 0 0 100 50 0").unwrap();
        let after = Ticks::parse("cpu  150 0 120 720 0 0 0 110 90 0").unwrap();
        assert_eq!(before, Ticks { all: 1000, stolen: 100 });
        assert!((after.stolen_since(before) - 0.1).abs() < 1e-9);
        assert_eq!(after.stolen_since(after), 0.0);
    }

    #[test]
    fn what_is_no_such_line_is_not_read() {
        for line in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(Ticks::parse(line), None);
        }
    }
}
