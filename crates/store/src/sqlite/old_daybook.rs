//! The daybook of stores of version 11 to 13: a file beside the database, where some tasks were until they were posted to it.
//! Nothing writes one any more. What a process that was killed has left in one is posted when its store becomes version 14.
//!
//! The file has two halves of lines that follow each other. What comes after the last of them was cut short, or is older.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use chancery_protocol::{ContextId, TaskId};
use rusqlite::{Connection, OptionalExtension, params};

use super::lock::beside;
use super::place::kept_context;
use super::sum;
use crate::error::StoreError;

/// A task that began and ended in one batch.
pub(super) struct Line {
    /// How often the database had been opened.
    epoch: u64,
    /// From 1 in each epoch.
    number: u64,
    state: i64,
    millis: i64,
    nanos: u32,
    /// The number of its last event.
    last: u64,
    /// The checksum of its JSON.
    sum: u32,
    /// Its realm, its owner and its agent.
    scope: [String; 3],
    id: TaskId,
    context: Option<ContextId>,
    json: Vec<u8>,
}

/// So many bytes of the file are one half.
const HALF: usize = 1 << 20;
/// Stands for the length of a context that is not there.
const NONE: u32 = u32::MAX;

/// The lines of the daybook beside a database, if there is one.
pub(super) fn read(database: &Path, what: &str) -> Result<Vec<Line>, StoreError> {
    let mut bytes = Vec::new();
    let file = File::open(path(database));
    match file.and_then(|file| file.take(2 * HALF as u64).read_to_end(&mut bytes)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::Unavailable {
                what: what.to_owned(),
                why: format!("its daybook {} cannot be read: {error}", path(database).display()),
                hint: "make it readable: it may have tasks that are nowhere else yet",
            });
        }
        _ => {}
    }
    let (one, other) = bytes.split_at(bytes.len().min(HALF));
    let mut lines: Vec<_> = [one, other].into_iter().flat_map(lines_of).collect();
    lines.sort_by_key(|line| (line.epoch, line.number));
    Ok(lines)
}

/// Posts the lines that are of the last epoch of a database and not in it yet, and ends that epoch: so they are posted once.
/// Says how many there were.
pub(super) fn post(connection: &Connection, lines: &[Line]) -> rusqlite::Result<usize> {
    let sql = "SELECT epoch.value, posted.value FROM facts AS epoch, facts AS posted \
               WHERE epoch.name = 'epoch' AND posted.name = 'posted'";
    let facts = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let known: Option<(u64, u64)> = connection.query_row(sql, [], facts).optional()?;
    let Some((epoch, posted)) = known.filter(|_| !lines.is_empty()) else { return Ok(0) };
    // Numbers go on from the newest task that is kept: what is posted has yet to be counted.
    let counted = "UPDATE facts SET value = min(value, (SELECT coalesce(max(task), 0) FROM tasks)) \
                   WHERE name = 'counted'";
    connection.execute(counted, [])?;
    let mut tasks = 0;
    for line in lines.iter().filter(|line| line.epoch == epoch && line.number > posted) {
        tasks += line.post(connection)?;
    }
    connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'epoch'", [])?;
    Ok(tasks)
}

/// Removes the file, once what was in it has been posted.
pub(super) fn remove(database: &Path) {
    if let Err(error) = std::fs::remove_file(path(database))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(cause = %error, "the daybook of the store has been posted and cannot be removed");
    }
}

fn path(database: &Path) -> PathBuf {
    beside(database, ".daybook")
}

fn lines_of(mut bytes: &[u8]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    while let Some(line) = Line::read(&mut bytes) {
        if lines.last().is_some_and(|last| (line.epoch, line.number) != (last.epoch, last.number + 1)) {
            break;
        }
        lines.push(line);
    }
    lines
}

// === impl Line ===

impl Line {
    /// Reads a line: how many bytes follow, their checksum, and what it says.
    fn read(from: &mut &[u8]) -> Option<Self> {
        let (length, sum) = (number(from)?, number(from)?);
        let from = &mut bytes(from, length)?;
        if sum::of(&[*from]) != sum {
            return None;
        }
        Some(Self {
            epoch: u64::from_le_bytes(array(from)?),
            number: u64::from_le_bytes(array(from)?),
            state: i64::from_le_bytes(array(from)?),
            millis: i64::from_le_bytes(array(from)?),
            nanos: number(from)?,
            last: u64::from_le_bytes(array(from)?),
            sum: number(from)?,
            scope: [text(from)??, text(from)??, text(from)??],
            id: TaskId::from(text(from)??),
            context: text(from)?.map(ContextId::from),
            json: number(from).and_then(|length| bytes(from, length))?.to_vec(),
        })
    }

    /// Says how many tasks it has brought: none if it was there.
    fn post(&self, connection: &Connection) -> rusqlite::Result<usize> {
        let [realm, owner, agent] = &self.scope;
        let scope = "INSERT INTO scopes (realm, owner, agent) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
        connection.execute(scope, [realm, owner, agent])?;
        let task = "INSERT INTO tasks (task, scope, id, context, state, millis, nanos, ended, number, sum, fold) \
                    SELECT (SELECT coalesce(max(task), 0) + 1 FROM tasks), scope, ?, ?, ?, ?, ?, 0, ?, ?, ? \
                    FROM scopes WHERE realm = ? AND owner = ? AND agent = ? ON CONFLICT DO NOTHING";
        let context = kept_context(&self.id, self.context.as_ref());
        let (id, json) = (self.id.as_str(), &self.json);
        let Self { state, millis, nanos, last, sum, .. } = self;
        connection
            .execute(task, params![id, context, state, millis, nanos, last, sum, json, realm, owner, agent])
    }
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*array)
}

fn number(from: &mut &[u8]) -> Option<u32> {
    array(from).map(u32::from_le_bytes)
}

fn bytes<'a>(from: &mut &'a [u8], length: u32) -> Option<&'a [u8]> {
    from.split_off(..usize::try_from(length).ok()?)
}

/// A text after its length; none in it if it is not there.
fn text(from: &mut &[u8]) -> Option<Option<String>> {
    match number(from)? {
        NONE => Some(None),
        length => String::from_utf8(bytes(from, length)?.to_vec()).ok().map(Some),
    }
}
