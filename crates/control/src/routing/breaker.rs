//! Takes a peer out of its pool while it cannot be reached, and lets it back by one call that goes well.

use std::time::Duration;

use crate::Millis;

/// When a peer leaves its pool, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// After so many calls in a row that broke off on the way; at least one.
    pub failures: u32,
    /// For how long it then gets no call.
    pub cooldown: Duration,
}

/// Whether a peer can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It can.
    In,
    /// It was out, and can be tried by one call at a time.
    OnTrial,
    /// It cannot before this time.
    OutUntil(Millis),
}

/// Counts what goes wrong in a row. What an agent says itself, also that it failed, is none of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Breaker {
    in_a_row: u32,
    out_until: Option<Millis>,
}

// === impl BreakerSettings ===

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, cooldown: Duration::from_secs(10) }
    }
}

// === impl Breaker ===

impl Breaker {
    pub(super) fn standing(&self, now: Millis) -> Standing {
        match self.out_until {
            None => Standing::In,
            Some(until) if now >= until => Standing::OnTrial,
            Some(until) => Standing::OutUntil(until),
        }
    }

    /// A call has come to its end as it should.
    pub(super) fn succeeded(&mut self) {
        if self.out_until.is_none() {
            self.in_a_row = 0;
        }
    }

    /// The call that tried it has been answered. One more that breaks off before another goes well takes it out again.
    pub(super) fn let_back(&mut self) {
        self.out_until = None;
    }

    /// A call has broken off; `tried` if it was the one that tried it. Says whether that took the peer out.
    pub(super) fn failed(&mut self, settings: &BreakerSettings, tried: bool, now: Millis) -> bool {
        if self.out_until.is_some() && !tried {
            // It began before the peer was taken out, and says nothing new.
            return false;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let goes = tried && self.out_until.is_some() || self.in_a_row >= settings.failures;
        if goes {
            self.out_until = Some(now + settings.cooldown);
        }
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings { failures: 5, cooldown: Duration::from_secs(10) };

    fn broken() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            assert!(!breaker.failed(&SETTINGS, false, Millis(0)));
        }
        assert!(breaker.failed(&SETTINGS, false, Millis(0)));
        breaker
    }

    #[test]
    fn five_failures_in_a_row_take_a_peer_out_for_ten_seconds() {
        let breaker = broken();
        assert_eq!(breaker.standing(Millis(9_999)), Standing::OutUntil(Millis(10_000)));
        assert_eq!(breaker.standing(Millis(10_000)), Standing::OnTrial);
    }

    #[test]
    fn a_success_in_between_begins_the_count_anew() {
        let mut breaker = Breaker::default();
        for _ in 0..100 {
            (0..4).for_each(|_| assert!(!breaker.failed(&SETTINGS, false, Millis(0))));
            breaker.succeeded();
        }
        assert_eq!(breaker.standing(Millis(0)), Standing::In);
    }

    #[test]
    fn only_the_call_that_tries_it_decides_about_its_return() {
        let mut breaker = broken();
        breaker.succeeded();
        assert!(!breaker.failed(&SETTINGS, false, Millis(9_000)));
        assert_eq!(breaker.standing(Millis(10_000)), Standing::OnTrial);
        assert!(breaker.failed(&SETTINGS, true, Millis(11_000)));
        assert_eq!(breaker.standing(Millis(20_999)), Standing::OutUntil(Millis(21_000)));
        breaker.let_back();
        assert_eq!(breaker.standing(Millis(21_000)), Standing::In);
    }

    #[test]
    fn one_that_is_back_is_out_again_at_the_first_failure_until_a_call_goes_well() {
        let mut breaker = broken();
        breaker.let_back();
        assert!(breaker.failed(&SETTINGS, false, Millis(20_000)));
        breaker.let_back();
        breaker.succeeded();
        assert!(!breaker.failed(&SETTINGS, false, Millis(40_000)));
    }
}
