//! From what SQLite says to what a caller is told: what could not be done, why, and what to do about it.

use rusqlite::ErrorCode;

use crate::error::StoreError;

/// Makes an error of something that the store was about to do.
pub(super) fn unable(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| unavailable(what, &error)
}

pub(super) fn unavailable(what: &str, error: &rusqlite::Error) -> StoreError {
    let (why, hint) = match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => (cause.to_string(), RESTORE),
        error => (error.to_string(), hint(error)),
    };
    StoreError::Unavailable { what: what.to_owned(), why, hint }
}

/// The store has been closed, or one of its threads has ended.
pub(super) fn closed(what: &str) -> StoreError {
    StoreError::Unavailable {
        what: what.to_owned(),
        why: "the store is closed".to_owned(),
        hint: "the process is about to end; ask again when it is back",
    }
}

/// Whether it is this batch alone that SQLite cannot take, rather than any.
pub(super) fn is_of_one_batch(error: &rusqlite::Error) -> bool {
    let of_one = [ErrorCode::TooBig, ErrorCode::ConstraintViolation, ErrorCode::TypeMismatch];
    let unreadable = matches!(error, rusqlite::Error::FromSqlConversionFailure(..));
    unreadable || error.sqlite_error_code().is_some_and(|code| of_one.contains(&code))
}

const RESTORE: &str = "check the store, and restore a backup";

fn hint(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "free some space; the next write tries again",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "make the file and its directory writable; the next write tries again"
        }
        Some(ErrorCode::SystemIoFailure) => "look at the disk and its space; the next write tries again",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => RESTORE,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "let no other program write to the file; the next write tries again"
        }
        _ => "see the log of the server",
    }
}
