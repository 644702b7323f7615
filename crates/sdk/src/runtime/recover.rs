//! Turns that nobody has sent a message for: after a restart, after an authentication, and to look whether an agent has gone
//! on by itself. What an earlier process left and nobody can go on with is ended, and says so.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    CallContext, Error, ErrorCode, Hold, KeptTask, Message, Role, Task, TaskState, Waiting,
};
use chancery_store::{ReservedCall, Scope, Snapshot, StoreError, Unfinished};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};

use super::Core;
use super::drive::Drive;
use super::failure::from_store;
use super::live::{Live, TaskKey};
use super::queued::Waits;
use super::reserve::Reservation;
use super::sink::Sink;
use super::start::{Found, Incoming, resume_account};
use crate::agent::{Outcome, Sent};
use crate::turn::{CallerWaits, Purpose};

/// How many tasks are looked at in one step, and ended at a time: one group commit takes them all.
const STEP: usize = 256;

/// How long whoever looks at a task waits for the agent; and how long an agent may take to answer for a task that waits,
/// before the next one is asked about.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
const LONGEST_REFRESH: Duration = Duration::from_secs(30);

const WHY: &str = "The server was restarted while it worked on this task";

impl Core {
    /// Ends the tasks and calls that nobody works on although they say that somebody does, or has their turns run again.
    /// Gives the number of those that have ended.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<usize, Error> {
        let mut ended = 0;
        let mut reserved = pin!(pages(|last: Option<ReservedCall>| {
            let core = self.clone();
            async move { core.store.reserved(&core.spec.name, last.as_ref(), STEP).await }
        }));
        while let Some(call) = reserved.try_next().await.map_err(from_store)? {
            ended += usize::from(self.recover_call(&call).await?);
        }
        let unfinished = pages(|last: Option<Unfinished>| {
            let core = self.clone();
            async move { core.store.unfinished(&core.spec.name, last.as_ref(), STEP).await }
        });
        let looked_after = unfinished.map_ok(|orphan| self.clone().look_after(orphan));
        let mut outcomes = pin!(looked_after.try_buffer_unordered(STEP));
        while let Some(has_ended) = outcomes.try_next().await.map_err(from_store)? {
            ended += usize::from(has_ended);
        }
        if self.spec.refreshes {
            // An authorization the agent gets without anybody's help here.
            let mut waiting = pin!(self.waiting(TaskState::AuthRequired));
            while let Some(orphan) = waiting.try_next().await.map_err(from_store)? {
                self.resume_turn(&TaskKey::of(orphan)).await.map_err(from_store)?;
            }
            let refreshing = self.clone().refresh_waiting();
            tokio::spawn(self.abandoned.clone().run_until_cancelled_owned(refreshing));
        }
        Ok(ended)
    }

    /// The tasks that wait for their clients in this state.
    fn waiting(
        self: &Arc<Self>,
        state: TaskState,
    ) -> impl Stream<Item = Result<Unfinished, StoreError>> + Send {
        pages(move |last: Option<Unfinished>| {
            let core = self.clone();
            async move { core.store.waiting(&core.spec.name, state, last.as_ref(), STEP).await }
        })
    }

    /// Goes on with a call whose agent had shown nothing, or ends it: it becomes a task that has failed. Whether it has ended.
    async fn recover_call(self: &Arc<Self>, reserved: &ReservedCall) -> Result<bool, Error> {
        let key = TaskKey { scope: reserved.scope.clone(), id: reserved.task.clone() };
        if self.live.find(&key).is_some() {
            return Ok(false);
        }
        let call = Box::new(Reservation::read(reserved)?);
        let sink = Sink::unopened(self, &key.scope, call.submitted(&key.id));
        if let Some((config, version)) = call.push()
            && let Ok(registration) = self.inline_push(config, &key.id, version)
        {
            sink.set_push(registration);
        }
        let mut context = self.own_context(&key.scope);
        context.hold = self.holds.of(&key);
        let found = Found { state: call.state.clone(), purpose: Purpose::Resume, ..Found::default() };
        let live = self.live.enter(&key);
        live.claim(&sink);
        live.work.lock().is_reserved = true;
        let mut drive = Drive::new(sink, live, call.incoming(context), found);
        drive.reservation = Some(call);
        if self.spec.works_elsewhere {
            tokio::spawn(drive.run());
            return Ok(false);
        }
        drive.ended(Outcome::failed(WHY).unknown()).await?;
        Ok(true)
    }

    /// Has a task wait on that was not let through yet, runs its turn again, if that may be, or ends it. Whether it has
    /// ended.
    async fn look_after(self: Arc<Self>, orphan: Unfinished) -> Result<bool, StoreError> {
        let context_id = orphan.context_id.clone();
        let key = TaskKey::of(orphan);
        if self.live.find(&key).is_some()
            || self.wait_again(&key).await?
            || self.spec.works_elsewhere && self.resume_turn(&key).await?
        {
            return Ok(false);
        }
        let end = || self.end_task(&key, context_id.clone(), Outcome::failed(WHY), Sent::Unanswered);
        match self.insist(&key.id, end).await {
            Err(StoreError::NotFound { .. }) => Ok(false),
            ended => Ok(ended?.is_ok()),
        }
    }

    /// Runs the turn of a task again. Whether there was anything to run.
    async fn resume_turn(self: &Arc<Self>, key: &TaskKey) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot(&key.scope, &key.id).await?;
        Ok(self.run_again(key, snapshot, Purpose::Resume).is_ok())
    }

    /// Asks once about every task that waits for an answer, which may have been on its way when the last process ended.
    async fn refresh_waiting(self: Arc<Self>) {
        let mut waiting = pin!(self.waiting(TaskState::InputRequired));
        while let Some(orphan) = waiting.next().await {
            let orphan = match orphan {
                Ok(orphan) => orphan,
                Err(error) => return tracing::error!(%error, "tasks that wait for an answer cannot be found"),
            };
            let key = TaskKey::of(orphan);
            let Ok(snapshot) = self.snapshot(&key).await else { continue };
            if let Some(live) = self.refresh(&key, snapshot) {
                let _ = tokio::time::timeout(LONGEST_REFRESH, live.refreshed()).await;
            }
        }
    }

    /// The task, as its agent has it if it waits for its client and the agent can be asked.
    pub(super) async fn look_at(self: &Arc<Self>, key: &TaskKey) -> Result<KeptTask, Error> {
        let snapshot = self.snapshot(key).await?;
        let known = snapshot.task.clone();
        if !known.state().is_interrupted() {
            return Ok(known);
        }
        let Some(live) = self.refresh(key, snapshot) else { return Ok(known) };
        let _ = tokio::time::timeout(LONGEST_LOOK, live.refreshed()).await;
        Ok(self.snapshot(key).await?.task)
    }

    /// Has the agent asked about a task that waits, if it can be, and unless somebody works on the task.
    pub(super) fn refresh(self: &Arc<Self>, key: &TaskKey, snapshot: Snapshot) -> Option<Arc<Live>> {
        if !self.spec.refreshes || snapshot.state.as_ref().is_some_and(Waits::is) {
            return None;
        }
        self.run_again(key, snapshot, Purpose::Refresh).ok()
    }

    /// Runs a turn of a task for what was said last, unless one runs already.
    fn run_again(
        self: &Arc<Self>,
        key: &TaskKey,
        snapshot: Snapshot,
        purpose: Purpose,
    ) -> Result<Arc<Live>, Error> {
        let task = snapshot.task.value()?;
        let (live, sink) = self.claim(key, &task);
        let Some(sink) = sink else { return Ok(live) };
        live.work.lock().is_refreshing = purpose == Purpose::Refresh;
        live.catch_up(snapshot.number, false);
        let mut context = self.own_context(&key.scope);
        context.hold = self.holds.of(key);
        let said = last_said(&task).unwrap_or_else(|| Message::user("").in_task(task.id.clone()));
        let incoming = Incoming::again(said, context, CallerWaits::ForOutcome);
        let found = Found { task: Some(task), state: snapshot.state, purpose, ..Found::default() };
        tokio::spawn(Drive::new(sink, live.clone(), incoming, found).run());
        Ok(live)
    }

    /// Goes on with a task that waits for authentication.
    pub(super) async fn resume(self: Arc<Self>, key: TaskKey) -> Result<(), Error> {
        let task = self.snapshot(&key).await?.task.value()?;
        let (TaskState::AuthRequired, Some(message)) = (task.status.state, last_said(&task)) else {
            let text = "The task does not wait for authentication";
            return Err(
                Error::with_message(ErrorCode::UnsupportedOperation, text).about("taskId", key.id.as_str())
            );
        };
        // It reserves anew what parking has settled.
        let context = self.admit_again(&key.scope, message.clone(), None).await?;
        let incoming = Incoming::again(message, context, CallerWaits::No);
        if let (live, Some(sink)) = self.claim(&key, &task) {
            tokio::spawn(self.begin(live, sink, incoming).await?.run());
        }
        Ok(())
    }

    /// Has a call admitted anew whose task waited for its client, and goes on without a message, in the place of the settled
    /// one if that is known. Without gates nothing has to be.
    pub(super) async fn admit_again(
        &self,
        scope: &Scope,
        said: Message,
        settled: Option<&dyn Hold>,
    ) -> Result<Box<CallContext>, Error> {
        let context = self.own_context(scope);
        let mut call = Waiting::default().call(context.principal.clone(), scope.agent.clone(), said);
        call.context.continues = settled.map(Hold::hop);
        match self.readmit(call) {
            Some(admitted) => admitted.await,
            None => Ok(context),
        }
    }
}

impl Sink {
    /// The task as the journal has it.
    pub(crate) async fn task(&self) -> Result<Arc<Task>, Error> {
        self.core.snapshot(&self.key).await?.task.value()
    }

    /// Has the call of a task admitted anew that waited for its client and goes on, and gives what it holds. Without gates
    /// nothing has to be.
    pub(crate) async fn readmit(&self) -> Result<Option<Arc<dyn Hold>>, Error> {
        let (core, key) = (&self.core, &self.key);
        if let Some(held) = core.holds.of(key) {
            return Ok(Some(held));
        }
        let task = self.task().await?;
        let Some(said) = last_said(&task) else { return Ok(None) };
        let settled = self.parked_hold();
        let admitted = core.admit_again(&key.scope, said, settled.as_deref()).await?;
        let Some(hold) = admitted.hold else { return Ok(None) };
        resume_account(&*hold, &task);
        let recorded = core.append(key, Box::default(), Some(hold.clone()), Sent::Answered).await;
        recorded.map(|_| Some(hold)).map_err(from_store)
    }
}

/// All that the store finds, page by page.
fn pages<T: Clone, F>(find: impl Fn(Option<T>) -> F) -> impl Stream<Item = Result<T, StoreError>>
where
    F: Future<Output = Result<Vec<T>, StoreError>>,
{
    let pages = stream::try_unfold(None, move |last| {
        let finding = find(last);
        async move {
            let found = finding.await?;
            let newest = found.last().cloned();
            Ok::<_, StoreError>(newest.map(|newest| (stream::iter(found.into_iter().map(Ok)), Some(newest))))
        }
    });
    pages.try_flatten()
}

impl TaskKey {
    fn of(task: Unfinished) -> Self {
        Self { scope: task.scope, id: task.task }
    }
}

/// What the client said last.
pub(super) fn last_said(task: &Task) -> Option<Message> {
    task.history.iter().rev().find(|said| said.role == Role::User).cloned()
}
