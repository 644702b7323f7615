//! How many tasks there are. The table of counts says so, apart from a few that began and ended in one batch: those are added
//! to it many at a time, and are looked for among the newest tasks until then.

use std::collections::BTreeMap;

use chancery_protocol::TaskState;
use rusqlite::{Connection, params};

use super::place::state_of;

/// Stands for all scopes together.
pub(super) const EVERY_SCOPE: i64 = 0;

/// The tasks that the table does not say yet. By number alone: no index has so few.
macro_rules! newest {
    ($what:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM tasks NOT INDEXED \
             WHERE task > (SELECT value FROM facts WHERE name = 'counted') AND ended = 0"
        )
    };
}

/// Up to which number the table has all tasks.
pub(super) fn up_to(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT value FROM facts WHERE name = 'counted'", [], |row| row.get(0))
}

/// The scope and the state of each task that the table does not say yet.
pub(super) fn uncounted(connection: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut select = connection.prepare(newest!("scope, state"))?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// How many tasks a scope has in each state, in the order of the states.
pub(super) fn of_scope(connection: &Connection, scope: i64) -> rusqlite::Result<Vec<(TaskState, i64)>> {
    let mut counted: BTreeMap<i64, i64> = BTreeMap::new();
    let mut select = connection.prepare_cached("SELECT state, tasks FROM counts WHERE scope = ?")?;
    let mut rows = select.query([scope])?;
    while let Some(row) = rows.next()? {
        *counted.entry(row.get(0)?).or_default() += row.get::<_, i64>(1)?;
    }
    let mut select = connection.prepare_cached(concat!(newest!("state"), " AND ?1 IN (scope, ?2)"))?;
    let mut rows = select.query(params![scope, EVERY_SCOPE])?;
    while let Some(row) = rows.next()? {
        *counted.entry(row.get(0)?).or_default() += 1;
    }
    Ok(counted.into_iter().map(|(state, tasks)| (state_of(state), tasks)).collect())
}

/// How many tasks somebody has.
pub(super) fn of_owner(connection: &Connection, realm: &str, owner: &str) -> rusqlite::Result<usize> {
    let sql = concat!(
        "WITH owned AS (SELECT scope FROM scopes WHERE realm = ? AND owner = ?) \
         SELECT coalesce(sum(tasks), 0) + (",
        newest!("count(*)"),
        " AND scope IN owned) FROM counts WHERE scope IN owned"
    );
    connection.prepare_cached(sql)?.query_row([realm, owner], |row| row.get(0))
}

/// A realm, and somebody in it.
pub(super) type Owner = (String, String);

/// How many tasks that have ended each owner has.
pub(super) fn ended_by_owner(connection: &Connection) -> rusqlite::Result<Vec<(Owner, usize)>> {
    let sql = concat!(
        "WITH there AS (SELECT scope, state, tasks FROM counts WHERE scope > 0 UNION ALL ",
        newest!("scope, state, 1"),
        ") SELECT realm, owner, state, sum(tasks) FROM there JOIN scopes USING (scope) GROUP BY realm, owner, state"
    );
    let mut sizes: BTreeMap<Owner, usize> = BTreeMap::new();
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if state_of(row.get(2)?).is_terminal() {
            let tasks = usize::try_from(row.get::<_, i64>(3)?).unwrap_or_default();
            *sizes.entry((row.get(0)?, row.get(1)?)).or_default() += tasks;
        }
    }
    Ok(sizes.into_iter().collect())
}
