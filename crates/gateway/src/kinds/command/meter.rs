//! What a program costs while it runs: asked for a second ahead, reported as it is used up.

use std::time::{Duration, Instant};

use chancery_protocol::{Denied, Usage};
use chancery_sdk::Turn;

use crate::config::{PriceSection, Usd};

/// How far ahead is asked, and how often is reported.
const STEP: Duration = Duration::from_secs(1);

/// What is asked for a program, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rate {
    per_call: u64,
    per_second: u64,
}

/// Counts what a turn costs. What is left to report is reported when it is dropped.
pub(super) struct Meter<'a> {
    turn: &'a Turn,
    rate: Rate,
    began: Instant,
    reported: u64,
}

impl Rate {
    pub(super) fn new(price: Option<&PriceSection>, per_second: Option<Usd>) -> Self {
        let micro_usd = |usd: Option<Usd>| usd.map_or(0, |usd| usd.0);
        Self {
            per_call: micro_usd(price.and_then(|price| price.per_call)),
            per_second: micro_usd(per_second),
        }
    }

    /// What so long a time costs. Charges round up.
    fn of(self, time: Duration) -> u64 {
        let by_time = (u128::from(self.per_second) * time.as_millis()).div_ceil(1000);
        self.per_call.saturating_add(u64::try_from(by_time).unwrap_or(u64::MAX))
    }
}

impl<'a> Meter<'a> {
    /// Begins to count, if the first step can be afforded.
    pub(super) fn start(turn: &'a Turn, rate: Rate) -> Result<Self, Denied> {
        let meter = Self { turn, rate, began: Instant::now(), reported: 0 };
        meter.ask(STEP)?;
        Ok(meter)
    }

    /// Asks step by step, until one is refused.
    pub(super) async fn run(&mut self) -> Denied {
        if self.rate.per_second == 0 {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(STEP).await;
            self.report();
            if let Err(denied) = self.ask(self.began.elapsed() + STEP) {
                return denied;
            }
        }
    }

    fn ask(&self, until: Duration) -> Result<(), Denied> {
        let more = self.rate.of(until).saturating_sub(self.reported);
        if more == 0 {
            return Ok(());
        }
        self.turn.may_spend(Usage { cost_micro_usd: more, ..Usage::default() })
    }

    fn report(&mut self) {
        let more = self.rate.of(self.began.elapsed()).saturating_sub(self.reported);
        if more > 0 {
            self.turn.usage(Usage { cost_micro_usd: more, ..Usage::default() });
            self.reported += more;
        }
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.report();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_round_up() {
        let rate = Rate { per_call: 100, per_second: 3 };
        assert_eq!(rate.of(Duration::ZERO), 100);
        assert_eq!(rate.of(Duration::from_millis(1)), 101);
        assert_eq!(rate.of(Duration::from_millis(2000)), 106);
    }
}
