//! Push notification configurations: where a task's events are to be posted.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field::{is_default, null_as_default, optional_object};
use crate::id::{PushConfigId, TaskId, empty_as_none};

/// Where, and with which credentials, the events of a task are posted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig {
    /// Routes to an agent.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// Assigned by the server when absent.
    #[serde(default, deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub id: Option<PushConfigId>,
    /// The task; empty when registered with the message that creates it.
    #[serde(alias = "task_id", default, deserialize_with = "empty_as_none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The receiver.
    pub url: String,
    /// Sent along, so that the receiver can tell our posts from others'.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub token: String,
    /// What goes into the `Authorization` header.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub authentication: Option<AuthenticationInfo>,
}

/// An HTTP authentication scheme with its credentials.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthenticationInfo {
    /// An IANA scheme name such as `Bearer`.
    pub scheme: String,
    /// The secret.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub credentials: String,
}

// Both carry secrets, so neither shows them when printed.

impl fmt::Debug for TaskPushNotificationConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPushNotificationConfig")
            .field("id", &self.id)
            .field("task_id", &self.task_id)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthenticationInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticationInfo").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_printed() {
        let config: TaskPushNotificationConfig = serde_json::from_str(
            r#"{"url":"https://a.example","token":"hush","authentication":{"scheme":"Bearer","credentials":"hush"}}"#,
        )
        .unwrap();
        assert!(!format!("{config:?} {:?}", config.authentication).contains("hush"));
    }
}
