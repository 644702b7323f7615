//! How many tasks there are in each state, so that nobody has to count them. Changes are gathered and written
//! once for each transaction.

use std::collections::HashMap;

use chancery_protocol::TaskState;
use foldhash::fast::RandomState;
use rusqlite::{Connection, params};

use crate::sqlite::place::state_number;

/// Stands for all scopes together.
const EVERY_SCOPE: i64 = 0;

#[derive(Debug, Default)]
pub(super) struct Counts {
    changes: HashMap<(i64, i64), i64, RandomState>,
    /// How many tasks have ended and are kept.
    ended: i64,
    /// The same, if the transaction commits.
    ended_then: i64,
}

impl Counts {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare("SELECT state, tasks FROM counts WHERE scope = ?")?;
        let mut rows = select.query([EVERY_SCOPE])?;
        let mut ended = 0;
        while let Some(row) = rows.next()? {
            if crate::sqlite::place::state_of(row.get(0)?).is_terminal() {
                ended += row.get::<_, i64>(1)?;
            }
        }
        Ok(Self { changes: HashMap::default(), ended, ended_then: ended })
    }

    pub(super) fn add(&mut self, scope: i64, state: TaskState, tasks: i64) {
        let state_number = state_number(state);
        *self.changes.entry((scope, state_number)).or_default() += tasks;
        *self.changes.entry((EVERY_SCOPE, state_number)).or_default() += tasks;
        if state.is_terminal() {
            self.ended_then += tasks;
        }
    }

    /// Writes what has changed. The last thing before a commit.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let sql =
            "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tasks = tasks + excluded.tasks";
        let mut upsert = connection.prepare_cached(sql)?;
        for ((scope, state), tasks) in self.changes.iter().filter(|(_, tasks)| **tasks != 0) {
            upsert.execute(params![scope, state, tasks])?;
        }
        Ok(())
    }

    pub(super) fn settle(&mut self) {
        self.changes.clear();
        self.ended = self.ended_then;
    }

    pub(super) fn roll_back(&mut self) {
        self.changes.clear();
        self.ended_then = self.ended;
    }

    pub(super) fn ended(&self) -> i64 {
        self.ended
    }
}
