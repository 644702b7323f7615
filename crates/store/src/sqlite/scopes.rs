//! The numbers of scopes, as far as they have been asked for.
//!
//! Only the writer puts them here, after the transaction that made them: a reader could be late, and bring back
//! a number that is no more.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use parking_lot::RwLock;

use crate::record::Scope;

#[derive(Debug, Default)]
pub(super) struct Scopes {
    numbers: RwLock<HashMap<Scope, i64, RandomState>>,
}

/// More than this are looked up again.
const MOST_SCOPES: usize = 65_536;

impl Scopes {
    pub(super) fn find(&self, scope: &Scope) -> Option<i64> {
        self.numbers.read().get(scope).copied()
    }

    pub(super) fn insert(&self, scope: Scope, number: i64) {
        let mut numbers = self.numbers.write();
        if numbers.len() >= MOST_SCOPES {
            numbers.clear();
        }
        numbers.insert(scope, number);
    }

    pub(super) fn forget(&self, realm: &str, owner: &str) {
        self.numbers.write().retain(|scope, _| &*scope.realm != realm || &*scope.owner != owner);
    }
}
