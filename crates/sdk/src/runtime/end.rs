//! Ending a task in the name of somebody else than its turn: its caller, the gateway, a restart.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    ContextId, Error, ErrorCode, Json, KeptTask, StreamResponse, TaskState, TaskStatus,
    TaskStatusUpdateEvent, TaskView,
};
use chancery_store::{Batch, StoreError};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::failure::from_store;
use super::live::TaskKey;
use super::queued::Waits;
use crate::agent::{Cancellation, Outcome, Sent, TaskHandle};

/// How long an agent elsewhere may take to answer a cancel.
const LONGEST_CANCEL: Duration = Duration::from_secs(5);

impl Core {
    /// Cancels a task: the agent is asked first if it works elsewhere, and may refuse.
    pub(super) async fn cancel(self: Arc<Self>, key: TaskKey) -> Result<TaskView, Error> {
        let snapshot = self.snapshot(&key).await?;
        let is_open = !snapshot.task.is_over() && !snapshot.state.as_ref().is_some_and(Waits::is);
        let mut outcome = Outcome::canceled();
        let mut sent = Sent::Answered;
        if self.spec.works_elsewhere && is_open {
            let handle = self.handle(&key, snapshot.state);
            let asked = self.spec.agent.clone().cancel(handle);
            match tokio::time::timeout(LONGEST_CANCEL, asked).await {
                Ok(Ok(Cancellation::Done(said))) => {
                    outcome.forwarded = said.map(|said| Box::new(StreamResponse::StatusUpdate(*said)));
                }
                Ok(Ok(Cancellation::NeverSent)) => sent = Sent::Never,
                Ok(Ok(Cancellation::Unknown)) | Err(_) => sent = Sent::Unanswered,
                Ok(Ok(Cancellation::Pending)) => {
                    return Ok(TaskView::whole(self.snapshot(&key).await?.task));
                }
                Ok(Err(refused)) => return Err(refused),
            }
        }
        self.end_from_outside(&key, outcome, sent).await
    }

    /// Ends a task for a reason of this server's, and tells the agent if it works elsewhere.
    pub(super) async fn stop(&self, key: TaskKey, why: String) -> Result<bool, Error> {
        if self.end_reserved(&key, Outcome::failed(&why)) {
            return Ok(true);
        }
        let sent = if self.spec.works_elsewhere { Sent::Unanswered } else { Sent::Answered };
        let has_ended = had_effect(self.end_from_outside(&key, Outcome::failed(why), sent).await)?;
        if has_ended && self.spec.works_elsewhere {
            self.tell_agent_of_end(&key).await;
        }
        Ok(has_ended)
    }

    /// Has a call end that is no task yet. Whether it was one.
    pub(super) fn end_reserved(&self, key: &TaskKey, outcome: Outcome) -> bool {
        let Some(live) = self.live.find(key) else { return false };
        let mut work = live.work.lock();
        let (true, Some(running)) = (work.is_reserved, work.running.clone()) else { return false };
        work.ending = Some(outcome);
        running.cancel();
        true
    }

    /// Tells the agent that somebody else has ended its task.
    pub(super) async fn tell_agent_of_end(&self, key: &TaskKey) {
        let state = self.store.snapshot(&key.scope, &key.id).await.ok().and_then(|snapshot| snapshot.state);
        self.spec.agent.ended_without_agent(self.handle(key, state));
    }

    fn handle(&self, key: &TaskKey, state: Option<Json>) -> TaskHandle {
        TaskHandle { principal: self.own_context(&key.scope).principal, task: key.id.clone(), state }
    }

    /// Ends a task for its caller.
    async fn end_from_outside(&self, key: &TaskKey, outcome: Outcome, sent: Sent) -> Result<TaskView, Error> {
        let state = outcome.state;
        let context_id = self.snapshot(key).await?.task.value()?.context_id.clone();
        match self.end_task(key, context_id, outcome, sent).await.map_err(from_store)? {
            Ok(task) => Ok(TaskView::whole(task)),
            Err(TaskState::Canceled) if state == TaskState::Canceled => {
                Ok(TaskView::whole(self.snapshot(key).await?.task))
            }
            Err(ended) => {
                let text = "The task has already ended";
                Err(Error::with_message(ErrorCode::TaskNotCancelable, text)
                    .about("taskId", key.id.as_str())
                    .about("state", ended.as_str()))
            }
        }
    }

    /// Ends a task, then stops whoever works on it. The status is committed here and not by the turn, so that a turn which never
    /// yields cannot hold it up. The state that it had ended in, if somebody else was faster.
    pub(super) async fn end_task(
        &self,
        key: &TaskKey,
        context_id: Option<ContextId>,
        outcome: Outcome,
        sent: Sent,
    ) -> Result<Result<KeptTask, TaskState>, StoreError> {
        let Outcome { state, message, forwarded, .. } = outcome;
        let (message, metadata) = match forwarded.map(|event| *event) {
            Some(StreamResponse::StatusUpdate(said)) => {
                (said.status.message.map(|said| *said), said.metadata)
            }
            _ => (message, None),
        };
        let (task_id, context_id) = (key.id.clone(), context_id.unwrap_or_else(|| "".into()));
        let said = message.map(|said| said.in_task(task_id.clone()).in_context(context_id.clone()));
        let status = TaskStatus::at(self.store.clock().millis(), state, said);
        let mut batch = Box::new(Batch::default());
        batch.status(TaskStatusUpdateEvent { task_id, context_id, status, metadata }, None);
        let appended = match self.append(key, batch, None, sent).await {
            Err(StoreError::Transition { from, .. }) => return Ok(Err(from)),
            appended => appended?,
        };
        let Some(live) = self.live.find(key) else { return Ok(Ok(appended.task)) };
        let task = live.publish(appended);
        live.work.lock().running.iter().for_each(CancellationToken::cancel);
        live.refuse_queue();
        Ok(Ok(task))
    }
}

/// Whether there was anything to end.
pub(super) fn had_effect<T>(ended: Result<T, Error>) -> Result<bool, Error> {
    match ended {
        Ok(_) => Ok(true),
        Err(error) if error.code() == ErrorCode::TaskNotCancelable => Ok(false),
        Err(error) => Err(error),
    }
}
