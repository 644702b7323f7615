//! What is pending of all tasks, in the order in which it is due. Tasks without configurations never come here.

use std::collections::BTreeMap;
use std::ops::Bound;

use chancery_protocol::{TaskId, Timestamp};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::outbox::OutboxPlace;
use crate::record::Scope;

/// Its lock is the innermost: it is taken while that of a journal is held, never the other way round.
#[derive(Debug)]
pub(super) struct Outbox {
    clock: Clock,
    pending: Mutex<Pending>,
}

/// The task that something is pending of.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) scope: Scope,
    pub(super) task: TaskId,
}

#[derive(Debug, Default)]
struct Pending {
    order: BTreeMap<OutboxPlace, Address>,
    rows: u64,
}

impl Outbox {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, pending: Mutex::default() }
    }

    /// Enters something, due at a time or now if that has passed. The time is taken under the lock: whatever
    /// has been read from here comes before it.
    pub(super) fn enter(&self, address: Address, not_before: Option<Timestamp>) -> OutboxPlace {
        let mut pending = self.pending.lock();
        let now = self.clock.now();
        pending.rows += 1;
        let place = OutboxPlace { due: not_before.map_or(now, |time| time.max(now)), row: pending.rows };
        pending.order.insert(place, address);
        place
    }

    pub(super) fn leave(&self, place: OutboxPlace) {
        self.pending.lock().order.remove(&place);
    }

    pub(super) fn due(
        &self,
        after: Option<OutboxPlace>,
        now: Timestamp,
        limit: usize,
    ) -> Vec<(OutboxPlace, Address)> {
        let pending = self.pending.lock();
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = pending.order.range((after, Bound::Unbounded));
        rest.take_while(|(place, _)| place.due <= now).take(limit).map(|(p, a)| (*p, a.clone())).collect()
    }

    pub(super) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let last_due = OutboxPlace { due: now, row: u64::MAX };
        let pending = self.pending.lock();
        let next = pending.order.range((Bound::Excluded(last_due), Bound::Unbounded)).next();
        next.map(|(place, _)| place.due)
    }
}
