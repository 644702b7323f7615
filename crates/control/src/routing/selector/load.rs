//! Whoever has less to do, of two.

use super::{Choice, NOBODY, PeerSelector, Wanted, comparable};
use crate::Millis;
use crate::routing::Snapshot;

/// Draws two and takes the one whose open calls will take less long, by its latency at its worst of late. Two are
/// enough to keep the load even, and unlike with the best of all, not everybody runs to the same one at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerOfTwoChoices {
    /// What the draw begins with.
    pub seed: u64,
}

impl PeerSelector for PowerOfTwoChoices {
    fn name(&self) -> &str {
        "power_of_two_choices"
    }

    fn select(&self, candidates: &[Snapshot], wanted: &Wanted<'_>, _: Millis) -> Choice {
        let count = comparable(candidates).count();
        if count < 2 {
            return match comparable(candidates).next() {
                Some((place, _)) => Choice::of(place, "the only one that can be called now"),
                None => Choice::none(NOBODY),
            };
        }
        let drawn = mix(self.seed ^ mix(wanted.turn));
        let first = below(drawn, count);
        let second = (first + 1 + below(mix(drawn), count - 1)) % count;
        let pair = [first, second].into_iter().filter_map(|at| comparable(candidates).nth(at));
        match pair.min_by_key(|(_, one)| (load(one), one.last_turn)) {
            Some((place, _)) => Choice::of(place, "has less to do than another one that was drawn"),
            None => Choice::none(NOBODY),
        }
    }
}

/// For how long it will be busy with what it has and with this call, in microseconds.
fn load(one: &Snapshot) -> u128 {
    let each = one.peak_latency.or(one.likely_latency).unwrap_or_default();
    // Times are known to the millisecond, so less than one tells no two peers apart.
    each.as_micros().max(1000) * (u128::from(one.open) + 1)
}

fn below(drawn: u64, count: usize) -> usize {
    usize::try_from(drawn % count.max(1) as u64).unwrap_or_default()
}

/// Spreads a number over all others (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
