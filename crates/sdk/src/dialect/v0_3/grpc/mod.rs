//! gRPC of v0.3, package `a2a.v1`: the messages are those of HTTP+JSON as Protocol Buffers, and tasks and configurations
//! are named by a path.

pub(crate) mod ask;
#[cfg(feature = "server")]
mod serve;

use chancery_protocol::Operation;

#[cfg(feature = "server")]
pub(crate) use serve::*;

/// The service of v0.3.
pub(crate) const SERVICE: &str = "a2a.v1.A2AService";

/// What stands before the ids in the name of a configuration.
const TASKS: &str = "tasks/";
const CONFIGS: &str = "/pushNotificationConfigs/";

/// Every method, and the operation that it has become.
pub(crate) const METHODS: [(&str, Operation); 10] = [
    ("SendMessage", Operation::SendMessage),
    ("SendStreamingMessage", Operation::SendStreamingMessage),
    ("GetTask", Operation::GetTask),
    ("CancelTask", Operation::CancelTask),
    ("TaskSubscription", Operation::SubscribeToTask),
    ("CreateTaskPushNotificationConfig", Operation::CreateTaskPushNotificationConfig),
    ("GetTaskPushNotificationConfig", Operation::GetTaskPushNotificationConfig),
    ("ListTaskPushNotificationConfig", Operation::ListTaskPushNotificationConfigs),
    ("DeleteTaskPushNotificationConfig", Operation::DeleteTaskPushNotificationConfig),
    ("GetAgentCard", Operation::GetExtendedAgentCard),
];

/// The operation that a method is.
#[cfg(any(feature = "server", test))]
pub(crate) fn operation(method: &str) -> Option<Operation> {
    METHODS.iter().find(|(known, _)| *known == method).map(|(_, operation)| *operation)
}

/// The method that an operation was; nothing if there was none.
pub(crate) fn method(operation: Operation) -> Option<&'static str> {
    METHODS.iter().find(|(_, known)| *known == operation).map(|(method, _)| *method)
}
