//! Running one turn from its first poll to its last event.
//!
//! The driver polls the agent, commits what it emitted, and stops it on cancel or deadline. Whatever happens
//! to the agent, the task is left in a state that says so.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use chancery_protocol::{
    Error, ErrorCode, Hold, JsonObject, KeptTask, Message, Task, TaskState, USAGE_EXTENSION,
};
use chancery_store::{Admission, Appended, Batch, ReservationChange, StoreError};
use tokio::sync::oneshot;

use super::Core;
use super::failure::{conclude_failure, from_store};
use super::holds::outcome;
use super::live::Live;
use super::queue::run_next;
use super::reserve::{Reservation, answered};
use super::sink::{Sink, is_full};
use super::start::Answer;
use super::subscription::TurnEnd;
use crate::agent::{AgentFuture, Failure, Outcome, Sent};
use crate::turn::CallerWaits;

/// A turn that is being run.
pub(super) struct Drive {
    pub(super) core: Arc<Core>,
    pub(super) sink: Arc<Sink>,
    pub(super) agent: AgentFuture,
    pub(super) deadline: Instant,
    /// Where the turn's streams end, if that is before its task does.
    pub(super) end: Arc<TurnEnd>,
    pub(super) live: Arc<Live>,
    /// What is written down of the call before anything leaves the process for it, if no task is there yet.
    pub(super) reservation: Option<Box<Reservation>>,
    /// How far the message has come, for what its call is charged.
    pub(super) sent: Sent,
    /// The task as the turn found it; none if it begins one.
    pub(super) found: Option<Arc<Task>>,
    pub(super) waits: CallerWaits,
    /// Told when the turn ends, or its task waits for somebody while it goes on, if somebody waits for that.
    pub(super) settled: Option<oneshot::Sender<Result<Answer, Error>>>,
}

/// How the work of a turn has come to its end.
#[allow(clippy::large_enum_variant, reason = "taken apart at once; a box for each turn would cost more")]
enum Ending {
    Returned(Result<Outcome, Failure>),
    DeadlinePassed,
    /// Somebody else has ended the task, or wants it ended.
    Stopped,
    /// The process winds down, and the work goes on elsewhere.
    Abandoned,
}

// === impl Drive ===

impl Drive {
    pub(super) async fn run(mut self: Box<Self>) {
        let done = self.run_to_end().await;
        self.tell_settled(done);
    }

    async fn run_to_end(&mut self) -> Result<Answer, Error> {
        let ending = match self.work().await {
            Ok(ending) => ending,
            Err(StoreError::Transition { .. }) => Ending::Stopped,
            Err(error @ StoreError::TaskFull { .. }) => {
                let full = self.does_not_fit(error);
                self.tell_agent_of_end().await;
                Ending::Returned(Ok(full))
            }
            Err(error) => return self.lost(error),
        };
        self.release_agent();
        match ending {
            Ending::Returned(Ok(outcome)) => self.ended(outcome).await,
            Ending::Returned(Err(failure)) => self.failed(failure).await,
            Ending::DeadlinePassed => {
                self.tell_agent_of_end().await;
                let failure = Failure::public("The deadline of the turn has passed");
                let is_unknown = self.core.spec.works_elsewhere && self.sink.is_dispatched();
                self.failed(if is_unknown { failure.unanswered() } else { failure }).await
            }
            Ending::Stopped => self.stopped().await,
            Ending::Abandoned => {
                self.finish(true);
                Err(Error::with_message(ErrorCode::Unavailable, "The server is stopping; try again later"))
            }
        }
    }

    /// The agent has come to an end.
    pub(super) async fn ended(&mut self, outcome: Outcome) -> Result<Answer, Error> {
        if outcome.state == TaskState::Unspecified {
            self.finish(false);
            return Ok(Answer::Task(self.core.snapshot(&self.sink.key).await?.task));
        }
        if outcome.direct
            && self.sink.is_unopened()
            && let Some(message) = outcome.message
        {
            let mut message = message.in_context(self.sink.context_id().clone());
            let said = message.metadata.clone();
            if self.sink.hold().is_some() {
                // It is read for the call's account, and not passed on in the agent's words.
                message.metadata = said.as_ref().and_then(|said| said.without(USAGE_EXTENSION));
            }
            self.close_reserved(Ok(&message), said.as_ref()).await?;
            return Ok(Answer::Message(message));
        }
        if outcome.sent != Sent::Answered {
            self.sent = outcome.sent;
        }
        self.conclude(outcome).await
    }

    /// The agent has failed. Without a task that exists there may be none; one that exists is left as it was found, or fails.
    async fn failed(&mut self, mut failure: Failure) -> Result<Answer, Error> {
        let (answer, is_public) = (failure.answer.take(), failure.public.is_some());
        self.sent = failure.sent;
        let Some(answer) = answer else {
            let outcome = conclude_failure(self.sink.task_id(), failure);
            return self.ended(outcome).await;
        };
        if !is_public && self.sink.is_unopened() {
            self.close_reserved(Err(&answer), None).await?;
            return Err(*answer);
        }
        let outcome = match &self.found {
            Some(found) if !is_public && found.status.state.is_interrupted() => {
                let message = found.status.message.clone().map(|message| *message);
                Outcome { state: found.status.state, message, ..Outcome::completed() }
            }
            _ => {
                let public = failure.public.take().unwrap_or_else(|| answer.message().to_owned());
                conclude_failure(self.sink.task_id(), Failure { public: Some(public), ..failure })
            }
        };
        self.ended(outcome).await?;
        Err(*answer)
    }

    /// Ends the call without a task. What it holds is settled: all that was done for it is charged.
    async fn close_reserved(
        &mut self,
        answer: Result<&Message, &Error>,
        said: Option<&JsonObject>,
    ) -> Result<(), Error> {
        self.sink.close();
        let key = self.reservation.as_ref().and_then(|reserved| reserved.key.clone());
        let change = match self.sent {
            Sent::Never => ReservationChange::Release(key),
            Sent::Answered | Sent::Unanswered => answered(answer, key),
        };
        let outcome = outcome(self.sent, None);
        let (core, task) = (&self.core, &self.sink.key);
        let closed = match (self.live.is_reserved(), self.unrecorded_hold()) {
            (true, _) => core.close_reserved(task, change, outcome, said).await,
            (false, Some(hold)) if self.sent != Sent::Never => {
                core.record_call(task, hold, outcome, said).await
            }
            (false, _) => Ok(()),
        };
        closed.map_err(from_store)?;
        self.finish(true);
        Ok(())
    }

    /// Writes the call down before anything leaves the process for it.
    async fn dispatch(&mut self, mut batch: Box<Batch>) -> Result<(), StoreError> {
        let is_unopened = self.sink.is_unopened();
        if let Some(reservation) = self.reservation.as_mut().filter(|_| is_unopened) {
            if batch.state.is_some() {
                reservation.state = batch.state.take();
            }
            // What goes with the first event waits for it.
            batch.push.take().into_iter().for_each(|push| self.sink.set_push(push));
            self.reserve(None).await?;
        } else if !batch.is_empty() || !self.live.has_begun() {
            self.commit(batch, false).await?;
        } else if batch.state.is_some() {
            self.append(batch).await?;
        }
        self.sink.hold().iter().for_each(|hold| hold.dispatched());
        self.sink.dispatched();
        Ok(())
    }

    /// Writes the call down, using its idempotency key up if it is new.
    pub(super) async fn reserve(&mut self, key: Option<Admission>) -> Result<(), StoreError> {
        let Some(reservation) = &self.reservation else { return Ok(()) };
        let (change, hold) = (ReservationChange::Put(reservation.json()?, key), self.unrecorded_hold());
        // Whoever wants it stopped from now on must find it.
        self.live.work.lock().is_reserved = true;
        self.core.reserve(&self.sink.key, change, hold).await
    }

    /// What the call holds, until that goes into the journal with the first that is written of it.
    fn unrecorded_hold(&self) -> Option<Arc<dyn Hold>> {
        if self.live.has_begun() || self.live.is_reserved() { None } else { self.sink.hold() }
    }

    /// Tells the agent that somebody else has ended its task, if it works elsewhere.
    async fn tell_agent_of_end(&mut self) {
        if self.core.spec.works_elsewhere && self.sink.is_dispatched() {
            self.core.tell_agent_of_end(&self.sink.key).await;
        }
    }

    /// Drives the agent to its end.
    async fn work(&mut self) -> Result<Ending, StoreError> {
        if self.waits == CallerWaits::No && !self.sink.is_unopened() {
            if !self.live.has_begun() {
                let batch = self.sink.take_batch();
                self.commit(batch, false).await?;
            }
            // Whoever was told runs next on this very thread, which an agent that never yields would keep.
            tokio::task::yield_now().await;
        }
        let mut stop = pin!(self.stop());
        loop {
            let batch = tokio::select! {
                biased;
                returned = &mut self.agent => return Ok(Ending::Returned(returned)),
                ending = &mut stop => return Ok(ending),
                batch = self.sink.next_batch() => batch,
            };
            if self.sink.dispatch_is_asked() {
                self.dispatch(batch).await?;
                continue;
            }
            let more_is_coming = is_full(&batch);
            self.commit(batch, false).await?;
            if more_is_coming {
                // A long burst is shown while it goes on, and leaves room for others.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits for a cancel, the deadline or the end of the process.
    fn stop(&self) -> impl Future<Output = Ending> + use<> {
        let (core, sink, deadline) = (self.core.clone(), self.sink.clone(), self.deadline.into());
        async move {
            tokio::select! {
                biased;
                () = sink.cancellation().cancelled() => Ending::Stopped,
                () = core.abandoned.cancelled(), if core.spec.works_elsewhere => Ending::Abandoned,
                () = tokio::time::sleep_until(deadline) => Ending::DeadlinePassed,
            }
        }
    }

    /// Commits a batch and shows it to everyone who watches.
    async fn commit(&mut self, mut batch: Box<Batch>, last: bool) -> Result<KeptTask, StoreError> {
        // A task that begins and ends in one batch keeps no events, unless somebody waits to see them.
        batch.is_watched = self.waits == CallerWaits::ForEvents;
        let appended = self.append(batch).await?;
        self.sink.committed();
        self.live.change(|work| work.is_reserved = false);
        let state = appended.task.state();
        if last {
            self.end_streams(state, appended.number);
        } else if state.is_interrupted() {
            self.sink.park_hold();
            self.tell_settled(Ok(Answer::Task(appended.task.clone())));
        }
        Ok(self.live.publish(appended))
    }

    /// Commits a batch. What belongs to a call that is written down has been promised; what would begin one has not.
    async fn append(&mut self, mut batch: Box<Batch>) -> Result<Appended, StoreError> {
        batch.opens_reserved = self.live.is_reserved();
        let (core, key) = (&self.core, &self.sink.key);
        match batch.opens_reserved || self.live.has_begun() {
            true => core.append_promised(key, batch, self.sent).await,
            false => core.append(key, batch, self.unrecorded_hold(), self.sent).await,
        }
    }

    /// A question ends the streams that came for it. Those of a turn that waits for authentication stay open
    /// for the next turn to end.
    fn end_streams(&self, state: TaskState, number: u64) {
        match state {
            TaskState::InputRequired => {
                let waiting = std::mem::take(&mut self.live.work.lock().streams);
                waiting.iter().chain([&self.end]).for_each(|end| end.close_after(number));
            }
            TaskState::AuthRequired => self.live.end_with_question(self.end.clone()),
            _ => {}
        }
    }

    /// Commits the last event of the turn.
    async fn conclude(&mut self, outcome: Outcome) -> Result<Answer, Error> {
        self.sink.conclude(outcome);
        let batch = self.sink.take_batch();
        let committed = match self.commit(batch, true).await {
            Err(error @ StoreError::TaskFull { .. }) => {
                // The outcome does not fit. That it does not is said in one event, which always fits.
                let failed = self.does_not_fit(error);
                self.sink.conclude(failed);
                let batch = self.sink.take_batch();
                self.commit(batch, true).await
            }
            committed => committed,
        };
        match committed {
            Ok(task) => {
                self.finish(task.is_over());
                Ok(Answer::Task(task))
            }
            Err(StoreError::Transition { .. }) => self.stopped().await,
            Err(error) => self.lost(error),
        }
    }

    /// How a turn ends that emitted more than its task may hold.
    fn does_not_fit(&self, error: StoreError) -> Outcome {
        if !self.live.has_begun() {
            self.sink.begin_anew();
        }
        let error = from_store(error);
        conclude_failure(self.sink.task_id(), Failure::public(error.message()))
    }

    /// The task has ended without us, or is to end for a reason that whoever wants it ended has left.
    async fn stopped(&mut self) -> Result<Answer, Error> {
        let wanted = self.live.work.lock().ending.take();
        if let Some(outcome) = wanted {
            self.tell_agent_of_end().await;
            self.sent = if self.sink.is_dispatched() { Sent::Unanswered } else { Sent::Answered };
            return Box::pin(self.conclude(outcome)).await;
        }
        self.finish(true);
        Ok(Answer::Task(self.core.snapshot(&self.sink.key).await?.task))
    }

    /// The store failed: what was not committed was never shown, and nothing more can be said.
    fn lost(&mut self, error: StoreError) -> Result<Answer, Error> {
        tracing::error!(task.id = %self.sink.task_id(), error = %error, "turn of task {} is lost", self.sink.task_id());
        self.release_agent();
        self.finish(true);
        Err(from_store(error))
    }

    /// Drops the agent's future, which stops whatever it was doing.
    fn release_agent(&mut self) {
        let idle: AgentFuture = Box::pin(std::future::pending());
        let agent = std::mem::replace(&mut self.agent, idle);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(agent))) {
            conclude_failure(self.sink.task_id(), Failure::of_panic(&*panic));
        }
    }

    /// Lets the next message have its turn, or refuses those that wait if there will be none.
    fn finish(&mut self, over: bool) {
        self.sink.close();
        self.live.shown();
        if over {
            self.live.work.lock().running = None;
            self.live.refuse_queue();
        } else {
            run_next(self.live.clone());
        }
    }
}

/// A driver that is dropped, because its own task was aborted or the process winds down, still tells the
/// agent's helpers to stop.
impl Drop for Drive {
    fn drop(&mut self) {
        self.sink.close();
    }
}
