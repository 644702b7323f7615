//! Posting: what the daybook has goes to the database, with the next transaction, whatever that is for.

use std::sync::Arc;

use chancery_protocol::TaskId;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::rows::{self, NewTask};
use super::{Desk, Job, Upkeep};
use crate::sqlite::daybook::Line;
use crate::sqlite::load;
use crate::sqlite::place::kept_context;
use crate::sqlite::queue::Queue;
use crate::sqlite::write::{Life, Write};

/// Lines of the daybook that an open transaction posts.
#[derive(Debug)]
pub(super) struct Posting {
    up_to: u64,
    tasks: usize,
}

/// Has the writer's thread post what is in the daybook, and does not wait for it. If that thread is gone, the daybook has been
/// posted, or is by the next process.
pub(in crate::sqlite) fn ask_to_post(queue: &Queue<Job>) {
    let (reply, _) = oneshot::channel();
    let _ = queue.push(Job::Upkeep(Upkeep::Post, reply));
}

impl Desk {
    /// The first thing in a transaction, so that whatever comes next finds the tasks in the database.
    pub(super) fn post(&mut self) -> rusqlite::Result<()> {
        let lines = self.daybook.unposted();
        let Some(last) = lines.last() else { return Ok(()) };
        rows::put_posted(&self.connection, last.number)?;
        self.posting = Some(Posting { up_to: last.number, tasks: lines.len() });
        if self.next_follows { self.post_together(&lines) } else { self.post_each(&lines) }
    }

    fn post_together(&mut self, lines: &[Arc<Line>]) -> rusqlite::Result<()> {
        let mut tasks = Vec::with_capacity(lines.len());
        for line in lines {
            tasks.push(self.whole_task(&line.scope, &line.id, &line.life)?);
        }
        NewTask::insert_next(&tasks, &self.connection)?;
        for task in tasks {
            self.counts.begin(task.scope, task.rank);
        }
        Ok(())
    }

    /// After a transaction that failed. What is there already is there as the daybook has it: only tasks that are new are
    /// entered.
    fn post_each(&mut self, lines: &[Arc<Line>]) -> rusqlite::Result<()> {
        for line in lines {
            let task = self.whole_task(&line.scope, &line.id, &line.life)?;
            self.next_follows = task.insert(&self.connection)?;
            if self.next_follows {
                self.counts.begin(task.scope, task.rank);
            } else {
                tracing::error!(task = %line.id, "a task of the daybook was in the store before it was posted");
            }
        }
        Ok(())
    }

    /// The transaction is committed.
    pub(super) fn settle_posting(&mut self) {
        if let Some(Posting { up_to, tasks }) = self.posting.take() {
            self.daybook.posted(up_to);
            self.ended += tasks;
        }
    }

    /// Has tasks of a scope entered in the daybook from now on, now that some of them have come here that could have been.
    pub(super) fn learn_newest(&mut self, writes: &[Write]) -> rusqlite::Result<()> {
        for write in writes {
            if write.is_a_life_alone()
                && !self.daybook.knows(&write.scope)
                && let Some(scope) = self.scope(&write.scope)?
            {
                let newest = rows::newest_id(&self.connection, scope)?.unwrap_or_default();
                self.daybook.learn(&write.scope, TaskId::from(newest));
            }
        }
        Ok(())
    }
}

/// Posts what a process that was killed has left in its daybook, or one that still runs has in it now. Then nothing of that
/// daybook is posted to this database again: its next epoch begins. Gives that one, and how many tasks were posted.
pub(in crate::sqlite) fn post_left(
    connection: &mut Connection,
    lines: &[Line],
) -> rusqlite::Result<(u64, usize)> {
    let transaction = connection.transaction()?;
    let (mut task, mut posted) = (rows::highest_task(&transaction)?, 0);
    // Numbers go on from the newest task that is kept: what is posted here has yet to be counted.
    let counted = "UPDATE facts SET value = min(value, ?) WHERE name = 'counted'";
    transaction.execute(counted, [task])?;
    for line in left(&transaction, lines)? {
        let scope = match load::scope(&transaction, &line.scope)? {
            Some(scope) => scope,
            None => rows::insert_scope(&transaction, &line.scope)?,
        };
        let Life { context, rank, fold } = &line.life;
        let context = kept_context(&line.id, context.as_ref());
        let new = NewTask { task: task + 1, scope, id: &line.id, context, rank: *rank, fold: Some(fold) };
        if new.insert(&transaction)? {
            task += 1;
            posted += 1;
        }
    }
    let epoch = rows::next_epoch(&transaction)?;
    transaction.commit()?;
    Ok((epoch, posted))
}

/// The lines that are of the last epoch of a database and are not in it.
pub(in crate::sqlite) fn left<'a>(
    connection: &Connection,
    lines: &'a [Line],
) -> rusqlite::Result<Vec<&'a Line>> {
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let (epoch, posted) = rows::epoch_and_posted(connection)?;
    Ok(lines.iter().filter(|line| line.epoch == epoch && line.number > posted).collect())
}
