//! Whoever answers fastest.

use std::time::Duration;

use super::{Choice, NOBODY, PeerSelector, Wanted, at_leisure, comparable};
use crate::Millis;
use crate::routing::Snapshot;

/// Whoever has said something fastest of late. One that has not been measured gets a call first: there is no other way
/// to learn whether it is faster.
#[derive(Clone, Copy, Debug, Default)]
pub struct LowestLatency;

impl PeerSelector for LowestLatency {
    fn name(&self) -> &str {
        "lowest_latency"
    }

    fn select(&self, candidates: &[Snapshot], _: &Wanted<'_>, _: Millis) -> Choice {
        let untried = candidates.iter().enumerate().filter(|(_, one)| one.needs_trial());
        if let Some((place, _)) = untried.min_by_key(|(_, one)| one.last_turn) {
            return Choice::of(place, "not measured yet, so it is tried out");
        }
        let fastest = comparable(candidates)
            .min_by_key(|(_, one)| (one.likely_latency.unwrap_or(Duration::MAX), at_leisure(one)));
        match fastest {
            Some((place, _)) => Choice::of(place, "the fastest"),
            None => Choice::none(NOBODY),
        }
    }
}
