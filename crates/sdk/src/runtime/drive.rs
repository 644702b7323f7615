//! Running one turn from its first poll to its last event.
//!
//! The driver polls the agent, commits what it emitted, and stops it on cancel or deadline. Whatever happens
//! to the agent, the task is left in a state that says so.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use chancery_protocol::{Error, ErrorCode, Event, Hold, KeptTask, Message, TaskState};
use chancery_store::{Appended, Batch, Scope, StoreError};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use tokio::sync::oneshot;

use super::Core;
use super::Live;
use super::failure::{conclude_failure, conclude_panic};
use super::sink::{Sink, is_full};
use crate::agent::{AgentFuture, Failure, Outcome};
use crate::alarm::Alarm;
use crate::at_once::at_once;
use crate::canceled::Canceled;
use crate::tasks::{TurnEnd, Unstoppable, from_store, task_is_over};

/// A turn that is being run.
pub(super) struct Drive {
    pub(super) core: Arc<Core>,
    pub(super) scope: Scope,
    pub(super) sink: Arc<Sink>,
    pub(super) agent: AgentFuture,
    pub(super) deadline: Instant,
    pub(super) end: Option<Arc<TurnEnd>>,
    /// Entered when somebody could come to know of the task; a turn that ends at its first poll never is.
    pub(super) live: Option<Arc<Live>>,
    /// Whether there is anything of the task in the journal.
    pub(super) committed: bool,
    /// What the call holds, until that goes into the journal with the first batch.
    pub(super) hold: Option<Arc<dyn Hold>>,
    /// Told when the task comes to exist, if somebody waits for that.
    pub(super) opened: Option<oneshot::Sender<Opened>>,
    /// Whether the task is to be there before the agent has said anything.
    pub(super) shows_beginning: bool,
    pub(super) first: FirstPoll,
}

/// What came of a turn.
#[derive(Debug)]
pub(super) enum Done {
    /// The task as the turn left it.
    Task(KeptTask),
    /// A direct answer, without a task.
    Message(Message),
}

/// A task that has come to exist.
#[derive(Debug)]
pub(super) enum Opened {
    /// It is being worked on.
    Live(Arc<Live>),
    /// It is over already, and this is all that happened.
    Over(Vec<Event>),
}

/// What a launched turn shows first.
pub(super) enum Launched {
    /// The task exists, and the turn is over or runs on its own.
    Task(Opened),
    /// The task exists, and the rest of its turn is still to be run.
    Begun(Arc<Live>, Unstoppable<Result<Done, Error>>),
    /// There will be none: this is the answer.
    Message(Message),
}

/// Where a launched turn is polled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstPoll {
    /// Before the launch returns: what the agent says at once then leaves together with the beginning.
    Here,
    /// On a task of its own: the launch returns at once, even if the agent never yields.
    Elsewhere,
}

/// Why the driver has something to do.
#[allow(clippy::large_enum_variant, reason = "taken apart at once; a box for each turn would cost more")]
enum Step {
    Emitted(Box<Batch>),
    Returned(Result<Outcome, Failure>),
    Panicked(Box<dyn std::any::Any + Send>),
    DeadlinePassed,
    Canceled,
}

/// What stops a turn from outside. Armed only when the agent does not finish at once.
#[derive(Default)]
struct Stop {
    deadline: Option<Alarm>,
    canceled: Option<Canceled>,
}

// === impl Drive ===

impl Drive {
    pub(super) async fn run(mut self: Box<Self>) -> Result<Done, Error> {
        let outcome = match self.begin_and_work().await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return self.stopped().await,
            Err(StoreError::Transition { .. }) => return self.stopped().await,
            Err(error @ StoreError::TaskFull { .. }) => self.does_not_fit(error),
            Err(error) => return self.lost(error),
        };
        self.release_agent();
        if outcome.direct
            && self.sink.is_unopened()
            && let Some(message) = outcome.message
        {
            self.sink.close();
            return Ok(Done::Message(message.in_context(self.sink.context_id().clone())));
        }
        self.sink.conclude(outcome);
        self.conclude().await
    }

    async fn begin_and_work(&mut self) -> Result<Option<Outcome>, StoreError> {
        if self.shows_beginning && self.committed {
            self.tell_opened();
        }
        if self.shows_beginning && self.first == FirstPoll::Elsewhere {
            if !self.committed {
                let batch = self.sink.take_batch(None);
                self.commit(batch, false).await?;
            }
            // Whoever was told runs next on this very thread, which an agent that never yields would keep.
            tokio::task::yield_now().await;
        }
        self.work().await
    }

    /// Drives the agent to its outcome; none if the task was canceled.
    async fn work(&mut self) -> Result<Option<Outcome>, StoreError> {
        let mut stop = Stop::default();
        // Whether the agent waits for something, and nobody has had a chance to wake it.
        let mut agent_waits = false;
        loop {
            // Taken apart before anything is awaited: a turn that waits is not to hold room for how it may end.
            let batch = match self.step(&mut stop, agent_waits).await {
                Step::Emitted(batch) => batch,
                over => return Ok(self.outcome(over)),
            };
            let more_is_coming = is_full(&batch);
            let took_no_time = self.commit_and_tell(batch).await?;
            agent_waits = took_no_time && !more_is_coming;
            if more_is_coming {
                // A long burst is shown while it goes on, and leaves room for others.
                tokio::task::yield_now().await;
                if self.deadline <= tokio::time::Instant::now().into_std() {
                    return Ok(self.outcome(Step::DeadlinePassed));
                }
            }
        }
    }

    /// What the last step of a turn comes to; none if the task was canceled.
    fn outcome(&self, last: Step) -> Option<Outcome> {
        let id = self.sink.task_id();
        match last {
            Step::Returned(Ok(outcome)) => Some(outcome),
            Step::Returned(Err(failure)) => Some(conclude_failure(id, failure)),
            Step::Panicked(panic) => Some(conclude_panic(id, &*panic)),
            Step::DeadlinePassed => {
                Some(conclude_failure(id, Failure::public("The deadline of the turn has passed")))
            }
            Step::Emitted(_) | Step::Canceled => None,
        }
    }

    /// Goes on until there is something to do. If the agent is known to wait, it is not asked before it has been woken.
    fn step(&mut self, stop: &mut Stop, mut agent_waits: bool) -> impl Future<Output = Step> {
        poll_fn(move |context| {
            if !std::mem::take(&mut agent_waits) {
                self.sink.unpark();
                match catch_unwind(AssertUnwindSafe(|| self.agent.as_mut().poll(context))) {
                    Err(panic) => return Poll::Ready(Step::Panicked(panic)),
                    Ok(Poll::Ready(returned)) => return Poll::Ready(Step::Returned(returned)),
                    Ok(Poll::Pending) => {}
                }
            }
            if self.sink.park(context.waker()) {
                stop.poll(context, &self.sink, self.deadline)
            } else {
                Poll::Ready(Step::Emitted(self.sink.take_batch(Some(context.waker()))))
            }
        })
    }

    /// Commits a batch, and says whether that took no time, so that nobody has been woken meanwhile.
    async fn commit_and_tell(&mut self, batch: Box<Batch>) -> Result<bool, StoreError> {
        let (committed, took_no_time) = at_once(pin!(self.commit(batch, false))).await;
        committed.map(|_| took_no_time)
    }

    /// Commits a batch and shows it to everyone who watches.
    async fn commit(&mut self, mut batch: Box<Batch>, last: bool) -> Result<KeptTask, StoreError> {
        // A task that begins and ends in one batch keeps no events, unless somebody waits to see them.
        batch.is_watched = self.opened.is_some();
        // Whoever learns of the task from now on must find the one who works on it. Nobody does if this is all of it.
        let is_all = self.opened.is_some() && self.live.is_none() && batch.is_life();
        if !is_all && (!last || self.opened.is_some()) {
            self.enter();
        }
        let appended = self.append(batch).await?;
        self.committed = true;
        self.hold = None;
        let state = appended.task.state();
        if is_all {
            let _ = self.opened.take().map(|opened| opened.send(Opened::Over(appended.events)));
            return Ok(appended.task);
        }
        self.tell_opened();
        if last {
            self.end_streams(state, appended.number);
        }
        if let Some(live) = &self.live {
            live.publish(appended.events, state.is_terminal());
        }
        Ok(appended.task)
    }

    /// Commits a batch. What belongs to a task that exists has been promised; what would begin one has not.
    async fn append(&mut self, batch: Box<Batch>) -> Result<Appended, StoreError> {
        let (tasks, id) = (&self.core.tasks, self.sink.task_id());
        match self.committed {
            true => tasks.append_promised(&self.scope, id, batch).await,
            false => tasks.append_held(&self.scope, id, batch, self.hold.clone()).await,
        }
    }

    /// Tells whoever waits for it that the task exists.
    fn tell_opened(&mut self) {
        if self.opened.is_some() {
            let live = self.enter();
            // Whoever waited may have gone.
            let _ = self.opened.take().map(|opened| opened.send(Opened::Live(live)));
        }
    }

    /// A question ends the streams that came for it. Those of a turn that waits for authentication stay open
    /// for the next turn to end.
    fn end_streams(&self, state: TaskState, number: u64) {
        match (state, &self.live) {
            (TaskState::InputRequired, Some(live)) => {
                let waiting = std::mem::take(&mut live.work.lock().streams);
                waiting.iter().chain(&self.end).for_each(|end| end.close_after(number));
            }
            (TaskState::AuthRequired, Some(live)) => {
                self.end.iter().for_each(|end| live.end_with_question(end.clone()));
            }
            _ => {}
        }
    }

    /// Lets others know of the task.
    fn enter(&mut self) -> Arc<Live> {
        let live = self.live.get_or_insert_with(|| {
            let live = self.core.tasks.live.enter(&self.scope, self.sink.task_id());
            live.claim(&self.sink);
            live
        });
        live.clone()
    }

    /// Tells when the task comes to exist.
    pub(super) fn when_opened(&mut self) -> oneshot::Receiver<Opened> {
        let (opened, task) = oneshot::channel();
        self.opened = Some(opened);
        task
    }

    /// Runs the turn. Returns as soon as there is something to show. What is left of it by then goes on elsewhere, unless it
    /// was polled here and its task exists: then it is handed over.
    pub(super) async fn launch(mut self: Box<Self>, first: FirstPoll) -> Result<Launched, Error> {
        let mut opened = self.when_opened();
        self.shows_beginning = !self.sink.is_unopened();
        self.first = first;
        let mut turn = Unstoppable::new(|| self.run());
        let polled = match first {
            FirstPoll::Here => poll_fn(|context| Poll::Ready(turn.poll_unpin(context))).await,
            FirstPoll::Elsewhere => Poll::Pending,
        };
        let turn = match polled {
            Poll::Ready(done) => Either::Left(std::future::ready(done)),
            Poll::Pending => match opened.try_recv() {
                Ok(Opened::Live(live)) => return Ok(Launched::Begun(live, turn)),
                Ok(over) => return Ok(Launched::Task(over)),
                Err(_) => Either::Right(tokio::spawn(turn).map(|ended| ended.map_err(Error::internal)?)),
            },
        };
        match opened.await {
            Ok(opened) => Ok(Launched::Task(opened)),
            Err(_) => match turn.await? {
                Done::Message(message) => Ok(Launched::Message(message)),
                Done::Task(_) => Err(ErrorCode::InvalidAgentResponse.into()),
            },
        }
    }

    /// Commits the last event of the turn.
    async fn conclude(&mut self) -> Result<Done, Error> {
        let batch = self.sink.take_batch(None);
        let committed = match self.commit(batch, true).await {
            Err(error @ StoreError::TaskFull { .. }) => {
                // The outcome does not fit. That it does not is said in one event, which always fits.
                let failed = self.does_not_fit(error);
                self.sink.conclude(failed);
                let batch = self.sink.take_batch(None);
                self.commit(batch, true).await
            }
            committed => committed,
        };
        match committed {
            Ok(task) => {
                self.finish(task.is_over());
                Ok(Done::Task(task))
            }
            Err(StoreError::Transition { .. }) => self.stopped().await,
            Err(error) => self.lost(error),
        }
    }

    /// How a turn ends that emitted more than its task may hold.
    fn does_not_fit(&self, error: StoreError) -> Outcome {
        if !self.committed {
            self.sink.begin_anew();
        }
        let error = from_store(error);
        conclude_failure(self.sink.task_id(), Failure::public(error.message()))
    }

    /// The task has ended without us: it was canceled.
    async fn stopped(&mut self) -> Result<Done, Error> {
        self.release_agent();
        self.finish(true);
        let snapshot =
            self.core.tasks.store.snapshot(&self.scope, self.sink.task_id()).await.map_err(from_store)?;
        Ok(Done::Task(snapshot.task))
    }

    /// The store failed: what was not committed was never shown, and nothing more can be said.
    fn lost(&mut self, error: StoreError) -> Result<Done, Error> {
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
            conclude_panic(self.sink.task_id(), &*panic);
        }
    }

    /// Lets the next message have its turn, or refuses those that wait if there will be none.
    fn finish(&mut self, over: bool) {
        self.sink.close();
        let Some(live) = self.live.take() else { return };
        if over {
            live.work.lock().running = None;
            live.refuse_queue(|| task_is_over(live.task_id()));
        } else {
            self.core.clone().run_next(live);
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

// === impl Stop ===

impl Stop {
    fn poll(&mut self, context: &mut Context<'_>, sink: &Sink, deadline: Instant) -> Poll<Step> {
        let canceled = self.canceled.get_or_insert_with(|| Canceled::new(sink.cancellation().clone()));
        if canceled.poll(context).is_ready() {
            return Poll::Ready(Step::Canceled);
        }
        let alarm = self.deadline.get_or_insert_with(|| Alarm::at(deadline.into()));
        alarm.poll(context).map(|()| Step::DeadlinePassed)
    }
}
