//! How far the counts of an account may rise, worked out when a period begins and not for every call.
//!
//! What it is made from, the starts of windows and their limits, changes once a second at most. A call reads until when it
//! holds and the one figure that it needs. Whoever finds it out of date works it out for itself, and writes it down if
//! nobody else is about to: no call waits for another. A figure that is not the latest is too low, never too high: starts only
//! rise, and limits are changed by those who have everybody work it out anew.

use std::sync::atomic::Ordering::SeqCst;

use parking_lot::{Mutex, MutexGuard};

use super::atomic::{AtomicU64, lock};
use super::edition::PLACES;
use super::limits::METRICS;
use crate::Millis;

/// The lowest ceiling of each metric over all windows, by the caps at each place.
pub(super) type Lowest = [[u64; METRICS]; PLACES];

/// The ceilings of an account.
#[derive(Debug)]
pub(super) struct Ceilings {
    /// Until when they hold.
    until: AtomicU64,
    lowest: [[AtomicU64; METRICS]; PLACES],
    /// How often a period has begun.
    begun: AtomicU64,
    /// Held by whoever writes them down or changes what they are made from, but for periods, which begin without.
    writing: Mutex<()>,
}

/// The right to change what ceilings are made from. When it is given up, they have to be worked out anew.
pub(super) struct Amending<'a> {
    ceilings: &'a Ceilings,
    _writing: MutexGuard<'a, ()>,
}

// === impl Ceilings ===

impl Ceilings {
    /// Those that hold until then; 0 if they have yet to be worked out.
    pub(super) fn new(until: u64, lowest: Lowest) -> Self {
        Self {
            until: AtomicU64::new(until),
            lowest: lowest.map(|of_place| of_place.map(AtomicU64::new)),
            begun: AtomicU64::new(0),
            writing: Mutex::new(()),
        }
    }

    /// Whether they hold, and so no window has a period to begin.
    #[inline]
    pub(super) fn hold(&self, now: Millis) -> bool {
        now.0 < self.until.load(SeqCst)
    }

    /// Of each metric, by the caps at a place. To be asked if they hold.
    #[inline]
    pub(super) fn at(&self, place: usize) -> [u64; METRICS] {
        self.lowest[place].each_ref().map(|ceiling| ceiling.load(SeqCst))
    }

    /// A period has begun, and its start is written down.
    pub(super) fn period_begun(&self) {
        // In this order: whoever worked them out before sees the one, or writes before the other.
        self.begun.fetch_add(1, SeqCst);
        self.until.store(0, SeqCst);
    }

    /// Works them out, unless somebody else is at it, and writes down until when they hold.
    pub(super) fn renew(&self, work_out: impl FnOnce() -> (u64, Lowest)) {
        let Some(_writing) = self.writing.try_lock() else { return };
        let begun = self.begun.load(SeqCst);
        let (until, lowest) = work_out();
        // Nobody reads half of it as the whole: what is read is right or too low.
        for (kept, lowest) in self.lowest.iter().flatten().zip(lowest.as_flattened()) {
            kept.store(*lowest, SeqCst);
        }
        self.until.store(until, SeqCst);
        // Its start may have been missed.
        if self.begun.load(SeqCst) != begun {
            self.until.store(0, SeqCst);
        }
    }

    /// For whoever changes what they are made from.
    pub(super) fn amend(&self) -> Amending<'_> {
        Amending { ceilings: self, _writing: lock(&self.writing) }
    }
}

// === impl Amending ===

impl Drop for Amending<'_> {
    fn drop(&mut self) {
        self.ceilings.until.store(0, SeqCst);
    }
}
