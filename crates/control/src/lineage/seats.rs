//! The open calls by the agent that answers them: what an agent that calls without a token may be calling for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chancery_protocol::HopId;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::open::OpenHop;

/// So many calls are remembered as those that another one may be made for.
const MAX_PERHAPS: usize = 64;

#[derive(Debug)]
pub(super) struct Seats {
    shards: Box<[Mutex<HashMap<Key, Seat, RandomState>>]>,
    hasher: RandomState,
}

/// What an agent has open.
#[derive(Debug)]
pub(super) enum Standing {
    /// Nothing: whatever it does, it does by itself.
    Idle,
    /// One call, so that is what it works on.
    One(Arc<OpenHop>),
    /// Several, and it could be working on any.
    Several {
        /// The depth of the deepest.
        deepest: u16,
        /// All agents that lie before it in any of them.
        kin: Vec<Arc<str>>,
        /// The calls; none if there are too many to tell.
        hops: Box<[HopId]>,
    },
}

/// A realm and an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(Arc<str>, Arc<str>);

/// One agent in one realm. What is asked of all its calls together is kept as counts, so that asking is cheap
/// however many there are.
#[derive(Debug, Default)]
struct Seat {
    hops: HashMap<HopId, Arc<OpenHop>, RandomState>,
    /// How many of them have each depth.
    depths: Vec<u32>,
    /// In how many of them an agent lies before this one.
    ancestors: HashMap<Arc<str>, u32, RandomState>,
    /// Calls that it makes and that may be for one of several.
    unsure: Vec<Arc<OpenHop>>,
}

// === impl Seats ===

impl Seats {
    pub(super) fn new(shards: usize) -> Self {
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::default() }
    }

    pub(super) fn add(&self, hop: &Arc<OpenHop>) {
        for key in keys(hop) {
            self.with(key, |seat| seat.add(hop));
        }
        if let Some(key) = origin(hop) {
            self.with(key, |seat| seat.unsure.push(hop.clone()));
        }
    }

    pub(super) fn remove(&self, hop: &OpenHop) {
        for key in keys(hop) {
            self.with(key, |seat| seat.remove(hop));
        }
        if let Some(key) = origin(hop) {
            self.with(key, |seat| seat.unsure.retain(|unsure| unsure.hop != hop.hop));
        }
    }

    pub(super) fn count(&self, realm: &Arc<str>, agent: &Arc<str>) -> usize {
        let key = Key(realm.clone(), agent.clone());
        self.shard(&key).lock().get(&key).map_or(0, |seat| seat.hops.len())
    }

    pub(super) fn standing(&self, realm: &Arc<str>, agent: &Arc<str>) -> Standing {
        let key = Key(realm.clone(), agent.clone());
        self.shard(&key).lock().get(&key).map_or(Standing::Idle, Seat::standing)
    }

    /// The calls of this call's agent that may have been for any of several, none of which is open any more.
    pub(super) fn orphans(&self, of: &OpenHop) -> Vec<Arc<OpenHop>> {
        let mut orphans = Vec::new();
        for key in keys(of) {
            if let Some(seat) = self.shard(&key).lock().get(&key) {
                let over =
                    |hop: &&Arc<OpenHop>| !hop.perhaps_for.iter().any(|hop| seat.hops.contains_key(hop));
                orphans.extend(seat.unsure.iter().filter(over).cloned());
            }
        }
        orphans
    }

    /// This call was canceled, so what may have been for it may be for nobody.
    pub(super) fn doubt(&self, canceled: &OpenHop) {
        for key in keys(canceled) {
            if let Some(seat) = self.shard(&key).lock().get(&key) {
                let for_it = |hop: &&Arc<OpenHop>| hop.perhaps_for.contains(&canceled.hop);
                seat.unsure
                    .iter()
                    .filter(for_it)
                    .for_each(|hop| hop.perhaps_for_nobody.store(true, Ordering::Relaxed));
            }
        }
    }

    /// Changes a seat, which is there for as long as anything is in it.
    fn with(&self, key: Key, change: impl FnOnce(&mut Seat)) {
        let mut seats = self.shard(&key).lock();
        let mut seat = match seats.entry(key) {
            Entry::Occupied(seat) => seat,
            Entry::Vacant(place) => place.insert_entry(Seat::default()),
        };
        change(seat.get_mut());
        if seat.get().hops.is_empty() && seat.get().unsure.is_empty() {
            seat.remove();
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, Seat, RandomState>> {
        let place = self.hasher.hash_one(key) as usize;
        &self.shards[place % self.shards.len()]
    }
}

/// Where a call is found: at its agent, and at the member that answers.
fn keys(hop: &OpenHop) -> impl Iterator<Item = Key> {
    let peer = hop.peer.as_ref().filter(|peer| **peer != hop.agent);
    std::iter::once(&hop.agent).chain(peer).map(|agent| Key(hop.realm.clone(), agent.clone()))
}

/// The agent that makes a call which may be for any of several.
fn origin(hop: &OpenHop) -> Option<Key> {
    let unsure = !hop.perhaps_for.is_empty();
    unsure.then(|| Key(hop.realm.clone(), hop.context.root_agent_id.clone()))
}

// === impl Seat ===

impl Seat {
    fn add(&mut self, hop: &Arc<OpenHop>) {
        let depth = usize::from(hop.context.depth);
        if self.depths.len() <= depth {
            self.depths.resize(depth + 1, 0);
        }
        self.depths[depth] += 1;
        for agent in hop.context.visited.ancestors() {
            *self.ancestors.entry(agent.clone()).or_default() += 1;
        }
        self.hops.insert(hop.hop, hop.clone());
    }

    fn remove(&mut self, hop: &OpenHop) {
        if self.hops.remove(&hop.hop).is_none() {
            return;
        }
        if let Some(count) = self.depths.get_mut(usize::from(hop.context.depth)) {
            *count -= 1;
        }
        while self.depths.last() == Some(&0) {
            self.depths.pop();
        }
        for agent in hop.context.visited.ancestors() {
            if let Some(count) = self.ancestors.get_mut(agent) {
                *count -= 1;
                if *count == 0 {
                    self.ancestors.remove(agent);
                }
            }
        }
    }

    fn standing(&self) -> Standing {
        let mut hops = self.hops.values();
        match (hops.next(), hops.next()) {
            (None, _) => Standing::Idle,
            (Some(only), None) => Standing::One(only.clone()),
            _ => Standing::Several {
                deepest: u16::try_from(self.depths.len().saturating_sub(1)).unwrap_or(u16::MAX),
                kin: self.ancestors.keys().cloned().collect(),
                hops: if self.hops.len() > MAX_PERHAPS {
                    Box::default()
                } else {
                    self.hops.keys().copied().collect()
                },
            },
        }
    }
}
