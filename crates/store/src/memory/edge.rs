//! The record of admitted calls, in the order of their ids.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::RangeInclusive;

use chancery_protocol::{Edge, HopId, Timestamp};

use super::MemoryStore;
use super::ages::Ages;
use super::spend::Sums;
use crate::edge::{EdgePage, EdgeQuery, MOST_SCANNED, Realms, first_younger_than, made_at};
use crate::limits::Retention;
use crate::root::{MOST_SUMMED, RootSpends, Roots};
use crate::spend::{SpendPage, SpendPlace};

#[derive(Debug, Default)]
pub(super) struct Edges {
    all: BTreeMap<HopId, Box<Edge>>,
    open: BTreeSet<HopId>,
    /// Each that is not its own root, under its root.
    under: BTreeSet<(HopId, HopId)>,
    /// Those that are settled, by who called.
    settled: Ages<HopId, ()>,
    sums: Sums,
}

/// How many edges are forgotten before others get the lock.
const STEP: usize = 64;

impl MemoryStore {
    pub(crate) fn put_edge(&self, edge: Box<Edge>) {
        self.edges.lock().put(edge, &self.limits.retention);
    }

    pub(crate) fn open_edges(&self, query: &EdgeQuery) -> EdgePage {
        let edges = self.edges.lock();
        let Some((first, last)) = query.range() else { return EdgePage::default() };
        page(query, edges.open.range(first..=last).filter_map(|hop| edges.find(hop)))
    }

    pub(crate) fn edges(&self, query: &EdgeQuery) -> EdgePage {
        let edges = self.edges.lock();
        let Some((first, last)) = query.range() else { return EdgePage::default() };
        match (query.root, query.newest_first) {
            (Some(root), false) => page(query, edges.tree(root, first..=last).iter().copied()),
            (Some(root), true) => page(query, edges.tree(root, first..=last).iter().copied().rev()),
            (None, false) => page(query, edges.range(first..=last)),
            (None, true) => page(query, edges.range(first..=last).rev()),
        }
    }

    pub(crate) fn spend_by_root(&self, query: &EdgeQuery) -> RootSpends {
        let Some((first, last)) = query.range() else { return RootSpends::default() };
        let edges = self.edges.lock();
        let (mut roots, mut from) = (Roots::default(), first);
        let mut newest_first = edges.range(first..=last).rev();
        for edge in newest_first.by_ref().take(MOST_SUMMED) {
            from = edge.hop;
            if query.takes(edge) {
                roots.add(edge);
            }
        }
        let cut = newest_first.next().map(|_| made_at(from));
        let from = if cut.is_some() { from } else { first };
        RootSpends { roots: roots.finish(query.limit(), from), cut }
    }

    pub(crate) fn spend(
        &self,
        realms: &Realms,
        since: Timestamp,
        after: Option<SpendPlace>,
        limit: usize,
    ) -> SpendPage {
        self.edges.lock().sums.page(realms, since, after, limit)
    }

    pub(super) fn sweep_edges(&self, now: Timestamp) {
        while self.edges.lock().forget_some(now, &self.limits.retention) {}
    }

    pub(super) fn delete_edges(&self, realm: &str, caller: &str) {
        self.edges.lock().delete(realm, caller);
    }
}

/// What a query takes of the edges that follow, in the order in which they are given.
fn page<'a>(query: &EdgeQuery, mut edges: impl Iterator<Item = &'a Edge>) -> EdgePage {
    let limit = query.limit();
    let mut page = EdgePage::default();
    let mut last = query.after;
    for edge in edges.by_ref().take(MOST_SCANNED) {
        if query.takes(edge) {
            if page.edges.len() >= limit {
                page.next = last;
                return page;
            }
            page.edges.push(edge.clone());
        }
        last = Some(edge.hop);
    }
    page.next = edges.next().and(last);
    page
}

impl Edges {
    fn put(&mut self, edge: Box<Edge>, retention: &Retention) {
        let (hop, root, settled) = (edge.hop, edge.root, edge.settled);
        let owner = (edge.realm.clone(), edge.caller.clone());
        match self.all.entry(hop) {
            btree_map::Entry::Occupied(mut place) => {
                if place.get().settled.is_some() {
                    return;
                }
                if let Some(settled) = settled {
                    self.open.remove(&hop);
                    self.sums.add(&edge, settled, retention);
                }
                let before = place.insert(edge);
                self.under.remove(&(before.root, hop));
            }
            btree_map::Entry::Vacant(place) => {
                match settled {
                    Some(settled) => self.sums.add(&edge, settled, retention),
                    None => _ = self.open.insert(hop),
                }
                place.insert(edge);
            }
        }
        if root != hop {
            self.under.insert((root, hop));
        }
        if settled.is_some() {
            self.settled.insert(hop, owner.clone(), ());
            if self.settled.len_of(&owner) > retention.max_edges_per_owner {
                self.forget_one(self.settled.oldest_of(&owner));
            }
            if self.settled.len() > retention.max_edges {
                self.forget_one(self.settled.oldest_of_most());
            }
        }
    }

    fn find(&self, hop: &HopId) -> Option<&Edge> {
        self.all.get(hop).map(|edge| &**edge)
    }

    fn range(&self, hops: RangeInclusive<HopId>) -> impl DoubleEndedIterator<Item = &Edge> {
        self.all.range(hops).map(|(_, edge)| &**edge)
    }

    /// The edges of a tree that have these ids, in order.
    fn tree(&self, root: HopId, hops: RangeInclusive<HopId>) -> Vec<&Edge> {
        let under = self.under.range((root, *hops.start())..=(root, *hops.end()));
        let mut tree: Vec<_> = under.filter_map(|(_, hop)| self.find(hop)).collect();
        if let Some(edge) = self.find(&root).filter(|edge| edge.root == root && hops.contains(&root)) {
            tree.insert(tree.partition_point(|other| other.hop < root), edge);
        }
        tree
    }

    /// Forgets a few that have outlived their time, or are too many. Says whether there may be more.
    fn forget_some(&mut self, now: Timestamp, retention: &Retention) -> bool {
        let young = first_younger_than(retention.edges, now);
        for _ in 0..STEP {
            let oldest = self.settled.oldest().map(|(hop, ())| hop).filter(|hop| *hop < young);
            let too_many = self.settled.len() > retention.max_edges;
            match oldest.or_else(|| self.settled.oldest_of_most().filter(|_| too_many)) {
                Some(hop) => self.forget_one(Some(hop)),
                None => return self.sums.tidy(now, retention),
            }
        }
        true
    }

    fn forget_one(&mut self, hop: Option<HopId>) {
        if let Some(hop) = hop {
            self.remove(&hop);
        }
    }

    fn remove(&mut self, hop: &HopId) {
        if let Some(edge) = self.all.remove(hop) {
            self.open.remove(hop);
            self.settled.remove(*hop);
            self.under.remove(&(edge.root, *hop));
        }
    }

    fn delete(&mut self, realm: &str, caller: &str) {
        let is_theirs = |edge: &Edge| &*edge.realm == realm && &*edge.caller == caller;
        let theirs: Vec<_> = self.all.values().filter(|edge| is_theirs(edge)).map(|edge| edge.hop).collect();
        theirs.iter().for_each(|hop| self.remove(hop));
        for edge in self.all.values_mut().filter(|edge| &*edge.realm == realm) {
            if edge.payer.take_if(|payer| **payer == *caller).is_some() {
                edge.groups.clear();
            }
        }
        self.sums.unname(realm, caller);
    }
}
