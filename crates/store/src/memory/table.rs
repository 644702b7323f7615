//! The tasks of one scope, and the order in which they are listed.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::convert::Infallible;
use std::ops::Bound;
use std::sync::Arc;

use chancery_protocol::{ContextId, Event, KeptTask, Task, TaskId, TaskState, Timestamp};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::journal::{Closed, Journal, Terms};
use crate::error::StoreError;
use crate::record::{Appended, Batch, ListQuery, Page, PageToken, Read, Snapshot};

#[derive(Debug, Default)]
pub(super) struct Table {
    tasks: HashMap<TaskId, Entry, RandomState>,
    /// Oldest status first; lists walk it backwards.
    order: BTreeMap<PageToken, Row>,
}

#[derive(Debug)]
struct Entry {
    /// The milliseconds of its place in the order.
    millis: i64,
    task: Listed,
}

#[derive(Clone, Debug)]
pub(super) enum Listed {
    Open(Arc<Mutex<Journal>>),
    Closed(Closed),
}

/// What filters look at.
#[derive(Debug)]
pub(super) struct Row {
    state: TaskState,
    context_id: Option<ContextId>,
    /// The time of the status within the millisecond that is its place.
    nanos: u32,
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The state of each task.
    pub(super) fn states(&self) -> impl Iterator<Item = TaskState> {
        self.order.values().map(|row| row.state)
    }

    /// Removes everything. Gives how many tasks there were.
    pub(super) fn clear(&mut self) -> usize {
        self.order.clear();
        let open = |entry: Entry| match entry.task {
            Listed::Open(journal) => journal.lock().drop_pushes(),
            Listed::Closed(_) => {}
        };
        self.tasks.drain().map(|(_, entry)| open(entry)).count()
    }

    pub(super) fn find(&self, id: &TaskId) -> Option<Listed> {
        self.tasks.get(id).map(|entry| entry.task.clone())
    }

    /// The journal of a task, opened again if it had been closed.
    pub(super) fn journal(&mut self, id: &TaskId) -> Option<Arc<Mutex<Journal>>> {
        let entry = self.tasks.get_mut(id)?;
        match &entry.task {
            Listed::Open(journal) => Some(journal.clone()),
            Listed::Closed(closed) => {
                let journal = Arc::new(Mutex::new(Journal::reopened(id, closed)));
                entry.task = Listed::Open(journal.clone());
                Some(journal)
            }
        }
    }

    /// Enters a task that has begun and ended at once.
    pub(super) fn insert(&mut self, task: &Task, closed: Closed) -> Result<(), StoreError> {
        let hash_map::Entry::Vacant(vacant) = self.tasks.entry(task.id.clone()) else {
            return Err(StoreError::Exists { id: task.id.clone() });
        };
        let (token, row) = rank(task);
        vacant.insert(Entry { millis: token.millis, task: Listed::Closed(closed) });
        self.order.insert(token, row);
        Ok(())
    }

    /// Commits a batch that changes the place of a task in the order.
    pub(super) fn append(
        &mut self,
        id: &TaskId,
        batch: Box<Batch>,
        events: Vec<Event>,
        terms: Terms<'_>,
    ) -> Result<Appended, StoreError> {
        if batch.creates() && !self.tasks.contains_key(id) {
            let mut journal = Journal::new(id);
            let appended = journal.append(batch, events, terms)?;
            let Some((token, row)) = journal.changing().map(|task| rank(task)) else { return Ok(appended) };
            let task = Listed::Open(Arc::new(Mutex::new(journal)));
            self.tasks.insert(id.clone(), Entry { millis: token.millis, task });
            self.order.insert(token, row);
            return Ok(appended);
        }
        let journal = match self.find(id).ok_or_else(|| StoreError::NotFound { id: id.clone() })? {
            Listed::Open(journal) => journal,
            // It refuses every change, and knows why.
            Listed::Closed(closed) => return Journal::reopened(id, &closed).append(batch, events, terms),
        };
        let mut journal = journal.lock();
        let appended = journal.append(batch, events, terms)?;
        if let (Some(entry), Some(task)) = (self.tasks.get_mut(id), journal.changing()) {
            let (token, row) = rank(task);
            let before = PageToken { millis: entry.millis, id: id.clone() };
            entry.millis = token.millis;
            self.order.remove(&before);
            self.order.insert(token, row);
        }
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
        let found = tokens.iter().map(|token| {
            let task = self.tasks.get(&token.id).map(|entry| entry.task.task());
            Ok::<_, Infallible>(((*token).clone(), task))
        });
        let Ok(page) = Page::fill(found, more, total);
        page
    }

    /// The tasks in one of these states.
    pub(super) fn in_states(
        &self,
        states: &[TaskState],
    ) -> impl Iterator<Item = (&TaskId, Option<&ContextId>)> {
        let rows = self.order.iter().filter(|(_, row)| states.contains(&row.state));
        rows.map(|(token, row)| (&token.id, row.context_id.as_ref()))
    }

    pub(super) fn compact(&mut self, id: &TaskId) {
        let Some(entry) = self.tasks.get_mut(id) else { return };
        let Listed::Open(journal) = &entry.task else { return };
        let closed = journal.lock().compact();
        // Whoever holds the journal may be about to write to it.
        if let Some(closed) = closed.filter(|_| Arc::strong_count(journal) == 1) {
            entry.task = Listed::Closed(closed);
        }
    }

    /// Takes tasks out. Nobody has looked at them for long, so they are far away in memory: they are looked for first, since
    /// what is fetched without a change in between comes together.
    pub(super) fn remove<'a>(
        &mut self,
        ids: impl Iterator<Item = &'a TaskId> + Clone,
    ) -> Vec<(Listed, Option<Row>)> {
        let known = ids.clone().filter(|id| self.tasks.contains_key(*id)).count();
        let mut forgotten = Vec::with_capacity(known);
        for id in ids {
            if let Some((id, Entry { millis, task })) = self.tasks.remove_entry(id) {
                let row = self.order.remove(&PageToken { millis, id });
                forgotten.push((task, row));
            }
        }
        forgotten
    }
}

// === impl Listed ===

impl Listed {
    pub(super) fn read(&self, after: u64, max: usize) -> Read {
        match self {
            Self::Open(journal) => journal.lock().read(after, max),
            Self::Closed(closed) => closed.read(after),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        match self {
            Self::Open(journal) => journal.lock().snapshot(),
            Self::Closed(closed) => closed.snapshot(),
        }
    }

    pub(super) fn journal(&self) -> Option<&Mutex<Journal>> {
        match self {
            Self::Open(journal) => Some(journal),
            Self::Closed(_) => None,
        }
    }

    fn task(&self) -> KeptTask {
        match self {
            Self::Open(journal) => journal.lock().task(),
            Self::Closed(closed) => closed.task.clone(),
        }
    }
}

fn rank(task: &Task) -> (PageToken, Row) {
    let (millis, nanos) = task.status.timestamp.map_or((0, 0), millis_and_nanos);
    let row = Row { state: task.status.state, context_id: task.context_id.clone(), nanos };
    (PageToken { millis, id: task.id.clone() }, row)
}

/// Whole milliseconds, and the nanoseconds beyond them.
fn millis_and_nanos(time: Timestamp) -> (i64, u32) {
    let nanos = time.as_nanos();
    let millis = i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(i64::MAX);
    (millis, u32::try_from(nanos.rem_euclid(1_000_000)).unwrap_or_default())
}
