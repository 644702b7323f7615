//! Tasks that somebody works on or watches right now.
//!
//! A live task has a small ring of its newest events, so that those who keep up never touch the store; whoever
//! lags behind the ring reads the store instead. It lives as long as a driver or a subscriber holds it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::task::Waker;

use chancery_protocol::{Error, Event, TaskId};
use chancery_store::{Clock, Scope};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::queue::{Queued, TurnEnd};
use super::sink::Sink;

/// How many of its newest events a task keeps at hand.
const RING_EVENTS: usize = 128;
const RING_BYTES: usize = 256 << 10;

/// The live tasks of a runtime.
#[derive(Debug, Default)]
pub(super) struct LiveTasks(Arc<Mutex<HashMap<Key, Weak<Live>>>>);

type Key = (Scope, TaskId);

#[derive(Debug)]
pub(super) struct Live {
    key: Key,
    tasks: Weak<Mutex<HashMap<Key, Weak<Live>>>>,
    ring: Mutex<Ring>,
    pub(super) work: Mutex<Work>,
}

/// Who works on the task.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The turn that runs, by the token that stops it.
    pub(super) running: Option<CancellationToken>,
    /// Messages that wait for it to end.
    pub(super) queue: VecDeque<Queued>,
    /// Streams that no running turn ends: those that stayed open while the client authenticates, and those
    /// that joined a repeated send. The next question does.
    pub(super) streams: Vec<Arc<TurnEnd>>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Event>,
    bytes: usize,
    /// The number of the newest event.
    newest: u64,
    /// No event follows the newest.
    ended: bool,
    /// One place for each watcher.
    watchers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// A place in the list of those who are woken when events come.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) live: Arc<Live>,
    place: usize,
}

/// What a watcher finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The next events are in the buffer now.
    Events,
    /// There are more, but only the store has them.
    Lagging,
    /// There are no more yet; the watcher will be woken.
    Waiting,
    /// There are no more.
    Ended,
}

// === impl LiveTasks ===

impl LiveTasks {
    /// The live task, made live if it was not.
    pub(super) fn enter(&self, scope: &Scope, id: &TaskId) -> Arc<Live> {
        let mut tasks = self.0.lock();
        let key = (scope.clone(), id.clone());
        if let Some(live) = tasks.get(&key).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(Live {
            key: key.clone(),
            tasks: Arc::downgrade(&self.0),
            ring: Mutex::default(),
            work: Mutex::default(),
        });
        tasks.insert(key, Arc::downgrade(&live));
        live
    }

    /// The live task, if it is live.
    pub(super) fn find(&self, scope: &Scope, id: &TaskId) -> Option<Arc<Live>> {
        self.0.lock().get(&(scope.clone(), id.clone())).and_then(Weak::upgrade)
    }

    /// How many turns run.
    pub(super) fn running(&self) -> usize {
        let tasks: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        tasks.iter().filter(|live| live.work.lock().running.is_some()).count()
    }
}

// === impl Live ===

impl Live {
    pub(super) fn scope(&self) -> &Scope {
        &self.key.0
    }

    pub(super) fn task_id(&self) -> &TaskId {
        &self.key.1
    }

    /// Shows committed events to everyone who watches.
    pub(super) fn publish(&self, events: &[Event], ended: bool) {
        // Most tasks have one watcher, who is woken without a list.
        let (first, others): (_, Vec<Waker>) = {
            let mut ring = self.ring.lock();
            ring.push(events);
            ring.ended |= ended;
            let mut woken = ring.watchers.iter_mut().filter_map(Option::take);
            (woken.next(), woken.collect())
        };
        first.into_iter().chain(others).for_each(Waker::wake);
    }

    /// Tells a task that was not live how far its journal has come.
    pub(super) fn catch_up(&self, number: u64, ended: bool) {
        let mut ring = self.ring.lock();
        ring.newest = ring.newest.max(number);
        ring.ended |= ended;
    }

    pub(super) fn watch(self: Arc<Self>) -> Watcher {
        let place = {
            let mut ring = self.ring.lock();
            ring.free.pop().unwrap_or_else(|| {
                ring.watchers.push(None);
                ring.watchers.len() - 1
            })
        };
        Watcher { live: self, place }
    }

    /// Marks the task as worked on, unless somebody does already.
    pub(super) fn claim(&self, sink: &Sink) -> bool {
        let mut work = self.work.lock();
        let free = work.running.is_none();
        if free {
            work.running = Some(sink.cancellation().clone());
        }
        free
    }

    /// Hands the task from the turn that has ended to the message that waits; frees it if none does.
    pub(super) fn next_in_queue(&self, clock: &Clock) -> Option<(Queued, Sink)> {
        let mut work = self.work.lock();
        let Some(queued) = work.queue.pop_front() else {
            work.running = None;
            return None;
        };
        let context_id = queued.incoming.message.context_id.clone().unwrap_or_else(|| "".into());
        let sink = Sink::working(clock, self.key.1.clone(), context_id);
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

impl Drop for Live {
    fn drop(&mut self) {
        let Some(tasks) = self.tasks.upgrade() else { return };
        let mut tasks = tasks.lock();
        // Another one may have taken its place already.
        if tasks.get(&self.key).is_some_and(|live| live.strong_count() == 0) {
            tasks.remove(&self.key);
        }
    }
}

// === impl Ring ===

impl Ring {
    fn push(&mut self, events: &[Event]) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let follows = self.events.back().is_none_or(|newest| newest.number + 1 == first.number);
        if follows && last.number >= self.newest {
            self.bytes += events.iter().map(|event| event.json.len()).sum::<usize>();
            self.events.extend(events.iter().cloned());
        } else {
            // Two committers may publish in the other order. The ring starts anew; the store fills the gap.
            self.events.clear();
            self.bytes = 0;
        }
        self.newest = self.newest.max(last.number);
        while self.events.len() > RING_EVENTS || self.bytes > RING_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.json.len();
        }
    }
}

// === impl Watcher ===

impl Watcher {
    /// Fetches the events after `cursor` into a buffer, or arranges to be woken.
    pub(super) fn fetch(&self, cursor: u64, buffer: &mut VecDeque<Event>, waker: &Waker) -> Found {
        let mut ring = self.live.ring.lock();
        if cursor >= ring.newest {
            if ring.ended {
                return Found::Ended;
            }
            ring.watchers[self.place] = Some(waker.clone());
            return Found::Waiting;
        }
        match ring.events.front() {
            Some(oldest) if oldest.number <= cursor + 1 => {
                let skip = usize::try_from(cursor + 1 - oldest.number).unwrap_or(usize::MAX);
                buffer.extend(ring.events.iter().skip(skip).cloned());
                if buffer.is_empty() { Found::Lagging } else { Found::Events }
            }
            _ => Found::Lagging,
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut ring = self.live.ring.lock();
        ring.watchers[self.place] = None;
        ring.free.push(self.place);
    }
}
