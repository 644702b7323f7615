//! The audit log in its tables: the writer appends to it and removes what is signed for, and it is read beside a server
//! that may be running.

use chancery_protocol::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::SqliteStore;
use super::care::visit;
use super::failure::unavailable;
use super::load::unreadable;
use super::writer::Upkeep;
use crate::audit::{AuditCheckpoint, AuditEntry, AuditHash, AuditHead, AuditRecord, AuditVerifier};
use crate::error::StoreError;
use crate::record::StoreCheck;

/// What the writer is to do.
#[derive(Debug)]
pub(super) enum AuditStep {
    Append(Vec<AuditRecord>),
    Begin(AuditCheckpoint),
    /// Removes some of what the checkpoint is about.
    Remove,
}

/// The audit log of a store that another process may have open.
#[derive(Debug)]
pub struct AuditFile {
    connection: Connection,
}

/// How many entries one step removes.
const STEP: usize = 256;
/// How many are read at a time.
const PAGE: usize = 1024;
const READ: &str = "read the audit log";

impl SqliteStore {
    pub(crate) async fn append_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.upkeep(Upkeep::Audit(AuditStep::Append(records))).await.map(drop)
    }

    pub(crate) async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.readers.read(READ, move |connection| page(connection, after, limit)).await
    }

    pub(crate) async fn audit_checkpoint(&self) -> Result<Option<AuditCheckpoint>, StoreError> {
        self.readers.read(READ, checkpoint).await
    }

    pub(crate) async fn audit_due(
        &self,
        before: Timestamp,
        most: u64,
    ) -> Result<Option<AuditHead>, StoreError> {
        self.readers.read(READ, move |connection| due(connection, before, most)).await
    }

    pub(crate) async fn begin_audit_after(&self, checkpoint: AuditCheckpoint) -> Result<(), StoreError> {
        self.upkeep(Upkeep::Audit(AuditStep::Begin(checkpoint))).await?;
        while self.upkeep(Upkeep::Audit(AuditStep::Remove)).await? > 0 {}
        Ok(())
    }
}

/// Does one step in the transaction of the writer. Says how much it did.
pub(super) fn step(connection: &Connection, step: &AuditStep) -> rusqlite::Result<usize> {
    match step {
        AuditStep::Append(records) => append(connection, records),
        AuditStep::Begin(AuditCheckpoint { head, token }) => {
            let sql = "INSERT OR REPLACE INTO audit_checkpoint VALUES (1, ?, ?, ?)";
            connection.prepare_cached(sql)?.execute(params![head.number, head.hash.0, token])
        }
        AuditStep::Remove => {
            let sql = "DELETE FROM audit WHERE number IN (SELECT number FROM audit \
                       WHERE number <= (SELECT number FROM audit_checkpoint) ORDER BY number LIMIT ?)";
            connection.prepare_cached(sql)?.execute([STEP])
        }
    }
}

/// Whether the chain is whole.
pub(super) fn check(connection: &Connection, found: &mut StoreCheck) -> rusqlite::Result<()> {
    if !is_there(connection)? {
        return Ok(());
    }
    let begins = checkpoint(connection)?.map_or(AuditHead::NONE, |checkpoint| checkpoint.head);
    let mut verifier = AuditVerifier::new(begins);
    let mut after = 0;
    loop {
        let entries = page(connection, after, PAGE)?;
        entries.iter().for_each(|entry| verifier.take(entry));
        match entries.last() {
            Some(last) => after = last.number,
            None => break,
        }
    }
    found
        .problems
        .extend(verifier.finish().problems.into_iter().map(|problem| format!("audit log: {problem}")));
    Ok(())
}

/// Whether a program that knows of the log has opened the store.
fn is_there(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name IN ('audit', 'audit_checkpoint')";
    connection.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? == 2))
}

fn append(connection: &Connection, records: &[AuditRecord]) -> rusqlite::Result<usize> {
    let mut head = head(connection)?;
    let mut insert = connection.prepare_cached("INSERT INTO audit VALUES (?, ?, ?, ?)")?;
    for record in records {
        let entry = head.followed_by(record.clone());
        let entry = entry.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        insert.execute(params![entry.number, entry.at.as_micros(), entry.body, entry.hash.0])?;
        head = entry.head();
    }
    Ok(records.len())
}

fn head(connection: &Connection) -> rusqlite::Result<AuditHead> {
    let sql = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1";
    let last = connection.prepare_cached(sql)?.query_row([], |row| head_of(row, 0)).optional()?;
    let begins = checkpoint(connection)?.map_or(AuditHead::NONE, |checkpoint| checkpoint.head);
    Ok(last.filter(|last| last.number > begins.number).unwrap_or(begins))
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<Option<AuditCheckpoint>> {
    let sql = "SELECT number, hash, token FROM audit_checkpoint";
    let read = |row: &Row<'_>| Ok(AuditCheckpoint { head: head_of(row, 0)?, token: row.get(2)? });
    connection.prepare_cached(sql)?.query_row([], read).optional()
}

fn page(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<AuditEntry>> {
    let sql = "SELECT number, hash, at, body FROM audit \
               WHERE number > max(?, (SELECT coalesce(max(number), 0) FROM audit_checkpoint)) \
               ORDER BY number LIMIT ?";
    let mut select = connection.prepare_cached(sql)?;
    let entries = select.query_map(params![after, limit], |row| {
        let AuditHead { number, hash } = head_of(row, 0)?;
        Ok(AuditEntry { number, hash, at: Timestamp::from_micros(row.get(2)?), body: row.get(3)? })
    })?;
    entries.collect()
}

fn due(connection: &Connection, before: Timestamp, most: u64) -> rusqlite::Result<Option<AuditHead>> {
    let last = head(connection)?.number;
    let sql = "SELECT number FROM audit WHERE at >= ? ORDER BY number LIMIT 1";
    let mut select = connection.prepare_cached(sql)?;
    let first_young = select.query_row([before.as_micros()], |row| row.get::<_, u64>(0)).optional()?;
    let old = first_young.map_or(last, |first| first.saturating_sub(1));
    let up_to = old.max(last.saturating_sub(most));
    let sql = "SELECT number, hash FROM audit WHERE number <= ? \
               AND number > (SELECT coalesce(max(number), 0) FROM audit_checkpoint) ORDER BY number DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([up_to], |row| head_of(row, 0)).optional()
}

fn head_of(row: &Row<'_>, first: usize) -> rusqlite::Result<AuditHead> {
    let hash = row.get_ref(first + 1)?.as_blob()?.try_into();
    let hash = hash.map_err(|_| unreadable("a hash of the audit log has not 32 bytes"))?;
    Ok(AuditHead { number: row.get(first)?, hash: AuditHash(hash) })
}

// === impl AuditFile ===

impl AuditFile {
    pub(crate) fn open(text: &str) -> Result<Self, StoreError> {
        Ok(Self { connection: visit(READ, text)?.0 })
    }

    /// The entries after a number, oldest first, and at most so many.
    pub fn page(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.read(Vec::new(), |connection| page(connection, after, limit))
    }

    /// What was signed when the oldest entries were removed, if any were.
    pub fn checkpoint(&self) -> Result<Option<AuditCheckpoint>, StoreError> {
        self.read(None, checkpoint)
    }

    /// The last entry.
    pub fn head(&self) -> Result<AuditHead, StoreError> {
        self.read(AuditHead::NONE, head)
    }

    /// A store that no program of this version has opened yet has no log.
    fn read<T>(
        &self,
        nothing: T,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let there = is_there(&self.connection);
        let found = there.and_then(|is_there| if is_there { read(&self.connection) } else { Ok(nothing) });
        found.map_err(|error| unavailable(READ, &error))
    }
}
