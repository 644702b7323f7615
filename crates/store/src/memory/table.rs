//! The tasks of one scope, and the order in which they are listed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use chancery_protocol::{ContextId, Event, Task, TaskId, TaskState, Timestamp};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::journal::{Journal, Terms};
use crate::error::StoreError;
use crate::record::{Appended, Batch, ListQuery, Page, PageToken};

#[derive(Debug, Default)]
pub(super) struct Table {
    tasks: HashMap<TaskId, Arc<Mutex<Journal>>, RandomState>,
    /// Oldest status first; lists walk it backwards.
    order: BTreeMap<PageToken, Row>,
}

/// What filters look at.
#[derive(Debug)]
struct Row {
    state: TaskState,
    context_id: Option<ContextId>,
    /// The time of the status within the millisecond that is its place.
    nanos: u32,
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn journal(&self, id: &TaskId) -> Option<Arc<Mutex<Journal>>> {
        self.tasks.get(id).cloned()
    }

    pub(super) fn append(
        &mut self,
        id: &TaskId,
        batch: Batch,
        events: Vec<Event>,
        terms: Terms<'_>,
    ) -> Result<Appended, StoreError> {
        let creates = batch.creates();
        let appended = match self.tasks.entry(id.clone()) {
            Entry::Occupied(journal) => {
                let mut journal = journal.get().lock();
                let before = place(journal.task());
                let appended = journal.append(batch, events, terms)?;
                self.order.remove(&before);
                appended
            }
            Entry::Vacant(place) if creates => {
                let mut journal = Journal::new(id);
                let appended = journal.append(batch, events, terms)?;
                place.insert(Arc::new(Mutex::new(journal)));
                appended
            }
            Entry::Vacant(_) => return Err(StoreError::NotFound { id: id.clone() }),
        };
        self.rank(&appended.task);
        Ok(appended)
    }

    pub(super) fn list(&self, query: &ListQuery) -> Page {
        let since = query.since.map(millis_and_nanos);
        let matches = |(token, row): &(&PageToken, &Row)| {
            query.state.is_none_or(|state| state == row.state)
                && query.context_id.as_ref().is_none_or(|id| row.context_id.as_ref() == Some(id))
                && since.is_none_or(|since| (token.millis, row.nanos) >= since)
        };
        let unfiltered = query.state.is_none() && query.context_id.is_none() && since.is_none();
        let total = if unfiltered { self.order.len() } else { self.order.iter().filter(matches).count() };
        let end = query.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.order.range((Bound::Unbounded, end)).rev().filter(matches);
        let tokens: Vec<_> = rest.by_ref().take(query.limit).map(|(token, _)| token).collect();
        let more = rest.next().is_some();
        Page {
            tasks: tokens
                .iter()
                .filter_map(|token| Some(self.tasks.get(&token.id)?.lock().task().clone()))
                .collect(),
            next: tokens.last().filter(|_| more).map(|token| (*token).clone()),
            total,
        }
    }

    /// The tasks that somebody is at work on.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (&TaskId, Option<&ContextId>)> {
        let at_work = |row: &Row| matches!(row.state, TaskState::Submitted | TaskState::Working);
        let rows = self.order.iter().filter(move |(_, row)| at_work(row));
        rows.map(|(token, row)| (&token.id, row.context_id.as_ref()))
    }

    pub(super) fn compact(&mut self, id: &TaskId) {
        if let Some(journal) = self.tasks.get(id) {
            journal.lock().compact();
        }
    }

    pub(super) fn remove(&mut self, id: &TaskId) {
        if let Some(journal) = self.tasks.remove(id) {
            self.order.remove(&place(journal.lock().task()));
        }
    }

    fn rank(&mut self, task: &Task) {
        let (_, nanos) = task.status.timestamp.map_or((0, 0), millis_and_nanos);
        let row = Row { state: task.status.state, context_id: task.context_id.clone(), nanos };
        self.order.insert(place(task), row);
    }
}

fn place(task: &Task) -> PageToken {
    let (millis, _) = task.status.timestamp.map_or((0, 0), millis_and_nanos);
    PageToken { millis, id: task.id.clone() }
}

/// Whole milliseconds, and the nanoseconds beyond them.
fn millis_and_nanos(time: Timestamp) -> (i64, u32) {
    let nanos = time.as_nanos();
    let millis = i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(i64::MAX);
    (millis, u32::try_from(nanos.rem_euclid(1_000_000)).unwrap_or_default())
}
