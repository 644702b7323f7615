//! The loop that takes from the store what is due, and gives each its turn.
//!
//! It goes through the outbox in order and only ever onwards, since what is new comes after what it has seen. What
//! it meets while it has it in hand it meets again when that is done. Now and then it begins from the start: that
//! finds what an error of the store made it lose sight of.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_store::OutboxPlace;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::backoff::from_now;
use super::deliver::Work;
use super::queue::{Queue, Ticket};

pub(super) struct Dispatch {
    work: Arc<Work>,
    queue: Queue,
    seen: Option<OutboxPlace>,
    running: JoinSet<bool>,
    tickets: HashMap<Id, Ticket>,
    start_over_at: Instant,
}

/// How many are taken from the store at a time.
const PAGE: usize = 256;

/// After how long what does not fit into memory is offered again.
const NO_ROOM_WAIT: Duration = Duration::from_secs(2);

/// How often it begins from the start.
const START_OVER: Duration = Duration::from_secs(60);

/// The shortest wait for what is due next: clocks of stores are finer than timers.
const TICK: Duration = Duration::from_millis(1);

impl Dispatch {
    pub(super) fn new(work: Arc<Work>) -> Self {
        let queue = Queue::new(work.limits);
        Self {
            work,
            queue,
            seen: None,
            running: JoinSet::new(),
            tickets: HashMap::new(),
            start_over_at: Instant::now() + START_OVER,
        }
    }

    pub(super) async fn run(mut self, wake: Arc<Notify>) {
        let stop = self.work.stop.clone();
        while !stop.is_cancelled() {
            self.fetch().await;
            while let Some((ticket, delivery)) = self.queue.next() {
                let work = self.work.clone();
                let task = self.running.spawn(async move { work.deliver(delivery).await });
                self.tickets.insert(task.id(), ticket);
            }
            let pause = self.pause().await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = wake.notified() => {}
                Some(finished) = self.running.join_next_with_id() => self.finished(finished),
                () = tokio::time::sleep(pause) => {}
            }
        }
        // Those that are on their way see that they are to stop, and finish what they are at.
        while self.running.join_next().await.is_some() {}
    }

    /// Takes in hand whatever is due.
    async fn fetch(&mut self) {
        if self.start_over_at <= Instant::now() {
            self.start_over_at = Instant::now() + START_OVER;
            self.seen = None;
            self.queue.forget_ailing();
        }
        let work = self.work.clone();
        loop {
            let page = match work.store.deliveries(self.seen, work.store.now(), PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "what is to be delivered cannot be read from the store");
                    return;
                }
            };
            let more = page.len() == PAGE;
            for delivery in page {
                self.seen = Some(delivery.place);
                let host = work.poster.host(&delivery.config);
                let Err(delivery) = self.queue.offer(&host, delivery) else { continue };
                // The store keeps what memory has no room for. That is no failure of the receiver.
                let later = from_now(&work.store, NO_ROOM_WAIT);
                if let Err(error) = work.store.postpone(&delivery, delivery.attempts, later).await {
                    tracing::warn!(%error, "a delivery cannot be postponed");
                }
            }
            if !more {
                return;
            }
        }
    }

    fn finished(&mut self, finished: Result<(Id, bool), JoinError>) {
        let (id, failed) = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::error!(%error, "a delivery broke off");
                (error.id(), false)
            }
        };
        let Some(ticket) = self.tickets.remove(&id) else { return };
        if let Some(place) = self.queue.done(&ticket, failed) {
            let before = OutboxPlace { row: place.row.saturating_sub(1), ..place };
            self.seen = self.seen.min(Some(before));
        }
    }

    /// How long nothing is due, as far as can be seen.
    async fn pause(&self) -> Duration {
        let start_over = self.start_over_at.saturating_duration_since(Instant::now());
        let now = self.work.store.now();
        let Ok(Some(next)) = self.work.store.next_delivery_at(now).await else { return start_over };
        let micros = next.as_micros().saturating_sub(now.as_micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or_default()).max(TICK).min(start_over)
    }
}
