//! Reserved calls: written down before anything leaves the process, and no task before the agent shows one.

use std::sync::Arc;

use chancery_protocol::jsonrpc::ErrorObject;
use chancery_protocol::{
    CallContext, ContextId, Error, ErrorCode, Json, JsonObject, LINEAGE_EXTENSION, Message,
    SendMessageConfiguration, Task, TaskId, TaskPushNotificationConfig, Version,
};
use chancery_store::{ReservationChange, ReservedCall, StoreError};
use serde::{Deserialize, Serialize};

use super::sink::Sink;
use super::start::Incoming;
use crate::turn::CallerWaits;

/// What is kept of a reserved call, so that another process can go on with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reservation {
    pub(super) message: Message,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) configuration: Option<SendMessageConfiguration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<JsonObject>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) extensions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) skill: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<Arc<str>>,
    /// The idempotency key that it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// Who registers for its events, and in which version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) push: Option<(TaskPushNotificationConfig, String)>,
    /// What the agent's turn has left with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Json>,
}

/// An answer without a task, as it is kept with an idempotency key.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum KeptAnswer {
    Message(Message),
    Error(Json),
}

impl Reservation {
    /// What is to be written down of a call that may end without a task.
    pub(super) fn new(sink: &Sink, incoming: &Incoming) -> Self {
        let Incoming { message, configuration, metadata, context, .. } = incoming;
        Self {
            message: message.clone(),
            configuration: configuration.clone(),
            metadata: metadata.as_ref().and_then(|said| said.without(LINEAGE_EXTENSION)),
            extensions: context.extensions.clone(),
            traceparent: context.traceparent.clone(),
            skill: context.skill.clone(),
            peer: context.peer.clone(),
            key: context.idempotency_key.clone(),
            push: sink.registration().map(|push| (push.config, push.version.to_string())),
            state: None,
        }
    }

    pub(super) fn json(&self) -> Result<Json, StoreError> {
        Json::from_value(self).map_err(|error| StoreError::Encode(serde::ser::Error::custom(error)))
    }

    pub(super) fn read(reserved: &ReservedCall) -> Result<Self, Error> {
        reserved.call.to_value().map_err(Error::internal)
    }

    /// The call as it was made, in a context that has its principal.
    pub(super) fn incoming(&self, mut context: Box<CallContext>) -> Box<Incoming> {
        context.extensions.clone_from(&self.extensions);
        context.traceparent.clone_from(&self.traceparent);
        context.skill.clone_from(&self.skill);
        context.peer.clone_from(&self.peer);
        context.idempotency_key.clone_from(&self.key);
        let said = Incoming::again(self.message.clone(), context, CallerWaits::ForOutcome);
        Box::new(Incoming {
            configuration: self.configuration.clone(),
            metadata: self.metadata.clone(),
            ..*said
        })
    }

    /// The task that it may become.
    pub(super) fn submitted(&self, id: &TaskId) -> Task {
        let context_id = self.message.context_id.clone().unwrap_or_else(|| ContextId::opened_by(id));
        Task::submitted(id.clone(), context_id, self.message.clone())
    }

    /// Who registers for its events.
    pub(super) fn push(&self) -> Option<(TaskPushNotificationConfig, Version)> {
        let (config, version) = self.push.clone()?;
        Some((config, Version::parse(&version)?))
    }
}

/// What closes a reservation that was answered: a message or an error, for whoever repeats its key.
pub(super) fn answered(answer: Result<&Message, &Error>, key: Option<String>) -> ReservationChange {
    let kept = match answer {
        Ok(message) => Json::from_value(&KeptAnswer::Message(message.clone())),
        Err(error) => {
            let written = Json::from_value(&ErrorObject::of(error));
            written.and_then(|error| Json::from_value(&KeptAnswer::Error(error)))
        }
    };
    match kept {
        Ok(kept) => ReservationChange::Answer(kept, key),
        // What cannot be kept cannot be repeated either.
        Err(_) => ReservationChange::Release(key),
    }
}

/// The answer that is kept with an idempotency key.
pub(super) fn kept_answer(answer: &Json) -> Result<Message, Error> {
    match answer.to_value::<KeptAnswer>().map_err(Error::internal)? {
        KeptAnswer::Message(message) => Ok(message),
        KeptAnswer::Error(error) => {
            Err(Error::decode(error.as_str().as_bytes()).unwrap_or_else(|| ErrorCode::Internal.into()))
        }
    }
}
