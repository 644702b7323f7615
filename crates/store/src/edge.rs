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

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, Edge, HopId, TaskId, Timestamp};
use foldhash::fast::RandomState;

use crate::Store;
use crate::error::StoreError;
use crate::spend::{add, ago};

/// As many edges, roots or sums as one answer has at most.
pub const MOST_EDGES: usize = 1_000;

/// How many edges a query looks at before it gives the page that it has.
pub(crate) const MOST_SCANNED: usize = 16_384;
/// How many edges [`Store::spend_by_root`] looks at.
pub(crate) const MOST_SUMMED: usize = 100_000;

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

/// What all calls under one root have cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSpend {
    /// The root.
    pub root: HopId,
    /// The realm of the first call that is kept: the root itself, unless that was let through elsewhere.
    pub realm: Arc<str>,
    /// Who made it.
    pub caller: Arc<str>,
    /// Which agent it was for.
    pub agent: Arc<str>,
    /// When it was let through.
    pub opened: Timestamp,
    /// When the last one was settled.
    pub settled: Option<Timestamp>,
    /// What was charged for those that are settled.
    pub charged: Amount,
    /// What is held for those that are not.
    pub held: Amount,
    /// How many calls there are.
    pub calls: u64,
    /// How many of them are not settled.
    pub open: u64,
    /// How deep they go.
    pub depth: u16,
}

/// Roots, the dearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootSpends {
    /// The roots.
    pub roots: Vec<RootSpend>,
    /// If there was too much to look at: these are all roots only since this time.
    pub cut: Option<Timestamp>,
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

    /// What the roots cost that were begun since a time, the dearest first.
    pub async fn spend_by_root(
        &self,
        realms: &Realms,
        since: Timestamp,
        limit: usize,
    ) -> Result<RootSpends, StoreError> {
        let query =
            EdgeQuery { since: Some(since), limit, newest_first: true, ..EdgeQuery::of(realms.clone()) };
        match self {
            Self::Memory(store) => Ok(store.spend_by_root(&query)),
            Self::Sqlite(store) => Box::pin(store.spend_by_root(query)).await,
        }
    }

    /// What all calls under one root have cost so far, if there are any.
    pub async fn spend_of_root(&self, realms: &Realms, root: HopId) -> Result<Option<RootSpend>, StoreError> {
        let mut query = EdgeQuery { root: Some(root), ..EdgeQuery::of(realms.clone()) };
        let mut roots = Roots::default();
        loop {
            let page = self.edges(&query).await?;
            page.edges.iter().for_each(|edge| roots.add(edge));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(roots.finish(1, hop(0)).pop());
            }
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

/// Adds edges up by their roots.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    by_root: HashMap<HopId, (HopId, RootSpend), RandomState>,
}

impl Roots {
    pub(crate) fn add(&mut self, edge: &Edge) {
        let fresh = || (edge.hop, RootSpend::nothing(edge));
        let (first, spend) = self.by_root.entry(edge.root).or_insert_with(fresh);
        if edge.hop <= *first {
            *first = edge.hop;
            spend.realm = edge.realm.clone();
            spend.caller = edge.caller.clone();
            spend.agent = edge.agent.clone();
            spend.opened = edge.opened;
        }
        spend.calls += 1;
        spend.depth = spend.depth.max(edge.depth);
        match &edge.settled {
            Some(settled) => {
                add(&mut spend.charged, settled.charged);
                spend.settled = spend.settled.max(Some(settled.at));
            }
            None => {
                add(&mut spend.held, edge.reserved);
                spend.open += 1;
            }
        }
    }

    /// The dearest of those that were begun with a certain id or later. What is under a root is newer than it, so
    /// whoever has looked at all edges down to that id has seen each of these roots with all that is under it.
    pub(crate) fn finish(self, limit: usize, from: HopId) -> Vec<RootSpend> {
        let whole = self.by_root.into_values().filter(|(_, spend)| spend.root >= from);
        let mut roots: Vec<_> = whole.map(|(_, spend)| spend).collect();
        let dearness =
            |spend: &RootSpend| (spend.charged.micro_usd, spend.charged.tokens, spend.calls, spend.root);
        roots.sort_unstable_by_key(|spend| Reverse(dearness(spend)));
        roots.truncate(limit);
        roots
    }
}

impl RootSpend {
    fn nothing(edge: &Edge) -> Self {
        Self {
            root: edge.root,
            realm: edge.realm.clone(),
            caller: edge.caller.clone(),
            agent: edge.agent.clone(),
            opened: edge.opened,
            settled: None,
            charged: Amount::default(),
            held: Amount::default(),
            calls: 0,
            open: 0,
            depth: 0,
        }
    }
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
