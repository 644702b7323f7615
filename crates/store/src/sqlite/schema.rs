//! The tables: how a connection is set up, and how an older file becomes a newer one.

use std::path::Path;
use std::time::Duration;

use chancery_protocol::Timestamp;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::failure::{unable, unavailable};
use super::old_daybook;
use super::options::Durability;
use super::writer::highest_task;
use crate::error::StoreError;

/// Each brings a file from the version before it to its own, which is its place in the list. Never edited once
/// released: a change is a new one.
const MIGRATIONS: [&str; 16] = [
    include_str!("migrations/0001_journal.sql"),
    include_str!("migrations/0002_push.sql"),
    include_str!("migrations/0003_push_version.sql"),
    include_str!("migrations/0004_edges.sql"),
    include_str!("migrations/0005_payer.sql"),
    include_str!("migrations/0006_packed_events.sql"),
    include_str!("migrations/0007_limits.sql"),
    include_str!("migrations/0008_own_contexts.sql"),
    include_str!("migrations/0009_ended_at_once.sql"),
    include_str!("migrations/0010_counted.sql"),
    include_str!("migrations/0011_daybook.sql"),
    include_str!("migrations/0012_reserved.sql"),
    include_str!("migrations/0013_overrun.sql"),
    include_str!("migrations/0014_no_daybook.sql"),
    include_str!("migrations/0015_groups.sql"),
    include_str!("migrations/0016_audit.sql"),
];

/// Which of them is the one that posts what is left in a daybook.
const NO_DAYBOOK: usize = 14;

/// Tells our files from those of others: "Chan".
const APPLICATION_ID: i64 = 0x4368_616E;

/// Kept low, since there are several connections. The operating system caches the file as well.
const CACHE_KIB: i64 = 32 << 10;
/// Lower still for those who write, at the end of the file: a commit that has moved pages about looks through
/// the whole cache.
const WRITING_CACHE_KIB: i64 = 2 << 10;
const STATEMENTS: usize = 64;

/// A connection, for the writer if it has a durability and else for readers.
pub(super) fn connect(path: &Path, durability: Option<Durability>) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // Our own threads do not wait for each other here; this is for tools that look at the file meanwhile.
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise it plans a statement with a bound LIMIT or range anew whenever that is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let cache = if durability.is_some() { WRITING_CACHE_KIB } else { CACHE_KIB };
    connection.pragma_update(None, "cache_size", -cache)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // The checkpoint thread does it, so that no commit waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    match durability {
        Some(Durability::Process) => connection.pragma_update(None, "synchronous", "NORMAL")?,
        Some(Durability::Power) => connection.pragma_update(None, "synchronous", "FULL")?,
        None => connection.pragma_update(None, "query_only", true)?,
    }
    Ok(connection)
}

/// Makes the tables what this program knows them to be. Gives the epoch: how often the file has been opened.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<u64, StoreError> {
    let what = format!("open the store {}", path.display());
    let refuse = |why: String, hint| StoreError::Unavailable { what: what.clone(), why, hint };
    let failed = |error: rusqlite::Error| unavailable(&what, &error);
    let application: i64 = pragma(connection, "application_id").map_err(failed)?;
    let version: usize = pragma(connection, "user_version").map_err(failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION_ID && tables > 0 {
        let why = "it is the database of another program".to_owned();
        return Err(refuse(why, "name another file"));
    }
    if version > MIGRATIONS.len() {
        let why = format!("its version is {version} and this program knows up to {}", MIGRATIONS.len());
        return Err(refuse(why, "run the newer program that wrote it, or restore a backup from before"));
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    let left = if version < NO_DAYBOOK { old_daybook::read(path, &what)? } else { Vec::new() };
    migrate(connection, version, &left).map_err(failed)?;
    old_daybook::remove(path);
    begin_epoch(connection).map_err(failed)
}

fn migrate(connection: &mut Connection, version: usize, left: &[old_daybook::Line]) -> rusqlite::Result<()> {
    for (place, migration) in MIGRATIONS.iter().enumerate().skip(version) {
        let transaction = connection.transaction()?;
        if place + 1 == NO_DAYBOOK {
            let tasks = old_daybook::post(&transaction, left)?;
            tracing::debug!(tasks, "posted what was left in the daybook of the store");
        }
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", place + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Counts the epoch up.
fn begin_epoch(connection: &mut Connection) -> rusqlite::Result<u64> {
    let transaction = connection.transaction()?;
    // Numbers go on from the newest task that is kept: what comes after it has yet to be counted.
    let counted = "UPDATE facts SET value = min(value, ?) WHERE name = 'counted'";
    transaction.execute(counted, [highest_task(&transaction)?])?;
    let next = "UPDATE facts SET value = value + 1 WHERE name = 'epoch' RETURNING value";
    let epoch = transaction.query_row(next, [], |row| row.get(0))?;
    transaction.commit()?;
    Ok(epoch)
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> rusqlite::Result<T> {
    connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

/// The number after that of the newest task. Kept by the writer from then on, so that no number is used twice
/// while something may still hold it.
pub(super) fn next_task(connection: &Connection) -> Result<i64, StoreError> {
    highest_task(connection).map(|highest| highest + 1).map_err(unable("open the store"))
}

/// The newest time that the clock of the store is known to have given.
pub(super) fn newest_time(connection: &Connection) -> Result<Timestamp, StoreError> {
    let newest = "SELECT value FROM facts WHERE name = 'clock'";
    let micros = connection.query_row(newest, [], |row| row.get(0)).map_err(unable("open the store"))?;
    Ok(Timestamp::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound() {
        let connection = connect(Path::new(":memory:"), None).unwrap();
        let sql = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 9) \
                   SELECT n FROM numbers WHERE n > ? LIMIT ?";
        for most in 1..4 {
            let mut select = connection.prepare_cached(sql).unwrap();
            let found = select.query_map([most, most], |row| row.get::<_, i64>(0)).unwrap().count();
            assert_eq!(i64::try_from(found), Ok(most));
            assert_eq!(select.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
