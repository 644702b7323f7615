//! A member of a pool, as it declares itself and as it looks at a moment.

use std::sync::Arc;
use std::time::Duration;

use super::breaker::Standing;

/// A member of a pool: an agent that does the same as the others there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Names it within its pool.
    pub name: Arc<str>,
    /// What a call costs by its own account, in millionths of a US dollar.
    pub price_micro_usd: Option<u64>,
    /// What it can do, by the ids of the skills on its card.
    pub skills: Vec<Arc<str>>,
}

/// How a peer looks to those who choose: what is known of it at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Who it is, and what it declares.
    pub peer: Arc<Peer>,
    /// How long it takes to say something, on average; none if that is not known, or was too long ago.
    pub latency: Option<Duration>,
    /// The same where the worst of late counts most; forgotten bit by bit.
    pub peak_latency: Option<Duration>,
    /// What a call costs on average, in millionths of a US dollar; none if none has been told.
    pub cost_micro_usd: Option<u64>,
    /// How many calls to it are open.
    pub open: u32,
    /// How many of a thousand calls break off on the way, of late.
    pub failed_permille: u16,
    /// Whether it can be called.
    pub standing: Standing,
    /// Whether a call is under way by which it is being tried out.
    pub on_trial: bool,
    /// When it was last chosen, counted in choices; 0 if it never was.
    pub last_turn: u64,
    /// The latency to reckon with: its own, or that of the peer in the middle of the pool; none if nobody's is known.
    pub likely_latency: Option<Duration>,
    /// The price to reckon with: what it costs, or declares, or what the peer in the middle of the pool costs.
    pub likely_cost_micro_usd: Option<u64>,
}

// === impl Peer ===

impl Peer {
    /// A peer that declares nothing.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), price_micro_usd: None, skills: Vec::new() }
    }

    /// It declares what a call costs, in millionths of a US dollar.
    #[must_use]
    pub fn price_micro_usd(mut self, price: u64) -> Self {
        self.price_micro_usd = Some(price);
        self
    }

    /// It declares a skill.
    #[must_use]
    pub fn skill(mut self, id: impl Into<Arc<str>>) -> Self {
        self.skills.push(id.into());
        self
    }

    /// Whether it declares a skill.
    pub fn has_skill(&self, id: &str) -> bool {
        self.skills.iter().any(|known| **known == *id)
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// A peer of which nothing is known but what it declares.
    pub fn new(peer: impl Into<Arc<Peer>>) -> Self {
        let peer = peer.into();
        Self {
            likely_cost_micro_usd: peer.price_micro_usd,
            peer,
            latency: None,
            peak_latency: None,
            cost_micro_usd: None,
            open: 0,
            failed_permille: 0,
            standing: Standing::In,
            on_trial: false,
            last_turn: 0,
            likely_latency: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.peer.name
    }

    /// Whether a call may go to it now.
    pub fn can_be_called(&self) -> bool {
        match self.standing {
            Standing::In => true,
            Standing::OnTrial => !self.on_trial,
            Standing::OutUntil(_) => false,
        }
    }

    /// Whether it should be tried out before anything is said about it, and is not being so.
    pub fn needs_trial(&self) -> bool {
        self.latency.is_none() && !self.on_trial
    }
}

/// Puts what is known of the others in the place of what is not known of a peer.
pub(super) fn estimate(seen: &mut [Snapshot]) {
    let own_cost = |one: &Snapshot| one.cost_micro_usd.or(one.peer.price_micro_usd);
    let usual_latency = if seen.iter().all(|one| one.latency.is_some()) {
        None
    } else {
        median(seen.iter().filter_map(|one| one.latency))
    };
    let usual_cost = if seen.iter().all(|one| own_cost(one).is_some()) {
        None
    } else {
        median(seen.iter().filter_map(own_cost))
    };
    for one in seen {
        one.likely_latency = one.latency.or(usual_latency);
        one.likely_cost_micro_usd = own_cost(one).or(usual_cost);
    }
}

/// The value in the middle; the smaller one if there are two.
fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_measured_counts_as_the_one_in_the_middle() {
        let mut seen: Vec<_> = ["a", "b", "c", "new"].map(|name| Snapshot::new(Peer::new(name))).into();
        for (one, ms) in seen.iter_mut().zip([10, 90, 30]) {
            one.latency = Some(Duration::from_millis(ms));
            one.cost_micro_usd = Some(ms * 100);
        }
        estimate(&mut seen);
        assert_eq!(seen[3].likely_latency, Some(Duration::from_millis(30)));
        assert_eq!(seen[3].likely_cost_micro_usd, Some(3000));
        assert_eq!(seen[1].likely_latency, Some(Duration::from_millis(90)));
    }

    #[test]
    fn a_declared_price_counts_until_a_cost_is_known() {
        let mut seen = [
            Snapshot::new(Peer::new("a").price_micro_usd(7)),
            Snapshot::new(Peer::new("b").price_micro_usd(9)),
        ];
        seen[1].cost_micro_usd = Some(20);
        estimate(&mut seen);
        assert_eq!(seen[0].likely_cost_micro_usd, Some(7));
        assert_eq!(seen[1].likely_cost_micro_usd, Some(20));
    }

    #[test]
    fn where_nothing_is_known_nothing_is_made_up() {
        let mut seen = [Snapshot::new(Peer::new("a"))];
        estimate(&mut seen);
        assert_eq!((seen[0].likely_latency, seen[0].likely_cost_micro_usd), (None, None));
        estimate(&mut []);
    }
}
