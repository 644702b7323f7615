//! The place that what an operation answers with takes until it is read.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Error, Operation};

use super::limits::ServerLimits;
use super::shares::{Share, Sharer, Shares};

/// Gives what operations answer with a place.
#[derive(Debug)]
pub(crate) struct StreamSlots {
    pub(super) shares: Arc<Shares>,
    keep_alive: Duration,
}

/// The place of one answer, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    /// Of a stream.
    pub(crate) permit: Option<Share>,
    /// Of an answer that is no stream and large.
    pub(crate) unread: Option<Share>,
    pub(crate) keep_alive: Duration,
}

// === impl StreamSlots ===

impl StreamSlots {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        Self { shares: Shares::new(limits), keep_alive: limits.keep_alive }
    }

    /// How many streams are open.
    pub(super) fn open(&self) -> usize {
        self.shares.open_streams()
    }

    /// A place for what the operation answers with, if that is a stream.
    pub(super) fn reserve(
        &self,
        operation: Operation,
        sharer: impl FnOnce() -> Sharer,
    ) -> Result<StreamSlot, Error> {
        let permit = operation.is_streaming().then(|| self.shares.stream(sharer())).transpose()?;
        Ok(StreamSlot { permit, unread: None, keep_alive: self.keep_alive })
    }
}
