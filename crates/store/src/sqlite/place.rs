//! The integers that tasks and events are kept under, and the order of tasks.

use chancery_protocol::{ContextId, Task, TaskId, TaskState, TaskStatus, Timestamp};

use crate::clock::Clock;

/// A task and the number of one of its events in one integer, so that the events of a task lie together and a
/// row needs no index.
const NUMBER_BITS: u32 = 24;

/// As many events as a task can have at all. More than a limit would ever allow: 16 million.
pub(super) const MOST_EVENTS: u64 = (1 << NUMBER_BITS) - 2;

pub(super) fn event(task: i64, number: u64) -> i64 {
    let number = i64::try_from(number.min((1 << NUMBER_BITS) - 1)).unwrap_or_default();
    task << NUMBER_BITS | number
}

/// The number of the event at a place.
pub(super) fn number(place: i64) -> u64 {
    u64::try_from(place & ((1 << NUMBER_BITS) - 1)).unwrap_or_default()
}

/// The task of the event at a place.
pub(super) fn task(place: i64) -> i64 {
    place >> NUMBER_BITS
}

/// What tasks are listed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) state: TaskState,
    pub(super) millis: i64,
    pub(super) nanos: u32,
    /// When it ended, if it has. [`AT_ONCE`] if that is when it began, and told by `millis`.
    pub(super) ended: Option<i64>,
}

/// Stands for when a task ended that began and ended in one batch: those end in the order of their numbers, and need no
/// place in the index by ends.
pub(super) const AT_ONCE: i64 = 0;

/// How far from now it may have ended for that.
const ABOUT_MS: u64 = 60_000;

impl Rank {
    /// A task that ends without a time ends now.
    pub(super) fn of(status: &TaskStatus, clock: &Clock) -> Self {
        let (millis, nanos) = status.timestamp.map_or((0, 0), millis_and_nanos);
        let ended = || status.timestamp.unwrap_or_else(|| clock.now()).as_millis();
        Self { state: status.state, millis, nanos, ended: status.state.is_terminal().then(ended) }
    }

    /// The same for a task that begins and ends in one batch. A time that is not about now is somebody else's, and may be in
    /// any order.
    pub(super) fn of_life(status: &TaskStatus, clock: &Clock) -> Self {
        let rank = Self::of(status, clock);
        let is_about_now = clock.now().as_millis().abs_diff(rank.millis) <= ABOUT_MS;
        if is_about_now { Self { ended: Some(AT_ONCE), ..rank } } else { rank }
    }

    /// Whether this is how the task stands.
    pub(super) fn is_of(self, task: &Task) -> bool {
        let (millis, nanos) = task.status.timestamp.map_or((0, 0), millis_and_nanos);
        (task.status.state, millis, nanos) == (self.state, self.millis, self.nanos)
    }
}

/// How the context of a task is kept: not at all if the task has opened it, since either tells the other, and as nothing if
/// it has none. Most tasks open their own, and those need no place in the index by contexts.
pub(super) fn kept_context<'a>(id: &TaskId, context: Option<&'a ContextId>) -> Option<&'a str> {
    match context {
        None => Some(""),
        Some(context) if context.opener().as_ref() == Some(id) => None,
        Some(context) => Some(context.as_str()),
    }
}

/// The context of a task, from how it is kept.
pub(super) fn context_of(id: &TaskId, kept: Option<String>) -> Option<ContextId> {
    match kept {
        None => Some(ContextId::opened_by(id)),
        Some(kept) => Some(ContextId::from(kept)).filter(|context| !context.is_empty()),
    }
}

/// As many rows as are wanted, as SQLite counts them.
pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn state_number(state: TaskState) -> i64 {
    state.number().into()
}

pub(super) fn state_of(number: i64) -> TaskState {
    TaskState::of_number(number)
}

/// Whole milliseconds, and the nanoseconds beyond them.
pub(super) fn millis_and_nanos(time: Timestamp) -> (i64, u32) {
    let nanos = time.as_nanos();
    let millis = i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(i64::MAX);
    (millis, u32::try_from(nanos.rem_euclid(1_000_000)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_kept_and_known_again() {
        let task = TaskId::generate();
        let own = ContextId::opened_by(&task);
        assert_eq!(kept_context(&task, Some(&own)), None);
        for context in [None, Some(own), Some(ContextId::generate()), Some(ContextId::from("session-1"))] {
            let kept = kept_context(&task, context.as_ref()).map(str::to_owned);
            assert_eq!(context_of(&task, kept), context);
        }
    }

    #[test]
    fn events_of_a_task_lie_together() {
        assert!(event(1, u64::MAX) < event(2, 0));
        assert!(event(7, 1) < event(7, MOST_EVENTS));
        assert_eq!((task(event(7, 12_345)), number(event(7, 12_345))), (7, 12_345));
        assert_eq!(number(event(1 << 38, MOST_EVENTS)), MOST_EVENTS);
    }
}
