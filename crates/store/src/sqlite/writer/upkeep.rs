//! Forgetting, in small steps: no transaction takes long, so no batch waits long.

use std::ops::Range;

use chancery_protocol::{TaskId, TaskState};
use rusqlite::{Connection, Row, params};

use super::Desk;
use super::edges::EdgeStep;
use crate::error::StoreError;
use crate::fair::surplus;
use crate::limits::Retention;
use crate::sqlite::audit::{self, AuditStep};
use crate::sqlite::counted;
use crate::sqlite::failure::unavailable;
use crate::sqlite::place::{self, AT_ONCE, state_number, state_of};
use crate::sqlite::write::Fold;

/// One step.
#[derive(Debug)]
pub(in crate::sqlite) enum Upkeep {
    /// Keeps only the tasks themselves of some that have ended.
    Compact(Vec<Compaction>),
    /// Removes events of a task that has been compacted.
    ClearEvents { task: i64 },
    /// Forgets tasks that ended by then.
    Forget { ended_by: i64 },
    /// Forgets tasks that are too many: the oldest of those who have most.
    ForgetSurplus,
    /// Forgets keys that were used by then.
    ForgetAdmissions { used_by: i64 },
    /// Forgets these keys.
    ForgetKeys(Vec<i64>),
    /// Deletes what somebody owns.
    DeleteOwner { realm: String, owner: String },
    /// Keeps the record of calls in bounds.
    Edges(EdgeStep),
    /// Goes on with the audit log.
    Audit(AuditStep),
}

/// A task that has ended, folded.
#[derive(Debug)]
pub(in crate::sqlite) struct Compaction {
    pub(in crate::sqlite) task: i64,
    pub(in crate::sqlite) fold: Fold,
}

/// How many tasks, or rows of events, one step removes.
const STEP: usize = 256;

/// How many tasks one step looks at to find those.
const LOOK: usize = 1024;

/// A task to be removed.
struct Doomed {
    task: i64,
    scope: i64,
    state: i64,
    /// Of a task that may be among those that are being written to.
    id: Option<String>,
}

/// Tasks that have ended, each with when it did, the oldest first.
type Ended = Vec<(i64, Doomed)>;

impl Desk {
    /// Does one step. Says how much it did: nothing means that nothing is left.
    pub(super) fn keep_up(&mut self, step: &Upkeep) -> Result<usize, StoreError> {
        let gate = self.gate.clone();
        let _writing = gate.lock();
        let outcome = self.begin().and_then(|()| {
            let done = self.do_step(step)?;
            self.finish()?;
            Ok(done)
        });
        outcome.map_err(|error| {
            self.roll_back();
            unavailable("tidy up the store", &error)
        })
    }

    /// Tasks that end make room for themselves if there are too many.
    pub(super) fn hold_the_cap(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        let max_tasks = self.limits.retention.max_tasks;
        // A few at a time, so that not every group pays for a transaction more.
        let slack = (max_tasks / 16).clamp(1, STEP);
        let most = i64::try_from(max_tasks.saturating_add(slack)).unwrap_or(i64::MAX);
        if ended == 0 || self.counts.ended() < most {
            return;
        }
        for _ in 0..=ended / STEP {
            if let Err(error) = self.keep_up(&Upkeep::ForgetSurplus) {
                tracing::warn!(cause = %error, "cannot forget the oldest tasks yet");
                return;
            }
        }
    }

    fn do_step(&mut self, step: &Upkeep) -> rusqlite::Result<usize> {
        match step {
            Upkeep::Compact(tasks) => compact(&self.connection, tasks),
            Upkeep::ClearEvents { task } => Ok(clear_events(&self.connection, *task..task + 1)?.rows),
            Upkeep::Forget { ended_by } => self.forget(*ended_by),
            Upkeep::ForgetSurplus => self.forget_surplus(),
            Upkeep::ForgetAdmissions { used_by } => forget_admissions(&self.connection, *used_by),
            Upkeep::ForgetKeys(positions) => forget_keys(&self.connection, positions),
            Upkeep::DeleteOwner { realm, owner } => self.delete_owner(realm, owner),
            Upkeep::Edges(step) => self.keep_up_edges(step),
            Upkeep::Audit(step) => audit::step(&self.connection, step),
        }
    }

    fn forget(&mut self, ended_by: i64) -> rusqlite::Result<usize> {
        let (mut oldest, is_seen_through) = self.ended_at_once()?;
        oldest.extend(self.ended_later()?);
        oldest.sort_by_key(|(ended, doomed)| (*ended, doomed.task));
        oldest.truncate(STEP);
        let due = oldest.iter().take_while(|(ended, _)| *ended <= ended_by);
        oldest.truncate(due.count());
        let removed = self.remove(oldest.into_iter().map(|(_, doomed)| doomed).collect())?;
        Ok(if is_seen_through { removed } else { removed.max(1) })
    }

    fn forget_surplus(&mut self) -> rusqlite::Result<usize> {
        let Retention { max_tasks, max_tasks_per_owner, .. } = self.limits.retention;
        let ended = usize::try_from(self.counts.ended()).unwrap_or_default();
        if ended <= max_tasks.min(max_tasks_per_owner) {
            return Ok(0);
        }
        let sizes = counted::ended_by_owner(&self.connection)?;
        for ((realm, owner), gives) in surplus(sizes, max_tasks, max_tasks_per_owner) {
            let mut oldest = oldest_of(&self.connection, &realm, &owner)?;
            oldest.truncate(gives.min(STEP));
            let removed = self.remove(oldest.into_iter().map(|(_, doomed)| doomed).collect())?;
            if removed > 0 {
                return Ok(removed);
            }
        }
        Ok(0)
    }

    /// The oldest of those that began and ended in one batch, which lie in the order in which they ended. Says whether there may
    /// be some that were not looked for: only if none was found.
    fn ended_at_once(&mut self) -> rusqlite::Result<(Ended, bool)> {
        let sql = "SELECT task, ended, scope, state, millis FROM tasks WHERE task > ? ORDER BY task LIMIT ?";
        let mut select = self.connection.prepare_cached(sql)?;
        let mut rows = select.query(params![self.none_at_once_up_to, LOOK])?;
        let (mut found, mut looked) = (Ended::new(), 0);
        while let Some(row) = rows.next()? {
            looked += 1;
            let task = row.get(0)?;
            if row.get::<_, Option<i64>>(1)? == Some(AT_ONCE) {
                found.push((row.get(4)?, Doomed { task, scope: row.get(2)?, state: row.get(3)?, id: None }));
            } else if found.is_empty() {
                self.none_at_once_up_to = task;
            }
            if found.len() >= STEP {
                break;
            }
        }
        let is_seen_through = looked < LOOK || !found.is_empty();
        Ok((found, is_seen_through))
    }

    /// The oldest of the others.
    fn ended_later(&self) -> rusqlite::Result<Ended> {
        let sql =
            "SELECT task, scope, state, id, ended FROM tasks WHERE ended > 0 ORDER BY ended, task LIMIT ?";
        let mut select = self.connection.prepare_cached(sql)?;
        let each = select.query_map([STEP], |row| Ok((row.get(4)?, doomed(row)?)))?;
        each.collect()
    }

    fn delete_owner(&mut self, realm: &str, owner: &str) -> rusqlite::Result<usize> {
        let sql = "SELECT task, scope, state, id FROM tasks WHERE scope IN \
                   (SELECT scope FROM scopes WHERE realm = ? AND owner = ?) LIMIT ?";
        let owned: Vec<_> = {
            let mut select = self.connection.prepare_cached(sql)?;
            let each = select.query_map(params![realm, owner, STEP], doomed)?;
            each.collect::<rusqlite::Result<_>>()?
        };
        if !owned.is_empty() {
            return self.remove(owned);
        }
        let sql = "DELETE FROM admissions WHERE position IN (SELECT position FROM admissions WHERE scope IN \
                   (SELECT scope FROM scopes WHERE realm = ? AND owner = ?) LIMIT ?)";
        let keys = self.connection.prepare_cached(sql)?.execute(params![realm, owner, STEP])?;
        if keys > 0 {
            return Ok(keys);
        }
        let sql = "DELETE FROM reserved WHERE scope IN \
                   (SELECT scope FROM scopes WHERE realm = ? AND owner = ?)";
        self.connection.prepare_cached(sql)?.execute([realm, owner])?;
        let sql = "DELETE FROM counts WHERE scope IN \
                   (SELECT scope FROM scopes WHERE realm = ? AND owner = ?)";
        self.connection.prepare_cached(sql)?.execute([realm, owner])?;
        let sql = "DELETE FROM scopes WHERE realm = ? AND owner = ?";
        self.connection.prepare_cached(sql)?.execute([realm, owner])?;
        self.scopes.forget(realm, owner);
        Ok(0)
    }

    /// Removes tasks, apart from those that have more events than a step may remove: those lose some of them.
    fn remove(&mut self, mut doomed: Vec<Doomed>) -> rusqlite::Result<usize> {
        doomed.sort_unstable_by_key(|doomed| doomed.task);
        let mut done = 0;
        for run in doomed.chunk_by(|one, next| next.task == one.task + 1) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { break };
            let cleared = clear_events(&self.connection, first.task..last.task + 1)?;
            let run = &run[..run.partition_point(|doomed| doomed.task < cleared.up_to)];
            for table in ["pushes", "states", "tasks"] {
                let sql = format!("DELETE FROM {table} WHERE task >= ? AND task < ?");
                self.connection.prepare_cached(&sql)?.execute([first.task, cleared.up_to])?;
            }
            for Doomed { scope, state, id, .. } in run {
                self.counts.remove(*scope, state_of(*state));
                let Some(id) = id else { continue };
                // If the transaction fails after all, they are loaded again.
                let name = (*scope, TaskId::from(id.as_str()));
                self.ledger.forget(&name);
                self.entries.remove(&name);
            }
            done += cleared.rows + run.len();
            if done >= STEP {
                break;
            }
        }
        Ok(done)
    }
}

/// Reads a number, a scope, a state and an id.
fn doomed(row: &Row<'_>) -> rusqlite::Result<Doomed> {
    Ok(Doomed { task: row.get(0)?, scope: row.get(1)?, state: row.get(2)?, id: row.get(3)? })
}

/// What has been removed of the events of some tasks.
struct Cleared {
    rows: usize,
    /// The first task that may have some left.
    up_to: i64,
}

fn compact(connection: &Connection, tasks: &[Compaction]) -> rusqlite::Result<usize> {
    let sql = "UPDATE tasks SET number = ?, sum = ?, fold = ? \
               WHERE task = ? AND ended IS NOT NULL AND number IS NULL";
    let mut update = connection.prepare_cached(sql)?;
    for Compaction { task, fold } in tasks {
        update.execute(params![fold.number, fold.sum, &*fold.json, task])?;
        clear_events(connection, *task..task + 1)?;
    }
    Ok(tasks.len())
}

/// Removes the first few rows of events of tasks that follow each other.
fn clear_events(connection: &Connection, tasks: Range<i64>) -> rusqlite::Result<Cleared> {
    // Looked up first, since most tasks that have ended have none, and a subquery would cost a table of its own.
    let sql = "SELECT place FROM events WHERE place > ? AND place < ? ORDER BY place LIMIT ?";
    let (from, to) = (place::event(tasks.start, 0), place::event(tasks.end, 0));
    let mut select = connection.prepare_cached(sql)?;
    let places = select.query_map(params![from, to, STEP], |row| row.get::<_, i64>(0))?;
    let Some(last) = places.last().transpose()? else { return Ok(Cleared { rows: 0, up_to: tasks.end }) };
    let sql = "DELETE FROM events WHERE place > ? AND place <= ?";
    let rows = connection.prepare_cached(sql)?.execute(params![from, last])?;
    let up_to = if rows < STEP { tasks.end } else { place::task(last) };
    Ok(Cleared { rows, up_to })
}

/// The oldest tasks of somebody that have ended and wait for nothing to be delivered.
fn oldest_of(connection: &Connection, realm: &str, owner: &str) -> rusqlite::Result<Ended> {
    let scopes: Vec<i64> = {
        let mut select =
            connection.prepare_cached("SELECT scope FROM scopes WHERE realm = ? AND owner = ?")?;
        let each = select.query_map([realm, owner], |row| row.get(0))?;
        each.collect::<rusqlite::Result<_>>()?
    };
    let mut oldest = Ended::new();
    let sql = "SELECT task, scope, state, id, ended, millis FROM tasks INDEXED BY tasks_by_state \
               WHERE scope = ? AND state = ? ORDER BY millis, id LIMIT ?";
    let mut select = connection.prepare_cached(sql)?;
    for scope in scopes {
        for state in ENDS {
            let (mut rows, mut found) = (select.query(params![scope, state_number(state), LOOK])?, 0);
            while let Some(row) = rows.next()?.filter(|_| found < STEP) {
                let (ended, millis): (Option<i64>, i64) = (row.get(4)?, row.get(5)?);
                let Some(ended) = ended else { continue };
                oldest.push((if ended == AT_ONCE { millis } else { ended }, doomed(row)?));
                found += 1;
            }
        }
    }
    oldest.sort_by_key(|(ended, doomed)| (*ended, doomed.task));
    Ok(oldest)
}

/// The states that end a task.
const ENDS: [TaskState; 4] =
    [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];

fn forget_admissions(connection: &Connection, used_by: i64) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM admissions WHERE position IN \
               (SELECT position FROM (SELECT position, used FROM admissions ORDER BY position LIMIT ?1) \
                WHERE used <= ?2)";
    connection.prepare_cached(sql)?.execute(params![STEP, used_by])
}

fn forget_keys(connection: &Connection, positions: &[i64]) -> rusqlite::Result<usize> {
    let mut delete = connection.prepare_cached("DELETE FROM admissions WHERE position = ?")?;
    positions.iter().map(|position| delete.execute([position])).sum()
}
