//! One selector, and another for when it finds nobody.

use std::sync::Arc;

use super::{Choice, PeerSelector, Wanted};
use crate::Millis;
use crate::routing::Snapshot;

/// Asks the first, and the fallback if the first finds nobody.
#[derive(Clone, Debug)]
pub struct Chained {
    first: Arc<dyn PeerSelector>,
    fallback: Arc<dyn PeerSelector>,
    name: String,
}

impl Chained {
    /// Of these two.
    pub fn new(first: Arc<dyn PeerSelector>, fallback: Arc<dyn PeerSelector>) -> Self {
        let name = format!("{}, else {}", first.name(), fallback.name());
        Self { first, fallback, name }
    }
}

impl PeerSelector for Chained {
    fn name(&self) -> &str {
        &self.name
    }

    fn select(&self, candidates: &[Snapshot], wanted: &Wanted<'_>, now: Millis) -> Choice {
        let first = self.first.select(candidates, wanted, now);
        if first.member.is_some() {
            return first;
        }
        let second = self.fallback.select(candidates, wanted, now);
        let reason = format!("{}; {}: {}", first.reason, self.fallback.name(), second.reason);
        Choice { member: second.member, reason: reason.into() }
    }
}
