//! The statements of the writer.

use std::sync::LazyLock;

use chancery_protocol::{Json, TaskId};
use rusqlite::{Connection, OptionalExtension, Statement, ToSql, params};

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

/// As many rows as one statement inserts at most, and all numbers of rows that there is a statement for.
const ROWS: [usize; 5] = [16, 8, 4, 2, 1];

/// Statements that insert some and find the end of each index once. SQLite numbers the rows, and what has been inserted before
/// one that is not new stays: for a statement that says otherwise, it copies each page that is changed, to take it back.
static INSERTS: LazyLock<[String; ROWS.len()]> = LazyLock::new(|| {
    ROWS.map(|rows| {
        let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
        format!(
            "INSERT OR FAIL INTO tasks (scope, id, context, state, millis, nanos, ended, number, sum, fold) \
             VALUES {values}"
        )
    })
});

impl NewTask<'_> {
    /// Says whether it is new indeed.
    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut insert = connection.prepare_cached(INSERT)?;
        let mut values = Values { insert: &mut insert, bound: 0 };
        values.bind(self.task)?;
        self.bind(&mut values)?;
        Ok(insert.raw_execute()? > 0)
    }

    /// Inserts tasks of which the first has the number after the highest that is kept, and each of the others the number after
    /// the one before it. Fails if one of them is not new, and then leaves it to the caller to roll back.
    pub(super) fn insert_next(mut tasks: &[Self], connection: &Connection) -> rusqlite::Result<()> {
        for (rows, sql) in ROWS.into_iter().zip(&*INSERTS) {
            while let Some((some, rest)) = tasks.split_at_checked(rows) {
                let mut insert = connection.prepare_cached(sql)?;
                let mut values = Values { insert: &mut insert, bound: 0 };
                some.iter().try_for_each(|task| task.bind(&mut values))?;
                insert.raw_execute()?;
                tasks = rest;
            }
        }
        Ok(())
    }

    /// Binds all but the number.
    fn bind(&self, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
        let Rank { state, millis, nanos, ended } = self.rank;
        values.bind(self.scope)?;
        values.bind(self.id.as_str())?;
        values.bind(self.context)?;
        values.bind(state_number(state))?;
        values.bind(millis)?;
        values.bind(nanos)?;
        values.bind(ended)?;
        values.bind(self.fold.map(|fold| fold.number))?;
        values.bind(self.fold.map(|fold| fold.sum))?;
        values.bind(self.fold.map(|fold| &*fold.json))
    }
}

/// The lines of the daybook up to this one are in the database.
pub(super) fn put_posted(connection: &Connection, line: u64) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE facts SET value = ? WHERE name = 'posted'")?.execute([line])?;
    Ok(())
}

/// Begins an epoch, and with it a daybook.
pub(super) fn next_epoch(connection: &Connection) -> rusqlite::Result<u64> {
    connection.execute("UPDATE facts SET value = 0 WHERE name = 'posted'", [])?;
    let next = "UPDATE facts SET value = value + 1 WHERE name = 'epoch' RETURNING value";
    connection.query_row(next, [], |row| row.get(0))
}

pub(in crate::sqlite) fn epoch_and_posted(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let sql = "SELECT epoch.value, posted.value FROM facts AS epoch, facts AS posted \
               WHERE epoch.name = 'epoch' AND posted.name = 'posted'";
    connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The number of the newest task, 0 if there is none.
pub(in crate::sqlite) fn highest_task(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT coalesce(max(task), 0) FROM tasks", [], |row| row.get(0))
}

/// The id that comes last among those of a scope.
pub(super) fn newest_id(connection: &Connection, scope: i64) -> rusqlite::Result<Option<String>> {
    connection.query_row("SELECT max(id) FROM tasks WHERE scope = ?", [scope], |row| row.get(0))
}

/// The values of a statement, one after the other.
struct Values<'a, 'c> {
    insert: &'a mut Statement<'c>,
    bound: usize,
}

impl Values<'_, '_> {
    fn bind(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.bound += 1;
        self.insert.raw_bind_parameter(self.bound, value)
    }
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
