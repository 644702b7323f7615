//! The record of admitted calls: who called whom, under which root, what was held for it and what it cost.
//!
//! * One [`Edge`] a call. One that comes again takes the place of what is kept, until it is settled: a settled edge
//!   never changes any more, so what was charged is counted once.
//! * It rides in a [`Batch`](crate::Batch), and then is there if and only if the batch is; or it is
//!   [put](Store::put_edge) by itself, for a call that got no task.
//! * Edges are in the order of their ids, which are UUIDv7: that of their making, to the millisecond. That is also the
//!   time that ranges and retention go by.
//! * Every query says of which realm, or of all of them in so many words; and no answer is longer than
//!   [`MOST_EDGES`]. A query looks at a bounded number of edges, so a page can be short and yet not the last one.
//! * What was charged is also kept as sums, which outlive the edges: see [`Spend`](crate::Spend).

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Edge, HopId, TaskId, Timestamp};

use crate::Store;
use crate::error::StoreError;
use crate::spend::ago;

/// As many edges, roots or sums as one answer has at most.
pub const MOST_EDGES: usize = 1_000;

/// How many edges a query looks at before it gives the page that it has.
pub(crate) const MOST_SCANNED: usize = 16_384;

/// Of which realm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Realms {
    /// Of this one alone.
    One(Arc<str>),
    /// Of all of them: for who runs the place, never for a caller.
    All,
}

/// Which edges are wanted. All that is said must hold.
#[derive(Clone, Debug)]
pub struct EdgeQuery {
    /// Of which realm.
    pub realms: Realms,
    /// Those that go back to this call, itself included: its tree.
    pub root: Option<HopId>,
    /// Those of this trace.
    pub trace: Option<Arc<str>>,
    /// Those of this task.
    pub task: Option<TaskId>,
    /// Those of this caller.
    pub caller: Option<Arc<str>>,
    /// Those of this agent.
    pub agent: Option<Arc<str>>,
    /// Those whose ids were made at this millisecond or later.
    pub since: Option<Timestamp>,
    /// Those whose ids were made before this millisecond.
    pub until: Option<Timestamp>,
    /// The newest come first, rather than the oldest.
    pub newest_first: bool,
    /// Those that come after this one: [`EdgePage::next`] of the page before.
    pub after: Option<HopId>,
    /// At most so many, and at most [`MOST_EDGES`].
    pub limit: usize,
}

/// Edges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgePage {
    /// The edges. There can be fewer than were asked for, even none, and yet be a next page.
    pub edges: Vec<Edge>,
    /// Where the next page begins, if there is one.
    pub next: Option<HopId>,
}

impl Store {
    /// Keeps the edge of a call that has no task to ride with.
    pub async fn put_edge(&self, edge: impl Into<Box<Edge>>) -> Result<(), StoreError> {
        let edge = edge.into();
        match self {
            Self::Memory(store) => {
                store.put_edge(edge);
                Ok(())
            }
            Self::Sqlite(store) => Box::pin(store.put_edge(edge)).await,
        }
    }

    /// The edges that are not settled, oldest first: after one of them, and at most so many.
    pub async fn open_edges(
        &self,
        realms: &Realms,
        after: Option<HopId>,
        limit: usize,
    ) -> Result<EdgePage, StoreError> {
        let query = EdgeQuery { after, limit, ..EdgeQuery::of(realms.clone()) };
        match self {
            Self::Memory(store) => Ok(store.open_edges(&query)),
            Self::Sqlite(store) => Box::pin(store.open_edges(query)).await,
        }
    }

    /// A page of edges.
    pub async fn edges(&self, query: &EdgeQuery) -> Result<EdgePage, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.edges(query)),
            Self::Sqlite(store) => Box::pin(store.edges(query.clone())).await,
        }
    }
}

// === impl Realms ===

impl Realms {
    pub(crate) fn has(&self, realm: &str) -> bool {
        match self {
            Self::One(one) => **one == *realm,
            Self::All => true,
        }
    }
}

// === impl EdgeQuery ===

impl EdgeQuery {
    /// All edges of a realm, oldest first.
    pub fn of(realms: Realms) -> Self {
        Self {
            realms,
            root: None,
            trace: None,
            task: None,
            caller: None,
            agent: None,
            since: None,
            until: None,
            newest_first: false,
            after: None,
            limit: MOST_EDGES,
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.min(MOST_EDGES)
    }

    /// The first and the last id that there can be on this page.
    pub(crate) fn range(&self) -> Option<(HopId, HopId)> {
        let mut first = self.since.map_or(0, first_made_at);
        let mut last = self.until.map_or(Some(u128::MAX), |until| first_made_at(until).checked_sub(1))?;
        if let Some(after) = self.after.map(number) {
            if self.newest_first {
                last = last.min(after.checked_sub(1)?);
            } else {
                first = first.max(after.checked_add(1)?);
            }
        }
        (first <= last).then(|| (hop(first), hop(last)))
    }

    /// Whether these three may be looked at.
    pub(crate) fn takes_party(&self, realm: &str, caller: &str, agent: &str) -> bool {
        let is =
            |wanted: &Option<Arc<str>>, there: &str| wanted.as_deref().is_none_or(|wanted| wanted == there);
        self.realms.has(realm) && is(&self.caller, caller) && is(&self.agent, agent)
    }

    pub(crate) fn takes(&self, edge: &Edge) -> bool {
        self.root.is_none_or(|root| edge.root == root)
            && self.takes_party(&edge.realm, &edge.caller, &edge.agent)
            && self.trace.as_ref().is_none_or(|trace| edge.trace.as_ref() == Some(trace))
            && self.task.as_ref().is_none_or(|task| edge.task.as_ref() == Some(task))
    }
}

/// The lowest number that an id made at this millisecond can have.
fn first_made_at(time: Timestamp) -> u128 {
    u128::try_from(time.as_millis()).unwrap_or_default().min((1 << 48) - 1) << 80
}

fn number(hop: HopId) -> u128 {
    u128::from_be_bytes(*hop.as_bytes())
}

fn hop(number: u128) -> HopId {
    HopId::from_bytes(number.to_be_bytes())
}

/// When an id was made.
pub(crate) fn made_at(hop: HopId) -> Timestamp {
    Timestamp::from_millis(i64::try_from(number(hop) >> 80).unwrap_or(i64::MAX))
}

/// The lowest id that is not yet so old at a time.
pub(crate) fn first_younger_than(span: Duration, now: Timestamp) -> HopId {
    let then = ago(now, span);
    hop(first_made_at(Timestamp::from_millis(then.as_millis().saturating_add(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_without_gap_or_overlap() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        let all = EdgeQuery::of(Realms::All);
        assert_eq!(all.range(), Some((hop(0), hop(u128::MAX))));
        let one = EdgeQuery { since: at(5), until: at(7), ..all.clone() };
        let two = EdgeQuery { since: at(7), until: at(9), ..all.clone() };
        let (one, two) = (one.range().unwrap(), two.range().unwrap());
        assert_eq!((number(one.0), number(one.1) + 1, number(two.1) + 1), (5 << 80, number(two.0), 9 << 80));
        assert_eq!(EdgeQuery { since: at(7), until: at(7), ..all.clone() }.range(), None);
        assert_eq!(EdgeQuery { until: at(0), ..all.clone() }.range(), None);
        let young = first_younger_than(Duration::from_millis(23), Timestamp::from_millis(100));
        assert_eq!((made_at(young).as_millis(), number(young)), (78, 78 << 80));
        let after = EdgeQuery { after: Some(hop(u128::MAX)), ..all };
        assert_eq!(after.range(), None);
        let before = EdgeQuery { newest_first: true, ..after };
        assert_eq!(before.range(), Some((hop(0), hop(u128::MAX - 1))));
        assert_eq!(EdgeQuery { after: Some(hop(0)), ..before }.range(), None);
    }
}
