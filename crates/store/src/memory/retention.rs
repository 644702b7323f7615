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

impl EndedTasks {
    pub(super) fn push(&mut self, ended: Ended) {
        self.whole.push_back(ended);
    }

    pub(super) fn due(&mut self, now: Timestamp, retention: &Retention) -> Due {
        let mut due = Due::default();
        for _ in 0..STEP {
            let outlived_events = self.whole.pop_front_if(|ended| outlived(ended, now, retention.events));
            let compacted = outlived_events.is_some();
            if let Some(ended) = outlived_events {
                due.compact.push(ended.clone());
                self.compacted.push_back(ended);
            }
            let too_many = self.whole.len() + self.compacted.len() > retention.max_tasks;
            let oldest = if self.compacted.is_empty() { &mut self.whole } else { &mut self.compacted };
            let forgotten = oldest.pop_front_if(|ended| too_many || outlived(ended, now, retention.tasks));
            if forgotten.is_none() && !compacted {
                break;
            }
            due.forget.extend(forgotten);
        }
        due.more = due.compact.len() == STEP || due.forget.len() == STEP;
        due
    }
}

fn outlived(ended: &Ended, now: Timestamp, limit: Duration) -> bool {
    let limit = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
    now.as_millis().saturating_sub(ended.at) >= limit
}
