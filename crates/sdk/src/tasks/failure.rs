//! What a caller is told when a task cannot be kept, found or continued.

use std::time::Duration;

use chancery_protocol::{Error, ErrorCode, TaskId};
use chancery_store::StoreError;

/// What a caller is told about a failure of the store.
pub(crate) fn from_store(error: StoreError) -> Error {
    match error {
        StoreError::NotFound { id } => Error::task_not_found(&id),
        StoreError::Transition { id, .. } => task_is_over(&id),
        StoreError::Exists { id } => {
            Error::with_message(ErrorCode::UnsupportedOperation, "There is a task of this id already")
                .about("taskId", id.as_str())
                .because("TASK_EXISTS")
        }
        StoreError::KeyReused => {
            Error::invalid_field("Idempotency-Key", "was used with another request body")
                .because("IDEMPOTENCY_KEY_REUSED")
        }
        StoreError::BadPageToken => Error::invalid_field("pageToken", "is not a token of this server"),
        StoreError::TaskFull { ref id, what, limit } => {
            let text = format!("Task {id} has reached its limit of {limit} {what}");
            Error::with_message(ErrorCode::ResourceExhausted, text).caused_by(error)
        }
        StoreError::UnknownPushConfig { ref task, ref id } => {
            let text = format!("Task {task} has no push notification configuration {id}");
            Error::with_message(ErrorCode::TaskNotFound, text).about("taskId", task.as_str())
        }
        StoreError::TooManyPushConfigs { ref task, limit } => {
            let text =
                format!("Task {task} has {limit} push notification configurations already; delete one first");
            Error::with_message(ErrorCode::ResourceExhausted, text).about("taskId", task.as_str())
        }
        StoreError::Unavailable { .. } => {
            let text = "The server cannot keep anything at the moment; nothing was done, try again later";
            tracing::error!(%error, "the store is unavailable");
            Error::with_message(ErrorCode::Unavailable, text)
                .retry_after(Duration::from_secs(1))
                .caused_by(error)
        }
        other => Error::internal(other),
    }
}

/// A task that has ended takes no more messages.
pub(crate) fn task_is_over(id: &TaskId) -> Error {
    Error::with_message(ErrorCode::UnsupportedOperation, "The task has ended and takes no more messages")
        .about("taskId", id.as_str())
}

/// An agent that tells everybody the same of itself.
pub(crate) fn no_extended_card() -> Error {
    Error::with_message(ErrorCode::UnsupportedOperation, "This agent has no extended card")
}
