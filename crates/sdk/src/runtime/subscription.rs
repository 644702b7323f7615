//! A stream of the events of one task: from any event on, in order, without a gap.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_protocol::{BoxFuture, Error, Event, EventStream, Message, StreamResponse};
use chancery_store::{Read, Snapshot, Store};
use futures_util::stream::{self, Stream};

use super::failure::from_store;
use super::live::{Found, Live, Watcher};

/// How many events one read of the store fetches for a subscriber that lags.
const READ_AHEAD: usize = 64;

pub(super) struct Subscription {
    store: Arc<Store>,
    watcher: Watcher,
    /// The number of the last event that was fetched.
    cursor: u64,
    fetched: VecDeque<Event>,
    reading: Option<BoxFuture<'static, Result<Vec<Event>, Error>>>,
    /// Ends the stream before the task does.
    end: Option<Arc<TurnEnd>>,
    over: bool,
}

/// Where the streams of one turn end, if that is before the task does.
#[derive(Debug, Default)]
pub(super) struct TurnEnd(AtomicU64);

impl Subscription {
    /// Everything after an event.
    pub(super) fn after(store: Arc<Store>, live: Arc<Live>, cursor: u64, end: Option<Arc<TurnEnd>>) -> Self {
        Self {
            store,
            watcher: live.watch(),
            cursor,
            fetched: VecDeque::new(),
            reading: None,
            end,
            over: false,
        }
    }

    /// The task as it stands, then everything after that.
    pub(super) fn with_snapshot(
        store: Arc<Store>,
        live: Arc<Live>,
        snapshot: &Snapshot,
        end: Option<Arc<TurnEnd>>,
    ) -> Result<Self, Error> {
        let mut subscription = Self::after(store, live, snapshot.number, end);
        subscription.fetched.push_back(snapshot_event(snapshot)?);
        Ok(subscription)
    }

    /// The next event, if it has been fetched.
    pub(super) fn next_fetched(&mut self) -> Option<Event> {
        let event = self.fetched.pop_front().filter(|_| !self.over)?;
        self.cursor = self.cursor.max(event.number);
        self.over = self.end.as_ref().is_some_and(|end| end.is_closed_after(event.number));
        Some(event)
    }

    /// Reads what the ring no longer has. If even the journal has let go of it, the task itself stands in.
    fn read_store(&self) -> BoxFuture<'static, Result<Vec<Event>, Error>> {
        let (store, live, cursor) = (self.store.clone(), self.watcher.live.clone(), self.cursor);
        Box::pin(async move {
            match store.read(&live.key.scope, &live.key.id, cursor, READ_AHEAD).await.map_err(from_store)? {
                Read::Events(events) => Ok(events),
                Read::Compacted => {
                    let snapshot = store.snapshot(&live.key.scope, &live.key.id).await.map_err(from_store)?;
                    Ok(vec![snapshot_event(&snapshot)?])
                }
            }
        })
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
    Ok(all(vec![Event { number: 0, json: json.into() }]))
}

/// Exactly these events.
pub(super) fn all(events: Vec<Event>) -> EventStream {
    Box::pin(stream::iter(events.into_iter().map(Ok)))
}

impl Stream for Subscription {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.over {
                return Poll::Ready(None);
            }
            if let Some(event) = this.next_fetched() {
                return Poll::Ready(Some(Ok(event)));
            }
            if this.end.as_ref().is_some_and(|end| end.is_closed_after(this.cursor)) {
                // The last event was read from the store before its turn had said that it is the last.
                this.over = true;
                continue;
            }
            if let Some(reading) = &mut this.reading {
                let Poll::Ready(read) = reading.as_mut().poll(context) else { return Poll::Pending };
                this.reading = None;
                match read {
                    Ok(events) => this.fetched.extend(events),
                    Err(error) => {
                        this.over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                continue;
            }
            match this.watcher.fetch(this.cursor, &mut this.fetched, context.waker()) {
                Found::Events => {}
                Found::Lagging => this.reading = Some(this.read_store()),
                Found::Waiting => return Poll::Pending,
                Found::Ended => this.over = true,
            }
        }
    }

    /// At least what is at hand, unless the turn is known to end before that.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let ends = self.end.as_ref().is_some_and(|end| end.is_closed());
        (if ends { 0 } else { self.fetched.len() }, None)
    }
}

impl TurnEnd {
    /// Ends the turn's streams after this event, unless an earlier one has.
    pub(super) fn close_after(&self, number: u64) {
        let _ = self.0.compare_exchange(0, number, Ordering::Release, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Whether this event is the last that the turn's streams show.
    pub(super) fn is_closed_after(&self, number: u64) -> bool {
        let last = self.0.load(Ordering::Acquire);
        last != 0 && number >= last
    }
}
