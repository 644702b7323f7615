//! The task that writes the audit log: acts at once, refusals once a second, and all that is left when the gateway ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chancery_store::{AuditRecord, Store};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{Act, Audit, acts, retention};
use crate::config::AuditSection;

/// Writes what is left with an [`Audit`].
pub(crate) struct Recorder {
    audit: Arc<Audit>,
    store: Arc<Store>,
    data: PathBuf,
    keep: AuditSection,
    /// What the store has not taken yet.
    unwritten: Vec<AuditRecord>,
    /// How many were given up.
    lost: u64,
    is_failing: bool,
}

/// Ends the task, once all is written.
pub(crate) struct RecorderEnd {
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<()>,
}

/// How often refusals are written.
const PERIOD: Duration = Duration::from_secs(1);
/// How often it is looked whether there are entries to remove, or another key to sign with.
const TIDY: Duration = Duration::from_secs(60);
/// How many entries wait for a store that cannot be written to.
const MOST_UNWRITTEN: usize = 8192;

impl Recorder {
    pub(crate) fn new(audit: Arc<Audit>, store: Arc<Store>, data: PathBuf, keep: AuditSection) -> Self {
        Self { audit, store, data, keep, unwritten: Vec::new(), lost: 0, is_failing: false }
    }

    pub(crate) fn start(self) -> RecorderEnd {
        let stop = CancellationToken::new();
        RecorderEnd { ended: tokio::spawn(self.run(stop.clone())), stop }
    }

    async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tidy = Instant::now();
        let audit = self.audit.clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.write_all().await;
                    return;
                }
                () = audit.left.notified() => self.write(Vec::new()).await,
                _ = ticks.tick() => {
                    self.write_all().await;
                    if tidy <= Instant::now() {
                        tidy = Instant::now() + TIDY;
                        retention::tidy(&self.store, &self.data, &self.keep, &self.audit).await;
                    }
                }
            }
        }
    }

    /// Writes acts, refusals, and what commands have done.
    async fn write_all(&mut self) {
        let pending = acts::Pending::read(&self.data).unwrap_or_else(|error| {
            tracing::error!("what commands have done cannot be read, and is not in the audit log: {error:#}");
            acts::Pending::default()
        });
        let mut records = self.audit.tally.lock().take();
        records.extend(pending.records.iter().cloned());
        self.write(records).await;
        // What could not be written stays in memory from now on only if it is not in the file.
        if self.unwritten.is_empty() && !pending.records.is_empty() {
            if let Err(error) = pending.remove(&self.data) {
                tracing::error!("what commands have done is written down again: {error:#}");
            }
        } else if !self.unwritten.is_empty() {
            self.unwritten.retain(|record| !pending.records.contains(record));
        }
    }

    /// Writes acts and these.
    async fn write(&mut self, records: Vec<AuditRecord>) {
        let acts = std::mem::take(&mut *self.audit.acts.lock());
        let (mut done, mut waiting) = (Vec::with_capacity(acts.len()), Vec::new());
        for Act { record, told } in acts {
            done.push(record);
            waiting.extend(told);
        }
        // What operators do is given up last.
        let room = MOST_UNWRITTEN.saturating_sub(self.unwritten.len());
        done.truncate(room);
        let kept = records.len().min(room - done.len());
        self.lost += (records.len() - kept) as u64;
        self.unwritten.extend(done);
        self.unwritten.extend(records.into_iter().take(kept));
        let outcome = self.append().await;
        tell(waiting, &outcome);
    }

    async fn append(&mut self) -> Result<(), String> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let mut records = self.unwritten.clone();
        if self.lost > 0 {
            records.push(AuditRecord::new("gap", "audit.lost").detail("count", self.lost));
        }
        match self.store.append_audit(records).await {
            Ok(()) => {
                self.unwritten.clear();
                self.lost = 0;
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the audit log is written again");
                }
                Ok(())
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "the audit log cannot be written; it is tried again every second");
                }
                Err(error.to_string())
            }
        }
    }
}

fn tell(waiting: Vec<oneshot::Sender<Result<(), String>>>, outcome: &Result<(), String>) {
    for told in waiting {
        let _ = told.send(outcome.clone());
    }
}

impl RecorderEnd {
    /// Waits until everything is written.
    pub(crate) async fn finish(self) {
        self.stop.cancel();
        let _ = self.ended.await;
    }
}
