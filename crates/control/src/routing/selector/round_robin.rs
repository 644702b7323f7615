//! Everybody in turn.

use super::{Choice, NOBODY, PeerSelector, Wanted};
use crate::Millis;
use crate::routing::Snapshot;

/// Whoever was chosen longest ago. That stays fair when peers come and go.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    /// Where to begin, so that not all gateways begin with the same peer.
    pub seed: u64,
}

impl PeerSelector for RoundRobin {
    fn name(&self) -> &str {
        "round_robin"
    }

    fn select(&self, candidates: &[Snapshot], _: &Wanted<'_>, _: Millis) -> Choice {
        let count = candidates.len() as u64;
        let place_in_turn = |place: usize| (place as u64 + count - self.seed % count) % count;
        let next = candidates.iter().enumerate().min_by_key(|(at, one)| (one.last_turn, place_in_turn(*at)));
        match next {
            Some((place, _)) => Choice::of(place, "its turn"),
            None => Choice::none(NOBODY),
        }
    }
}
