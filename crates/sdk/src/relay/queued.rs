//! Messages that are not let through yet: their tasks are here before the agent has heard of them.
//!
//! Such a task has a name of ours. What the agent calls it once it knows it stands in the task's state, and every word about it is
//! translated ([`Names`]). Whoever waits for it to be let through has its pen, so nobody asks the agent about it before.

use std::sync::Arc;

use chancery_protocol::{
    Admitted, Call, ContextId, Error, ErrorCode, Message, Principal, Queued, Request, Role,
    SendMessageConfiguration, SendMessageRequest, SendMessageResponse, StreamResponse, Task, TaskId,
    TaskState, TaskStatus, TaskStatusUpdateEvent, TaskView, USAGE_EXTENSION, Waiting,
};
use chancery_store::{Batch, Scope, Snapshot, StoreError};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::keep::{Along, goes_on};
use super::line::{Live, Pen};
use super::peers::Peer;
use super::stream::first_of;
use super::told::{Ending, told};
use crate::client::{ClientError, Feed, Names, Options};
use crate::tasks::{Waits, admission, from_store, view};

/// What names of ours begin with: of no others it has to be found out whether the agent has another one.
const OURS: &str = "queued-";

/// A task that waits, and the right to write into it.
struct Waiter {
    live: Arc<Live>,
    pen: Pen,
    ended: CancellationToken,
    call: Call<Box<SendMessageRequest>>,
}

const UNSENT: &str = "The server was restarted while this task was handed to its agent";

impl Core {
    /// Opens the task of a message that is not let through yet.
    pub(super) async fn enqueue(self: Arc<Self>, queued: Box<Queued>) -> Result<TaskView, Error> {
        let Queued { mut call, admitted } = *queued;
        let Call { request, context } = &mut call;
        request.validate(&self.tasks.limits)?;
        let admission = admission(context, request)?;
        let scope = self.scope(context);
        let id = TaskId::from(format!("{OURS}{}", TaskId::generate()));
        let wanted = request.configuration.get_or_insert_with(SendMessageConfiguration::default);
        let history_length = wanted.history_length.take();
        let push = wanted.task_push_notification_config.take();
        let push = push.map(|config| self.tasks.inline_push(config, &id, context.version)).transpose()?;
        let context_id = request.message.context_id.get_or_insert_with(ContextId::generate).clone();
        request.message.task_id = Some(id.clone());
        let mut task = Task::submitted(id.clone(), context_id, request.message.clone());
        task.status.timestamp = Some(self.tasks.store.clock().millis());
        let mut batch = Batch::default();
        batch.create(task);
        (batch.admission, batch.push, batch.state) = (admission, push, Some(Waits::state(&call)?));
        let live = self.tasks.live.enter(&scope, &id);
        let pen = live.pen().await;
        let ended = live.begin_to_wait();
        let appended = match self.tasks.append(&scope, &id, batch).await {
            Ok(appended) => appended,
            Err(StoreError::Duplicate { task }) => {
                return Ok(view(self.tasks.snapshot(&scope, &task).await?.task, history_length));
            }
            Err(error) => return Err(from_store(error)),
        };
        let task = self.show(&live, appended);
        self.have_wait(Waiter { live, pen, ended, call }, admitted);
        Ok(view(task, history_length))
    }

    fn have_wait(self: &Arc<Self>, waiter: Waiter, admitted: Admitted) {
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(self.clone().wait(waiter, admitted)));
    }

    /// Waits until the message is let through, then hands it to the agent.
    async fn wait(self: Arc<Self>, waiter: Waiter, admitted: Admitted) {
        let (live, ended) = (waiter.live.clone(), waiter.ended.clone());
        let handed = match ended.run_until_cancelled(admitted).await {
            None => Ok(()),
            Some(Ok(context)) => {
                let call = Call { context, ..waiter.call };
                self.hand_over(Waiter { call, ..waiter }).await
            }
            Some(Err(error)) => {
                self.end_as(&live, TaskState::Rejected, error.message()).await;
                Ok(())
            }
        };
        if let Err(error) = handed {
            self.end_as(&live, TaskState::Failed, error.message()).await;
        }
        live.end_waiting();
    }

    /// Hands the message of a task to the agent, and follows what comes of it.
    async fn hand_over(self: &Arc<Self>, waiter: Waiter) -> Result<(), Error> {
        let Waiter { live, pen, ended, call: Call { mut request, context } } = waiter;
        let (scope, id) = (live.scope(), live.task_id());
        let peer = self.peers.chosen(&context)?;
        // From now on it is known to be on its way, with what it holds.
        let mut batch = Batch::default();
        batch.state = peer.state_of(None);
        let hold = context.hold.clone();
        self.tasks.append_held(scope, id, batch, hold).await.map_err(from_store)?;
        live.belongs_to(&peer);
        let context_id = request.message.context_id.clone();
        self.peers.began(scope, id, context_id.as_ref(), &peer);
        request.message.task_id = None;
        self.forget_foreign_tasks(scope, &mut request.message, &peer).await;
        let chosen = context.peer.clone();
        let mut options = self.options_for(context);
        peer.tell_only_who_chose_it(chosen.as_deref(), &mut options);
        let (mut first, events) = self.first_there(&peer, request, &options).await?;
        let Some(there) = id_in(&first) else {
            let StreamResponse::Message(message) = first else { return Err(Ending::BrokeProtocol.error()) };
            self.answered(&live, message).await;
            return Ok(());
        };
        let names = Names { here: id.clone(), there: there.clone(), context: context_id };
        names.response(&mut first);
        live.is_named(names.clone());
        let mut batch = Batch::default();
        batch.state = peer.state_of(Some(there.clone()));
        self.tasks.append_promised(scope, id, batch).await.map_err(from_store)?;
        live.end_waiting();
        let state = self.take_up(&live, &pen, first).await?;
        if ended.is_cancelled() {
            // Somebody has ended it here before the agent could be told.
            self.call_off(&peer.client, there, &options);
            return Ok(());
        }
        match events {
            Some(events) if !state.is_terminal() => {
                let events = events.in_names(names);
                self.follow_on((live.clone(), pen), state, events, options);
            }
            _ if goes_on(state) => self.follow((live.clone(), pen), state, options),
            _ => {}
        }
        Ok(())
    }

    /// What the agent says first, and the stream that it says it on, if it can stream.
    async fn first_there(
        &self,
        peer: &Peer,
        mut request: Box<SendMessageRequest>,
        options: &Options,
    ) -> Result<(StreamResponse, Option<Feed>), Error> {
        if self.can_stream(&peer.client).await.map_err(told)? {
            let request = Request::SendStreamingMessage(request);
            let mut events = peer.client.feed(request, options.clone()).await.map_err(told)?;
            let (first, _) = first_of(&mut events).await?;
            return Ok((first, Some(events)));
        }
        request.configuration.get_or_insert_default().return_immediately = true;
        let answer = peer.client.ask(Request::SendMessage(request), options.clone()).await.map_err(told)?;
        Ok(match answer {
            SendMessageResponse::Task(task) => (StreamResponse::Task(task), None),
            SendMessageResponse::Message(message) => (StreamResponse::Message(message), None),
        })
    }

    /// Writes what the agent said first.
    async fn take_up(&self, live: &Live, pen: &Pen, first: StreamResponse) -> Result<TaskState, Error> {
        let mut batch = Batch::default();
        match first {
            StreamResponse::Task(task) => {
                return Ok(self.merge(live, pen, task, Along::default()).await?.task.state());
            }
            StreamResponse::StatusUpdate(mut update) => {
                self.date(&mut update.status);
                batch.status(update, None);
            }
            StreamResponse::ArtifactUpdate(update) => batch.artifact(update),
            StreamResponse::Message(_) => {}
        }
        Ok(self.commit(live, batch.into()).await?.state())
    }

    /// The agent has answered without a task of its own: then this is all that there is to the one here.
    async fn answered(&self, live: &Live, message: Message) {
        let (task_id, context_id) = (live.task_id().clone(), self.context_here(live).await);
        let message = message.in_task(task_id).in_context(context_id);
        self.end_with(live, TaskState::Completed, message).await;
    }

    /// Ends a task that its agent has not heard of, or does not know any more.
    async fn end_as(&self, live: &Live, state: TaskState, why: &str) {
        let (task_id, context_id) = (live.task_id().clone(), self.context_here(live).await);
        self.end_with(live, state, Message::agent(why).in_task(task_id).in_context(context_id)).await;
    }

    async fn end_with(&self, live: &Live, state: TaskState, said: Message) {
        let (task_id, context_id) = (live.task_id().clone(), self.context_here(live).await);
        let status = TaskStatus::at(self.tasks.store.clock().millis(), state, Some(said));
        let mut batch = Batch::default();
        batch.status(TaskStatusUpdateEvent { task_id, context_id, status, metadata: None }, None);
        match self.tasks.append_promised(live.scope(), live.task_id(), batch).await {
            Ok(appended) => drop(self.show(live, appended)),
            // Somebody else has ended it.
            Err(StoreError::Transition { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => tracing::error!(task.id = %live.task_id(), %error, "a task that waits is lost"),
        }
    }

    async fn context_here(&self, live: &Live) -> ContextId {
        let known = self.tasks.snapshot(live.scope(), live.task_id()).await;
        let known = known.ok().and_then(|known| known.task.value().ok()?.context_id.clone());
        known.unwrap_or_else(|| ContextId::from(""))
    }

    /// Cancels a task that its agent has not heard of. None if it has.
    pub(super) async fn cancel_waiting(&self, live: &Live) -> Result<Option<TaskView>, Error> {
        let Some(ended) = live.waits() else { return Ok(None) };
        let (task_id, context_id) = (live.task_id().clone(), self.context_here(live).await);
        let status = TaskStatus::at(self.tasks.store.clock().millis(), TaskState::Canceled, None);
        let mut batch = Batch::default();
        batch.status(TaskStatusUpdateEvent { task_id, context_id, status, metadata: None }, None);
        let task = self.commit(live, batch.into()).await?;
        ended.cancel();
        Ok(Some(TaskView::whole(task)))
    }

    /// A task that waited for an authorization goes on without a message of its caller. What it held was settled when it began to
    /// wait, so it has to be let through anew; if it is not, it ends.
    pub(super) async fn reserve_anew(&self, live: &Live) -> Result<(), Error> {
        let (scope, id) = (live.scope(), live.task_id());
        if self.tasks.holds.of(scope, id).is_some() {
            return Ok(());
        }
        let task = self.tasks.snapshot(scope, id).await?.task.value()?;
        let said = task.history.iter().rev().find(|said| said.role == Role::User);
        let Some(message) = said.cloned() else { return Ok(()) };
        let principal = Principal { realm: scope.realm.clone(), id: scope.owner.clone() };
        let message = message.in_task(id.clone());
        // That it goes on is all that is known of it.
        let call = Waiting::default().call(principal, self.tasks.agent().into(), message);
        let Some(admitted) = self.tasks.readmit(call) else { return Ok(()) };
        match admitted.await {
            Ok(context) => {
                let consumed = task.metadata.as_ref().and_then(|said| said.entry(USAGE_EXTENSION).ok()?);
                if let (Some(hold), Some(consumed)) = (&context.hold, consumed) {
                    hold.resume(consumed);
                }
                let recorded = self.tasks.append_held(scope, id, Batch::default(), context.hold).await;
                recorded.map(drop).map_err(from_store)
            }
            Err(error) => {
                Box::pin(self.stop_task(scope, id, error.message())).await?;
                Err(error)
            }
        }
    }

    /// What the agent calls a task, if that is not what it is called here.
    pub(super) async fn names_of(&self, live: &Live) -> Result<Option<Names>, ClientError> {
        if !live.task_id().as_str().starts_with(OURS) {
            return Ok(None);
        }
        if let Some(names) = live.names() {
            return Ok(Some(names));
        }
        let known = self.tasks.store.snapshot(live.scope(), live.task_id()).await.map_err(from_store)?;
        let names = names_in(live.task_id(), &known);
        names.iter().for_each(|names| live.is_named(names.clone()));
        Ok(names)
    }

    /// Goes on with a task of a name of ours that an earlier process had waiting. Whether there is nothing else to be done.
    pub(super) async fn wait_again(self: &Arc<Self>, scope: &Scope, id: &TaskId) -> Result<bool, Error> {
        if !id.as_str().starts_with(OURS) {
            return Ok(false);
        }
        let known = self.tasks.snapshot(scope, id).await?;
        if names_in(id, &known).is_some() {
            return Ok(false);
        }
        let live = self.tasks.live.enter(scope, id);
        live.catch_up(known.number, false);
        let message = known.task.value()?.history.iter().rev().find(|said| said.role == Role::User).cloned();
        let (Some(waits), Some(message)) = (Waits::of(&known), message) else {
            self.end_as(&live, TaskState::Failed, UNSENT).await;
            return Ok(true);
        };
        let principal = Principal { realm: scope.realm.clone(), id: scope.owner.clone() };
        let call = waits.call(principal, self.tasks.agent().into(), message);
        match self.tasks.readmit(call.clone()) {
            Some(admitted) => {
                let (pen, ended) = (live.pen().await, live.begin_to_wait());
                self.have_wait(Waiter { live, pen, ended, call }, admitted);
            }
            None => self.end_as(&live, TaskState::Failed, UNSENT).await,
        }
        Ok(true)
    }
}

/// Whether a task waits to be let through, or is on its way: then there is nobody yet who could hear more about it.
pub(super) fn check_heard_of(id: &TaskId, known: &Snapshot) -> Result<(), Error> {
    if !id.as_str().starts_with(OURS) || names_in(id, known).is_some() || known.task.is_over() {
        return Ok(());
    }
    let text = "The task waits to be let through and takes no further message now";
    Err(Error::with_message(ErrorCode::UnsupportedOperation, text).about("taskId", id.as_str()))
}

/// The names that a task's state holds.
pub(super) fn names_in(id: &TaskId, known: &Snapshot) -> Option<Names> {
    let there = super::peers::name_there(known)?;
    let context = known.task.value().ok()?.context_id.clone();
    Some(Names { here: id.clone(), there, context })
}

/// The task that an answer is about.
fn id_in(first: &StreamResponse) -> Option<TaskId> {
    match first {
        StreamResponse::Task(task) => Some(task.id.clone()),
        StreamResponse::StatusUpdate(update) => Some(update.task_id.clone()),
        StreamResponse::ArtifactUpdate(update) => Some(update.task_id.clone()),
        StreamResponse::Message(_) => None,
    }
}
