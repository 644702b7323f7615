//! What a peer answered, in the model of v1.0, whichever wire it came over.

use chancery_protocol::{
    AgentCard, Event, ListTaskPushNotificationConfigsResponse, ListTasksResponse, Operation,
    SendMessageResponse, StreamResponse, Task, TaskPushNotificationConfig, decode_reply, write_json,
};
use serde::de::DeserializeOwned;

use super::error::ClientError;

/// The answer to a call that does not stream.
#[derive(Debug)]
pub(crate) enum Replied {
    Sent(SendMessageResponse),
    Task(Task),
    Tasks(ListTasksResponse),
    PushConfig(TaskPushNotificationConfig),
    PushConfigs(ListTaskPushNotificationConfigsResponse),
    Card(Box<AgentCard>),
    Empty,
}

/// An event of a stream, read.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    /// Its number at the peer; 0 if it has none.
    pub(crate) number: u64,
    pub(crate) payload: StreamResponse,
    /// Whether the peer says that no other follows. Only older versions do.
    pub(crate) is_last: bool,
}

/// The JSON of an answer, its envelope taken off.
pub(crate) trait Json {
    /// Reads it as what the operation answers with.
    fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError>;

    /// Makes sure that it is a success. What it says does not matter.
    fn check(&self) -> Result<(), ClientError>;
}

/// What one of the calls takes out of an answer.
pub(crate) trait Expected: Sized + Send {
    fn of(replied: Replied) -> Option<Self>;
}

// === impl StreamEvent ===

impl StreamEvent {
    /// Reads an event of v1.0.
    pub(crate) fn read(json: &[u8]) -> Result<Self, ClientError> {
        let read = decode_reply(json).map(|payload| Self::new(0, payload));
        read.map_err(|error| ClientError::unreadable(&error))
    }

    pub(crate) fn new(number: u64, payload: StreamResponse) -> Self {
        Self { number, payload, is_last: false }
    }

    /// For the wire, as v1.0 has it.
    pub(crate) fn written(&self) -> Result<Event, ClientError> {
        let mut json = Vec::new();
        write_json(&mut json, &self.payload).map_err(|error| ClientError::bad(error.to_string()))?;
        Ok(Event { number: self.number, json: json.into() })
    }
}

// === impl Replied ===

impl Replied {
    /// With no more of the history than was asked for. Over HTTP+JSON and gRPC of v0.3, none of it is the same as all of
    /// it; and some agents do not look at what is asked.
    pub(crate) fn with_history(mut self, length: Option<i32>) -> Self {
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else { return self };
        let cut = |task: &mut Task| drop(task.history.drain(..task.history.len().saturating_sub(length)));
        match &mut self {
            Self::Sent(SendMessageResponse::Task(task)) | Self::Task(task) => cut(task),
            Self::Tasks(page) => page.tasks.iter_mut().for_each(cut),
            _ => {}
        }
        self
    }

    /// Reads the answer of an operation in v1.0. A stream is no answer.
    pub(crate) fn read(operation: Operation, json: &impl Json) -> Result<Self, ClientError> {
        Ok(match operation {
            Operation::SendMessage => Self::Sent(json.read()?),
            Operation::GetTask | Operation::CancelTask => Self::Task(json.read()?),
            Operation::ListTasks => Self::Tasks(json.read()?),
            Operation::CreateTaskPushNotificationConfig | Operation::GetTaskPushNotificationConfig => {
                Self::PushConfig(json.read()?)
            }
            Operation::ListTaskPushNotificationConfigs => Self::PushConfigs(json.read()?),
            Operation::GetExtendedAgentCard => Self::Card(json.read()?),
            Operation::DeleteTaskPushNotificationConfig
            | Operation::SendStreamingMessage
            | Operation::SubscribeToTask => {
                json.check()?;
                Self::Empty
            }
        })
    }

    /// What the call expects.
    pub(crate) fn expect<T: Expected>(self) -> Result<T, ClientError> {
        T::of(self).ok_or_else(|| ClientError::bad("it answers another operation"))
    }
}

macro_rules! expected {
    ($($variant:ident => $type:ty),* $(,)?) => {
        $(impl Expected for $type {
            fn of(replied: Replied) -> Option<Self> {
                match replied {
                    Replied::$variant(found) => Some(found),
                    _ => None,
                }
            }
        })*
    };
}

expected! {
    Sent => SendMessageResponse,
    Task => Task,
    Tasks => ListTasksResponse,
    PushConfig => TaskPushNotificationConfig,
    PushConfigs => ListTaskPushNotificationConfigsResponse,
    Card => Box<AgentCard>,
}

impl Expected for () {
    fn of(replied: Replied) -> Option<Self> {
        matches!(replied, Replied::Empty).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_given_as_v1_0_writes_it_and_user_json_as_it_came() {
        let told = r#"{ "new":7, "status_update":{"task_id":"t", "contextId":"c","x":[],
            "status":{"state":"TASK_STATE_WORKING"}, "metadata":{"z":1.0,"a":[1e2]}} }"#;
        let event = StreamEvent { number: 3, ..StreamEvent::read(told.as_bytes()).unwrap() };
        let given = event.written().unwrap();
        let newer = r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"metadata":{"z":1.0,"a":[1e2]}}}"#;
        assert_eq!((given.number, &*given.json), (3, newer.as_bytes()));
        for none in ["", "{}", "[]", r#"{"new":{}}"#, r#"{"task":{}}"#] {
            assert!(matches!(StreamEvent::read(none.as_bytes()), Err(ClientError::BadAnswer(_))), "{none}");
        }
    }
}
