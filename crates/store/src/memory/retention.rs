//! Tasks that have ended, in the order they did, until they are compacted and then forgotten.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{TaskId, Timestamp};

use super::ScopeTasks;
use super::ages::{Ages, Owner};
use crate::limits::Retention;

#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// When, in milliseconds.
    pub(super) at: i64,
    pub(super) tasks: Arc<ScopeTasks>,
    pub(super) id: TaskId,
}

#[derive(Debug, Default)]
pub(super) struct EndedTasks {
    all: Ages<u64, Ended>,
    next: u64,
    /// Those before it have no events any more.
    whole_from: u64,
}

/// What is to be done now.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) compact: Vec<Ended>,
    pub(super) forget: Vec<Ended>,
    /// Whether there may be more.
    pub(super) more: bool,
}

/// How many tasks one step handles. Two for each that ends would do to stay level; a few more catch up.
const STEP: usize = 8;

/// Of how many that are kept there may be one too many, and how many may be at most: they are cheaper to forget together.
const KEPT_FOR_EACH_SPARE: usize = 512;
const MOST_SPARE: usize = 32;

impl EndedTasks {
    /// Gives what is to be done now. Each task that ends pays for the ones that are due, so memory stays flat without a thread.
    pub(super) fn push(&mut self, owner: &Owner, ended: Ended, now: Timestamp, retention: &Retention) -> Due {
        self.all.insert(self.next, owner.clone(), ended);
        self.next += 1;
        let mut due = Due::default();
        for _ in 0..surplus(self.all.len_of(owner), retention.max_tasks_per_owner) {
            let oldest = self.all.oldest_of(owner);
            due.forget.extend(oldest.and_then(|oldest| self.all.remove(oldest)));
        }
        self.add_due(due, now, retention)
    }

    /// What somebody had is no more.
    pub(super) fn forget_owner(&mut self, realm: &str, owner: &str) {
        self.all.remove_all_of(&(realm.into(), owner.into()));
    }

    pub(super) fn due(&mut self, now: Timestamp, retention: &Retention) -> Due {
        self.add_due(Due::default(), now, retention)
    }

    fn add_due(&mut self, mut due: Due, now: Timestamp, retention: &Retention) -> Due {
        for _ in 0..surplus(self.all.len(), retention.max_tasks) {
            let oldest = self.all.oldest_of_most();
            due.forget.extend(oldest.and_then(|oldest| self.all.remove(oldest)));
        }
        for _ in 0..STEP {
            let whole = self.all.from(Some(self.whole_from));
            let outlived_events = whole.filter(|(_, ended)| outlived(ended, now, retention.events));
            let compacted = outlived_events.map(|(number, ended)| (number, ended.clone()));
            let is_compacted = compacted.is_some();
            if let Some((number, ended)) = compacted {
                due.compact.push(ended);
                self.whole_from = number + 1;
            }
            let oldest = self.all.oldest().filter(|(_, ended)| outlived(ended, now, retention.tasks));
            let forgotten = oldest.map(|(number, _)| number).and_then(|number| self.all.remove(number));
            if forgotten.is_none() && !is_compacted {
                break;
            }
            due.forget.extend(forgotten);
        }
        due.more = due.compact.len() >= STEP || due.forget.len() >= STEP;
        due
    }
}

/// How many there are too many, once that is worth it.
fn surplus(kept: usize, most: usize) -> usize {
    let spare = (most / KEPT_FOR_EACH_SPARE).min(MOST_SPARE);
    let surplus = kept.saturating_sub(most);
    if surplus > spare { surplus.min(2 * MOST_SPARE) } else { 0 }
}

fn outlived(ended: &Ended, now: Timestamp, limit: Duration) -> bool {
    let limit = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
    now.as_millis().saturating_sub(ended.at) >= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are forgotten as each of so many ends.
    fn forgotten(max_tasks: usize, count: usize) -> Vec<usize> {
        let retention = Retention { max_tasks, ..Retention::default() };
        let now = Timestamp::now();
        let (tasks, id) = (Arc::<ScopeTasks>::default(), TaskId::from("task"));
        let ended = || Ended { at: now.as_millis(), tasks: tasks.clone(), id: id.clone() };
        let owner: Owner = ("r".into(), "o".into());
        let mut all = EndedTasks::default();
        (0..count).map(|_| all.push(&owner, ended(), now, &retention).forget.len()).collect()
    }

    #[test]
    fn where_few_are_kept_none_is_too_many() {
        assert_eq!(forgotten(3, 6), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn where_many_are_kept_those_that_are_too_many_go_together() {
        let forgotten = forgotten(2 * KEPT_FOR_EACH_SPARE, 2 * KEPT_FOR_EACH_SPARE + 6);
        assert_eq!(forgotten[2 * KEPT_FOR_EACH_SPARE..], [0, 0, 3, 0, 0, 3]);
        assert_eq!(forgotten.iter().sum::<usize>(), 6);
    }
}
