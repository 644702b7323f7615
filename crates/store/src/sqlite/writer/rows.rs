//! The statements of the writer.

use chancery_protocol::{Json, TaskId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::record::{Admission, Scope};
use crate::reserved::KeyUse;
use crate::sqlite::load::unreadable;
use crate::sqlite::place::{self, Rank, state_number};
use crate::sqlite::sum;
use crate::sqlite::write::{Fold, Rows};

/// A new row of `tasks`.
pub(super) struct NewTask<'a> {
    pub(super) task: i64,
    pub(super) scope: i64,
    pub(super) id: &'a TaskId,
    pub(super) context: Option<&'a str>,
    pub(super) rank: Rank,
    /// The task itself, if no events are kept.
    pub(super) fold: Option<&'a Fold>,
}

/// Inserts a task unless there is one with its id.
const INSERT: &str = "INSERT INTO tasks (task, scope, id, context, state, millis, nanos, ended, number, sum, fold) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

impl NewTask<'_> {
    /// Says whether it is new indeed.
    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let Rank { state, millis, nanos, ended } = self.rank;
        let fold = self.fold;
        let values = params![
            self.task,
            self.scope,
            self.id.as_str(),
            self.context,
            state_number(state),
            millis,
            nanos,
            ended,
            fold.map(|fold| fold.number),
            fold.map(|fold| fold.sum),
            fold.map(|fold| &*fold.json),
        ];
        Ok(connection.prepare_cached(INSERT)?.execute(values)? > 0)
    }
}

/// The number of the newest task, 0 if there is none.
pub(in crate::sqlite) fn highest_task(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT coalesce(max(task), 0) FROM tasks", [], |row| row.get(0))
}

pub(super) fn insert_scope(connection: &Connection, scope: &Scope) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO scopes (realm, owner, agent) VALUES (?, ?, ?) RETURNING scope";
    let names = params![&*scope.realm, &*scope.owner, &*scope.agent];
    connection.prepare_cached(sql)?.query_row(names, |row| row.get(0))
}

pub(super) fn move_task(connection: &Connection, task: i64, rank: Rank) -> rusqlite::Result<()> {
    let sql = "UPDATE tasks SET state = ?, millis = ?, nanos = ?, ended = ? WHERE task = ?";
    let Rank { state, millis, nanos, ended } = rank;
    connection.prepare_cached(sql)?.execute(params![state_number(state), millis, nanos, ended, task])?;
    Ok(())
}

/// The events of one batch: one row.
pub(super) fn insert_events(
    connection: &Connection,
    (task, before): (i64, u64),
    length: usize,
    weight: usize,
    rows: &Rows,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO events (place, last, weight, sum, received, json) VALUES (?, ?, ?, ?, ?, ?)";
    connection.prepare_cached(sql)?.execute(params![
        place::event(task, before + 1),
        before + length as u64,
        weight,
        rows.sum,
        rows.received,
        &rows.json[..],
    ])?;
    Ok(())
}

pub(super) fn put_state(connection: &Connection, task: i64, json: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO states VALUES (?, ?, ?) \
               ON CONFLICT DO UPDATE SET sum = excluded.sum, json = excluded.json";
    connection.prepare_cached(sql)?.execute(params![task, sum::of(&[json.as_bytes()]), json])?;
    Ok(())
}

/// The digest of a key that has been used, and what for.
pub(in crate::sqlite) fn find_admission(
    connection: &Connection,
    scope: i64,
    key: &str,
) -> rusqlite::Result<Option<(Vec<u8>, KeyUse)>> {
    let sql = "SELECT digest, id, answer FROM admissions WHERE scope = ? AND key = ?";
    let mut select = connection.prepare_cached(sql)?;
    let used = select.query_row(params![scope, key], |row| {
        let answer = row.get_ref(2)?.as_str_or_null()?.map(Json::parse).transpose().map_err(unreadable)?;
        Ok((row.get(0)?, KeyUse { task: TaskId::from(row.get::<_, String>(1)?), answer }))
    });
    used.optional()
}

pub(super) fn insert_admission(
    connection: &Connection,
    scope: i64,
    admission: &Admission,
    id: &TaskId,
    now: i64,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO admissions (scope, key, digest, id, used) VALUES (?, ?, ?, ?, ?)";
    let values = params![scope, admission.key, &admission.digest[..], id.as_str(), now];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
