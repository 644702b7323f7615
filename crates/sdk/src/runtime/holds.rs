//! What admitted calls hold, by the tasks that have come of them.
//!
//! Every batch of a task passes [`Core::append`](super::Core::append), whoever has made it: a turn, a
//! cancel, the recovery after a restart. So that is where the record of the call is put into the batch, and where the
//! hold hears that it was committed.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_protocol::{
    CallOutcome, Edge, Hold, JsonObject, Settled, Statement, TaskState, USAGE_EXTENSION, Usage, UsageReport,
    Whereabouts,
};
use chancery_store::Batch;
use parking_lot::Mutex;
use serde::Serialize;

use super::live::TaskKey;
use crate::agent::Sent;

#[derive(Debug, Default)]
pub(super) struct Holds(Mutex<HashMap<TaskKey, Arc<dyn Hold>>>);

/// What goes along with a record of a call on its way into the journal.
#[derive(Debug)]
pub(super) struct Riding {
    hold: Arc<dyn Hold>,
    settles: Option<Settled>,
    is_new: bool,
}

impl Holds {
    /// Keeps what a call holds until its task ends or waits for somebody. Says no if another call pays for that already.
    pub(super) fn put(&self, key: &TaskKey, hold: &Arc<dyn Hold>) -> bool {
        let mut held = self.0.lock();
        let is_first = !held.contains_key(key);
        if is_first {
            held.insert(key.clone(), hold.clone());
        }
        is_first
    }

    /// Keeps it no longer.
    pub(super) fn forget(&self, key: &TaskKey, hold: &Arc<dyn Hold>) {
        let mut held = self.0.lock();
        if held.get(key).is_some_and(|known| Arc::ptr_eq(known, hold)) {
            held.remove(key);
        }
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
        let hold = new.or_else(|| self.of(key))?;
        // An agent may report with any status, and the last one need not say it again.
        let usage = batch.status_metadata().filter_map(|said| reported(&*hold, said)).reduce(Usage::most);
        let ending = |state: &TaskState| state.is_terminal() || state.is_interrupted();
        if let Some(state) = batch.outcome().filter(ending) {
            let settling = hold.settle(&key.id, outcome(sent, Some(state)), usage);
            let told = match &settling.whereabouts {
                None => JsonObject::single(USAGE_EXTENSION, &settling.statement),
                Some(lineage) => JsonObject::from_value(&Told { usage: &settling.statement, lineage }),
            };
            told.into_iter().for_each(|told| batch.annotate(told));
            batch.edge = Some(settling.edge);
            return Some(Riding { hold, settles: Some(settling.settled), is_new });
        }
        if let Some(usage) = usage {
            // What is too much is stopped by whoever says so here.
            let _ = hold.spend(usage);
        }
        if !is_new {
            return None;
        }
        let (edge, riding) = self.begin(key, hold);
        batch.edge = Some(edge);
        Some(riding)
    }

    /// The record of a call that begins.
    pub(super) fn begin(&self, key: &TaskKey, hold: Arc<dyn Hold>) -> (Box<Edge>, Riding) {
        let edge = hold.begin(&key.id);
        // Before the commit: whoever learns of the task from then on must find this.
        self.put(key, &hold);
        (edge, Riding { hold, settles: None, is_new: true })
    }

    /// The record of a call that ends without a task of its own.
    pub(super) fn settle(
        key: &TaskKey,
        hold: Arc<dyn Hold>,
        outcome: CallOutcome,
        said: Option<&JsonObject>,
    ) -> (Box<Edge>, Riding) {
        let usage = reported(&*hold, &mut said.cloned());
        let settling = hold.settle(&key.id, outcome, usage);
        (settling.edge, Riding { hold, settles: Some(settling.settled), is_new: false })
    }

    /// The record has been committed, or has not.
    pub(super) fn landed(&self, key: &TaskKey, riding: Option<Riding>, is_committed: bool) {
        let Some(Riding { hold, settles, is_new }) = riding else { return };
        match settles {
            Some(settled) if is_committed => hold.settled(&settled),
            None if is_committed => return hold.began(),
            _ => hold.refused(),
        }
        if is_committed || is_new {
            self.forget(key, &hold);
        }
    }

    /// What a call holds for a task.
    pub(super) fn of(&self, key: &TaskKey) -> Option<Arc<dyn Hold>> {
        self.0.lock().get(key).cloned()
    }
}

/// What has become of a call.
pub(super) fn outcome(sent: Sent, state: Option<TaskState>) -> CallOutcome {
    match (sent, state) {
        (Sent::Never, _) => CallOutcome::NotDispatched,
        (Sent::Answered, Some(state)) => CallOutcome::Task(state),
        (Sent::Answered, None) => CallOutcome::Answered,
        (Sent::Unanswered, state) => CallOutcome::Unknown(state),
    }
}

/// What a caller is told, keyed by the extensions that it stands under.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "urn:chancery:ext:usage:v1")]
    usage: &'a Statement,
    #[serde(rename = "urn:chancery:ext:lineage:v1")]
    lineage: &'a Whereabouts,
}

/// Reads what a status or a message says that was consumed, and says it in our own words in its place. Fields that cannot be
/// read count for nothing.
fn reported(hold: &dyn Hold, metadata: &mut Option<JsonObject>) -> Option<Usage> {
    let said = metadata.as_ref()?;
    let report = UsageReport::in_metadata(said)?;
    if !report.ignored.is_empty() {
        hold.ignore(report.ignored);
    }
    *metadata = match report.usage.and_then(|usage| JsonObject::single(USAGE_EXTENSION, &usage).ok()) {
        Some(told) => Some(said.merged(&told)),
        None => said.without(USAGE_EXTENSION),
    };
    report.usage
}
