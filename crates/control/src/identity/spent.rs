//! Tokens that count only once, for as long as they would count at all.

use std::collections::HashMap;

use chancery_protocol::signing::AgentId;
use parking_lot::Mutex;

use crate::Millis;

/// The names of tokens that have been used. Only tokens that were signed by somebody who is trusted come here, and of
/// each of those only so many at a time.
#[derive(Default)]
pub(super) struct Spent(Mutex<HashMap<AgentId, HashMap<Box<str>, Millis>>>);

/// What became of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spending {
    /// It was new.
    First,
    /// It has been used before.
    Again,
    /// The agent has used too many to remember.
    TooMany,
}

// === impl Spent ===

impl Spent {
    /// Uses a name that is to be remembered until some time.
    pub(super) fn spend(
        &self,
        agent: AgentId,
        name: &str,
        until: Millis,
        most: usize,
        now: Millis,
    ) -> Spending {
        let mut agents = self.0.lock();
        let names = agents.entry(agent).or_default();
        if names.contains_key(name) {
            return Spending::Again;
        }
        if names.len() >= most {
            names.retain(|_, until| *until > now);
        }
        if names.len() >= most {
            return Spending::TooMany;
        }
        names.insert(name.into(), until);
        Spending::First
    }

    /// Forgets what does not count any more.
    pub(super) fn forget(&self, now: Millis) {
        self.0.lock().retain(|_, names| {
            names.retain(|_, until| *until > now);
            !names.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_once_until_it_is_over() {
        let spent = Spent::default();
        let [one, two] = [AgentId::of(&[1; 32]), AgentId::of(&[2; 32])];
        let spend = |agent, name, now| spent.spend(agent, name, Millis(now + 10), 2, Millis(now));
        assert_eq!(spend(one, "a", 0), Spending::First);
        assert_eq!(spend(one, "a", 5), Spending::Again);
        assert_eq!(spend(two, "a", 5), Spending::First);
        assert_eq!(spend(one, "b", 5), Spending::First);
        assert_eq!(spend(one, "c", 5), Spending::TooMany);
        // What is over makes room.
        assert_eq!(spend(one, "c", 10), Spending::First);
        spent.forget(Millis(100));
        assert!(spent.0.lock().is_empty());
    }
}
