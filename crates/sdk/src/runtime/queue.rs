//! A message that starts a turn, now or when the turn before it has ended, and who works on its task meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use chancery_protocol::{CallContext, Error, JsonObject, KeptTask, Message, SendMessageConfiguration};
use chancery_store::Admission;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::live::Live;
use super::sink::Sink;
use super::subscription::TurnEnd;
use crate::agent::Outcome;
use crate::turn::CallerWaits;

/// What a turn is started with.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) message: Message,
    /// Whether it is still to become history; a resumed turn has no message of its own.
    pub(super) is_new: bool,
    pub(super) configuration: Option<SendMessageConfiguration>,
    pub(super) metadata: Option<JsonObject>,
    pub(super) context: Box<CallContext>,
    pub(super) admission: Option<Admission>,
    pub(super) waits: CallerWaits,
}

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    /// Who has taken it, and so is to run its turn: not always who runs the one before it.
    pub(super) core: Arc<Core>,
    pub(super) incoming: Box<Incoming>,
    pub(super) end: Arc<TurnEnd>,
    pub(super) answers: Answers,
}

/// Those who wait for what becomes of a message: its sender, and those who have sent it again with its key.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<oneshot::Sender<Result<KeptTask, Error>>>);

/// Who works on a live task.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The turn that runs, by the token that stops it.
    pub(super) running: Option<CancellationToken>,
    /// Cancelled when a reserved call becomes a task or ends without one. None if it is not reserved.
    pub(super) reserved: Option<CancellationToken>,
    /// How the running turn is to end, where its task is not there to be ended by others.
    pub(super) ending: Option<Outcome>,
    /// Cancelled once the agent has been asked about a task that waits.
    pub(super) refreshed: Option<CancellationToken>,
    /// Told when a message comes for a turn that takes messages while it runs.
    pub(super) delivery: Arc<Notify>,
    /// Messages that wait for it to end.
    pub(super) queue: VecDeque<Queued>,
    /// Streams that no running turn ends: those that stayed open while the client authenticates, and those
    /// that joined a repeated send. The next question does.
    pub(super) streams: Vec<Arc<TurnEnd>>,
}

impl Answers {
    /// Waits, too.
    pub(super) fn join(&mut self) -> oneshot::Receiver<Result<KeptTask, Error>> {
        let (sender, answer) = oneshot::channel();
        self.0.retain(|sender| !sender.is_closed());
        self.0.push(sender);
        answer
    }

    /// Tells all of them. Some, or all, may not be waiting any more.
    pub(super) fn send(self, done: &Result<KeptTask, Error>) {
        for sender in self.0 {
            let _ = sender.send(match done {
                Ok(task) => Ok(task.clone()),
                Err(error) => Err(Error::with_message(error.code(), error.to_string())),
            });
        }
    }
}

impl Work {
    /// A reserved call is reserved no longer.
    pub(super) fn shown(&mut self) {
        self.reserved.take().iter().for_each(CancellationToken::cancel);
        self.refreshed.take().iter().for_each(CancellationToken::cancel);
    }
}

impl Live {
    /// Marks the task as worked on, unless somebody does already.
    pub(super) fn claim(&self, sink: &Sink) -> bool {
        let mut work = self.work.lock();
        let free = work.running.is_none();
        if free {
            work.running = Some(sink.cancellation().clone());
        }
        free
    }

    /// The same for a task that others may know of: if it has been canceled before anybody worked on it, whoever is to
    /// work on it hears of that here.
    pub(super) fn claim_known(&self, sink: &Sink) -> bool {
        let claimed = self.claim(sink);
        if claimed && self.has_ended() {
            sink.cancellation().cancel();
        }
        claimed
    }

    /// Hands the task from the turn that has ended to the message that waits; frees it if none does.
    pub(super) fn next_in_queue(&self) -> Option<(Queued, Sink)> {
        let mut work = self.work.lock();
        let Some(queued) = work.queue.pop_front() else {
            work.running = None;
            return None;
        };
        let context_id = queued.incoming.message.context_id.clone().unwrap_or_else(|| "".into());
        let sink = Sink::working(&queued.core, self.task_id().clone(), context_id);
        work.running = Some(sink.cancellation().clone());
        Some((queued, sink))
    }

    /// Has the next question end a stream.
    pub(super) fn end_with_question(&self, end: Arc<TurnEnd>) {
        let mut work = self.work.lock();
        work.streams.retain(|end| Arc::strong_count(end) > 1);
        work.streams.push(end);
    }

    /// Refuses whatever still waits for the turn to end.
    pub(super) fn refuse_queue(&self, error: impl Fn() -> Error) {
        let queue = std::mem::take(&mut self.work.lock().queue);
        for queued in queue {
            queued.answers.send(&Err(error()));
        }
    }
}
