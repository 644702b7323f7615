//! The push notification configurations of one task, each with its cursor.

use std::sync::Arc;

use chancery_protocol::{PushConfigId, TaskId, TaskPushNotificationConfig, Timestamp, Version};

use super::outbox::{Address, Outbox};
use crate::error::StoreError;
use crate::outbox::{Delivery, OutboxPlace};
use crate::record::Scope;

/// Few tasks have one, so it hangs on the journal in a box.
#[derive(Debug)]
pub(super) struct Pushes {
    address: Address,
    outbox: Arc<Outbox>,
    configs: Vec<Registered>,
}

#[derive(Debug)]
struct Registered {
    id: PushConfigId,
    config: Arc<TaskPushNotificationConfig>,
    version: Version,
    cursor: u64,
    attempts: u32,
    /// Where it is in the outbox, while it is pending.
    place: Option<OutboxPlace>,
}

impl Pushes {
    pub(super) fn new(scope: Scope, task: TaskId, outbox: Arc<Outbox>) -> Self {
        Self { address: Address { scope, task }, outbox, configs: Vec::new() }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.configs.iter().any(|registered| registered.place.is_some())
    }

    /// How many there would be with one more.
    pub(super) fn count_with(&self, id: Option<&PushConfigId>) -> usize {
        self.configs.len() + usize::from(!self.configs.iter().any(|known| Some(&known.id) == id))
    }

    /// Registers a configuration that is done with the events up to a number.
    pub(super) fn put(
        &mut self,
        config: Arc<TaskPushNotificationConfig>,
        version: Version,
        id: PushConfigId,
        cursor: u64,
        number: u64,
    ) {
        match self.configs.iter_mut().find(|registered| registered.id == id) {
            None => {
                self.configs.push(Registered { id, config, version, cursor, attempts: 0, place: None });
            }
            Some(registered) => {
                registered.config = config;
                registered.version = version;
                registered.attempts = 0;
                // Due at once, whenever its predecessor was.
                registered.place.take().into_iter().for_each(|place| self.outbox.leave(place));
            }
        }
        self.advance(number);
    }

    /// The task has come to a number: whoever was not pending and is behind it now is pending.
    pub(super) fn advance(&mut self, number: u64) {
        for registered in &mut self.configs {
            if registered.place.is_none() && registered.cursor < number {
                registered.place = Some(self.outbox.enter(self.address.clone(), None));
            }
        }
    }

    pub(super) fn get(&self, id: &PushConfigId) -> Option<Arc<TaskPushNotificationConfig>> {
        self.configs
            .iter()
            .find(|registered| registered.id == *id)
            .map(|registered| registered.config.clone())
    }

    pub(super) fn all(&self) -> Vec<Arc<TaskPushNotificationConfig>> {
        self.configs.iter().map(|registered| registered.config.clone()).collect()
    }

    pub(super) fn delete(&mut self, id: &PushConfigId) -> Result<(), StoreError> {
        let index = self.configs.iter().position(|registered| registered.id == *id).ok_or_else(|| {
            StoreError::UnknownPushConfig { task: self.address.task.clone(), id: id.clone() }
        })?;
        let registered = self.configs.remove(index);
        registered.place.into_iter().for_each(|place| self.outbox.leave(place));
        Ok(())
    }

    /// Takes all that is pending out of the outbox.
    pub(super) fn leave(&mut self) {
        let places = self.configs.iter_mut().filter_map(|registered| registered.place.take());
        places.for_each(|place| self.outbox.leave(place));
    }

    /// The delivery that stands at a place, if it still does.
    pub(super) fn delivery(&self, place: OutboxPlace) -> Option<Delivery> {
        let registered = self.configs.iter().find(|registered| registered.place == Some(place))?;
        Some(Delivery {
            scope: self.address.scope.clone(),
            task: self.address.task.clone(),
            config: registered.config.clone(),
            version: registered.version,
            cursor: registered.cursor,
            attempts: registered.attempts,
            place,
        })
    }

    /// Moves the cursor of a delivery to a number of a task that is at another one.
    pub(super) fn delivered(&mut self, delivery: &Delivery, to: u64, number: u64) -> bool {
        let Some(registered) = current(&mut self.configs, delivery) else { return false };
        registered.cursor = to.clamp(registered.cursor, number);
        registered.attempts = 0;
        registered.place.take().into_iter().for_each(|place| self.outbox.leave(place));
        self.advance(number);
        true
    }

    pub(super) fn postpone(&mut self, delivery: &Delivery, attempts: u32, not_before: Timestamp) -> bool {
        let Some(registered) = current(&mut self.configs, delivery) else { return false };
        let Some(place) = registered.place else { return false };
        self.outbox.leave(place);
        registered.attempts = attempts;
        registered.place = Some(self.outbox.enter(self.address.clone(), Some(not_before)));
        true
    }
}

/// What a delivery is of, unless something has overtaken it.
fn current<'a>(configs: &'a mut [Registered], delivery: &Delivery) -> Option<&'a mut Registered> {
    let same = |known: &&mut Registered| known.config == delivery.config && known.cursor == delivery.cursor;
    configs.iter_mut().find(same)
}
