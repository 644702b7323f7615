//! Push notification configurations, and what is still to be delivered to them.
//!
//! The events are in the journal, so the outbox keeps none: only a cursor for each configuration, the number of
//! the last event that it is done with. A configuration is pending while its cursor is behind its task. That
//! follows from what one commit wrote together with the event, so no event can be lost between the two.
//!
//! * A configuration that is put gets later events only; one that comes in a [`Batch`](crate::Batch) gets the
//!   events of that batch, too.
//! * One that takes the place of another with its id takes over the cursor, and begins with no attempts.
//! * What is pending has a time from when it is due: when it became pending, or until when it was postponed.
//!   The store sets that time by its own clock as it commits, never to one that has passed; so whoever goes
//!   through the outbox in this order finds what is new behind what it has seen.
//! * While anything of a task is pending, the task is neither compacted nor forgotten.

use std::sync::Arc;

use chancery_protocol::{PushConfigId, TaskId, TaskPushNotificationConfig, Timestamp, Version};

use crate::error::StoreError;
use crate::record::Scope;
use crate::{Store, limits};

/// A configuration, and the version of the protocol that it was registered in: what is posted to it is written in the
/// same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Where to post, and how.
    pub config: TaskPushNotificationConfig,
    /// The version that whoever registered it speaks.
    pub version: Version,
}

/// A configuration that is behind its task: the events after its cursor are to be posted to it, in order.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Whose task it is.
    pub scope: Scope,
    /// The task.
    pub task: TaskId,
    /// Where to.
    pub config: Arc<TaskPushNotificationConfig>,
    /// The version that it was registered in.
    pub version: Version,
    /// The number of the last event that is done with.
    pub cursor: u64,
    /// How many times in a row it has failed.
    pub attempts: u32,
    /// Its place in the order.
    pub place: OutboxPlace,
}

/// A place in the order of what is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboxPlace {
    /// From when it is due.
    pub due: Timestamp,
    /// Tells apart those that are due at the same time. Counts from 1.
    pub row: u64,
}

/// Registered in the version that this crate models.
impl From<TaskPushNotificationConfig> for Registration {
    fn from(config: TaskPushNotificationConfig) -> Self {
        Self { config, version: Version::V1_0 }
    }
}

impl Store {
    /// Registers a configuration with a task, in place of the one with the same id if there is one. It gets
    /// the events that come later. Gives it back as it is kept: with an id, if it had none.
    pub async fn put_push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        registration: impl Into<Registration>,
    ) -> Result<Arc<TaskPushNotificationConfig>, StoreError> {
        let registration = registration.into();
        match self {
            Self::Memory(store) => store.put_push_config(scope, task, registration),
            Self::Sqlite(store) => Box::pin(store.put_push_config(scope, task, registration)).await,
        }
    }

    /// One configuration of a task.
    pub async fn push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        id: &PushConfigId,
    ) -> Result<Arc<TaskPushNotificationConfig>, StoreError> {
        match self {
            Self::Memory(store) => store.push_config(scope, task, id),
            Self::Sqlite(store) => Box::pin(store.push_config(scope, task, id)).await,
        }
    }

    /// All configurations of a task, in the order in which their ids were first put.
    pub async fn push_configs(
        &self,
        scope: &Scope,
        task: &TaskId,
    ) -> Result<Vec<Arc<TaskPushNotificationConfig>>, StoreError> {
        match self {
            Self::Memory(store) => store.push_configs(scope, task),
            Self::Sqlite(store) => Box::pin(store.push_configs(scope, task)).await,
        }
    }

    /// Deletes a configuration; what was pending for it is not delivered any more.
    pub async fn delete_push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        id: &PushConfigId,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.delete_push_config(scope, task, id),
            Self::Sqlite(store) => Box::pin(store.delete_push_config(scope, task, id)).await,
        }
    }

    /// What is pending and due, in order: after a place, and at most so many.
    pub async fn deliveries(
        &self,
        after: Option<OutboxPlace>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.deliveries(after, now, limit)),
            Self::Sqlite(store) => Box::pin(store.deliveries(after, now, limit)).await,
        }
    }

    /// When the next one is due of those that are not due yet.
    pub async fn next_delivery_at(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.next_delivery_at(now)),
            Self::Sqlite(store) => Box::pin(store.next_delivery_at(now)).await,
        }
    }

    /// All events up to a number have been delivered: the cursor moves there, and no attempt has failed. What
    /// is pending after it is due at once.
    ///
    /// This, [`postpone`](Self::postpone) and [`give_up`](Self::give_up) change something only if configuration
    /// and cursor still are those of the delivery, and say whether they did: the outcome of a delivery that
    /// has been overtaken means nothing to the configuration that is there now.
    pub async fn delivered(&self, delivery: &Delivery, number: u64) -> Result<bool, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.delivered(delivery, number)),
            Self::Sqlite(store) => Box::pin(store.delivered(delivery, number)).await,
        }
    }

    /// It has failed so many times in a row, and is due again at a time.
    pub async fn postpone(
        &self,
        delivery: &Delivery,
        attempts: u32,
        not_before: Timestamp,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.postpone(delivery, attempts, not_before)),
            Self::Sqlite(store) => Box::pin(store.postpone(delivery, attempts, not_before)).await,
        }
    }

    /// All events up to a number will not be delivered. To the store that is the same as delivered; they are
    /// two operations so that a store may keep what was lost.
    pub async fn give_up(&self, delivery: &Delivery, number: u64) -> Result<bool, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.delivered(delivery, number)),
            Self::Sqlite(store) => Box::pin(store.delivered(delivery, number)).await,
        }
    }
}

/// The refusal of one configuration too many.
pub(crate) fn check_count(
    task: &TaskId,
    count: usize,
    limits: &limits::TaskLimits,
) -> Result<(), StoreError> {
    let limit = limits.push_configs;
    if count > limit { Err(StoreError::TooManyPushConfigs { task: task.clone(), limit }) } else { Ok(()) }
}
