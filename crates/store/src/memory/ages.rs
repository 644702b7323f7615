//! What is kept, oldest first, of all and of each owner. Where there is too much, whoever has most gives its oldest, so nobody can
//! push out what is another's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::record::Scope;

/// A realm, and somebody in it.
pub(super) type Owner = (Arc<str>, Arc<str>);

pub(super) fn owner_of(scope: &Scope) -> Owner {
    (scope.realm.clone(), scope.owner.clone())
}

/// Things with an owner, in the order of their keys.
#[derive(Debug)]
pub(super) struct Ages<K, T> {
    all: BTreeMap<K, (Owner, T)>,
    owners: HashMap<Owner, BTreeSet<K>, RandomState>,
    /// How much each has, so that whoever has most is found.
    sizes: BTreeSet<(usize, Owner)>,
}

impl<K: Copy + Ord, T> Default for Ages<K, T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), owners: HashMap::default(), sizes: BTreeSet::new() }
    }
}

impl<K: Copy + Ord, T> Ages<K, T> {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn len_of(&self, owner: &Owner) -> usize {
        self.owners.get(owner).map_or(0, BTreeSet::len)
    }

    pub(super) fn insert(&mut self, key: K, owner: Owner, thing: T) {
        self.remove(key);
        let theirs = self.owners.entry(owner.clone()).or_default();
        self.sizes.remove(&(theirs.len(), owner.clone()));
        theirs.insert(key);
        self.sizes.insert((theirs.len(), owner.clone()));
        self.all.insert(key, (owner, thing));
    }

    pub(super) fn remove(&mut self, key: K) -> Option<T> {
        let (owner, thing) = self.all.remove(&key)?;
        if let Some(theirs) = self.owners.get_mut(&owner) {
            self.sizes.remove(&(theirs.len(), owner.clone()));
            theirs.remove(&key);
            match theirs.len() {
                0 => drop(self.owners.remove(&owner)),
                left => drop(self.sizes.insert((left, owner))),
            }
        }
        Some(thing)
    }

    /// The oldest of all.
    pub(super) fn oldest(&self) -> Option<(K, &T)> {
        self.from(None)
    }

    /// The oldest of those that come from a key on.
    pub(super) fn from(&self, key: Option<K>) -> Option<(K, &T)> {
        let first = match key {
            Some(key) => self.all.range(key..).next(),
            None => self.all.first_key_value(),
        };
        first.map(|(key, (_, thing))| (*key, thing))
    }

    /// The oldest of somebody.
    pub(super) fn oldest_of(&self, owner: &Owner) -> Option<K> {
        self.owners.get(owner)?.first().copied()
    }

    /// The oldest of whoever has most.
    pub(super) fn oldest_of_most(&self) -> Option<K> {
        let (_, owner) = self.sizes.last()?;
        self.oldest_of(owner)
    }

    /// Removes all that is somebody's.
    pub(super) fn remove_all_of(&mut self, owner: &Owner) {
        while let Some(key) = self.oldest_of(owner) {
            self.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        ("r".into(), name.into())
    }

    #[test]
    fn whoever_has_most_gives_its_oldest() {
        let mut ages = Ages::default();
        for (key, name) in [(1, "little"), (2, "much"), (3, "much"), (4, "much"), (5, "little")] {
            ages.insert(key, owner(name), ());
        }
        let mut given = Vec::new();
        while let Some(key) = ages.oldest_of_most() {
            ages.remove(key);
            given.push(key);
        }
        assert_eq!(given[0], 2);
        assert_eq!(given.len(), 5);
        assert!(given.iter().position(|key| *key == 1) > given.iter().position(|key| *key == 2));
        assert!(ages.sizes.is_empty() && ages.owners.is_empty());
    }

    #[test]
    fn each_owner_has_an_order_of_its_own() {
        let mut ages = Ages::default();
        for (key, name) in [(3, "a"), (1, "b"), (2, "a")] {
            ages.insert(key, owner(name), key * 10);
        }
        assert_eq!(ages.oldest(), Some((1, &10)));
        assert_eq!((ages.oldest_of(&owner("a")), ages.len_of(&owner("a"))), (Some(2), 2));
        assert_eq!(ages.from(Some(3)), Some((3, &30)));
        ages.remove_all_of(&owner("a"));
        assert_eq!((ages.len(), ages.len_of(&owner("a"))), (1, 0));
    }
}
