//! Push notification configurations: one to a task, so what names the task names it too.

use chancery_protocol::field::Object;
use chancery_protocol::{PushConfigId, TaskId, TaskPushNotificationConfig};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Newer;
use crate::dialect::v0_3;

/// A configuration, as v0.1 writes it.
pub(crate) struct OlderConfig<'a>(pub(crate) &'a TaskPushNotificationConfig);

impl Serialize for OlderConfig<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(config) = *self;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("id", config.task_id.as_ref().map_or("", TaskId::as_str))?;
        let receiver = TaskPushNotificationConfig { id: None, ..config.clone() };
        map.serialize_entry("pushNotificationConfig", &v0_3::OlderReceiver(&receiver))?;
        map.end()
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigWire {
    id: TaskId,
    push_notification_config: v0_3::Newer<TaskPushNotificationConfig>,
}

impl<'de> Deserialize<'de> for Newer<TaskPushNotificationConfig> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<ConfigWire>(wire) = Object::deserialize(deserializer)?;
        Ok(Self(of_task(wire.push_notification_config.0, wire.id)))
    }
}

/// The configuration of a task.
pub(super) fn of_task(receiver: TaskPushNotificationConfig, task: TaskId) -> TaskPushNotificationConfig {
    let id = PushConfigId::from(task.as_str());
    TaskPushNotificationConfig { id: Some(id), task_id: Some(task), ..receiver }
}
