//! Push notification configurations and their cursors. Whatever becomes pending does so in the transaction that
//! makes it so, and is dated by the clock there: transactions follow one another, and so do these dates.

use chancery_protocol::{PushConfigId, TaskId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::OwnedSemaphorePermit;

use super::Desk;
use super::group::Refusal;
use crate::error::StoreError;
use crate::outbox::check_count;
use crate::record::Scope;
use crate::sqlite::failure::unavailable;
use crate::sqlite::load;
use crate::sqlite::write::Push;

/// A change of the configurations of a task.
#[derive(Debug)]
pub(in crate::sqlite) struct PushChange {
    pub(in crate::sqlite) scope: Scope,
    pub(in crate::sqlite) task: TaskId,
    pub(in crate::sqlite) what: PushWhat,
    /// Room in the queue.
    pub(in crate::sqlite) _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(in crate::sqlite) enum PushWhat {
    Put(Push),
    Delete(PushConfigId),
    /// Events up to a number are done with, by the one that is at this cursor.
    Delivered {
        push: Push,
        cursor: u64,
        to: u64,
    },
    Postpone {
        push: Push,
        cursor: u64,
        attempts: u32,
        not_before: Timestamp,
    },
}

impl Desk {
    /// Says whether anything changed.
    pub(super) fn change_push(&mut self, change: &PushChange) -> Result<bool, StoreError> {
        let gate = self.gate.clone();
        let _writing = gate.lock();
        let outcome = self.begin().map_err(Refusal::from).and_then(|()| {
            let done = self.do_push(change)?;
            self.finish()?;
            Ok(done)
        });
        outcome.map_err(|refusal| {
            self.roll_back();
            match refusal {
                Refusal::Own(error) => error,
                Refusal::Sql(error) => unavailable("write to the store", &error),
            }
        })
    }

    fn do_push(&mut self, change: &PushChange) -> Result<bool, Refusal> {
        let not_found = || StoreError::NotFound { id: change.task.clone() };
        let scope = self.scope(&change.scope)?.ok_or_else(not_found)?;
        let name = (scope, change.task.clone());
        let at_hand = self.ledger.find(&name).map(|facts| (facts.task, facts.now.number));
        let (task, number) = match at_hand {
            Some(found) => found,
            None => {
                let found = load::find(&self.connection, scope, &change.task)?.ok_or_else(not_found)?;
                (found.task, load::last_number(&self.connection, &found)?)
            }
        };
        let changed = match &change.what {
            PushWhat::Put(push) => {
                self.check_push_count(task, &change.task, push)?;
                self.put_push(task, push, number, number)?;
                self.ledger.has_pushes(&name);
                return Ok(true);
            }
            PushWhat::Delete(id) => {
                let sql = "DELETE FROM pushes WHERE task = ? AND id = ?";
                let deleted = self.connection.prepare_cached(sql)?.execute(params![task, id.as_str()])?;
                if deleted == 0 {
                    let id = id.clone();
                    return Err(StoreError::UnknownPushConfig { task: change.task.clone(), id }.into());
                }
                deleted
            }
            PushWhat::Delivered { push, cursor, to } => {
                let to = (*to).clamp(*cursor, number.max(*cursor));
                let due = (to < number).then(|| self.clock.now().as_micros());
                let sql = "UPDATE pushes SET cursor = ?, attempts = 0, due = ? \
                           WHERE task = ? AND id = ? AND cursor = ? AND config = ?";
                let values = params![to, due, task, push.id.as_str(), cursor, push.json];
                self.connection.prepare_cached(sql)?.execute(values)?
            }
            PushWhat::Postpone { push, cursor, attempts, not_before } => {
                let due = self.clock.now().max(*not_before).as_micros();
                let sql = "UPDATE pushes SET attempts = ?, due = ? \
                           WHERE task = ? AND id = ? AND cursor = ? AND config = ? AND due IS NOT NULL";
                let values = params![attempts, due, task, push.id.as_str(), cursor, push.json];
                self.connection.prepare_cached(sql)?.execute(values)?
            }
        };
        if !is_pending(&self.connection, task)? {
            self.settle_end(task)?;
        }
        Ok(changed > 0)
    }

    /// The refusal of one configuration too many.
    pub(super) fn check_push_count(&self, task: i64, id: &TaskId, push: &Push) -> Result<(), Refusal> {
        let sql = "SELECT count(*) FROM pushes WHERE task = ? AND id <> ?";
        let mut select = self.connection.prepare_cached(sql)?;
        let others: usize = select.query_row(params![task, push.id.as_str()], |row| row.get(0))?;
        Ok(check_count(id, others + 1, &self.limits.task)?)
    }

    /// Puts a configuration. A new one is done with the events up to a number; one that takes the place of
    /// another goes on where that was, at once.
    pub(super) fn put_push(
        &mut self,
        task: i64,
        push: &Push,
        cursor: u64,
        number: u64,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT cursor FROM pushes WHERE task = ? AND id = ?";
        let mut select = self.connection.prepare_cached(sql)?;
        let known = select.query_row(params![task, push.id.as_str()], |row| row.get(0)).optional()?;
        let cursor: u64 = known.unwrap_or(cursor);
        let due = (cursor < number).then(|| self.clock.now().as_micros());
        let sql = "INSERT INTO pushes (task, id, config, cursor, attempts, due, version) VALUES (?, ?, ?, ?, 0, ?, ?) \
                   ON CONFLICT (task, id) DO UPDATE SET config = excluded.config, attempts = 0, \
                   due = excluded.due, version = excluded.version";
        let values = params![task, push.id.as_str(), push.json, cursor, due, push.version.to_string()];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// The task has come to a number: who was not pending and is behind it now is pending. Says whether
    /// anything is; then the time of a task that has ended does not run out yet.
    pub(super) fn advance_pushes(&mut self, task: i64, number: u64, ends: bool) -> rusqlite::Result<bool> {
        let sql = "SELECT push FROM pushes WHERE task = ? AND due IS NULL AND cursor < ? ORDER BY push";
        let mut select = self.connection.prepare_cached(sql)?;
        let behind = select.query_map(params![task, number], |row| row.get(0))?;
        for push in behind.collect::<rusqlite::Result<Vec<i64>>>()? {
            let mut update = self.connection.prepare_cached("UPDATE pushes SET due = ? WHERE push = ?")?;
            update.execute(params![self.clock.now().as_micros(), push])?;
        }
        let pending = is_pending(&self.connection, task)?;
        if pending && ends {
            self.connection
                .prepare_cached("UPDATE tasks SET ended = NULL WHERE task = ?")?
                .execute([task])?;
        }
        Ok(pending)
    }

    /// Nothing of the task is pending: if it has ended, its time begins to run out.
    fn settle_end(&self, task: i64) -> rusqlite::Result<()> {
        let sql = "UPDATE tasks SET ended = iif(millis = 0, ?, millis) \
                   WHERE task = ? AND ended IS NULL AND state IN (3, 4, 5, 7)";
        let now = self.clock.now().as_millis();
        self.connection.prepare_cached(sql)?.execute(params![now, task])?;
        Ok(())
    }
}

/// Whether a task has any configuration.
pub(super) fn is_any(connection: &Connection, task: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pushes WHERE task = ?)";
    connection.prepare_cached(sql)?.query_row([task], |row| row.get(0))
}

fn is_pending(connection: &Connection, task: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pushes WHERE task = ? AND due IS NOT NULL)";
    connection.prepare_cached(sql)?.query_row([task], |row| row.get(0))
}
