//! The parameters of the methods. The id in them is the client's; which task of ours it means is found out later.

use chancery_protocol::field::{empty_as_none, null_as_default, optional_int32};
use chancery_protocol::{
    ContextId, Json, JsonObject, Message, SendMessageConfiguration, SendMessageRequest, TaskId,
    TaskPushNotificationConfig,
};
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::push::of_task;
use super::{Newer, Older};
use crate::dialect::v0_1::ruvector;
use crate::dialect::v0_3;

/// What a message is sent with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendParams {
    id: TaskId,
    #[serde(default, deserialize_with = "empty_as_none")]
    session_id: Option<ContextId>,
    message: Newer<Message>,
    #[serde(default, deserialize_with = "null_as_default")]
    accepted_output_modes: Vec<String>,
    #[serde(default)]
    push_notification: Option<v0_3::Newer<TaskPushNotificationConfig>>,
    #[serde(default, deserialize_with = "optional_int32")]
    history_length: Option<i32>,
    #[serde(default)]
    metadata: Option<JsonObject>,
    /// What peers of the older design say beside the metadata.
    #[serde(default)]
    skill: Option<Json>,
    #[serde(default)]
    context: Option<Json>,
    #[serde(default)]
    policy: Option<Json>,
}

impl SendParams {
    /// The history that is not asked for is not wanted.
    pub(crate) fn into_request(self) -> Box<SendMessageRequest> {
        let Newer(mut message) = self.message;
        let beside = ruvector::Beside { skill: self.skill, context: self.context, policy: self.policy };
        let metadata = beside.join(self.metadata);
        if metadata.as_ref().is_some_and(ruvector::is_spoken) {
            // The message is kept with the task; so it tells later on who is asking.
            message.metadata = ruvector::marked(message.metadata);
        }
        message.metadata = message.metadata.map(ruvector::newer);
        message.context_id = self.session_id;
        message.task_id = Some(self.id.clone());
        let receiver = self.push_notification.map(|v0_3::Newer(receiver)| receiver);
        Box::new(SendMessageRequest {
            tenant: String::new(),
            message,
            configuration: Some(SendMessageConfiguration {
                accepted_output_modes: self.accepted_output_modes,
                task_push_notification_config: receiver.map(|receiver| of_task(receiver, self.id)),
                history_length: Some(self.history_length.unwrap_or_default()),
                return_immediately: false,
            }),
            metadata: metadata.map(ruvector::newer),
        })
    }
}

/// What names a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IdParams {
    pub(crate) id: TaskId,
    #[serde(default, deserialize_with = "optional_int32")]
    pub(crate) history_length: Option<i32>,
    #[serde(default)]
    pub(crate) metadata: Option<JsonObject>,
}

/// A configuration of a task.
pub(crate) type ConfigParams = Newer<TaskPushNotificationConfig>;

/// A message to be sent, as v0.1 writes it.
pub(crate) struct OlderSend<'a>(pub(crate) &'a SendMessageRequest);

impl Serialize for OlderSend<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(request) = *self;
        let default = SendMessageConfiguration::default();
        let configuration = request.configuration.as_ref().unwrap_or(&default);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", request.message.task_id.as_ref().map_or("", TaskId::as_str))?;
        if let Some(session) = &request.message.context_id {
            map.serialize_entry("sessionId", session)?;
        }
        map.serialize_entry("message", &Older(&request.message))?;
        if !configuration.accepted_output_modes.is_empty() {
            map.serialize_entry("acceptedOutputModes", &configuration.accepted_output_modes)?;
        }
        if let Some(config) = &configuration.task_push_notification_config {
            let receiver = TaskPushNotificationConfig { id: None, ..config.clone() };
            map.serialize_entry("pushNotification", &v0_3::OlderReceiver(&receiver))?;
        }
        if let Some(length) = configuration.history_length {
            map.serialize_entry("historyLength", &length)?;
        }
        if let Some(metadata) = &request.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}
