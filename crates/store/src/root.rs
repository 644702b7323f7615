//! What all calls under one root have cost.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use chancery_protocol::{Amount, Edge, HopId, Timestamp};
use foldhash::fast::RandomState;

use crate::Store;
use crate::edge::{EdgeQuery, Realms};
use crate::error::StoreError;
use crate::spend::add;

/// How many edges [`Store::spend_by_root`] looks at.
pub(crate) const MOST_SUMMED: usize = 100_000;

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
                return Ok(roots.finish(1, HopId::from_bytes([0; 16])).pop());
            }
        }
    }
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
