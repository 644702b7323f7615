//! After a restart: tasks whose turn died with the process are ended, and say so, or begun again.

use std::sync::Arc;

use chancery_protocol::{
    CallContext, Error, Message, Principal, Role, TaskState, TaskStatus, TaskStatusUpdateEvent,
    USAGE_EXTENSION,
};
use chancery_store::{Batch, StoreError, Unfinished};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Core;
use super::sink::Sink;
use super::take::context_of;
use crate::tasks::from_store;

/// How many tasks are looked at in one step, and ended at a time: one group commit takes them all.
const STEP: usize = 256;

const WHY: &str = "The server was restarted while it worked on this task";

impl Core {
    /// Ends the tasks that nobody works on although they say that somebody does, or has their turns begun again. Gives the
    /// number of those that have ended.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<usize, Error> {
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
            let orphans = found.iter().filter(is_orphan);
            let ending: Vec<_> = orphans.map(|orphan| self.look_after(orphan)).collect();
            let outcomes: Vec<bool> =
                stream::iter(ending).buffer_unordered(STEP).try_collect().await.map_err(from_store)?;
            ended += outcomes.into_iter().filter(|ended| *ended).count();
            last = Some(newest);
        }
    }

    /// Has a task wait on that was not let through yet, begins its turn again, if that may be, or ends it. Whether it has
    /// ended.
    async fn look_after(self: &Arc<Self>, orphan: &Unfinished) -> Result<bool, StoreError> {
        if self.wait_again(orphan).await? || self.spec.only_waits && self.begin_again(orphan).await? {
            return Ok(false);
        }
        self.end_orphan(orphan).await
    }

    /// Begins the turn of a task again, with what was said last. Whether there was anything to begin with.
    async fn begin_again(self: &Arc<Self>, orphan: &Unfinished) -> Result<bool, StoreError> {
        let (scope, id) = (&orphan.scope, &orphan.task);
        let snapshot = self.tasks.store.snapshot(scope, id).await?;
        let Ok(task) = snapshot.task.value() else { return Ok(false) };
        let Some(message) = task.history.iter().rev().find(|said| said.role == Role::User).cloned() else {
            return Ok(false);
        };
        let live = self.tasks.live.enter(scope, id);
        let sink = Sink::working(self.tasks.store.clock(), id.clone(), context_of(&task));
        if !live.claim(&sink) {
            return Ok(true);
        }
        live.catch_up(snapshot.number, false);
        let principal = Principal { realm: scope.realm.clone(), id: scope.owner.clone() };
        let mut context = CallContext::new(principal, self.spec.name.clone());
        context.hold = self.tasks.holds.of(scope, id);
        if let Some(Ok(Some(consumed))) = task.metadata.as_ref().map(|known| known.entry(USAGE_EXTENSION)) {
            sink.add_usage(consumed);
        }
        let facts = self.facts(None, None, context, Vec::new(), Some((task, snapshot.state)));
        tokio::spawn(self.clone().prepare(scope.clone(), sink, message, facts, Some(live)).run());
        Ok(true)
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
