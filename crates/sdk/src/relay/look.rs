//! Looking at the tasks of an agent elsewhere, and stopping them.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Call, CancelTaskRequest, Error, ErrorCode, EventStream, GetTaskRequest, KeptTask, Message, Request,
    SubscribeToTaskRequest, Task, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, TaskView,
};
use chancery_store::{Batch, Scope};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::keep::Along;
use super::line::Live;
use super::told::{Ending, told};
use crate::client::{ClientError, Options};
use crate::tasks::{Unstoppable, from_store, view};

/// How long a cancel waits for somebody who writes into its task. Then it writes no more than that it is canceled.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl Core {
    /// What the journal has, if all that happens comes there by itself; the agent is asked if not.
    pub(super) async fn get(self: &Arc<Self>, call: Call<GetTaskRequest>) -> Result<TaskView, Error> {
        call.request.validate()?;
        let scope = self.scope(&call.context);
        let id = &self.known_as(&scope, &call).await?;
        let history_length = call.request.history_length;
        let known = self.tasks.snapshot(&scope, id).await?.task;
        let live = self.tasks.live.find(&scope, id);
        if known.is_over() || live.is_some_and(|live| live.work.lock().is_followed()) {
            return Ok(view(known, history_length));
        }
        drop(known);
        let (core, id, options) = (self.clone(), id.clone(), self.options_for(call.context));
        let looked = Unstoppable::new(|| async move { core.catch_up(&scope, &id, options).await }).await?;
        Ok(view(looked, history_length))
    }

    /// The id of the task that is looked at. Tasks have the ids here that their agents give them, also those that callers
    /// have named; these are found by the key that they were begun with.
    async fn known_as(&self, scope: &Scope, call: &Call<GetTaskRequest>) -> Result<TaskId, Error> {
        let (asked, context) = (&call.request.id, &call.context);
        let found = match &context.idempotency_key {
            Some(key) if context.new_task.as_ref() == Some(asked) => {
                self.tasks.store.task_of_key(scope, key).await.map_err(from_store)?
            }
            _ => None,
        };
        Ok(found.unwrap_or_else(|| asked.clone()))
    }

    /// Asks the agent how a task stands, and writes what is new. If somebody else is asking, their answer does; if
    /// somebody else writes, what they have written.
    pub(super) async fn catch_up(
        self: &Arc<Self>,
        scope: &Scope,
        id: &TaskId,
        options: Options,
    ) -> Result<KeptTask, Error> {
        let live = self.tasks.live.enter(scope, id);
        let Some((pen, looking)) = live.pen_to_look() else {
            live.looked().await;
            return Ok(self.tasks.snapshot(scope, id).await?.task);
        };
        let request = GetTaskRequest { tenant: String::new(), id: id.clone(), history_length: None };
        let asked = self.ask_about(&live, Request::GetTask(request), options.clone()).await;
        let kept = match asked {
            Ok(task) => self.merge(&live, &pen, task, Along::default()).await.map(|merged| merged.task),
            Err(failed) => Err(self.given_up(&live, failed).await),
        };
        drop(looking);
        self.leave(live, pen, options).await;
        kept
    }

    /// A call about a task that failed. What says that the task is lost ends it.
    pub(super) async fn given_up(&self, live: &Live, failed: ClientError) -> Error {
        match Ending::of(&failed) {
            Some(ending @ (Ending::Forgotten | Ending::BrokeProtocol)) => {
                self.end(live, ending, &failed.to_string()).await
            }
            _ => told(failed),
        }
    }

    /// Follows what is watched here.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        call: Call<SubscribeToTaskRequest>,
    ) -> Result<EventStream, Error> {
        let (live, snapshot, events) = self.tasks.subscribe(&call).await?;
        let state = snapshot.task.state();
        drop(snapshot);
        if !state.is_terminal() {
            self.see_to(live, state, self.options_for(call.context));
        }
        Ok(events)
    }

    /// Has a task followed that nobody follows. Whoever has the pen sees to that by themselves.
    pub(super) fn see_to(self: &Arc<Self>, live: Arc<Live>, state: TaskState, options: Options) {
        if let Some(pen) = live.free_pen() {
            self.follow((live, pen), state, options);
        }
    }

    /// Has the agent stop a task, and writes that it did.
    pub(super) async fn cancel(self: Arc<Self>, call: Call<CancelTaskRequest>) -> Result<TaskView, Error> {
        let (scope, id) = (self.scope(&call.context), call.request.id.clone());
        let known = self.tasks.snapshot(&scope, &id).await?.task;
        match known.state() {
            TaskState::Canceled => return Ok(TaskView::whole(known)),
            state if state.is_terminal() => return Err(not_cancelable(&id, state)),
            _ => drop(known),
        }
        let options = self.options_for(call.context);
        let live = self.tasks.live.enter(&scope, &id);
        if let Some(canceled) = Box::pin(self.cancel_waiting(&live)).await? {
            return Ok(canceled);
        }
        let asked = self.ask_about(&live, Request::CancelTask(call.request), options.clone()).await;
        let task = match asked {
            Ok(task) => self.canceled(live, task, options).await?,
            Err(failed) if failed.code() == Some(ErrorCode::TaskNotCancelable) => {
                // It has ended there. If nobody follows it, this is how that is heard of here.
                let state = self.catch_up(&scope, &id, options).await?.state();
                return Err(told(failed).about("state", state.as_str()));
            }
            Err(failed) => return Err(self.given_up(&live, failed).await),
        };
        Ok(TaskView::whole(task))
    }

    /// Ends a task here, whatever its agent does about it.
    pub(super) async fn stop_task(&self, scope: &Scope, id: &TaskId, why: &str) -> Result<bool, Error> {
        let known = self.tasks.snapshot(scope, id).await?.task;
        if known.is_over() {
            return Ok(false);
        }
        let context_id = known.value()?.context_id.clone().unwrap_or_else(|| "".into());
        drop(known);
        let live = self.tasks.live.enter(scope, id);
        let waits = live.waits();
        if waits.is_none() {
            self.call_off_there(&live).await;
        }
        let said = Message::agent(why).in_task(id.clone()).in_context(context_id.clone());
        let status = TaskStatus::at(self.tasks.store.clock().millis(), TaskState::Failed, Some(said));
        let mut batch = Batch::default();
        batch.status(TaskStatusUpdateEvent { task_id: id.clone(), context_id, status, metadata: None }, None);
        let ended = self.commit(&live, batch.into()).await?;
        live.stop_following();
        waits.iter().for_each(CancellationToken::cancel);
        Ok(ended.state() == TaskState::Failed)
    }

    /// Writes what the agent answered to a cancel.
    async fn canceled(
        self: &Arc<Self>,
        live: Arc<Live>,
        task: Task,
        options: Options,
    ) -> Result<KeptTask, Error> {
        let is_followed = live.work.lock().is_followed();
        if is_followed && !task.status.state.is_terminal() {
            // It will be, and the follower hears of it.
            return Ok(self.tasks.snapshot(live.scope(), live.task_id()).await?.task);
        }
        let Ok(pen) = tokio::time::timeout(LONGEST_WAIT, live.pen()).await else {
            return self.only_status(&live, task).await;
        };
        let merged = self.merge(&live, &pen, task, Along::default()).await;
        self.leave(live, pen, options).await;
        Ok(merged?.task)
    }

    /// Writes a status although somebody else writes, too. It is the same whoever writes it, unlike a piece of an
    /// artifact, and nothing follows it.
    async fn only_status(&self, live: &Live, task: Task) -> Result<KeptTask, Error> {
        if !task.status.state.is_terminal() || task.id != *live.task_id() {
            return Ok(self.tasks.snapshot(live.scope(), live.task_id()).await?.task);
        }
        let update = TaskStatusUpdateEvent {
            task_id: task.id,
            context_id: task.context_id.unwrap_or_else(|| "".into()),
            status: task.status,
            metadata: task.metadata,
        };
        let mut batch = Batch::default();
        batch.status(update, None);
        self.commit(live, batch.into()).await
    }
}

fn not_cancelable(id: &TaskId, state: TaskState) -> Error {
    Error::with_message(ErrorCode::TaskNotCancelable, "The task has already ended")
        .about("taskId", id.as_str())
        .about("state", state.as_str())
}
