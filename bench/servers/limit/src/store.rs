//! The store of `limit+store`: sixteen locked maps, the least a server can keep tasks in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use uuid::Uuid;

use crate::clock::Stamp;
use crate::wire::{Ids, Message};

const SHARDS: usize = 16;

#[derive(Default)]
pub(crate) struct Store {
    shards: [Mutex<HashMap<Uuid, Arc<Kept>>>; SHARDS],
}

/// One task as it is kept: what it takes to write it again, and its events if it streamed.
pub(crate) struct Kept {
    pub(crate) ids: Ids,
    pub(crate) timestamp: Stamp,
    pub(crate) message: Message<'static>,
    pub(crate) events: Mutex<Vec<Bytes>>,
}

// === impl Store ===

impl Store {
    pub(crate) fn insert(&self, ids: Ids, timestamp: Stamp, message: Message<'static>) -> Arc<Kept> {
        let kept = Arc::new(Kept { ids, timestamp, message, events: Mutex::default() });
        let mut shard = self.shard(ids.task).lock().unwrap_or_else(PoisonError::into_inner);
        shard.insert(ids.task, Arc::clone(&kept));
        kept
    }

    pub(crate) fn find(&self, id: Uuid) -> Option<Arc<Kept>> {
        self.shard(id).lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn shard(&self, id: Uuid) -> &Mutex<HashMap<Uuid, Arc<Kept>>> {
        // The last byte of a UUIDv7 is random.
        &self.shards[usize::from(id.as_bytes()[15]) % SHARDS]
    }
}

// === impl Kept ===

impl Kept {
    pub(crate) fn push(&self, event: Bytes) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
