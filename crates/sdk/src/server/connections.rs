//! How many connections there are at a time: of all, and of each source. Who stands in front for many is exempt.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chancery_protocol::network_of;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::ServerLimits;

/// How often it is said that connections are refused.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The places for connections.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    all: Arc<Semaphore>,
    each: usize,
    sources: Mutex<HashMap<IpAddr, usize, RandomState>>,
    refused: Arc<AtomicU64>,
    said: Mutex<Option<Instant>>,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    source: Option<(Arc<ConnectionSlots>, IpAddr)>,
}

// === impl ConnectionSlots ===

impl ConnectionSlots {
    /// Those that are refused are counted here.
    pub(super) fn new(limits: &ServerLimits, refused: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            all: Arc::new(Semaphore::new(limits.connections)),
            each: limits.connections_per_source,
            sources: Mutex::default(),
            refused,
            said: Mutex::default(),
        })
    }

    /// Waits for room for one more.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        loop {
            // It is never closed.
            if let Ok(permit) = self.all.clone().acquire_owned().await {
                return permit;
            }
        }
    }

    /// A place for a connection from a source, if that has not too many; from none, if it has as many as it likes.
    pub(super) fn place(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        source: Option<IpAddr>,
    ) -> Option<ConnectionSlot> {
        let Some(source) = source.map(network_of) else {
            return Some(ConnectionSlot { _permit: permit, source: None });
        };
        let mut sources = self.sources.lock();
        let open = sources.entry(source).or_default();
        if *open >= self.each {
            drop(sources);
            self.refuse(source);
            return None;
        }
        *open += 1;
        Some(ConnectionSlot { _permit: permit, source: Some((self.clone(), source)) })
    }

    fn refuse(&self, source: IpAddr) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut said = self.said.lock();
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            *said = Some(Instant::now());
            let most = self.each;
            tracing::warn!(
                %source,
                "connections from {source} are refused: it has {most}, which is as many as one source may"
            );
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some((slots, source)) = &self.source else { return };
        if let Entry::Occupied(mut open) = slots.sources.lock().entry(*source) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_source_has_its_own_and_leaves_the_rest_to_others() {
        let limits = ServerLimits { connections: 4, connections_per_source: 2, ..ServerLimits::default() };
        let refused = Arc::new(AtomicU64::new(0));
        let slots = ConnectionSlots::new(&limits, refused.clone());
        let (here, there) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        let first = slots.place(slots.room().await, here).unwrap();
        let _second = slots.place(slots.room().await, here).unwrap();
        assert!(slots.place(slots.room().await, here).is_none());
        assert_eq!(refused.load(Ordering::Relaxed), 1);
        assert_eq!(slots.all.available_permits(), 2, "who is refused takes no place");
        let _other = slots.place(slots.room().await, there).unwrap();
        drop(first);
        let again = slots.place(slots.room().await, here).unwrap();
        drop(again);
        let _proxy = slots.place(slots.room().await, None).unwrap();
    }
}
