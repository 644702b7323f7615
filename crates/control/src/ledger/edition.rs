//! Limits that take the place of others while calls are being let through: a call goes by one edition of them from
//! beginning to end.
//!
//! Accounts keep the caps of two editions, each at its own place. So all that the next one says is written down before
//! anybody goes by it, and it comes into force with the first call that does. Who goes by an older one brings its caps along.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use super::limits::{Caps, Limits, Scope};

/// Limits as they were set at one time.
#[derive(Debug)]
pub struct Edition {
    /// How many there were before.
    generation: u64,
    limits: Limits,
}

/// The caps of one edition, as an account finds them.
#[derive(Clone, Copy)]
pub(super) enum Measure<'a> {
    /// It keeps them at this place.
    Kept(usize),
    /// It does not keep them any more; here they are, if there are any.
    Brought(Option<&'a Caps>),
}

/// Which generations accounts keep the caps of: no more than there are places.
#[derive(Debug, Default)]
pub(super) struct Generations {
    oldest: AtomicU64,
    /// The one in force.
    newest: AtomicU64,
}

/// Of how many editions an account keeps the caps.
pub(super) const PLACES: usize = 2;

// === impl Edition ===

impl Edition {
    pub(super) fn first(limits: Limits) -> Self {
        Self { generation: 0, limits }
    }

    /// The one that comes after this.
    pub(super) fn next(&self, limits: Limits) -> Self {
        Self { generation: self.generation + 1, limits }
    }

    /// What it says.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The limits of an account; none where it limits nothing.
    pub(super) fn caps(&self, scope: &Scope) -> Caps {
        self.limits.of(scope).copied().unwrap_or_default()
    }

    /// Where accounts keep its caps.
    pub(super) fn place(&self) -> usize {
        place(self.generation)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are all that counts")]
#[inline]
fn place(generation: u64) -> usize {
    generation as usize % PLACES
}

// === impl Generations ===

impl Generations {
    /// What an account of this scope is measured by: the caps of an edition, or those in force if none is named.
    #[inline]
    pub(super) fn measure<'a>(&self, by: Option<&'a Edition>, scope: &Scope) -> Measure<'a> {
        match by {
            None => Measure::Kept(place(self.newest.load(SeqCst))),
            // What ends with the call has its caps from the call, whatever the edition.
            Some(_) if matches!(scope, Scope::Root(_) | Scope::Hop(_)) => Measure::Kept(0),
            Some(edition) if self.keeps(edition) => Measure::Kept(edition.place()),
            Some(edition) => Measure::Brought(edition.limits.of(scope)),
        }
    }

    /// Whether accounts have the caps of an edition. To be asked again when they have been read: if so, it was they.
    #[inline]
    pub(super) fn keeps(&self, edition: &Edition) -> bool {
        edition.generation >= self.oldest.load(SeqCst)
    }

    pub(super) fn is_in_force(&self, edition: &Edition) -> bool {
        edition.generation == self.newest.load(SeqCst)
    }

    /// What was before this one has to bring its caps along: their place is needed.
    pub(super) fn forget_before(&self, edition: &Edition) {
        self.oldest.store(edition.generation, SeqCst);
    }

    pub(super) fn enact(&self, edition: &Edition) {
        self.newest.store(edition.generation, SeqCst);
    }
}
