//! Where news of a task that goes on elsewhere come from, and how following it stands.

use std::time::{Duration, Instant};

use chancery_protocol::TaskState;
use tokio::task::JoinHandle;

use crate::client::Feed;

/// Where news come from.
pub(super) enum Source {
    Stream(Box<Feed>),
    /// A stream that cannot be read: the task is to be asked for.
    Unread(Box<Feed>),
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
    /// Whether the next event is the first of its stream.
    pub(super) is_first: bool,
    /// When the stream was opened that is read.
    opened: Instant,
    /// Since when the agent has neither shown anything new nor answered for the task.
    pub(super) failing_since: Option<Instant>,
    /// How often in a row nothing new has come by asking for it.
    in_vain: u32,
    pub(super) pause: Duration,
    /// A stream that cannot be read.
    unread: Option<KeptOpen>,
}

/// Some agents stop what they do when nobody reads their stream: it is read to its end, whatever it says.
struct KeptOpen(JoinHandle<()>);

/// How long to wait between two questions about a task, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long an agent may take to end a stream after it has said everything.
const GOODBYE: Duration = Duration::from_secs(5);

// === impl Progress ===

impl Progress {
    pub(super) fn new(source: Source) -> Self {
        let is_unread = matches!(source, Source::Unread(_));
        let mut progress = Self {
            source,
            watchable: true,
            last: 0,
            is_first: false,
            opened: Instant::now(),
            failing_since: None,
            in_vain: 0,
            pause: Duration::ZERO,
            unread: None,
        };
        if is_unread {
            progress.cannot_read();
        }
        progress
    }

    /// The stream says what cannot be read: the task is asked for from now on.
    pub(super) fn cannot_read(&mut self) {
        self.watchable = false;
        if let Source::Stream(events) | Source::Unread(events) =
            std::mem::replace(&mut self.source, Source::Look)
        {
            self.unread = Some(KeptOpen(tokio::spawn(events.read_to_end())));
        }
    }

    pub(super) fn opened(&mut self, events: Box<Feed>) {
        (self.source, self.is_first, self.opened) = (Source::Stream(events), true, Instant::now());
    }

    /// The agent has answered for the task.
    pub(super) fn looked(&mut self) {
        self.failing_since = None;
        self.in_vain += 1;
        // By whatever number the agent knows what is new in it, it is none that came by a stream.
        self.last = 0;
        self.pause = self.longer_pause();
        self.source = if self.watchable { Source::Watch } else { Source::Look };
    }

    /// Something new has come.
    pub(super) fn is_alive(&mut self) {
        (self.failing_since, self.in_vain) = (None, 0);
    }

    /// Since when the agent cannot be asked. A stream that was open for long was well until now.
    pub(super) fn failing_since(&mut self, patience: Duration) -> Instant {
        if matches!(self.source, Source::Stream(_)) && self.opened.elapsed() >= patience {
            self.failing_since = None;
        }
        *self.failing_since.get_or_insert_with(Instant::now)
    }

    /// How to ask after what was asked for has broken off: what is not worth watching is asked for in between.
    pub(super) fn after_break(&mut self) {
        if let Source::Stream(events) = &self.source {
            self.last = events.last_event();
        }
        self.in_vain += 1;
        self.pause = self.longer_pause();
        let look = matches!(self.source, Source::Look) || !self.watchable || self.in_vain.is_multiple_of(2);
        self.source = if look { Source::Look } else { Source::Watch };
    }

    /// A task that waits for an authorization is asked for now and then.
    pub(super) fn rest_if_waiting(&mut self, state: TaskState) {
        if state.is_interrupted() {
            (self.source, self.pause) = (Source::Look, LONGEST_PAUSE);
        }
    }

    /// Longer with every time that it was in vain.
    fn longer_pause(&self) -> Duration {
        FIRST_PAUSE.saturating_mul(1 << self.in_vain.min(6)).min(LONGEST_PAUSE)
    }
}

// === impl KeptOpen ===

impl Drop for KeptOpen {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl Source ===

impl Source {
    /// Reads a stream to its end, so that its connection can be used again.
    pub(super) fn leave(self) {
        if let Self::Stream(mut events) = self {
            events.satisfied();
            tokio::spawn(async move {
                let rest = async { while let Some(Ok(_)) = events.next().await {} };
                let _ = tokio::time::timeout(GOODBYE, rest).await;
            });
        }
    }
}
