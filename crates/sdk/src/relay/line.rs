//! Who writes what an agent elsewhere does into the journal of one task.
//!
//! The same thing can be heard twice: on a stream that is followed, and as the answer to a message. A piece of an
//! artifact that is written twice is there twice. So there is one pen for each live task, and only who has it writes.
//! A follower has it for as long as it follows, and gives it up when somebody asks.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::peers::Peer;
use crate::client::Names;
use crate::tasks::TurnEnd;

/// A task that somebody follows or watches.
pub(super) type Live = crate::tasks::Live<Line>;

/// Who works on a live task, as far as it is done here.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pen: Arc<Mutex<()>>,
    /// How many wait for the pen.
    waiting: usize,
    /// Stops whoever follows the task.
    follower: Option<CancellationToken>,
    /// Cancelled once a look at the task at its agent's has come to an end.
    look: Option<CancellationToken>,
    /// Streams that the next question ends.
    streams: Vec<Arc<TurnEnd>>,
    /// Who has the task, of several agents, once that is known.
    peer: Option<Arc<Peer>>,
    /// What that one calls it, if not as it is called here, once that is known.
    names: Option<Names>,
    /// Cancelled when the task ends before its agent has heard of it. None once it has.
    waits: Option<CancellationToken>,
}

/// The right to write into a task's journal.
#[derive(Debug)]
pub(super) struct Pen {
    _held: OwnedMutexGuard<()>,
    /// Whether it was taken from somebody who followed the task.
    pub(super) from_follower: bool,
}

/// Counts one who waits, until it has come to an end.
struct Waiting<'a>(&'a Live);

impl Live {
    /// Waits for the pen. Whoever follows the task is asked to stop.
    pub(super) async fn pen(&self) -> Pen {
        let (pen, from_follower) = {
            let mut line = self.work.lock();
            line.waiting += 1;
            let follower = line.follower.take();
            follower.iter().for_each(CancellationToken::cancel);
            (line.pen.clone(), follower.is_some())
        };
        let _waiting = Waiting(self);
        Pen { _held: pen.lock_owned().await, from_follower }
    }

    /// The pen, if nobody has it.
    pub(super) fn free_pen(&self) -> Option<Pen> {
        let line = self.work.lock();
        let held = line.pen.clone().try_lock_owned().ok()?;
        Some(Pen { _held: held, from_follower: false })
    }

    /// The pen for whoever asks the agent about the task, if nobody has it. Others can wait until the guard is dropped.
    pub(super) fn pen_to_look(&self) -> Option<(Pen, DropGuard)> {
        let mut line = self.work.lock();
        let held = line.pen.clone().try_lock_owned().ok()?;
        let look = CancellationToken::new();
        line.look = Some(look.clone());
        Some((Pen { _held: held, from_follower: false }, look.drop_guard()))
    }

    /// Waits for the end of a look that somebody else takes, if anybody does.
    pub(super) async fn looked(&self) {
        let look = self.work.lock().look.clone();
        if let Some(look) = look {
            look.cancelled().await;
        }
    }

    /// Notes who follows the task from now on. Not if somebody waits for the pen, who will then see to it.
    pub(super) fn begin_to_follow(&self, stop: &CancellationToken) -> bool {
        let mut line = self.work.lock();
        let may = line.waiting == 0;
        if may {
            line.follower = Some(stop.clone());
        }
        may
    }

    /// The follower has come to an end by itself.
    pub(super) fn end_following(&self, stop: &CancellationToken) {
        let mut line = self.work.lock();
        // One that was asked to stop has been followed by another already.
        if !stop.is_cancelled() {
            line.follower = None;
        }
    }

    /// Has whoever follows the task stop: it is over here.
    pub(super) fn stop_following(&self) {
        let follower = self.work.lock().follower.take();
        follower.iter().for_each(CancellationToken::cancel);
    }

    /// Who has the task, if that is known here.
    pub(super) fn peer(&self) -> Option<Arc<Peer>> {
        self.work.lock().peer.clone()
    }

    /// Notes who has the task.
    pub(super) fn belongs_to(&self, peer: &Arc<Peer>) {
        self.work.lock().peer = Some(peer.clone());
    }

    /// What its agent calls the task, if that is known here.
    pub(super) fn names(&self) -> Option<Names> {
        self.work.lock().names.clone()
    }

    /// Notes what its agent calls the task.
    pub(super) fn is_named(&self, names: Names) {
        self.work.lock().names = Some(names);
    }

    /// Its agent has not heard of the task. Gives what is cancelled when it ends before that.
    pub(super) fn begin_to_wait(&self) -> CancellationToken {
        self.work.lock().waits.get_or_insert_default().clone()
    }

    /// What to cancel when the task ends, if its agent has not heard of it.
    pub(super) fn waits(&self) -> Option<CancellationToken> {
        self.work.lock().waits.clone()
    }

    /// Its agent has heard of the task, or never will.
    pub(super) fn end_waiting(&self) {
        self.work.lock().waits = None;
    }

    /// Has the next question end a stream.
    pub(super) fn end_with_question(&self, end: Arc<TurnEnd>) {
        let mut line = self.work.lock();
        line.streams.retain(|end| Arc::strong_count(end) > 1);
        line.streams.push(end);
    }

    /// A question has been asked, by this event.
    pub(super) fn end_streams_after(&self, number: u64) {
        let streams = std::mem::take(&mut self.work.lock().streams);
        streams.iter().for_each(|end| end.close_after(number));
    }
}

impl Line {
    /// Whether what happens to the task comes here by itself.
    pub(super) fn is_followed(&self) -> bool {
        self.follower.is_some()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.work.lock().waiting -= 1;
    }
}
