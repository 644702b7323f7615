//! The audit log of a store in memory: bounded, and gone when the process ends.

use std::collections::VecDeque;

use chancery_protocol::Timestamp;

use super::MemoryStore;
use crate::audit::{AuditCheckpoint, AuditEntry, AuditHead, AuditRecord};
use crate::error::StoreError;

/// The entries that are kept, and what was signed about the others.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    entries: VecDeque<AuditEntry>,
    checkpoint: Option<AuditCheckpoint>,
}

impl AuditLog {
    fn head(&self) -> AuditHead {
        let begins = || self.checkpoint.as_ref().map_or(AuditHead::NONE, |checkpoint| checkpoint.head);
        self.entries.back().map_or_else(begins, AuditEntry::head)
    }
}

impl MemoryStore {
    pub(crate) fn append_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        let mut log = self.audit.lock();
        let mut head = log.head();
        let mut entries = Vec::with_capacity(records.len());
        for record in records {
            let entry = head.followed_by(record)?;
            head = entry.head();
            entries.push(entry);
        }
        log.entries.extend(entries);
        Ok(())
    }

    pub(crate) fn audit(&self, after: u64, limit: usize) -> Vec<AuditEntry> {
        let log = self.audit.lock();
        let first = log.entries.partition_point(|entry| entry.number <= after);
        log.entries.iter().skip(first).take(limit).cloned().collect()
    }

    pub(crate) fn audit_checkpoint(&self) -> Option<AuditCheckpoint> {
        self.audit.lock().checkpoint.clone()
    }

    pub(crate) fn audit_due(&self, before: Timestamp, most: u64) -> Option<AuditHead> {
        let log = self.audit.lock();
        let old = log.entries.iter().take_while(|entry| entry.at < before).count();
        let too_many = log.entries.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        log.entries.get(old.max(too_many).checked_sub(1)?).map(AuditEntry::head)
    }

    pub(crate) fn begin_audit_after(&self, checkpoint: AuditCheckpoint) {
        let mut log = self.audit.lock();
        let gone = log.entries.partition_point(|entry| entry.number <= checkpoint.head.number);
        log.entries.drain(..gone);
        log.checkpoint = Some(checkpoint);
    }
}
