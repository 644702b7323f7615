//! Tasks that have ended, in the order they did, until they are compacted and then forgotten.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{TaskId, Timestamp};

use super::ScopeTasks;
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
    /// With their events.
    whole: VecDeque<Ended>,
    /// Without them; all older than the whole ones.
    compacted: VecDeque<Ended>,
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
    pub(super) fn push(&mut self, ended: Ended, now: Timestamp, retention: &Retention) -> Due {
        self.whole.push_back(ended);
        self.due(now, retention)
    }

    pub(super) fn due(&mut self, now: Timestamp, retention: &Retention) -> Due {
        let mut due = Due::default();
        let surplus = self.surplus(retention.max_tasks);
        for _ in 0..STEP.max(surplus) {
            let outlived_events = self.whole.pop_front_if(|ended| outlived(ended, now, retention.events));
            let compacted = outlived_events.is_some();
            if let Some(ended) = outlived_events {
                due.compact.push(ended.clone());
                self.compacted.push_back(ended);
            }
            let too_many = due.forget.len() < surplus;
            let oldest = if self.compacted.is_empty() { &mut self.whole } else { &mut self.compacted };
            let forgotten = oldest.pop_front_if(|ended| too_many || outlived(ended, now, retention.tasks));
            if forgotten.is_none() && !compacted {
                break;
            }
            due.forget.extend(forgotten);
        }
        due.more = due.compact.len() >= STEP || due.forget.len() >= STEP;
        due
    }

    /// How many there are too many, once that is worth it.
    fn surplus(&self, max_tasks: usize) -> usize {
        let spare = (max_tasks / KEPT_FOR_EACH_SPARE).min(MOST_SPARE);
        let surplus = (self.whole.len() + self.compacted.len()).saturating_sub(max_tasks);
        if surplus > spare { surplus.min(2 * MOST_SPARE) } else { 0 }
    }
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
        let mut all = EndedTasks::default();
        (0..count).map(|_| all.push(ended(), now, &retention).forget.len()).collect()
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
