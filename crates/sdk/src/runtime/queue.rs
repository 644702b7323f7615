//! A message that starts a turn, now or when the turn before it has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chancery_protocol::{CallContext, Error, JsonObject, KeptTask, Message, SendMessageConfiguration};
use chancery_store::Admission;
use tokio::sync::oneshot;

/// What a turn is started with.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) message: Message,
    /// Whether it is still to become history; a resumed turn has no message of its own.
    pub(super) is_new: bool,
    pub(super) configuration: Option<SendMessageConfiguration>,
    pub(super) metadata: Option<JsonObject>,
    pub(super) context: CallContext,
    pub(super) admission: Option<Admission>,
}

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) incoming: Box<Incoming>,
    pub(super) end: Arc<TurnEnd>,
    pub(super) answers: Answers,
}

/// Those who wait for what becomes of a message: its sender, and those who have sent it again with its key.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<oneshot::Sender<Result<KeptTask, Error>>>);

/// Where the streams of one turn end, if that is before the task does.
#[derive(Debug, Default)]
pub(super) struct TurnEnd(AtomicU64);

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

impl TurnEnd {
    /// Ends the turn's streams after this event, unless an earlier one has.
    pub(super) fn close_after(&self, number: u64) {
        let _ = self.0.compare_exchange(0, number, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether this event is the last that the turn's streams show.
    pub(super) fn is_closed_after(&self, number: u64) -> bool {
        let last = self.0.load(Ordering::Acquire);
        last != 0 && number >= last
    }
}
