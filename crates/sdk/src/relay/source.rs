//! Where news of a task that goes on elsewhere come from, and how following it stands.

use std::time::{Duration, Instant};

use chancery_protocol::TaskState;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Feed;

/// Where news come from.
pub(super) enum Source {
    Stream(Box<Feed>),
    /// The task is to be subscribed to.
    Watch,
    /// The task is to be asked for.
    Look,
}

/// How following a task stands.
pub(super) struct Progress {
    pub(super) source: Source,
    /// Whether the agent lets the task be watched.
    pub(super) watchable: bool,
    /// The number of the last event that came by a stream that has ended; 0 if it had none.
    pub(super) last: u64,
    /// Since when the agent has neither shown anything new nor answered for the task.
    pub(super) failing_since: Option<Instant>,
    /// How long to wait before the agent is asked the next time.
    pub(super) pause: Duration,
    /// A stream that cannot be read. Some agents stop what they do when nobody reads it: it is read to its end, whatever it says.
    unread: JoinSet<()>,
}

/// How long to wait between two questions about a task, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long an agent may take to end a stream after it has said everything.
const GOODBYE: Duration = Duration::from_secs(5);

// === impl Progress ===

impl Progress {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            watchable: true,
            last: 0,
            failing_since: None,
            pause: Duration::ZERO,
            unread: JoinSet::new(),
        }
    }

    /// The stream says what cannot be read: the task is asked for from now on.
    pub(super) fn cannot_read(&mut self) {
        self.watchable = false;
        if let Source::Stream(events) = std::mem::replace(&mut self.source, Source::Look) {
            self.unread.spawn(events.read_to_end());
        }
    }

    /// The task cannot be watched, or not now: it is asked for at once.
    pub(super) fn look_now(&mut self) {
        (self.source, self.pause) = (Source::Look, Duration::ZERO);
    }

    /// The agent has answered for the task. A stream goes on unless it has not brought what is new in it.
    pub(super) fn looked(&mut self, is_new: bool) {
        self.failing_since = None;
        if is_new || !matches!(self.source, Source::Stream(_)) {
            // By whatever number the agent knows what is new in it, it is none that came by a stream.
            self.last = 0;
            self.source = if self.watchable { Source::Watch } else { Source::Look };
            self.lengthen_pause();
        }
    }

    /// Something new has come.
    pub(super) fn is_alive(&mut self) {
        (self.failing_since, self.pause) = (None, self.pause.min(FIRST_PAUSE));
    }

    /// How to ask after what was asked for has broken off: what has not been worth watching is asked for in between.
    pub(super) fn after_break(&mut self) {
        if let Source::Stream(events) = &self.source {
            self.last = events.last_event();
        }
        let look = matches!(self.source, Source::Look) || !self.watchable || self.pause > FIRST_PAUSE;
        self.source = if look { Source::Look } else { Source::Watch };
        self.lengthen_pause();
    }

    /// A task that waits for an authorization is asked for now and then.
    pub(super) fn rest_if_waiting(&mut self, state: TaskState) {
        if state.is_interrupted() {
            (self.source, self.pause) = (Source::Look, LONGEST_PAUSE);
        }
    }

    fn lengthen_pause(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
    }
}

// === impl Source ===

impl Source {
    /// Reads a stream to its end, so that its connection can be used again.
    pub(super) fn leave(self) {
        if let Self::Stream(events) = self {
            tokio::spawn(timeout(GOODBYE, events.read_to_end()));
        }
    }
}
