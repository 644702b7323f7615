//! What is done here for calls that other gateways let through: an account for each of those calls, of what it has cost here.
//!
//! A token of another gateway may come again, while nothing is open for it and after a restart, and is good for as much as it says
//! once. So an account that nobody has in memory is made again from the record of calls.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, CallOrigin, HopId};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::Millis;
use crate::ledger::{Account, Cap, Ledger, charge};

/// For how long an account that nobody needs is kept: by then the last of its calls is in the record.
const KEPT: Duration = Duration::from_secs(10);
/// How often it is looked for such.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The accounts of roots that stand for calls of other gateways.
#[derive(Debug, Default)]
pub(crate) struct ForeignRoots(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    roots: HashMap<HopId, Kept, RandomState>,
    swept: Millis,
}

#[derive(Debug)]
struct Kept {
    account: Arc<Account>,
    /// Since when nobody else has it, as far as that was noticed.
    idle: Option<Millis>,
}

impl ForeignRoots {
    /// The account of a root, if it is at hand.
    pub(crate) fn find(&self, root: HopId) -> Option<Arc<Account>> {
        let mut known = self.0.lock();
        let kept = known.roots.get_mut(&root)?;
        kept.idle = None;
        Some(kept.account.clone())
    }

    /// Makes the account of a root that was charged with so much before, unless there is one.
    pub(crate) fn recall(&self, ledger: &Ledger, root: HopId, cap: Cap, before: Amount, now: Millis) {
        let Some(account) = ledger.root(root, cap) else { return };
        charge(std::slice::from_ref(&account), before, now);
        self.keep(root, account, now);
    }

    /// Keeps the account of a root, unless there is one.
    pub(crate) fn keep(&self, root: HopId, account: Arc<Account>, now: Millis) {
        let mut known = self.0.lock();
        known.sweep(now);
        match known.roots.entry(root) {
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => _ = place.insert(Kept { account, idle: None }),
        }
    }
}

/// What all that is done for a call of another gateway may cost.
pub(crate) fn cap(root_cap: Cap, origin: &CallOrigin) -> Cap {
    let lowest = |cap: Option<u64>, said: Option<u64>| cap.into_iter().chain(said).min();
    Cap {
        micro_usd: lowest(root_cap.micro_usd, origin.micro_usd),
        tokens: lowest(root_cap.tokens, origin.tokens),
        ..root_cap
    }
}

impl Known {
    fn sweep(&mut self, now: Millis) {
        if now.since(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        self.roots.retain(|_, kept| {
            // Nobody can get hold of it meanwhile: that needs the lock.
            let is_idle = Arc::strong_count(&kept.account) == 1;
            kept.idle = is_idle.then(|| kept.idle.unwrap_or(now));
            kept.idle.is_none_or(|since| now.since(since) < KEPT)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Limits;

    #[test]
    fn an_account_stays_while_it_is_needed_and_a_while_after_that() {
        let (ledger, roots) = (Ledger::new(Limits::default()), ForeignRoots::default());
        let cap = Cap { micro_usd: Some(1), ..Cap::default() };
        let new = |root| ledger.root(root, cap).unwrap();
        let (root, other) = (HopId::generate(), HopId::generate());
        let needed = new(root);
        roots.keep(root, needed.clone(), Millis(0));
        roots.keep(root, new(root), Millis(0));
        assert!(Arc::ptr_eq(&roots.find(root).unwrap(), &needed), "the first one stays");
        roots.keep(other, new(other), Millis(3_600_000));
        assert!(roots.find(root).is_some());
        drop(needed);
        for (at, is_kept) in [(3_700_000, true), (3_709_999, true), (3_711_000, false)] {
            roots.keep(other, new(other), Millis(at));
            assert_eq!(roots.0.lock().roots.contains_key(&root), is_kept, "{at}");
        }
    }
}
