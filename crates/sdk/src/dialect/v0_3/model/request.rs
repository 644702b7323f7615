//! The parameters of the operations.

use chancery_protocol::field::{Object, empty_as_none, null_as_default, optional_int32};
use chancery_protocol::{
    CancelTaskRequest, ContextId, GetTaskRequest, JsonObject, ListTasksRequest, Message,
    PushNotificationConfigRequest, SendMessageConfiguration, SendMessageRequest, TaskId,
    TaskPushNotificationConfig, TaskState, Timestamp,
};
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::push::OlderReceiver;
use super::{Form, Newer, Older};

// === a message ===

/// What a message is sent with.
#[derive(Deserialize)]
pub(crate) struct SendParams {
    #[serde(alias = "request")]
    message: Newer<Message>,
    #[serde(default)]
    configuration: Option<Object<ConfigurationWire>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigurationWire {
    #[serde(alias = "accepted_output_modes", deserialize_with = "null_as_default")]
    accepted_output_modes: Vec<String>,
    #[serde(alias = "history_length", deserialize_with = "optional_int32")]
    history_length: Option<i32>,
    #[serde(alias = "push_notification_config", alias = "pushNotification", alias = "push_notification")]
    push_notification_config: Option<Newer<TaskPushNotificationConfig>>,
    blocking: Option<bool>,
}

/// A message to be sent, as v0.3 writes it.
pub(crate) struct OlderSend<'a>(pub(crate) Form, pub(crate) &'a SendMessageRequest);

struct OlderConfiguration<'a>(Form, &'a SendMessageConfiguration);

impl SendParams {
    /// Who does not say whether to wait, waits by JSON-RPC and does not by ProtoJSON, where that is the default of a
    /// field that is not there. There, too, no history length is the same as none at all.
    pub(crate) fn into_request(self, form: Form) -> Box<SendMessageRequest> {
        let ConfigurationWire { accepted_output_modes, history_length, push_notification_config, blocking } =
            self.configuration.map(|Object(wire)| wire).unwrap_or_default();
        Box::new(SendMessageRequest {
            tenant: String::new(),
            message: self.message.0,
            configuration: Some(SendMessageConfiguration {
                accepted_output_modes,
                task_push_notification_config: push_notification_config.map(|Newer(config)| config),
                history_length: newer_history_length(form, history_length),
                return_immediately: !blocking.unwrap_or(form.is_kind()),
            }),
            metadata: self.metadata,
        })
    }
}

/// In the old proto, 0 is a field that is not there.
pub(super) fn newer_history_length(form: Form, length: Option<i32>) -> Option<i32> {
    length.filter(|length| form.is_kind() || *length != 0)
}

impl Serialize for OlderSend<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, request) = *self;
        let default = SendMessageConfiguration::default();
        let configuration = request.configuration.as_ref().unwrap_or(&default);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("message", &Older(form, &request.message))?;
        map.serialize_entry("configuration", &OlderConfiguration(form, configuration))?;
        if let Some(metadata) = &request.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

impl Serialize for OlderConfiguration<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, configuration) = *self;
        let mut map = serializer.serialize_map(None)?;
        // Before 0.2.6 this one had to be there.
        map.serialize_entry("acceptedOutputModes", &configuration.accepted_output_modes)?;
        if let Some(length) = configuration.history_length {
            map.serialize_entry("historyLength", &length)?;
        }
        if let Some(config) = &configuration.task_push_notification_config {
            let name = if form.is_kind() { "pushNotificationConfig" } else { "pushNotification" };
            map.serialize_entry(name, &OlderReceiver(config))?;
        }
        map.serialize_entry("blocking", &!configuration.return_immediately)?;
        map.end()
    }
}

// === a task ===

/// What names a task, by its id or by its path.
#[derive(Deserialize)]
pub(crate) struct IdParams {
    #[serde(alias = "taskId", alias = "task_id")]
    pub(crate) id: TaskId,
    #[serde(default)]
    pub(crate) metadata: Option<JsonObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GetParams {
    id: TaskId,
    #[serde(alias = "history_length", default, deserialize_with = "optional_int32")]
    history_length: Option<i32>,
}

impl IdParams {
    pub(crate) fn cancel(self) -> CancelTaskRequest {
        CancelTaskRequest { tenant: String::new(), id: self.id, metadata: self.metadata }
    }
}

impl GetParams {
    pub(crate) fn into_request(self) -> GetTaskRequest {
        GetTaskRequest { tenant: String::new(), id: self.id, history_length: self.history_length }
    }
}

// === a configuration ===

/// What names a configuration. Who asks for one without saying which gets the first.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigParams {
    #[serde(alias = "taskId", alias = "task_id")]
    id: TaskId,
    #[serde(alias = "push_notification_config_id", default, deserialize_with = "null_as_default")]
    push_notification_config_id: String,
}

impl ConfigParams {
    pub(crate) fn into_request(self) -> PushNotificationConfigRequest {
        PushNotificationConfigRequest {
            tenant: String::new(),
            task_id: self.id,
            id: self.push_notification_config_id.into(),
        }
    }
}

// === tasks ===

/// A filter, of those who list tasks although v0.3 has no word for it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListParams {
    #[serde(alias = "context_id", deserialize_with = "empty_as_none")]
    context_id: Option<ContextId>,
    #[serde(alias = "state")]
    status: Option<String>,
    #[serde(alias = "page_size", deserialize_with = "optional_int32")]
    page_size: Option<i32>,
    #[serde(alias = "page_token", deserialize_with = "null_as_default")]
    page_token: String,
    #[serde(alias = "history_length", deserialize_with = "optional_int32")]
    history_length: Option<i32>,
    #[serde(alias = "status_timestamp_after")]
    status_timestamp_after: Option<Timestamp>,
    #[serde(alias = "include_artifacts")]
    include_artifacts: Option<bool>,
}

impl ListParams {
    pub(crate) fn into_request(self) -> Result<ListTasksRequest, chancery_protocol::Error> {
        let state = |name: String| {
            Newer::<TaskState>::named(&name)
                .ok_or_else(|| chancery_protocol::Error::invalid_field("status", "unknown task state"))
        };
        let status = self.status.filter(|name| !name.is_empty()).map(state).transpose()?;
        Ok(ListTasksRequest {
            tenant: String::new(),
            context_id: self.context_id,
            status: status.unwrap_or_default(),
            page_size: self.page_size,
            page_token: self.page_token,
            history_length: self.history_length,
            status_timestamp_after: self.status_timestamp_after,
            include_artifacts: self.include_artifacts,
        })
    }
}
