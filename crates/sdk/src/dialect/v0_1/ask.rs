//! The client's half: what a peer of v0.1 answers, in the model of v1.0.

use chancery_protocol::{
    ErrorCode, Operation, SendMessageResponse, StreamResponse, Task, TaskPushNotificationConfig, decode_reply,
};

use super::model::{Heard, Newer};
use crate::client::{ClientError, Replied, StreamEvent};

/// Reads the answer of an operation. A stream is no answer.
pub(crate) fn read_reply(operation: Operation, json: &str) -> Result<Replied, ClientError> {
    Ok(match operation {
        Operation::SendMessage => Replied::Sent(SendMessageResponse::Task(read::<Task>(json)?)),
        Operation::GetTask | Operation::CancelTask => Replied::Task(read(json)?),
        Operation::CreateTaskPushNotificationConfig | Operation::GetTaskPushNotificationConfig => {
            Replied::PushConfig(read::<TaskPushNotificationConfig>(json)?)
        }
        _ => return Err(ClientError::bad("it answers what v0.1 has no word for")),
    })
}

/// Reads an event of a stream as one of v1.0. There, a stream begins with the task.
pub(crate) fn read_event(json: &str, is_first: bool) -> Result<StreamEvent, ClientError> {
    let Heard { event, is_last } =
        Heard::read(json).map_err(|error| ClientError::BadAnswer(error.to_string()))?;
    let event = match event {
        StreamResponse::StatusUpdate(update) if is_first => StreamResponse::Task(Task {
            id: update.task_id,
            context_id: None,
            status: update.status,
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: update.metadata,
        }),
        event => event,
    };
    Ok(StreamEvent { is_last, ..StreamEvent::new(0, event) })
}

/// What a number means here, where it means something else in v1.0, or nothing.
pub(crate) fn error_of_number(number: i64) -> Option<ErrorCode> {
    Some(match number {
        -32006 | -32009 => ErrorCode::UnsupportedOperation,
        -32007 => ErrorCode::Unauthenticated,
        -32008 => ErrorCode::PermissionDenied,
        -32010 => ErrorCode::ResourceExhausted,
        -32011 => ErrorCode::Unavailable,
        _ => return None,
    })
}

fn read<T>(json: &str) -> Result<T, ClientError>
where
    Newer<T>: serde::de::DeserializeOwned,
{
    let Newer(value) = decode_reply(json.as_bytes()).map_err(|error| ClientError::unreadable(&error))?;
    Ok(value)
}
