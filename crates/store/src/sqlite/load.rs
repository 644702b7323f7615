//! Reading tasks and their events back.

use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{Event, Json, KeptTask, Message, Task, TaskId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::place::{self, Rank, state_of};
use super::sum;
use super::write::Rows;
use crate::fold::{fold_all, nothing};
use crate::packed;
use crate::record::{Change, Read, Scope, Snapshot, split};

/// The row of a task, without the task itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) task: i64,
    pub(super) rank: Rank,
    /// The number of the last event, if no events are kept.
    pub(super) compacted: Option<u64>,
}

/// A task with what the writer needs to know of it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) snapshot: Snapshot,
    /// How many bytes its events were said to have.
    pub(super) weight: usize,
}

pub(super) fn scope(connection: &Connection, scope: &Scope) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT scope FROM scopes WHERE realm = ? AND owner = ? AND agent = ?";
    let names = params![&*scope.realm, &*scope.owner, &*scope.agent];
    connection.prepare_cached(sql)?.query_row(names, |row| row.get(0)).optional()
}

pub(super) fn find(connection: &Connection, scope: i64, id: &TaskId) -> rusqlite::Result<Option<Found>> {
    let sql = "SELECT task, state, millis, nanos, ended, number FROM tasks WHERE scope = ? AND id = ?";
    connection.prepare_cached(sql)?.query_row(params![scope, id.as_str()], found).optional()
}

pub(super) fn find_by_number(
    connection: &Connection,
    task: i64,
) -> rusqlite::Result<Option<(Found, String)>> {
    let sql = "SELECT task, state, millis, nanos, ended, number, id FROM tasks WHERE task = ?";
    let row = |row: &Row<'_>| Ok((found(row)?, row.get(6)?));
    connection.prepare_cached(sql)?.query_row([task], row).optional()
}

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    let rank =
        Rank { state: state_of(row.get(1)?), millis: row.get(2)?, nanos: row.get(3)?, ended: row.get(4)? };
    Ok(Found { task: row.get(0)?, rank, compacted: row.get(5)? })
}

/// The task itself: as it was kept, or folded from its events.
pub(super) fn load(connection: &Connection, found: &Found, id: &TaskId) -> rusqlite::Result<Loaded> {
    let state = agent_state(connection, found.task)?;
    let Some(number) = found.compacted else {
        let (task, number, weight) = refold(connection, found.task, id)?;
        return Ok(Loaded { snapshot: Snapshot { task: task.into(), number, state }, weight });
    };
    let mut select = connection.prepare_cached("SELECT sum, fold FROM tasks WHERE task = ?")?;
    let json: Arc<[u8]> = select.query_row([found.task], |row| {
        let json = row.get_ref(1)?.as_blob()?;
        verify(row.get(0)?, sum::of(&[json]))?;
        Ok(json.into())
    })?;
    let task = KeptTask::from_json(id.clone(), found.rank.state, json);
    Ok(Loaded { snapshot: Snapshot { task, number, state }, weight: 0 })
}

fn agent_state(connection: &Connection, task: i64) -> rusqlite::Result<Option<Json>> {
    let mut select = connection.prepare_cached("SELECT sum, json FROM states WHERE task = ?")?;
    let state = select.query_row([task], |row| {
        let text = row.get_ref(1)?.as_str()?;
        verify(row.get(0)?, sum::of(&[text.as_bytes()]))?;
        Json::parse(text).map_err(unreadable)
    });
    state.optional()
}

fn refold(connection: &Connection, task: i64, id: &TaskId) -> rusqlite::Result<(Task, u64, usize)> {
    let sql = "SELECT place, last, sum, ends, received, json, weight FROM events \
               WHERE place > ? AND place < ? ORDER BY place";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query([place::event(task, 0), place::event(task + 1, 0)])?;
    let (mut fold, mut number, mut weight) = (nothing(id), 0, 0);
    while let Some(row) = rows.next()? {
        let events = events_of(row)?;
        weight += row.get::<_, usize>(6)?;
        number = row.get(1)?;
        let received: Vec<(usize, Message)> = match row.get_ref(4)?.as_blob_or_null()? {
            Some(json) => parse(json)?,
            None => Vec::new(),
        };
        let mut received = received.into_iter().peekable();
        let mut changes = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let mut said = Vec::new();
            while let Some((_, message)) = received.next_if(|(at, _)| *at == index) {
                said.push(message);
            }
            changes.push(Change::of(event, said).map_err(unreadable)?);
        }
        fold_all(&mut fold, changes);
    }
    Ok((fold, number, weight))
}

/// The number of the last event of a task.
pub(super) fn last_number(connection: &Connection, found: &Found) -> rusqlite::Result<u64> {
    if let Some(number) = found.compacted {
        return Ok(number);
    }
    let sql = "SELECT last FROM events WHERE place > ? AND place < ? ORDER BY place DESC LIMIT 1";
    let range = [place::event(found.task, 0), place::event(found.task + 1, 0)];
    connection.prepare_cached(sql)?.query_row(range, |row| row.get(0))
}

/// A read of events ends where they have so many bytes, however many were asked for. It has one event at least, if there is one.
const READ_BYTES: usize = 1 << 20;

/// The events after a number and up to another one, as many as fit.
pub(super) fn read(
    connection: &Connection,
    found: &Found,
    after: u64,
    up_to: u64,
    max: usize,
) -> rusqlite::Result<Read> {
    if let Some(number) = found.compacted {
        return Ok(if after < number { Read::Compacted } else { Read::Events(Vec::new()) });
    }
    let (mut events, mut bytes) = (Vec::new(), 0);
    // The row that has the next event begins with it or before it.
    let sql = "SELECT place, last, sum, ends, received, json FROM events WHERE place >= \
               (SELECT max(place) FROM events WHERE place > ?1 AND place <= ?2) AND place < ?3 ORDER BY place";
    let mut select = connection.prepare_cached(sql)?;
    let task = found.task;
    let next = place::event(task, after.saturating_add(1));
    let mut rows = select.query([place::event(task, 0), next, place::event(task + 1, 0)])?;
    while let Some(row) = rows.next()? {
        for event in events_of(row)? {
            if event.number > up_to || events.len() >= max || bytes >= READ_BYTES {
                return Ok(Read::Events(events));
            }
            if event.number > after {
                bytes += event.json.len();
                events.push(event);
            }
        }
    }
    Ok(Read::Events(events))
}

/// The events of a row that begins with its place, last number, sum, ends, received messages and JSON.
fn events_of(row: &Row<'_>) -> rusqlite::Result<Vec<Event>> {
    let first = place::number(row.get(0)?);
    let count = (row.get::<_, u64>(1)? + 1).saturating_sub(first);
    let json = row.get_ref(5)?.as_blob()?;
    let ends = row.get_ref(3)?.as_blob_or_null()?;
    verify(row.get(2)?, Rows::sum(json, ends, row.get_ref(4)?.as_blob_or_null()?))?;
    let events = match ends {
        // As it was before events were packed.
        Some(ends) => split_at(json, &ends_from(ends)),
        None => packed::events_of(json, usize::try_from(count).unwrap_or(usize::MAX)),
    };
    let fits = |events: &Vec<Event>| events.len() as u64 == count;
    let mut events =
        events.filter(fits).ok_or_else(|| unreadable("the ends of the events do not fit them"))?;
    for event in &mut events {
        event.number += first - 1;
    }
    Ok(events)
}

fn split_at(json: &[u8], ends: &[usize]) -> Option<Vec<Event>> {
    let in_order = ends.is_sorted() && ends.last() == Some(&json.len());
    in_order.then(|| split(&Bytes::copy_from_slice(json), ends))
}

/// Where each event ends.
fn ends_from(bytes: &[u8]) -> Vec<usize> {
    let (ends, _) = bytes.as_chunks::<4>();
    ends.iter().map(|end| usize::try_from(u32::from_le_bytes(*end)).unwrap_or(usize::MAX)).collect()
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(json: &[u8]) -> rusqlite::Result<T> {
    serde_json::from_slice(json).map_err(unreadable)
}

pub(super) fn verify(kept: u32, found: u32) -> rusqlite::Result<()> {
    if kept == found {
        Ok(())
    } else {
        Err(unreadable("the checksum does not match: the disk has changed it"))
    }
}

pub(super) fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, error.into())
}
