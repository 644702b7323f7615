//! Push notification configurations and their deliveries, task by task.

use std::sync::Arc;

use chancery_protocol::{PushConfigId, TaskId, TaskPushNotificationConfig, Timestamp};

use super::MemoryStore;
use super::push::Pushes;
use crate::error::StoreError;
use crate::outbox::{Delivery, OutboxPlace, Registration};
use crate::record::Scope;

impl MemoryStore {
    pub(crate) fn put_push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        registration: Registration,
    ) -> Result<Arc<TaskPushNotificationConfig>, StoreError> {
        self.journal(scope, task)?.lock().put_push(registration, self.terms(scope))
    }

    pub(crate) fn push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        id: &PushConfigId,
    ) -> Result<Arc<TaskPushNotificationConfig>, StoreError> {
        let found = self.find(scope, task)?;
        let config = found.journal().and_then(|journal| journal.lock().pushes()?.get(id));
        config.ok_or_else(|| StoreError::UnknownPushConfig { task: task.clone(), id: id.clone() })
    }

    pub(crate) fn push_configs(
        &self,
        scope: &Scope,
        task: &TaskId,
    ) -> Result<Vec<Arc<TaskPushNotificationConfig>>, StoreError> {
        let found = self.find(scope, task)?;
        let configs = found.journal().and_then(|journal| journal.lock().pushes().map(Pushes::all));
        Ok(configs.unwrap_or_default())
    }

    pub(crate) fn delete_push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        id: &PushConfigId,
    ) -> Result<(), StoreError> {
        let deleted = self.settle(scope, task, |pushes, _| pushes.delete(id))?;
        deleted.unwrap_or_else(|| Err(StoreError::UnknownPushConfig { task: task.clone(), id: id.clone() }))
    }

    pub(crate) fn deliveries(
        &self,
        after: Option<OutboxPlace>,
        now: Timestamp,
        limit: usize,
    ) -> Vec<Delivery> {
        let due = self.outbox.due(after, now, limit);
        let found = due.into_iter().filter_map(|(place, address)| {
            self.journal(&address.scope, &address.task).ok()?.lock().pushes()?.delivery(place)
        });
        found.collect()
    }

    pub(crate) fn next_delivery_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.outbox.next_after(now)
    }

    pub(crate) fn delivered(&self, delivery: &Delivery, to: u64) -> bool {
        let change = |pushes: &mut Pushes, number| pushes.delivered(delivery, to, number);
        matches!(self.settle(&delivery.scope, &delivery.task, change), Ok(Some(true)))
    }

    pub(crate) fn postpone(&self, delivery: &Delivery, attempts: u32, not_before: Timestamp) -> bool {
        let change = |pushes: &mut Pushes, _| pushes.postpone(delivery, attempts, not_before);
        matches!(self.settle(&delivery.scope, &delivery.task, change), Ok(Some(true)))
    }

    /// Changes the configurations of a task, if it has any. If that leaves a task that has ended with nothing
    /// to deliver, its time begins to run out.
    fn settle<T>(
        &self,
        scope: &Scope,
        id: &TaskId,
        change: impl FnOnce(&mut Pushes, u64) -> T,
    ) -> Result<Option<T>, StoreError> {
        let tasks = self.known_tasks_of(scope, id)?;
        let journal = tasks.lock().journal(id);
        let journal = journal.ok_or_else(|| StoreError::NotFound { id: id.clone() })?;
        let changed = journal.lock().settle(change);
        Ok(changed.map(|(result, settled)| {
            if settled {
                self.ended(scope, tasks, id, None);
            }
            result
        }))
    }
}
