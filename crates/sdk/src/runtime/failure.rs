//! From what went wrong inside to what a caller is told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use chancery_protocol::{Error, TaskId};

use crate::agent::{Failure, Outcome};

/// How a turn that failed ends: the caller hears what is public, the log hears why.
pub(super) fn conclude_failure(id: &TaskId, failure: Failure) -> Outcome {
    let cause = failure.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
    let public = failure.public.unwrap_or_else(|| "The agent failed".to_owned());
    tracing::error!(task.id = %id, cause, "turn of task {id} failed: {public}");
    Outcome::failed(public)
}

/// How a turn that panicked ends. The text of the panic is for the log alone.
pub(super) fn conclude_panic(id: &TaskId, panic: &(dyn std::any::Any + Send)) -> Outcome {
    tracing::error!(task.id = %id, cause = text_of(panic), "turn of task {id} panicked");
    Outcome::failed("The agent failed unexpectedly")
}

/// Asks something of the user's that answers at once. A panic there is ours to answer for, and must not take
/// the connection along. Its text is for the log alone.
pub(crate) fn contained<T>(what: &'static str, ask: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(ask))
        .map_err(|panic| Error::internal(format!("`{what}` panicked: {}", text_of(&*panic))))
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
