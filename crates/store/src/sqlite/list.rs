//! Pages of tasks, and how many there are in all.
//!
//! The index of a scope's tasks is by state first, so that a list of one state reads nothing else; a list of
//! all states takes the newest of each and merges them. How many there are is kept beside the tasks. Of a context, the task
//! that has opened it is found by its id, and the index has the others.

use chancery_protocol::{KeptTask, TaskId, TaskState};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::counted::{self, EVERY_SCOPE};
use super::entry::Entries;
use super::load;
use super::place::{self, millis_and_nanos, state_number};
use crate::error::StoreError;
use crate::record::{ListQuery, Page, PageToken, Scope};

/// Where a task stands in the order, and its number.
type Place = (i64, TaskId, i64);

pub(super) fn list(
    connection: &Connection,
    entries: &Entries,
    scope: &Scope,
    query: &ListQuery,
) -> rusqlite::Result<Page> {
    let (mut places, mut total) = (Vec::new(), 0);
    let Some(scope) = load::scope(connection, scope)? else {
        return Ok(Page { tasks: Vec::new(), next: None, total: 0 });
    };
    for (state, tasks) in states(connection, scope, query)? {
        total += count(connection, scope, query, state, tasks)?;
        places.extend(newest(connection, scope, query, state)?);
    }
    places.sort_unstable_by(|(millis, id, _), (other, its_id, _)| (other, its_id).cmp(&(millis, id)));
    let more = places.len() > query.limit;
    places.truncate(query.limit);
    let found = places.into_iter().map(|(millis, id, task)| {
        let name = (scope, id);
        let found = as_it_stands(connection, entries, &name, task)?;
        Ok((PageToken { millis, id: name.1 }, found))
    });
    Page::fill(found, more, usize::try_from(total).unwrap_or_default())
}

impl SqliteStore {
    pub(crate) async fn census(&self) -> Result<Vec<(TaskState, u64)>, StoreError> {
        let read = self.readers.read("count tasks", |connection| counted::of_scope(connection, EVERY_SCOPE));
        let all = read.await?.into_iter();
        let all = all.map(|(state, tasks)| (state, u64::try_from(tasks).unwrap_or_default()));
        Ok(all.filter(|(_, tasks)| *tasks > 0).collect())
    }
}

/// The states that the list is of and the scope has tasks in, with how many.
fn states(connection: &Connection, scope: i64, query: &ListQuery) -> rusqlite::Result<Vec<(TaskState, i64)>> {
    let mut states = counted::of_scope(connection, scope)?;
    states.retain(|(state, tasks)| *tasks > 0 && query.state.is_none_or(|wanted| wanted == *state));
    Ok(states)
}

/// The first page of one state, and one task more to tell whether it is the last page.
fn newest(
    connection: &Connection,
    scope: i64,
    query: &ListQuery,
    state: TaskState,
) -> rusqlite::Result<Vec<Place>> {
    let (since, nanos) = query.since.map_or((i64::MIN, 0), millis_and_nanos);
    let (before, before_id) = query.after.as_ref().map_or((i64::MAX, ""), |at| (at.millis, at.id.as_str()));
    let limit = place::rows(query.limit.saturating_add(1));
    let place = |row: &Row<'_>| Ok((row.get(0)?, TaskId::from(row.get::<_, String>(1)?), row.get(2)?));
    let state = state_number(state);
    match &query.context_id {
        None => {
            let sql = "SELECT millis, id, task FROM tasks INDEXED BY tasks_by_state \
                       WHERE scope = ? AND state = ? AND (millis, id) < (?, ?) \
                       AND millis >= ?5 AND (millis > ?5 OR nanos >= ?6) \
                       ORDER BY millis DESC, id DESC LIMIT ?7";
            let mut select = connection.prepare_cached(sql)?;
            let rows =
                select.query_map(params![scope, state, before, before_id, since, nanos, limit], place)?;
            rows.collect()
        }
        Some(context) => {
            let sql = "SELECT millis, id, task FROM tasks INDEXED BY tasks_by_context \
                       WHERE scope = ? AND state = ? AND (millis, id) < (?, ?) \
                       AND millis >= ?5 AND (millis > ?5 OR nanos >= ?6) AND context = ?8 \
                       ORDER BY millis DESC, id DESC LIMIT ?7";
            let mut select = connection.prepare_cached(sql)?;
            let values = params![scope, state, before, before_id, since, nanos, limit, context.as_str()];
            let mut found = select.query_map(values, place)?.collect::<rusqlite::Result<Vec<_>>>()?;
            if let Some(opener) = context.opener() {
                let sql = "SELECT millis, id, task FROM tasks WHERE scope = ? AND state = ? AND (millis, id) < (?, ?) \
                           AND millis >= ?5 AND (millis > ?5 OR nanos >= ?6) AND id = ?7 AND context IS NULL";
                let mut select = connection.prepare_cached(sql)?;
                let values = params![scope, state, before, before_id, since, nanos, opener.as_str()];
                found.extend(select.query_row(values, place).optional()?);
            }
            Ok(found)
        }
    }
}

/// How many tasks of a state match, on all pages.
fn count(
    connection: &Connection,
    scope: i64,
    query: &ListQuery,
    state: TaskState,
    tasks: i64,
) -> rusqlite::Result<i64> {
    let state = state_number(state);
    let (since, nanos) = match (query.since, &query.context_id) {
        (None, None) => return Ok(tasks),
        (since, _) => since.map_or((i64::MIN, 0), millis_and_nanos),
    };
    let number = |row: &Row<'_>| row.get::<_, i64>(0);
    if let Some(context) = &query.context_id {
        let sql = "SELECT count(*) FROM tasks INDEXED BY tasks_by_context WHERE scope = ? AND context = ? \
                   AND state = ? AND millis >= ?4 AND (millis > ?4 OR nanos >= ?5)";
        let values = params![scope, context.as_str(), state, since, nanos];
        let others = connection.prepare_cached(sql)?.query_row(values, number)?;
        let Some(opener) = context.opener() else { return Ok(others) };
        let sql = "SELECT count(*) FROM tasks WHERE scope = ? AND id = ? AND context IS NULL \
                   AND state = ? AND millis >= ?4 AND (millis > ?4 OR nanos >= ?5)";
        let values = params![scope, opener.as_str(), state, since, nanos];
        return Ok(others + connection.prepare_cached(sql)?.query_row(values, number)?);
    }
    // Only the side that is likely the shorter one is counted.
    let ends = "SELECT coalesce(min(millis), 0) FROM tasks WHERE scope = ?1 AND state = ?2 UNION ALL \
                SELECT coalesce(max(millis), 0) FROM tasks WHERE scope = ?1 AND state = ?2";
    let mut select = connection.prepare_cached(ends)?;
    let ends = select.query_map([scope, state], number)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let is_early = since.saturating_sub(ends[0]) < ends[1].saturating_sub(since);
    let sql = if is_early {
        "SELECT count(*) FROM tasks INDEXED BY tasks_by_state WHERE scope = ? AND state = ? \
         AND millis <= ?3 AND (millis < ?3 OR nanos < ?4)"
    } else {
        "SELECT count(*) FROM tasks INDEXED BY tasks_by_state WHERE scope = ? AND state = ? \
         AND millis >= ?3 AND (millis > ?3 OR nanos >= ?4)"
    };
    let counted = connection.prepare_cached(sql)?.query_row(params![scope, state, since, nanos], number)?;
    Ok(if is_early { tasks - counted } else { counted })
}

/// The task as its place in the list says. One that is being written to is at hand, unless it has moved on.
fn as_it_stands(
    connection: &Connection,
    entries: &Entries,
    name: &(i64, TaskId),
    task: i64,
) -> rusqlite::Result<Option<KeptTask>> {
    let Some((found, _)) = load::find_by_number(connection, task)? else { return Ok(None) };
    if let Some(entry) = entries.find(name) {
        let at_hand = entry.fold();
        if found.rank.is_of(&at_hand) {
            return Ok(Some(at_hand.into()));
        }
    }
    Ok(Some(load::load(connection, &found, &name.1)?.snapshot.task))
}
