//! Tasks that somebody works on or watches right now.
//!
//! A live task has a small ring of its newest events, so that those who keep up never touch the store; whoever
//! lags behind the ring reads the store instead. What everyone who watches has seen goes when the next event comes, so a
//! stream that is held open for long stays small. A live task lives as long as somebody who works on it, or a subscriber,
//! holds it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::task::Waker;

use chancery_protocol::{Event, TaskId};
use chancery_store::Scope;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::queue::Work;

/// How many of its newest events a task keeps at hand.
const RING_EVENTS: usize = 128;
const RING_BYTES: usize = 256 << 10;

/// The live tasks of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveTasks(Arc<Table>);

type Table = Mutex<HashMap<TaskKey, Weak<Live>, RandomState>>;

/// A task, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskKey {
    pub(crate) scope: Scope,
    pub(crate) id: TaskId,
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) key: TaskKey,
    tasks: Weak<Table>,
    ring: Mutex<Ring>,
    pub(super) work: Mutex<Work>,
    /// Told when somebody has changed who works on it.
    pub(super) changed: Notify,
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
    /// Whether there is none.
    #[cfg(feature = "server")]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The live task, made live if it was not.
    pub(super) fn enter(&self, key: &TaskKey) -> Arc<Live> {
        let mut tasks = self.0.lock();
        if let Some(live) = tasks.get(key).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(Live {
            key: key.clone(),
            tasks: Arc::downgrade(&self.0),
            ring: Mutex::default(),
            work: Mutex::default(),
            changed: Notify::new(),
        });
        tasks.insert(key.clone(), Arc::downgrade(&live));
        live
    }

    /// The live task, if it is live.
    pub(super) fn find(&self, key: &TaskKey) -> Option<Arc<Live>> {
        self.0.lock().get(key).and_then(Weak::upgrade)
    }

    /// How many live tasks are worked on like this.
    pub(super) fn count(&self, is_so: impl Fn(&Work) -> bool) -> usize {
        let tasks: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        tasks.iter().filter(|live| is_so(&live.work.lock())).count()
    }
}

// === impl Live ===

impl Live {
    /// Shows committed events to everyone who watches.
    pub(super) fn publish(&self, events: Vec<Event>, ended: bool) {
        // Most tasks have one watcher, who is woken without a list.
        let (first, others): (_, Vec<Waker>) = {
            let mut ring = self.ring.lock();
            ring.forget_seen();
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

    /// Whether nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.ring.lock().ended
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
    /// Lets go of what is there if there are watchers and all of them wait for more. One who comes later, from an earlier
    /// event on, finds it in the store.
    fn forget_seen(&mut self) {
        let watching = self.watching();
        if watching > 0 && self.watchers.iter().flatten().count() == watching {
            self.forget();
        }
    }

    fn watching(&self) -> usize {
        self.watchers.len() - self.free.len()
    }

    fn forget(&mut self) {
        self.events.clear();
        self.bytes = 0;
    }

    fn push(&mut self, events: Vec<Event>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let follows = self.events.back().is_none_or(|newest| newest.number + 1 == first.number);
        let follows = follows && last.number >= self.newest;
        self.newest = self.newest.max(last.number);
        if follows {
            self.bytes += events.iter().map(|event| event.json.len()).sum::<usize>();
            self.events.extend(events);
        } else {
            // Two committers may publish in the other order. The ring starts anew; the store fills the gap.
            self.forget();
        }
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
                if ring.watching() == 1 {
                    // Nobody else will come for them.
                    buffer.extend(ring.events.drain(..).skip(skip));
                    ring.forget();
                } else {
                    buffer.extend(ring.events.iter().skip(skip).cloned());
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event { number, json: format!("{number}").into() }
    }

    #[test]
    fn what_every_watcher_has_seen_goes_with_the_next_event() {
        let scope = Scope { realm: "r".into(), owner: "o".into(), agent: "a".into() };
        let live = LiveTasks::default().enter(&TaskKey { scope, id: TaskId::from("t") });
        let numbers = || live.ring.lock().events.iter().map(|event| event.number).collect::<Vec<_>>();
        let read = |watcher: &Watcher, cursor| {
            let mut found = VecDeque::new();
            let outcome = watcher.fetch(cursor, &mut found, Waker::noop());
            (outcome, found.iter().map(|event| event.number).collect::<Vec<_>>())
        };
        live.publish(vec![event(1)], false);
        live.publish(vec![event(2)], false);
        assert_eq!(numbers(), [1, 2], "nobody has come for them yet");
        let (one, other) = (live.clone().watch(), live.clone().watch());
        assert_eq!(read(&one, 0), (Found::Events, vec![1, 2]));
        assert_eq!(read(&one, 2), (Found::Waiting, vec![]));
        live.publish(vec![event(3)], false);
        assert_eq!(numbers(), [1, 2, 3], "one of them has not come yet");
        assert_eq!(read(&other, 0), (Found::Events, vec![1, 2, 3]));
        assert_eq!((read(&one, 3).0, read(&other, 3).0), (Found::Waiting, Found::Waiting));
        live.publish(vec![event(4)], false);
        assert_eq!(numbers(), [4]);
        assert_eq!(read(&one, 3), (Found::Events, vec![4]));
        assert_eq!(
            read(&live.clone().watch(), 1),
            (Found::Lagging, vec![]),
            "who comes late reads the store"
        );
        drop(other);
        live.publish(vec![event(5)], true);
        assert_eq!(numbers(), [4, 5], "who has been woken has not seen it yet");
    }
}
