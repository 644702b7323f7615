//! After a restart: what an earlier process left is ended, and says so, or goes on.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{ContextId, Error, Message, Task, TaskState};
use chancery_store::{ReservedCall, StoreError, Unfinished};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Core;
use super::failure::from_store;
use super::handle::consumed_by;
use super::refresh::last_said;
use super::reserve::Reservation;
use super::sink::Sink;
use crate::agent::{Outcome, Sent};
use crate::turn::Purpose;

/// How many tasks are looked at in one step, and ended at a time: one group commit takes them all.
const STEP: usize = 256;

/// How long an agent may take to answer for a task that waits, before the next one is asked about.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

const WHY: &str = "The server was restarted while it worked on this task";

impl Core {
    /// Ends the tasks and calls that nobody works on although they say that somebody does, or has their turns run again.
    /// Gives the number of those that have ended.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<usize, Error> {
        let mut ended = self.recover_reserved().await?;
        let mut last: Option<Unfinished> = None;
        loop {
            let found = self.store.unfinished(&self.spec.name, last.as_ref(), STEP).await;
            let found = found.map_err(from_store)?;
            let Some(newest) = found.last().cloned() else { break };
            // Collected, so that whoever waits for this may do so on any thread.
            let is_orphan = |task: &&Unfinished| self.live.find(&task.scope, &task.task).is_none();
            let orphans = found.iter().filter(is_orphan);
            let ending: Vec<_> = orphans.map(|orphan| self.look_after(orphan)).collect();
            let outcomes: Vec<bool> =
                stream::iter(ending).buffer_unordered(STEP).try_collect().await.map_err(from_store)?;
            ended += outcomes.into_iter().filter(|ended| *ended).count();
            last = Some(newest);
        }
        if self.spec.refreshes {
            self.resume_waiting().await?;
            let refreshing = self.clone().refresh_waiting();
            tokio::spawn(self.abandoned.clone().run_until_cancelled_owned(refreshing));
        }
        Ok(ended)
    }

    /// Goes on with the calls whose agent had shown nothing, or ends them: they become tasks that have failed.
    async fn recover_reserved(self: &Arc<Self>) -> Result<usize, Error> {
        let (mut ended, mut last) = (0, None);
        loop {
            let found = self.store.reserved(&self.spec.name, last.as_ref(), STEP).await;
            let found = found.map_err(from_store)?;
            let Some(newest) = found.last().cloned() else { return Ok(ended) };
            for reserved in &found {
                if self.live.find(&reserved.scope, &reserved.task).is_none() {
                    ended += usize::from(self.recover_call(reserved).await?);
                }
            }
            last = Some(newest);
        }
    }

    /// Whether it has ended.
    async fn recover_call(self: &Arc<Self>, reserved: &ReservedCall) -> Result<bool, Error> {
        let ReservedCall { scope, task, .. } = reserved;
        let call = Reservation::read(reserved)?;
        let context = call.context(self, reserved);
        let message = call.message.clone();
        let context_id = message.context_id.clone().unwrap_or_else(|| ContextId::opened_by(task));
        let submitted = Task::submitted(task.clone(), context_id, message.clone());
        let sink = Sink::unopened(self, submitted);
        if let Some((config, version)) = call.push()
            && let Ok(registration) = self.inline_push(config, task, version)
        {
            sink.set_push(registration);
        }
        let mut facts = self.facts(scope, &sink, context);
        (facts.configuration, facts.metadata) = (call.configuration.clone(), call.metadata.clone());
        (facts.state, facts.purpose) = (call.state.clone(), Purpose::Resume);
        let mut drive = self.clone().prepare(scope.clone(), sink, message, facts, None);
        (drive.is_reserved, drive.hold) = (true, None);
        drive.reservation = Some(Box::new(call));
        if self.spec.works_elsewhere {
            tokio::spawn(drive.run());
            return Ok(false);
        }
        drive.end_as(Outcome::failed(WHY).unknown()).await?;
        Ok(true)
    }

    /// Has a task wait on that was not let through yet, runs its turn again, if that may be, or ends it. Whether it has
    /// ended.
    async fn look_after(self: &Arc<Self>, orphan: &Unfinished) -> Result<bool, StoreError> {
        if self.wait_again(orphan).await? || self.spec.works_elsewhere && self.resume_turn(orphan).await? {
            return Ok(false);
        }
        let Unfinished { scope, task, context_id, .. } = orphan;
        self.end_without_turn(scope, task, context_id.clone(), (TaskState::Failed, WHY), Sent::Unanswered)
            .await
    }

    /// Runs the turn of a task again, with what was said last. Whether there was anything to run.
    async fn resume_turn(self: &Arc<Self>, orphan: &Unfinished) -> Result<bool, StoreError> {
        let (scope, id) = (&orphan.scope, &orphan.task);
        let snapshot = self.store.snapshot(scope, id).await?;
        let Ok(task) = snapshot.task.value() else { return Ok(false) };
        let message = last_said(&task.history).unwrap_or_else(|| Message::user("").in_task(id.clone()));
        let (live, Some(sink)) = self.claim(scope, id, &task) else { return Ok(true) };
        live.catch_up(snapshot.number, false);
        let mut context = self.own_context(scope);
        context.hold = self.holds.of(scope, id);
        if let Some(consumed) = consumed_by(&task) {
            sink.resume_usage(consumed);
        }
        let mut facts = self.facts(scope, &sink, context);
        (facts.task, facts.state, facts.purpose) = (Some(task), snapshot.state, Purpose::Resume);
        tokio::spawn(self.clone().prepare(scope.clone(), sink, message, facts, Some(live)).run());
        Ok(true)
    }

    /// Follows the tasks that wait for an authorization, which the agent gets without anybody's help here.
    async fn resume_waiting(self: &Arc<Self>) -> Result<(), Error> {
        let mut last: Option<Unfinished> = None;
        loop {
            let (store, agent) = (&self.store, &self.spec.name);
            let found = store.waiting(agent, TaskState::AuthRequired, last.as_ref(), STEP).await;
            let found = found.map_err(from_store)?;
            let Some(newest) = found.last().cloned() else { return Ok(()) };
            for orphan in &found {
                self.resume_turn(orphan).await.map_err(from_store)?;
            }
            last = Some(newest);
        }
    }

    /// Asks once about every task that waits for an answer, which may have been on its way when the last process ended.
    async fn refresh_waiting(self: Arc<Self>) {
        let mut last: Option<Unfinished> = None;
        loop {
            let (store, agent) = (&self.store, &self.spec.name);
            let found = match store.waiting(agent, TaskState::InputRequired, last.as_ref(), STEP).await {
                Ok(found) => found,
                Err(error) => return tracing::error!(%error, "tasks that wait for an answer cannot be found"),
            };
            let Some(newest) = found.last().cloned() else { return };
            for Unfinished { scope, task, .. } in &found {
                let Ok(snapshot) = self.store.snapshot(scope, task).await else { continue };
                if let Some(refreshed) = self.clone().start_refresh(scope, snapshot).await {
                    let _ = tokio::time::timeout(LONGEST_LOOK, refreshed.cancelled()).await;
                }
            }
            last = Some(newest);
        }
    }
}
