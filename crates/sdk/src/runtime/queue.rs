//! Who works on a live task, and the messages that wait for the turn to end.

use std::collections::VecDeque;
use std::sync::Arc;

use chancery_protocol::{Error, ErrorCode, KeptTask};
use chancery_store::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::failure::contained;
use super::live::Live;
use super::sink::Sink;
use super::start::{Answer, Incoming};
use super::subscription::TurnEnd;
use super::take::Taken;
use crate::agent::{Outcome, WhileRunning};

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    /// Who has taken it, and so is to run its turn: not always who runs the one before it.
    core: Arc<Core>,
    pub(super) incoming: Box<Incoming>,
    pub(super) answer: AnswerSender,
}

/// Tells what becomes of a message: its sender, and those who have sent it again with its key.
pub(super) type AnswerSender = watch::Sender<Option<Result<KeptTask, Error>>>;

/// Hears what becomes of a message. Nothing if it was dropped with the queue.
#[derive(Debug)]
pub(super) struct QueuedAnswer(watch::Receiver<Option<Result<KeptTask, Error>>>);

/// Who works on a live task.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The turn that runs, by the token that stops it.
    pub(super) running: Option<CancellationToken>,
    /// Whether this is a reserved call, which is no task yet.
    pub(super) is_reserved: bool,
    /// How the running turn is to end, where its task is not there to be ended by others.
    pub(super) ending: Option<Outcome>,
    /// Whether the agent is being asked about a task that waits.
    pub(super) is_refreshing: bool,
    /// Messages that wait for it to end.
    pub(super) queue: VecDeque<Queued>,
    /// Streams that no running turn ends: those that stayed open while the client authenticates, and those
    /// that joined a repeated send. The next question does.
    pub(super) streams: Vec<Arc<TurnEnd>>,
}

impl QueuedAnswer {
    pub(super) async fn heard(mut self) -> Option<Result<KeptTask, Error>> {
        let answer = self.0.wait_for(Option::is_some).await.ok()?;
        answer.as_ref().map(|answer| match answer {
            Ok(task) => Ok(task.clone()),
            Err(error) => Err(Error::with_message(error.code(), error.to_string())),
        })
    }
}

impl Core {
    /// A message for a task whose turn still runs. One that has been taken already is not refused any more.
    pub(super) fn queue_up(
        self: Arc<Self>,
        live: Arc<Live>,
        incoming: Box<Incoming>,
        before: Option<Snapshot>,
    ) -> Result<Taken, Error> {
        let room = match contained("while_running", || self.spec.agent.while_running())? {
            WhileRunning::Queue(room) => room,
            WhileRunning::Refuse => 0,
        };
        let joined = live.change(|work| {
            let key = &incoming.admission;
            let is_queued = |queued: &&Queued| key.is_some() && queued.incoming.admission == *key;
            if let Some(queued) = work.queue.iter().find(is_queued) {
                return Some((queued.incoming.end.clone(), queued.answer.subscribe(), false));
            }
            if incoming.is_new && work.queue.len() >= room {
                return None;
            }
            let (answer, heard) = watch::channel(None);
            let end = incoming.end.clone();
            work.queue.push_back(Queued { core: self.clone(), incoming, answer });
            Some((end, heard, work.running.is_none()))
        });
        let Some((end, heard, is_free)) = joined else {
            let text = "The task is being worked on and takes no further message now";
            return Err(Error::with_message(ErrorCode::UnsupportedOperation, text)
                .about("taskId", live.key.id.as_str()));
        };
        if is_free {
            run_next(live.clone());
        }
        Ok(Taken::Waits { live, end, before, answer: QueuedAnswer(heard) })
    }
}

/// Lets the next message have its turn, if one waits.
pub(super) fn run_next(live: Arc<Live>) {
    let Some((queued, sink)) = live.next_in_queue() else { return };
    tokio::spawn(async move {
        let Queued { core, incoming, answer } = queued;
        let done = match core.begin(live, sink, incoming).await {
            Ok(drive) => drive.start().settled().await,
            Err(error) => Err(error),
        };
        // A turn on an open task never ends in a direct message.
        answer.send_replace(Some(done.and_then(|done| match done {
            Answer::Task(task) => Ok(task),
            Answer::Message(_) => Err(Error::new(ErrorCode::InvalidAgentResponse)),
        })));
    });
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

    /// Changes what is known of who works on the task, for those who wait for that.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Work) -> T) -> T {
        let changed = change(&mut self.work.lock());
        self.changed.notify_waiters();
        changed
    }

    /// Waits until somebody has changed it so.
    pub(super) async fn until(&self, is_so: impl Fn(&Work) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(&self.work.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Whether this is a reserved call, which is no task yet.
    pub(super) fn is_reserved(&self) -> bool {
        self.work.lock().is_reserved
    }

    /// What was asked of the agent has been shown, or the turn that asked is over.
    pub(super) fn shown(&self) {
        self.change(|work| (work.is_reserved, work.is_refreshing) = (false, false));
    }

    /// Waits until the agent has been asked about a task that waits.
    pub(super) async fn refreshed(&self) {
        self.until(|work| !work.is_refreshing).await;
    }

    /// Hands the task from the turn that has ended to the message that waits; frees it if none does.
    fn next_in_queue(&self) -> Option<(Queued, Sink)> {
        let mut work = self.work.lock();
        let Some(queued) = work.queue.pop_front() else {
            work.running = None;
            return None;
        };
        let context_id = queued.incoming.message.context_id.clone().unwrap_or_else(|| "".into());
        let sink = Sink::working(&queued.core, self.key.clone(), context_id);
        work.running = Some(sink.cancellation().clone());
        Some((queued, sink))
    }

    /// Has the next question end a stream.
    pub(super) fn end_with_question(&self, end: Arc<TurnEnd>) {
        let mut work = self.work.lock();
        work.streams.retain(|end| Arc::strong_count(end) > 1);
        work.streams.push(end);
    }

    /// Refuses whatever still waits for the turn to end: who waits for an answer hears that there is none.
    pub(super) fn refuse_queue(&self) {
        let refused = std::mem::take(&mut self.work.lock().queue);
        drop(refused);
    }
}
