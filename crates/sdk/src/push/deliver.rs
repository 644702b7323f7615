//! One configuration's events, one after the other, as long as they are taken.

use std::sync::Arc;

use bytes::Bytes;
use chancery_store::{Delivery, Read, Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::PushLimits;
use super::backoff::{from_now, wait};
use super::post::{Posted, Poster, Reason};
use crate::dialect::notification;
use crate::protocol::{ErrorCode, Version};

/// What every delivery needs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) store: Arc<Store>,
    pub(super) poster: Poster,
    pub(super) limits: PushLimits,
    pub(super) stop: CancellationToken,
}

/// What follows an event.
enum Next {
    /// The next one.
    Event,
    /// Nothing, since the configuration is another one.
    Nothing,
    /// A wait, since the receiver failed.
    Failed,
}

/// How many events are read from the journal at a time, and delivered before somebody else has a turn.
const EVENTS: usize = 16;

impl Work {
    /// Delivers the next few events. What it did is in the store; says whether the receiver failed.
    pub(super) async fn deliver(&self, delivery: Delivery) -> bool {
        let (task, config) = (delivery.task.clone(), delivery.config.id.clone());
        self.deliver_some(delivery).await.unwrap_or_else(|error| {
            tracing::warn!(task.id = %task, config.id = ?config, %error, "a delivery of task {task} is held up by the store");
            false
        })
    }

    async fn deliver_some(&self, mut delivery: Delivery) -> Result<bool, StoreError> {
        if !self.is_current(&delivery).await? {
            return Ok(false);
        }
        if delivery.version < Version::V1_0 {
            return self.deliver_task(delivery).await;
        }
        let read = self.store.read(&delivery.scope, &delivery.task, delivery.cursor, EVENTS).await;
        let events = match read {
            Ok(Read::Events(events)) => events,
            // Neither happens to what is pending; if it did, there would be nothing left to deliver.
            Ok(Read::Compacted) => return self.give_up_all(&delivery).await.map(|()| false),
            Err(StoreError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        for event in &events {
            if self.stop.is_cancelled() {
                break;
            }
            match self.deliver_one(&mut delivery, event.number, event.json.clone()).await? {
                Next::Event => {}
                Next::Nothing => break,
                Next::Failed => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Whether the configuration is still there as it was: it may have waited for its turn for a while.
    async fn is_current(&self, delivery: &Delivery) -> Result<bool, StoreError> {
        let Some(id) = &delivery.config.id else { return Ok(false) };
        match self.store.push_config(&delivery.scope, &delivery.task, id).await {
            Ok(config) => Ok(config == delivery.config),
            Err(StoreError::NotFound { .. } | StoreError::UnknownPushConfig { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Delivers the task as it stands, which is what older versions have for a notification. However many events it
    /// is behind, it is told once.
    async fn deliver_task(&self, mut delivery: Delivery) -> Result<bool, StoreError> {
        let snapshot = match self.store.snapshot(&delivery.scope, &delivery.task).await {
            Ok(snapshot) => snapshot,
            Err(StoreError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let body = snapshot.task.value().and_then(|task| {
            notification(delivery.version, &delivery.config, &task)
                .unwrap_or_else(|| Err(ErrorCode::Internal.into()))
        });
        let Ok(body) = body else {
            let reason = Reason::Unfit("the task cannot be written in the version that it was registered in");
            self.log_loss(
                &delivery,
                snapshot.number,
                &reason,
                snapshot.number.saturating_sub(delivery.cursor),
            );
            self.store.give_up(&delivery, snapshot.number).await?;
            return Ok(false);
        };
        let next = self.deliver_one(&mut delivery, snapshot.number, body).await?;
        Ok(matches!(next, Next::Failed))
    }

    async fn deliver_one(
        &self,
        delivery: &mut Delivery,
        number: u64,
        body: Bytes,
    ) -> Result<Next, StoreError> {
        let settled = match self.poster.post(&delivery.config, delivery.version, body).await {
            Posted::Accepted => self.store.delivered(delivery, number).await?,
            Posted::Rejected(reason) => {
                self.log_loss(delivery, number, &reason, 1);
                self.store.give_up(delivery, number).await?
            }
            Posted::Failed(reason, asked) => {
                self.failed(delivery, number, &reason, asked).await?;
                return Ok(Next::Failed);
            }
        };
        delivery.cursor = number;
        delivery.attempts = 0;
        // If the configuration has been deleted or replaced meanwhile, this delivery is none of ours any more.
        Ok(if settled { Next::Event } else { Next::Nothing })
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
