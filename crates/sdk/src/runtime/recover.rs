//! After a restart: tasks whose turn died with the process are ended, and say so.

use chancery_protocol::{Error, Message, TaskState, TaskStatus, TaskStatusUpdateEvent};
use chancery_store::{Batch, StoreError, Unfinished};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Core;
use crate::tasks::from_store;

/// How many tasks are looked at in one step, and ended at a time: one group commit takes them all.
const STEP: usize = 256;

const WHY: &str = "The server was restarted while it worked on this task";

impl Core {
    /// Ends the tasks that nobody works on although they say that somebody does. Gives their number.
    pub(super) async fn recover(&self) -> Result<usize, Error> {
        let mut ended = 0;
        let mut last: Option<Unfinished> = None;
        loop {
            let found = self
                .tasks
                .store
                .unfinished(&self.spec.name, last.as_ref(), STEP)
                .await
                .map_err(from_store)?;
            let Some(newest) = found.last().cloned() else { return Ok(ended) };
            // Collected, so that whoever waits for this may do so on any thread.
            let is_orphan = |task: &&Unfinished| self.tasks.live.find(&task.scope, &task.task).is_none();
            let ending: Vec<_> =
                found.iter().filter(is_orphan).map(|orphan| self.end_orphan(orphan)).collect();
            let outcomes: Vec<bool> =
                stream::iter(ending).buffer_unordered(STEP).try_collect().await.map_err(from_store)?;
            ended += outcomes.into_iter().filter(|ended| *ended).count();
            last = Some(newest);
        }
    }

    async fn end_orphan(&self, orphan: &Unfinished) -> Result<bool, StoreError> {
        let context_id = orphan.context_id.clone().unwrap_or_else(|| "".into());
        let said = Message::agent(WHY).in_task(orphan.task.clone()).in_context(context_id.clone());
        let status = TaskStatus::at(self.tasks.store.clock().millis(), TaskState::Failed, Some(said));
        let update =
            TaskStatusUpdateEvent { task_id: orphan.task.clone(), context_id, status, metadata: None };
        let mut batch = Batch::default();
        batch.status(update, None);
        match self.tasks.append(&orphan.scope, &orphan.task, batch).await {
            Ok(_) => Ok(true),
            // Somebody else was faster.
            Err(StoreError::Transition { .. } | StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
