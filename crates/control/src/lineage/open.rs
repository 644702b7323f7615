//! The calls that are open now: what lineage tokens stand for, and what a cancel reaches.
//!
//! All calls of one root lie together, so that adding one is decided with its whole tree in view: a call whose parent
//! has ended is never added. Whoever cancels a call therefore takes it out first and asks for what is below it second;
//! nothing can slip in between.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chancery_protocol::{Amount, CallOrigin, Denied, DeniedKind, HopId, Quota, TaskId};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::context::TaskContext;
use super::rules::{GATE, Rules, TOO_MANY_OPEN_CALLS, invalid};
use super::seats::{Seats, Standing};
use crate::ledger::Remaining;

/// How many calls may be open at a time, unless said otherwise.
pub const DEFAULT_OPEN_CALLS: usize = 100_000;

/// When to try again where it takes that a call ends. Nobody knows when that is.
const WHEN_ENDED: Duration = Duration::from_secs(1);

const SHARDS: usize = 64;

/// The table of open calls. Shared by everything that admits, settles and cancels.
#[derive(Debug)]
pub struct Open {
    trees: Box<[Mutex<Trees>]>,
    seats: Seats,
    hasher: RandomState,
    count: AtomicUsize,
    most: usize,
}

/// One open call.
#[derive(Debug)]
pub struct OpenHop {
    /// The call.
    pub hop: HopId,
    /// The call that it goes back to; itself if to none.
    pub root: HopId,
    /// The call on whose behalf it is made.
    pub parent: Option<HopId>,
    /// Where it comes from, if all of this is done for a call of another gateway.
    pub origin: Option<Arc<CallOrigin>>,
    /// What isolates.
    pub realm: Arc<str>,
    /// Who called.
    pub caller: Arc<str>,
    /// The agent that was called.
    pub agent: Arc<str>,
    /// The member of it that answers, if it is a pool.
    pub peer: Option<Arc<str>>,
    /// Its place in the chain of calls.
    pub context: TaskContext,
    /// What was held for it.
    pub reserved: Amount,
    /// What it and all that goes on from it may spend, as far as that was known when it was let through.
    pub allowance: Allowance,
    /// The calls that it may be made for, where it is not known which of them it is.
    pub(super) perhaps_for: Box<[HopId]>,
    /// Whether one of those was canceled.
    pub(super) perhaps_for_nobody: AtomicBool,
    /// Whether nothing more is done on its behalf: it is to be canceled along with what it was made for, or the way to
    /// it is not known any more.
    pub(super) sealed: AtomicBool,
    pub(super) task: OnceLock<TaskId>,
}

/// What is left to spend. None is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// Tokens, read and written together.
    pub tokens: Option<u64>,
}

impl From<Remaining> for Allowance {
    fn from(left: Remaining) -> Self {
        Self { micro_usd: left.micro_usd, tokens: left.tokens }
    }
}

type Trees = HashMap<HopId, Tree, RandomState>;

/// What goes back to one root.
#[derive(Debug, Default)]
struct Tree {
    open: HashMap<HopId, Arc<OpenHop>, RandomState>,
    /// How many calls were ever let through below the root, ended ones included.
    descendants: u32,
}

// === impl Open ===

impl Default for Open {
    fn default() -> Self {
        Self::new(DEFAULT_OPEN_CALLS)
    }
}

impl Open {
    /// Empty, with room for so many calls.
    pub fn new(most: usize) -> Self {
        let trees = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            trees,
            seats: Seats::new(SHARDS),
            hasher: RandomState::default(),
            count: AtomicUsize::new(0),
            most,
        }
    }

    /// Adds a call that is about to be made, unless its parent has ended, its root has too many, or there is no room.
    pub fn add(&self, rules: &Rules, hop: OpenHop) -> Result<Arc<OpenHop>, Denied> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(full(self.most));
        }
        let hop = Arc::new(hop);
        if let Err(denied) = self.enter(rules, &hop) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(denied);
        }
        self.seats.add(&hop);
        Ok(hop)
    }

    /// Takes a call out that is over. False if it was out already.
    pub fn remove(&self, hop: &OpenHop) -> bool {
        let removed = {
            let mut trees = self.shard(hop.root).lock();
            let Some(tree) = trees.get_mut(&hop.root) else { return false };
            let removed = tree.open.remove(&hop.hop);
            if tree.open.is_empty() {
                trees.remove(&hop.root);
            }
            removed
        };
        let Some(removed) = removed else { return false };
        self.seats.remove(&removed);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// An open call of this root.
    pub fn find(&self, root: HopId, hop: HopId) -> Option<Arc<OpenHop>> {
        self.shard(root).lock().get(&root)?.open.get(&hop).cloned()
    }

    /// The open calls that were made because of this one, directly or not, whether it is still open itself or not.
    pub fn descendants(&self, root: HopId, of: HopId) -> Vec<Arc<OpenHop>> {
        self.below(root, of, |_| {})
    }

    /// The same, with something done to each while none can be added.
    fn below(&self, root: HopId, of: HopId, each: impl FnMut(&&Arc<OpenHop>)) -> Vec<Arc<OpenHop>> {
        let trees = self.shard(root).lock();
        let Some(tree) = trees.get(&root) else { return Vec::new() };
        let below = |hop: &&Arc<OpenHop>| hop.hop != of && (of == root || hop.context.visited.passes(of));
        tree.open.values().filter(below).inspect(each).cloned().collect()
    }

    /// What is to be canceled because this call was, and has been [removed](Self::remove): its descendants, and what its
    /// agent calls on nobody's known behalf now that none is left on whose behalf it could be.
    pub fn cascade(&self, canceled: &OpenHop) -> Vec<Arc<OpenHop>> {
        let mut reached =
            self.below(canceled.root, canceled.hop, |hop| hop.sealed.store(true, Ordering::Relaxed));
        self.seats.doubt(canceled);
        reached.extend(self.left_behind(canceled));
        reached
    }

    /// What is to be canceled although this call, which has been [removed](Self::remove), has ended well: calls that were
    /// for this one or for one that was canceled, since nobody knows which.
    pub fn left_behind(&self, ended: &OpenHop) -> Vec<Arc<OpenHop>> {
        let mut orphans = self.seats.orphans(ended);
        orphans.retain(|hop| hop.perhaps_for_nobody.load(Ordering::Relaxed));
        orphans
    }

    /// How many calls were ever made below a root that has open ones.
    pub fn descendants_ever(&self, root: HopId) -> u32 {
        self.shard(root).lock().get(&root).map_or(0, |tree| tree.descendants)
    }

    /// How many calls an agent has to answer at the moment, in a realm.
    pub fn open_at(&self, realm: &Arc<str>, agent: &Arc<str>) -> usize {
        self.seats.count(realm, agent)
    }

    /// How many calls are open.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn standing(&self, realm: &Arc<str>, agent: &Arc<str>) -> Standing {
        self.seats.standing(realm, agent)
    }

    /// Remembers calls below a root that have ended.
    pub(super) fn count_ended(&self, root: HopId, ended: u32) {
        if let Some(tree) = self.shard(root).lock().get_mut(&root) {
            tree.descendants = tree.descendants.saturating_add(ended);
        }
    }

    /// As [`add`](Self::add), for a call that was let through before this process began: nothing is asked of it.
    pub(super) fn restore(&self, hop: OpenHop) {
        let hop = Arc::new(hop);
        let known = {
            let mut trees = self.shard(hop.root).lock();
            let tree = trees.entry(hop.root).or_default();
            tree.descendants += u32::from(hop.hop != hop.root);
            tree.open.insert(hop.hop, hop.clone())
        };
        if known.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.seats.add(&hop);
        }
    }

    fn enter(&self, rules: &Rules, hop: &Arc<OpenHop>) -> Result<(), Denied> {
        let mut trees = self.shard(hop.root).lock();
        let tree = trees.get(&hop.root);
        let goes_on = |parent: &Arc<OpenHop>| !parent.sealed.load(Ordering::Relaxed);
        let for_open = |parent: HopId| tree.and_then(|tree| tree.open.get(&parent)).is_some_and(goes_on);
        if !hop.parent.is_none_or(for_open) {
            return Err(invalid("the call on whose behalf this one is made has ended"));
        }
        let is_descendant = hop.hop != hop.root;
        if is_descendant {
            rules.check_descendants(tree.map_or(0, |tree| tree.descendants))?;
        }
        let tree = trees.entry(hop.root).or_default();
        tree.descendants = tree.descendants.saturating_add(u32::from(is_descendant));
        tree.open.insert(hop.hop, hop.clone());
        Ok(())
    }

    fn shard(&self, root: HopId) -> &Mutex<Trees> {
        let place = self.hasher.hash_one(root) as usize;
        &self.trees[place % self.trees.len()]
    }
}

fn full(most: usize) -> Denied {
    Denied {
        limit: Some(most.to_string()),
        remaining: Some("0".into()),
        quota: Some(Box::new(Quota { limit: most as u64, remaining: 0, reset: Some(WHEN_ENDED) })),
        retry_after: Some(WHEN_ENDED),
        hint: Some("try again when other calls have ended".into()),
        ..Denied::new(GATE, DeniedKind::Exhausted, TOO_MANY_OPEN_CALLS)
    }
}

// === impl OpenHop ===

impl OpenHop {
    /// The task, once there is one.
    pub fn task(&self) -> Option<&TaskId> {
        self.task.get()
    }

    /// The call has a task. The first one stays.
    pub fn began(&self, task: &TaskId) {
        let _ = self.task.set(task.clone());
    }

    /// Whether this agent is the one that was called, itself or as the member of a pool.
    pub fn is_borne_by(&self, agent: &str) -> bool {
        *self.agent == *agent || self.peer.as_deref() == Some(agent)
    }

    /// The agent that answers: the one that tokens are given to.
    pub fn bearer(&self) -> &Arc<str> {
        self.peer.as_ref().unwrap_or(&self.agent)
    }
}
