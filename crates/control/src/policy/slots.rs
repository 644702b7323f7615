//! How many calls of one caller are open at once for one skill: a slot each, given back by dropping it.
//!
//! A key is there for as long as a slot of it is held, so there are never more keys than open calls.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chancery_protocol::{Denied, DeniedKind, Quota};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::{CONCURRENCY_EXCEEDED, GATE};

/// How many calls of one caller for one skill may be open at once, unless a rule says otherwise.
pub const DEFAULT_CONCURRENCY: u32 = 16;

/// How many different callers and skills may have open calls at once.
pub const MAX_SLOT_KEYS: usize = 1_000_000;

/// When to try again where it takes that a call ends. Nobody knows when that is.
const WHEN_ENDED: Duration = Duration::from_secs(1);

const SHARDS: usize = 64;

/// Counts open calls by caller and skill.
pub struct Slots {
    shards: Box<[Mutex<HashMap<SlotKey, u32, RandomState>>]>,
    hasher: RandomState,
    keys: AtomicUsize,
}

/// A caller and a skill. Skills of different agents are different skills, whatever they are called; calls that name
/// none count together for each agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotKey {
    /// What isolates.
    pub realm: Arc<str>,
    /// The caller.
    pub caller: Arc<str>,
    /// The agent.
    pub agent: Arc<str>,
    /// The skill, if it is known.
    pub skill: Option<Arc<str>>,
}

/// A place among the open calls, until it is dropped.
#[must_use = "dropping a slot gives it back"]
pub struct Slot {
    slots: Arc<Slots>,
    key: SlotKey,
}

// === impl Slots ===

impl Slots {
    /// With all slots free.
    pub fn new() -> Arc<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Self { shards, hasher: RandomState::default(), keys: AtomicUsize::new(0) })
    }

    /// Takes a slot, if fewer than so many are taken.
    pub fn take(self: &Arc<Self>, key: SlotKey, most: u32) -> Result<Slot, Denied> {
        let taken = match self.shard(&key).lock().entry(key.clone()) {
            Entry::Occupied(mut count) => {
                let taken = *count.get();
                if taken < most {
                    *count.get_mut() += 1;
                }
                taken
            }
            Entry::Vacant(place) if most > 0 && self.keys.load(Ordering::Relaxed) < MAX_SLOT_KEYS => {
                self.keys.fetch_add(1, Ordering::Relaxed);
                place.insert(1);
                0
            }
            Entry::Vacant(_) => most,
        };
        match exceeded(most, taken) {
            None => Ok(Slot { slots: self.clone(), key }),
            Some(denied) => Err(denied),
        }
    }

    /// How many slots are taken.
    pub fn taken(&self, key: &SlotKey) -> u32 {
        self.shard(key).lock().get(key).copied().unwrap_or_default()
    }

    fn give_back(&self, key: &SlotKey) {
        let mut counts = self.shard(key).lock();
        if let Some(count) = counts.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(key);
                self.keys.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn shard(&self, key: &SlotKey) -> &Mutex<HashMap<SlotKey, u32, RandomState>> {
        let place = self.hasher.hash_one(key) as usize;
        &self.shards[place % self.shards.len()]
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Why there is no further slot where so many of so many are taken.
pub(crate) fn exceeded(most: u32, taken: u32) -> Option<Denied> {
    (taken >= most).then(|| Denied {
        limit: Some(most.to_string()),
        observed: Some(taken.saturating_add(1).to_string()),
        remaining: Some("0".into()),
        quota: Some(Box::new(Quota { limit: most.into(), remaining: 0, reset: Some(WHEN_ENDED) })),
        retry_after: Some(WHEN_ENDED),
        hint: Some("wait until a call of yours for this skill has ended".into()),
        ..Denied::new(GATE, DeniedKind::Exhausted, CONCURRENCY_EXCEEDED)
    })
}

// === impl Slot ===

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.give_back(&self.key);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    fn key(caller: &str, skill: Option<&str>) -> SlotKey {
        let skill = skill.map(Arc::from);
        SlotKey { realm: "r".into(), caller: caller.into(), agent: "a".into(), skill }
    }

    #[test]
    fn a_slot_is_free_again_when_it_is_dropped() {
        let slots = Slots::new();
        let first = slots.take(key("alice", None), 2).unwrap();
        let _second = slots.take(key("alice", None), 2).unwrap();
        let denied = slots.take(key("alice", None), 2).unwrap_err();
        assert_eq!(denied.reason, CONCURRENCY_EXCEEDED);
        assert_eq!(denied.kind, DeniedKind::Exhausted);
        assert_eq!((denied.limit.as_deref(), denied.observed.as_deref()), (Some("2"), Some("3")));
        drop(first);
        assert!(slots.take(key("alice", None), 2).is_ok());
    }

    #[test]
    fn callers_and_skills_do_not_take_each_others_slots() {
        let slots = Slots::new();
        let _one = slots.take(key("alice", Some("x")), 1).unwrap();
        let _other_skill = slots.take(key("alice", Some("y")), 1).unwrap();
        let _no_skill = slots.take(key("alice", None), 1).unwrap();
        let _other_caller = slots.take(key("bob", Some("x")), 1).unwrap();
        assert!(slots.take(key("alice", Some("x")), 1).is_err());
    }

    #[test]
    fn a_limit_of_none_at_all_lets_nobody_in() {
        let slots = Slots::new();
        assert!(slots.take(key("alice", None), 0).is_err());
        assert_eq!(slots.keys.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_key_is_forgotten_with_its_last_slot() {
        let slots = Slots::new();
        let held: Vec<Slot> = (0..3).map(|_| slots.take(key("alice", None), 9).unwrap()).collect();
        assert_eq!((slots.taken(&key("alice", None)), slots.keys.load(Ordering::Relaxed)), (3, 1));
        drop(held);
        assert_eq!((slots.taken(&key("alice", None)), slots.keys.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn many_threads_never_hold_more_than_there_are() {
        let slots = Slots::new();
        let (held, most_seen) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let Ok(slot) = slots.take(key("alice", None), 3) else { continue };
                        most_seen.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(slot);
                    }
                });
            }
        });
        assert!((1..=3).contains(&most_seen.load(Ordering::SeqCst)));
        assert_eq!(slots.keys.load(Ordering::Relaxed), 0);
    }
}
