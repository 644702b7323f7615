//! One configuration's events, one after the other, as long as they are taken.

use std::sync::Arc;

use chancery_store::{Delivery, Read, Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::PushLimits;
use super::backoff::{from_now, wait};
use super::post::{Posted, Poster, Reason};
use crate::protocol::Event;

/// What every delivery needs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) store: Arc<Store>,
    pub(super) poster: Poster,
    pub(super) limits: PushLimits,
    pub(super) stop: CancellationToken,
}

/// How many events are read from the journal at a time, and delivered before somebody else has a turn.
const EVENTS: usize = 16;

impl Work {
    /// Delivers the next few events. What it did is in the store.
    pub(super) async fn deliver(&self, delivery: Delivery) {
        let (task, config) = (delivery.task.clone(), delivery.config.id.clone());
        if let Err(error) = self.deliver_some(delivery).await {
            tracing::warn!(task.id = %task, config.id = ?config, %error, "a delivery of task {task} is held up by the store");
        }
    }

    async fn deliver_some(&self, mut delivery: Delivery) -> Result<(), StoreError> {
        let read = self.store.read(&delivery.scope, &delivery.task, delivery.cursor, EVENTS).await;
        let events = match read {
            Ok(Read::Events(events)) => events,
            // Neither happens to what is pending; if it did, there would be nothing left to deliver.
            Ok(Read::Compacted) => return self.give_up_all(&delivery).await,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        for event in &events {
            if self.stop.is_cancelled() || !self.deliver_one(&mut delivery, event).await? {
                break;
            }
        }
        Ok(())
    }

    /// Delivers an event, and says whether the next one may follow.
    async fn deliver_one(&self, delivery: &mut Delivery, event: &Event) -> Result<bool, StoreError> {
        let settled = match self.poster.post(&delivery.config, event).await {
            Posted::Accepted => self.store.delivered(delivery, event.number).await?,
            Posted::Rejected(reason) => {
                self.log_loss(delivery, event.number, &reason, 1);
                self.store.give_up(delivery, event.number).await?
            }
            Posted::Failed(reason, asked) => {
                self.failed(delivery, event.number, &reason, asked).await?;
                return Ok(false);
            }
        };
        delivery.cursor = event.number;
        delivery.attempts = 0;
        // If the configuration has been deleted or replaced meanwhile, this delivery is none of ours any more.
        Ok(settled)
    }

    async fn failed(
        &self,
        delivery: &Delivery,
        number: u64,
        reason: &Reason,
        asked: Option<std::time::Duration>,
    ) -> Result<(), StoreError> {
        let attempts = delivery.attempts.saturating_add(1);
        if attempts >= self.limits.attempts.max(1) {
            let last = self.store.snapshot(&delivery.scope, &delivery.task).await?.number;
            self.log_loss(delivery, number, reason, last.saturating_sub(delivery.cursor));
            self.store.give_up(delivery, last).await?;
            return Ok(());
        }
        let wait = wait(attempts, asked, &self.limits);
        let task = &delivery.task;
        tracing::debug!(task.id = %task, event = number, attempts, %reason, ?wait, "a delivery of task {task} failed and is postponed");
        self.store.postpone(delivery, attempts, from_now(&self.store, wait)).await?;
        Ok(())
    }

    async fn give_up_all(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let last = self.store.snapshot(&delivery.scope, &delivery.task).await?.number;
        let reason = Reason::Unfit("the events have been compacted");
        self.log_loss(delivery, delivery.cursor, &reason, last.saturating_sub(delivery.cursor));
        self.store.give_up(delivery, last).await?;
        Ok(())
    }

    /// What will never be delivered is said here, and nowhere else.
    fn log_loss(&self, delivery: &Delivery, number: u64, reason: &Reason, events: u64) {
        let task = &delivery.task;
        let host = self.poster.host(&delivery.config);
        tracing::warn!(
            task.id = %task, config.id = ?delivery.config.id, %host, event = number, events,
            "notifications of task {task} are given up: {reason}"
        );
    }
}
