//! Tasks that somebody works on or watches right now.
//!
//! A live task has the events that were committed last, so that those who keep up never touch the store; whoever lags reads
//! the store instead. A live task lives as long as somebody who works on it, or a subscriber, holds it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use chancery_protocol::{Event, KeptTask, TaskId};
use chancery_store::{Appended, Scope};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::queue::Work;

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
    shown: watch::Sender<Shown>,
    pub(super) work: Mutex<Work>,
    /// Told when somebody has changed who works on it.
    pub(super) changed: Notify,
}

/// What has been shown of a task.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The number of the newest event.
    pub(super) newest: u64,
    /// No event follows the newest.
    pub(super) ended: bool,
    /// Those that were committed last.
    events: Vec<Event>,
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
            shown: watch::Sender::default(),
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
    /// Shows what was committed to everyone who watches.
    pub(super) fn publish(&self, appended: Appended) -> KeptTask {
        let Appended { events, number, task, .. } = appended;
        self.shown.send_modify(|shown| {
            // Two committers may publish in the other order. Who has not seen the earlier ones reads the store.
            if number > shown.newest {
                (shown.newest, shown.events) = (number, events);
            }
            shown.ended |= task.is_over();
        });
        task
    }

    /// Tells a task that was not live how far its journal has come.
    pub(super) fn catch_up(&self, number: u64, ended: bool) {
        self.shown.send_modify(|shown| {
            shown.newest = shown.newest.max(number);
            shown.ended |= ended;
        });
    }

    /// Whether nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.shown.borrow().ended
    }

    /// Whether there is anything of the task in the journal.
    pub(super) fn has_begun(&self) -> bool {
        self.shown.borrow().newest > 0
    }

    /// What is shown, from now on.
    pub(super) fn watch(&self) -> watch::Receiver<Shown> {
        self.shown.subscribe()
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

// === impl Shown ===

impl Shown {
    /// The events that follow this one, if it is known here which do.
    pub(super) fn after(&self, cursor: u64) -> Option<&[Event]> {
        let skip = (cursor + 1).checked_sub(self.events.first()?.number)?;
        self.events.get(usize::try_from(skip).ok()?..).filter(|events| !events.is_empty())
    }
}
