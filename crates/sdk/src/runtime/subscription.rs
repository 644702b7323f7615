//! A stream of the events of one task: from any event on, in order, without a gap.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use chancery_protocol::{Error, Event, EventStream, Message, StreamResponse};
use chancery_store::{Read, Snapshot, Store};
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::watch;

use super::failure::from_store;
use super::live::{Live, Shown, TaskKey};

/// How many events one read of the store fetches for a subscriber that lags.
const READ_AHEAD: usize = 64;

pub(super) struct Subscription {
    store: Arc<Store>,
    live: Arc<Live>,
    shown: watch::Receiver<Shown>,
    /// The number of the last event that was told.
    cursor: u64,
    fetched: VecDeque<Event>,
    /// Ends the stream before the task does.
    end: Option<Arc<TurnEnd>>,
}

/// Where the streams of one turn end, if that is before the task does.
#[derive(Debug, Default)]
pub(super) struct TurnEnd(AtomicU64);

impl Subscription {
    /// Everything after an event.
    pub(super) fn after(
        store: Arc<Store>,
        live: Arc<Live>,
        cursor: u64,
        end: Option<Arc<TurnEnd>>,
    ) -> EventStream {
        let (shown, fetched) = (live.watch(), VecDeque::new());
        let subscription = Self { store, live, shown, cursor, fetched, end };
        Box::pin(stream::try_unfold(subscription, async |mut subscription| {
            Ok(subscription.next().await?.map(|event| (event, subscription)))
        }))
    }

    /// The task as it stands, then everything after that.
    pub(super) fn with_snapshot(
        store: Arc<Store>,
        live: Arc<Live>,
        snapshot: &Snapshot,
        end: Option<Arc<TurnEnd>>,
    ) -> Result<EventStream, Error> {
        let first = stream::iter([Ok(snapshot_event(snapshot)?)]);
        Ok(Box::pin(first.chain(Self::after(store, live, snapshot.number, end))))
    }

    async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if self.end.as_ref().is_some_and(|end| end.is_closed_after(self.cursor)) {
                return Ok(None);
            }
            if let Some(event) = self.fetched.pop_front() {
                self.cursor = self.cursor.max(event.number);
                return Ok(Some(event));
            }
            let is_behind = {
                let shown = self.shown.borrow_and_update();
                self.fetched.extend(shown.after(self.cursor).into_iter().flatten().cloned());
                if shown.ended && self.cursor >= shown.newest {
                    return Ok(None);
                }
                self.cursor < shown.newest
            };
            if is_behind && self.fetched.is_empty() {
                self.fetched = self.read_store().await?.into();
            } else if !is_behind && self.shown.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Reads what was shown before. If even the journal has let go of it, the task itself stands in.
    async fn read_store(&self) -> Result<Vec<Event>, Error> {
        let TaskKey { scope, id } = &self.live.key;
        match self.store.read(scope, id, self.cursor, READ_AHEAD).await.map_err(from_store)? {
            Read::Events(events) => Ok(events),
            Read::Compacted => {
                let snapshot = self.store.snapshot(scope, id).await.map_err(from_store)?;
                Ok(vec![snapshot_event(&snapshot)?])
            }
        }
    }
}

/// The first `task` of a stream carries the number of the last event folded into it.
fn snapshot_event(snapshot: &Snapshot) -> Result<Event, Error> {
    let mut json = br#"{"task":"#.to_vec();
    snapshot.task.write_json(&mut json)?;
    json.push(b'}');
    Ok(Event { number: snapshot.number, json: Bytes::from(json) })
}

/// A direct answer: exactly one event.
pub(super) fn only(message: Message) -> Result<EventStream, Error> {
    let json = serde_json::to_vec(&StreamResponse::Message(message)).map_err(Error::internal)?;
    Ok(Box::pin(stream::iter([Ok(Event { number: 0, json: json.into() })])))
}

impl TurnEnd {
    /// Ends the turn's streams after this event, unless an earlier one has.
    pub(super) fn close_after(&self, number: u64) {
        let _ = self.0.compare_exchange(0, number, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether this event is the last that the turn's streams show.
    pub(super) fn is_closed_after(&self, number: u64) -> bool {
        let last = self.0.load(Ordering::Acquire);
        last != 0 && number >= last
    }
}
