//! Compacting and forgetting what has outlived its time. The writer takes one small step at a time, so batches
//! go in between.

use std::time::Duration;

use chancery_protocol::{TaskId, Timestamp};
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::SqliteStore;
use super::failure::closed;
use super::load;
use super::surplus;
use super::write::Fold;
use super::writer::{Compaction, Job, Upkeep};
use crate::error::StoreError;

/// How many tasks are folded before the writer is asked to keep them, and how many bytes of them.
const TASKS: usize = 32;
const BYTES: usize = 4 << 20;

/// How many keys one step forgets.
const SURPLUS_STEP: usize = 256;

impl SqliteStore {
    pub(crate) async fn sweep(&self, now: Timestamp) {
        if let Err(error) = self.try_sweep(now).await {
            tracing::warn!(cause = %error, "cannot forget old tasks yet");
        }
    }

    async fn try_sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let retention = self.limits.retention;
        let used_by = before(now, retention.admissions);
        while self.upkeep(Upkeep::ForgetAdmissions { used_by }).await? > 0 {}
        let keys = move |reader: &Connection| surplus::keys(reader, &retention);
        for some in self.readers.read("look for too many keys", keys).await?.chunks(SURPLUS_STEP) {
            self.upkeep(Upkeep::ForgetKeys(some.to_vec())).await?;
        }
        let ended_by = before(now, retention.tasks);
        while self.upkeep(Upkeep::Forget { ended_by }).await? > 0 {}
        while self.upkeep(Upkeep::ForgetSurplus).await? > 0 {}
        self.sweep_edges(now).await?;
        let ended_by = before(now, retention.events);
        loop {
            let folded = self.readers.read("read old tasks", move |reader| due(reader, ended_by)).await?;
            if folded.is_empty() {
                return Ok(());
            }
            let tasks: Vec<_> = folded.iter().map(|compaction| compaction.task).collect();
            self.upkeep(Upkeep::Compact(folded)).await?;
            for task in tasks {
                while self.upkeep(Upkeep::ClearEvents { task }).await? > 0 {}
            }
        }
    }

    /// Has the writer do a step.
    pub(super) async fn upkeep(&self, step: Upkeep) -> Result<usize, StoreError> {
        let what = "tidy up the store";
        let (reply, answer) = oneshot::channel();
        self.writer.push(Job::Upkeep(step, reply)).map_err(|_| closed(what))?;
        answer.await.map_err(|_| closed(what))?
    }
}

/// Tasks that ended by then and still have events, folded.
fn due(connection: &Connection, ended_by: i64) -> rusqlite::Result<Vec<Compaction>> {
    let sql = "SELECT task, id FROM tasks INDEXED BY tasks_with_events \
               WHERE ended IS NOT NULL AND number IS NULL AND ended <= ? ORDER BY ended LIMIT ?";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(params![ended_by, TASKS])?;
    let mut folded = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let Some((found, _)) = load::find_by_number(connection, row.get(0)?)? else { continue };
        let snapshot = load::load(connection, &found, &TaskId::from(row.get::<_, String>(1)?))?.snapshot;
        let task = snapshot.task.value().map_err(load::unreadable)?;
        let fold = Fold::of(&task, snapshot.number)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        bytes += fold.json.len();
        folded.push(Compaction { task: found.task, fold });
        if bytes >= BYTES {
            break;
        }
    }
    Ok(folded)
}

/// The latest millisecond that is so long ago.
fn before(now: Timestamp, span: Duration) -> i64 {
    now.as_millis().saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}
