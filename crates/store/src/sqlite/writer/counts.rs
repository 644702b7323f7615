//! How many tasks there are in each state, so that nobody has to count them. Changes are gathered and written
//! once for each transaction; tasks that begin and end in one batch, and then stay as they are, only once for many transactions.

use std::collections::HashMap;

use chancery_protocol::TaskState;
use foldhash::fast::RandomState;
use rusqlite::{Connection, params};

use crate::sqlite::counted::{self, EVERY_SCOPE};
use crate::sqlite::place::{AT_ONCE, Rank, state_number};

/// How many tasks are in a state, by the scope, or [`EVERY_SCOPE`], and the number of the state.
type Tasks = HashMap<(i64, i64), i64, RandomState>;

/// How many numbers of tasks there may be above the one up to which all are in the table: as many rows are read by whoever wants
/// to know how many there are.
const MOST_UNCOUNTED: i64 = 128;

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// What this transaction changes, apart from those below.
    changes: Tasks,
    /// The tasks that began and ended in one batch of this transaction.
    fresh: Tasks,
    /// Those of earlier ones that the table does not have.
    uncounted: Tasks,
    /// Up to which number the table has all of them.
    up_to: i64,
    /// The same if this transaction commits, if it writes them down.
    up_to_then: Option<i64>,
    /// Whether one is removed, which is only taken off what is in the table.
    removes: bool,
    /// How many tasks have ended and are kept.
    ended: i64,
    /// The same, if the transaction commits.
    ended_then: i64,
}

impl Counts {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let all = counted::of_scope(connection, EVERY_SCOPE)?;
        let ended = all.into_iter().filter(|(state, _)| state.is_terminal()).map(|(_, tasks)| tasks).sum();
        let mut uncounted = Tasks::default();
        for (scope, state) in counted::uncounted(connection)? {
            put(&mut uncounted, scope, state, 1);
        }
        let up_to = counted::up_to(connection)?;
        Ok(Self { uncounted, up_to, ended, ended_then: ended, ..Self::default() })
    }

    /// A task begins as it is.
    pub(super) fn begin(&mut self, scope: i64, rank: Rank) {
        if rank.ended == Some(AT_ONCE) {
            put(&mut self.fresh, scope, state_number(rank.state), 1);
            self.ended_then += 1;
        } else {
            self.change(scope, rank.state, 1);
        }
    }

    /// A task goes from one state to another.
    pub(super) fn step(&mut self, scope: i64, from: TaskState, to: TaskState) {
        self.change(scope, from, -1);
        self.change(scope, to, 1);
    }

    pub(super) fn remove(&mut self, scope: i64, state: TaskState) {
        self.removes = true;
        self.change(scope, state, -1);
    }

    fn change(&mut self, scope: i64, state: TaskState, tasks: i64) {
        put(&mut self.changes, scope, state_number(state), tasks);
        if state.is_terminal() {
            self.ended_then += tasks;
        }
    }

    /// Writes what has changed. The last thing before a commit. `newest` is the highest number of a task.
    pub(super) fn write(&mut self, connection: &Connection, newest: i64) -> rusqlite::Result<()> {
        if self.removes || newest - self.up_to >= MOST_UNCOUNTED {
            let sql = "UPDATE facts SET value = ? WHERE name = 'counted'";
            connection.prepare_cached(sql)?.execute([newest])?;
            self.up_to_then = Some(newest);
            add(&self.uncounted, &mut self.changes);
            add(&self.fresh, &mut self.changes);
        }
        if self.changes.is_empty() {
            return Ok(());
        }
        let sql =
            "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks";
        let mut upsert = connection.prepare_cached(sql)?;
        for ((scope, state), tasks) in self.changes.iter().filter(|(_, tasks)| **tasks != 0) {
            upsert.execute(params![scope, state, tasks])?;
        }
        Ok(())
    }

    pub(super) fn settle(&mut self) {
        match self.up_to_then.take() {
            Some(up_to) => {
                self.up_to = up_to;
                self.uncounted.clear();
            }
            None => add(&self.fresh, &mut self.uncounted),
        }
        self.ended = self.ended_then;
        self.clear();
    }

    pub(super) fn roll_back(&mut self) {
        self.ended_then = self.ended;
        self.up_to_then = None;
        self.clear();
    }

    /// The transaction is over.
    fn clear(&mut self) {
        self.changes.clear();
        self.fresh.clear();
        self.removes = false;
    }

    pub(super) fn ended(&self) -> i64 {
        self.ended
    }
}

fn put(to: &mut Tasks, scope: i64, state: i64, tasks: i64) {
    *to.entry((scope, state)).or_default() += tasks;
    *to.entry((EVERY_SCOPE, state)).or_default() += tasks;
}

fn add(some: &Tasks, to: &mut Tasks) {
    for (key, tasks) in some {
        *to.entry(*key).or_default() += tasks;
    }
}
