//! How many streams are open at a time.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Error, ErrorCode, Operation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::ServerLimits;

/// Bounds how many streams are open at a time.
#[derive(Debug)]
pub(crate) struct StreamSlots {
    slots: Arc<Semaphore>,
    most: usize,
    keep_alive: Duration,
}

/// The place of one stream, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    pub(crate) keep_alive: Duration,
}

// === impl StreamSlots ===

impl StreamSlots {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.streams));
        Self { slots, most: limits.streams, keep_alive: limits.keep_alive }
    }

    /// How many are taken.
    pub(super) fn open(&self) -> usize {
        self.most.saturating_sub(self.slots.available_permits())
    }

    /// A place for what the operation answers with, if that is a stream.
    pub(super) fn reserve(&self, operation: Operation) -> Result<StreamSlot, Error> {
        let mut permit = None;
        if operation.is_streaming() {
            permit = Some(self.slots.clone().try_acquire_owned().map_err(|_| {
                Error::with_message(ErrorCode::Unavailable, "Too many streams are open; try again later")
                    .retry_after(Duration::from_secs(1))
            })?);
        }
        Ok(StreamSlot { permit, keep_alive: self.keep_alive })
    }
}
