//! What admitted calls hold, by the tasks that have come of them.
//!
//! Every batch of a task passes [`Core::append`](super::Core::append), whoever has made it: a turn, a
//! cancel, the recovery after a restart. So that is where the record of the call is put into the batch, and where the
//! hold hears that it was committed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chancery_protocol::{
    CallOutcome, Hold, JsonObject, Settled, Statement, TaskId, TaskState, USAGE_EXTENSION, Usage,
    UsageReport, Whereabouts,
};
use chancery_store::Batch;
use parking_lot::Mutex;
use serde::Serialize;

use super::live::TaskKey;
use crate::agent::Sent;

const SHARDS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Holds {
    shards: [Mutex<Shard>; SHARDS],
    /// So that it costs nothing to look where nothing is held.
    count: AtomicUsize,
}

type Shard = HashMap<TaskKey, Held>;

#[derive(Debug)]
struct Held {
    hold: Arc<dyn Hold>,
    /// Whether the record of the call is in the journal, or on its way there.
    recorded: bool,
}

/// What goes along with a batch.
#[derive(Debug)]
pub(super) struct Riding {
    hold: Arc<dyn Hold>,
    settles: Option<Settled>,
    is_new: bool,
}

impl Holds {
    /// Keeps what a call holds until its task ends or waits for somebody. Says no if another call pays for that already.
    pub(super) fn put(&self, key: &TaskKey, hold: &Arc<dyn Hold>, recorded: bool) -> bool {
        let mut shard = self.shard(key).lock();
        let is_first = !shard.contains_key(key);
        if is_first {
            shard.insert(key.clone(), Held { hold: hold.clone(), recorded });
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_first
    }

    /// Keeps it no longer.
    pub(super) fn forget(&self, key: &TaskKey, hold: &Arc<dyn Hold>) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut shard = self.shard(key).lock();
        let is_it = shard.get(key).is_some_and(|held| Arc::ptr_eq(&held.hold, hold));
        let held = if is_it { shard.remove(key) } else { return };
        self.count.fetch_sub(1, Ordering::Relaxed);
        drop(shard);
        drop(held);
    }

    /// Puts the record of the call into a batch that begins or ends its work. The first batch brings along what the
    /// call holds; for the others it is known.
    pub(super) fn ride(
        &self,
        key: &TaskKey,
        batch: &mut Batch,
        new: Option<Arc<dyn Hold>>,
        sent: Sent,
    ) -> Option<Riding> {
        let is_new = new.is_some();
        let (hold, recorded) = match new {
            Some(hold) => (hold, false),
            None => self.known(key)?,
        };
        let (state, said) = batch.outcome().unzip();
        let usage = said.flatten().and_then(|said| reported(&*hold, said));
        if let Some(state) = state.filter(|state| state.is_terminal() || state.is_interrupted()) {
            let settles = Some(settle(&*hold, &key.id, outcome_of(state, sent), usage, batch));
            return Some(Riding { hold, settles, is_new });
        }
        if let Some(usage) = usage {
            // What is too much is stopped by whoever says so here.
            let _ = hold.spend(usage);
        }
        if recorded {
            return None;
        }
        batch.edge = Some(hold.begin(&key.id));
        if is_new {
            // Before the commit: whoever learns of the task from then on must find this.
            self.put(key, &hold, true);
        }
        Some(Riding { hold, settles: None, is_new })
    }

    /// The batch has been committed.
    pub(super) fn committed(&self, key: &TaskKey, riding: &Riding) {
        if let Some(settled) = &riding.settles {
            riding.hold.settled(settled);
            self.forget(key, &riding.hold);
            return;
        }
        if !riding.is_new {
            self.shard(key).lock().get_mut(key).into_iter().for_each(|held| held.recorded = true);
        }
        riding.hold.began();
    }

    /// The batch has not been committed.
    pub(super) fn refused(&self, key: &TaskKey, riding: &Riding) {
        riding.hold.refused();
        if riding.is_new {
            self.forget(key, &riding.hold);
        }
    }

    /// What a call holds for a task.
    pub(super) fn of(&self, key: &TaskKey) -> Option<Arc<dyn Hold>> {
        self.known(key).map(|(hold, _)| hold)
    }

    fn known(&self, key: &TaskKey) -> Option<(Arc<dyn Hold>, bool)> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let shard = self.shard(key).lock();
        let held = shard.get(key)?;
        Some((held.hold.clone(), held.recorded))
    }

    fn shard(&self, key: &TaskKey) -> &Mutex<Shard> {
        // The end of an id is its random part.
        let last = key.id.as_str().as_bytes().last().copied().unwrap_or_default();
        &self.shards[usize::from(last) % SHARDS]
    }
}

/// What came of a call that leaves its task in this state.
fn outcome_of(state: TaskState, sent: Sent) -> CallOutcome {
    match sent {
        Sent::Never => CallOutcome::NotDispatched,
        Sent::Answered => CallOutcome::Task(state),
        Sent::Unanswered => CallOutcome::Unknown(Some(state)),
    }
}

/// Puts into a batch what its call comes to, for the journal and for the caller.
fn settle(
    hold: &dyn Hold,
    id: &TaskId,
    outcome: CallOutcome,
    usage: Option<Usage>,
    batch: &mut Batch,
) -> Settled {
    let settling = hold.settle(id, outcome, usage);
    let told = match &settling.whereabouts {
        None => JsonObject::single(USAGE_EXTENSION, &settling.statement),
        Some(whereabouts) => {
            JsonObject::from_value(&Told { usage: &settling.statement, lineage: whereabouts })
        }
    };
    if let Ok(told) = told {
        batch.annotate(told);
    }
    let settled = settling.settled;
    batch.edge = Some(settling.edge);
    settled
}

/// What a caller is told, keyed by the extensions that it stands under.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "urn:chancery:ext:usage:v1")]
    usage: &'a Statement,
    #[serde(rename = "urn:chancery:ext:lineage:v1")]
    lineage: &'a Whereabouts,
}

/// What a status or a message says that was consumed. Fields that cannot be read count for nothing.
pub(super) fn reported(hold: &dyn Hold, metadata: &JsonObject) -> Option<Usage> {
    let report = UsageReport::in_metadata(metadata)?;
    if !report.ignored.is_empty() {
        hold.ignore(report.ignored);
    }
    report.usage
}
