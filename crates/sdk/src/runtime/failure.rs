//! From what went wrong inside to what a caller is told.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use chancery_protocol::{Error, ErrorCode, TaskId};
use chancery_store::StoreError;

use crate::agent::{Failure, Outcome};

/// How a turn that failed ends: the caller hears what is public, the log hears why.
pub(super) fn conclude_failure(id: &TaskId, failure: Failure) -> Outcome {
    let cause = failure.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
    let public = failure.public.unwrap_or_else(|| "The agent failed".to_owned());
    tracing::error!(task.id = %id, cause, "turn of task {id} failed: {public}");
    Outcome::failed(public)
}

/// Asks something of the user's that answers at once. A panic there is ours to answer for, and must not take
/// the connection along. Its text is for the log alone.
pub(crate) fn contained<T>(what: &'static str, ask: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(ask))
        .map_err(|panic| Error::internal(format!("`{what}` panicked: {}", text_of(&*panic))))
}

/// What a caller is told about a failure of the store.
pub(super) fn from_store(error: StoreError) -> Error {
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
pub(super) fn task_is_over(id: &TaskId) -> Error {
    Error::with_message(ErrorCode::UnsupportedOperation, "The task has ended and takes no more messages")
        .about("taskId", id.as_str())
}

impl Failure {
    /// The text of a panic is for the log alone.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        Self::public("The agent failed unexpectedly").caused_by(format!("panicked: {}", text_of(panic)))
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

/// An error with what caused it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
