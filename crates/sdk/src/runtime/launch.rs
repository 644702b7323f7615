//! Starting a turn: until its sender has something to show, or has waited long enough.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use chancery_protocol::{Error, ErrorCode, Event, Message, TaskId};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use tokio::sync::oneshot;

use super::Live;
use super::drive::{Done, Drive};
use crate::tasks::Unstoppable;

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
    /// An equal message has been taken before.
    Repeats(TaskId),
}

/// Where a launched turn is polled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstPoll {
    /// Before the launch returns: what the agent says at once then leaves together with the beginning.
    Here,
    /// On a task of its own: the launch returns at once, even if the agent never yields.
    Elsewhere,
}

impl Drive {
    /// Runs the turn until it has ended, or its task waits for somebody: then the turn goes on by itself.
    pub(super) async fn run_until_parked(mut self: Box<Self>) -> Result<Done, Error> {
        let (sender, mut parked) = oneshot::channel();
        self.parked = Some(sender);
        let mut turn = Unstoppable::new(|| self.run());
        tokio::select! {
            biased;
            done = &mut turn => done,
            Ok(task) = &mut parked => Ok(Done::Task(task)),
        }
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
                Done::Repeats(task) => Ok(Launched::Repeats(task)),
                Done::Task(_) => Err(ErrorCode::InvalidAgentResponse.into()),
            },
        }
    }

    /// Tells whoever waits for it that the task exists.
    pub(super) fn tell_opened(&mut self) {
        if self.opened.is_some() {
            let live = self.enter();
            // Whoever waited may have gone.
            let _ = self.opened.take().map(|opened| opened.send(Opened::Live(live)));
        }
    }

    /// Lets others know of the task.
    pub(super) fn enter(&mut self) -> Arc<Live> {
        let live = self.live.get_or_insert_with(|| {
            let live = self.core.tasks.live.enter(&self.scope, self.sink.task_id());
            live.claim(&self.sink);
            live
        });
        live.clone()
    }
}
