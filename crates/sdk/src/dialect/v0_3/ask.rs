//! The half of the client that both bindings share: what a peer of v0.3 answers, in the model of v1.0.

use chancery_protocol::{AgentCard, Error, ErrorCode, Operation, decode_reply};
use http::StatusCode;

use super::model::{Heard, Newer, newer_configs};
use crate::client::{ClientError, Replied, StreamEvent};
use crate::dialect::card;

/// Reads the answer of an operation. A stream is no answer.
pub(crate) fn read_reply(operation: Operation, json: &str) -> Result<Replied, ClientError> {
    Ok(match operation {
        Operation::SendMessage => {
            let sent = Heard::read(json).map_err(|error| unreadable(&error))?.sent();
            Replied::Sent(sent.ok_or_else(|| ClientError::bad("it is neither a task nor a message"))?)
        }
        Operation::GetTask | Operation::CancelTask => Replied::Task(read(json)?),
        Operation::ListTasks => Replied::Tasks(read(json)?),
        Operation::CreateTaskPushNotificationConfig | Operation::GetTaskPushNotificationConfig => {
            Replied::PushConfig(read(json)?)
        }
        Operation::ListTaskPushNotificationConfigs => {
            Replied::PushConfigs(newer_configs(json).map_err(|error| unreadable(&error))?)
        }
        Operation::GetExtendedAgentCard => {
            let card: AgentCard =
                card::read(json.as_bytes()).map_err(|error| ClientError::unreadable(&error))?;
            Replied::Card(Box::new(card))
        }
        Operation::DeleteTaskPushNotificationConfig
        | Operation::SendStreamingMessage
        | Operation::SubscribeToTask => Replied::Empty,
    })
}

/// Reads an event of a stream as one of v1.0.
pub(crate) fn read_event(json: &str) -> Result<StreamEvent, ClientError> {
    let Heard { event, is_last } = Heard::read(json).map_err(|error| unreadable(&error))?;
    Ok(StreamEvent { is_last, ..StreamEvent::new(0, event) })
}

/// What a status says of an operation, for peers whose body says no more than a sentence.
pub(crate) fn error_by_status(operation: Operation, status: StatusCode, message: &str) -> Option<Error> {
    let code = match status.as_u16() {
        400 | 422 => ErrorCode::InvalidParams,
        401 => ErrorCode::Unauthenticated,
        403 => ErrorCode::PermissionDenied,
        404 if operation == Operation::GetExtendedAgentCard => ErrorCode::ExtendedAgentCardNotConfigured,
        404 if operation == Operation::ListTasks => ErrorCode::MethodNotFound,
        404 => ErrorCode::TaskNotFound,
        409 => ErrorCode::TaskNotCancelable,
        415 => ErrorCode::ContentTypeNotSupported,
        429 => ErrorCode::ResourceExhausted,
        501 if operation.is_push() => ErrorCode::PushNotificationNotSupported,
        501 => ErrorCode::UnsupportedOperation,
        502 => ErrorCode::InvalidAgentResponse,
        503 => ErrorCode::Unavailable,
        500 => ErrorCode::Internal,
        _ => return None,
    };
    Some(Error::with_message(code, message.to_owned()))
}

fn read<T>(json: &str) -> Result<T, ClientError>
where
    Newer<T>: serde::de::DeserializeOwned,
{
    let Newer(value) = decode_reply(json.as_bytes()).map_err(|error| ClientError::unreadable(&error))?;
    Ok(value)
}

fn unreadable(error: &serde_json::Error) -> ClientError {
    ClientError::BadAnswer(error.to_string())
}
