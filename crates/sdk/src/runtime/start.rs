//! Starting a turn: polled once by its request, on its own from then on.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use chancery_protocol::{BoxFuture, Error, ErrorCode, Event, box_future};
use chancery_store::Snapshot;
use tokio::sync::oneshot;

use super::drive::{Done, Drive};
use super::live::Live;
use super::sink::Sink;
use super::subscription::TurnEnd;
use crate::turn::CallerWaits;

/// A task that has come to exist.
#[derive(Debug)]
pub(super) enum OpenedTask {
    /// It is being worked on.
    Live(Arc<Live>),
    /// It is over already, and this is all that happened.
    Over(Vec<Event>),
}

/// A turn that runs on its own, and what it tells of itself.
pub(super) struct StartedTurn {
    pub(super) sink: Arc<Sink>,
    /// Where its streams end, if that is before its task does.
    pub(super) end: Arc<TurnEnd>,
    /// The task as it was before the message was taken into it.
    pub(super) before: Option<Snapshot>,
    opened: oneshot::Receiver<OpenedTask>,
    settled: oneshot::Receiver<Result<Done, Error>>,
}

/// What a turn shows first.
pub(super) enum FirstSign {
    /// Its task is there.
    Task(OpenedTask),
    /// It has come to its end without a task.
    End(Done),
}

impl Drive {
    /// Runs the turn. What the agent says in its first poll leaves together with the beginning, unless its caller does not
    /// wait: then an agent that never yields must not hold up the answer.
    pub(super) async fn start(mut self: Box<Self>) -> StartedTurn {
        let (tell_opened, opened) = oneshot::channel();
        let (tell_settled, settled) = oneshot::channel();
        (self.opened, self.settled) = (Some(tell_opened), Some(tell_settled));
        let (sink, end, before) = (self.sink.clone(), self.end.clone(), self.before.take());
        let polls_here = self.waits != CallerWaits::No;
        let mut turn: BoxFuture<'static, ()> = box_future(|| self.run());
        let is_over =
            polls_here && poll_fn(|context| Poll::Ready(turn.as_mut().poll(context).is_ready())).await;
        if !is_over {
            tokio::spawn(turn);
        }
        StartedTurn { sink, end, before, opened, settled }
    }

    /// Tells whoever waits for it that the task exists.
    pub(super) fn tell_opened(&mut self) {
        if self.opened.is_some() {
            let live = self.enter();
            // Whoever waited may have gone.
            let _ = self.opened.take().map(|opened| opened.send(OpenedTask::Live(live)));
        }
    }

    /// Tells whoever waits for it that the turn has ended, or that its task waits for somebody.
    pub(super) fn tell_settled(&mut self, done: Result<Done, Error>) {
        let _ = self.settled.take().map(|settled| settled.send(done));
    }

    /// Lets others know of the task.
    pub(super) fn enter(&mut self) -> Arc<Live> {
        let live = self.live.get_or_insert_with(|| {
            let live = self.core.live.enter(&self.scope, self.sink.task_id());
            live.claim(&self.sink);
            live
        });
        live.clone()
    }
}

impl StartedTurn {
    /// Waits until the turn has ended or its task waits for somebody.
    pub(super) async fn settled(&mut self) -> Result<Done, Error> {
        (&mut self.settled).await.unwrap_or_else(|_| Err(ErrorCode::Internal.into()))
    }

    /// Waits until the task is there, or the turn has ended without one.
    pub(super) async fn first_sign(&mut self) -> Result<FirstSign, Error> {
        tokio::select! {
            biased;
            Ok(opened) = &mut self.opened => Ok(FirstSign::Task(opened)),
            settled = &mut self.settled => {
                settled.unwrap_or_else(|_| Err(ErrorCode::Internal.into())).map(FirstSign::End)
            }
        }
    }
}
