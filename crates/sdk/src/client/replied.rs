//! What a peer answered, in the model of v1.0, whichever wire it came over.

use bytes::Bytes;
use chancery_protocol::{
    AgentCard, ListTaskPushNotificationConfigsResponse, ListTasksResponse, Operation, SendMessageResponse,
    StreamResponse, Task, TaskPushNotificationConfig,
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

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct HeardEvent {
    /// As v1.0 has it.
    pub(crate) json: Bytes,
    /// What it says, if that has been read.
    pub(crate) payload: Option<StreamResponse>,
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

impl From<Bytes> for HeardEvent {
    fn from(json: Bytes) -> Self {
        Self { json, payload: None, is_last: false }
    }
}

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
