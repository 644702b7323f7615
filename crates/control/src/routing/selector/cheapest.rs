//! Whoever is cheapest of those that are fast enough.

use std::time::Duration;

use super::{Choice, NOBODY, PeerSelector, Wanted, at_leisure, comparable};
use crate::Millis;
use crate::routing::Snapshot;

/// The cheapest of those that say something within the budget. One that has not been measured counts with the price it
/// declares and with the latency of the pool's middle, so the dear ones are not tried out for nothing.
#[derive(Clone, Copy, Debug)]
pub struct CheapestUnderLatency {
    /// How long a peer may take to say something.
    pub budget: Duration,
}

impl PeerSelector for CheapestUnderLatency {
    fn name(&self) -> &str {
        "cheapest_under_latency"
    }

    fn select(&self, candidates: &[Snapshot], _: &Wanted<'_>, _: Millis) -> Choice {
        let is_fast = |one: &Snapshot| one.likely_latency.is_none_or(|latency| latency <= self.budget);
        let price = |one: &Snapshot| one.likely_cost_micro_usd.unwrap_or(u64::MAX);
        let cheapest = comparable(candidates).filter(|(_, one)| is_fast(one)).min_by_key(|(_, one)| {
            // Of two that cost the same, the one that is not known comes first, so that it will be.
            (price(one), one.latency, at_leisure(one))
        });
        if let Some((place, one)) = cheapest {
            return Choice::of(
                place,
                if one.latency.is_some() {
                    "the cheapest that is fast enough"
                } else {
                    "the cheapest by what is declared; not measured yet, so it is tried out"
                },
            );
        }
        // Nobody is known to be fast enough. Who is not known may be.
        let untried = candidates.iter().enumerate().filter(|(_, one)| one.needs_trial());
        match untried.min_by_key(|(_, one)| (price(one), at_leisure(one))) {
            Some((place, _)) => {
                Choice::of(place, "nobody is fast enough; not measured yet, so it is tried out")
            }
            None if candidates.is_empty() => Choice::none(NOBODY),
            None => Choice::none(format!("nobody answers within {} ms", self.budget.as_millis())),
        }
    }
}
