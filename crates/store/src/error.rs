//! What can go wrong in a store.

use chancery_protocol::{PushConfigId, TaskId, TaskState};

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such task in this scope.
    #[error("task {id} does not exist")]
    NotFound {
        /// The task.
        id: TaskId,
    },
    /// There is such a task already.
    #[error("task {id} exists already")]
    Exists {
        /// The task.
        id: TaskId,
    },
    /// The task does not go from its state to the one asked for.
    #[error("task {id} does not go from {} to {}", from.as_str(), to.as_str())]
    Transition {
        /// The task.
        id: TaskId,
        /// The state it is in.
        from: TaskState,
        /// The state it was to go to.
        to: TaskState,
    },
    /// The task has as much of something as one may have.
    #[error("task {id} has reached its limit of {limit} {what}")]
    TaskFull {
        /// The task.
        id: TaskId,
        /// What there is too much of.
        what: &'static str,
        /// How much of it is allowed.
        limit: usize,
    },
    /// The task has no such push notification configuration.
    #[error("task {task} has no push notification configuration {id}")]
    UnknownPushConfig {
        /// The task.
        task: TaskId,
        /// The configuration.
        id: PushConfigId,
    },
    /// The task has as many push notification configurations as one may have. Not a [`Self::TaskFull`]: the
    /// registration is refused, the task goes on.
    #[error(
        "task {task} has reached its limit of {limit} push notification configurations; delete one first"
    )]
    TooManyPushConfigs {
        /// The task.
        task: TaskId,
        /// How many are allowed.
        limit: usize,
    },
    /// The idempotency key has been used, for this task.
    #[error("the idempotency key belongs to task {task}")]
    Duplicate {
        /// The task that the first use created or continued.
        task: TaskId,
    },
    /// The idempotency key has been used, with another request body.
    #[error("the idempotency key was used with another request body")]
    KeyReused,
    /// An event cannot be written as JSON.
    #[error("an event cannot be written")]
    Encode(#[from] serde_json::Error),
    /// The page token is none of ours.
    #[error("the page token is not valid")]
    BadPageToken,
    /// No store answers to this URL.
    #[error("no store for `{url}`: use `memory:` or `sqlite:PATH`")]
    UnknownUrl {
        /// The URL.
        url: String,
    },
    /// The store cannot do it now, whoever asks: the disk is full or broken, the file is another's.
    #[error("cannot {what}: {why}; {hint}")]
    Unavailable {
        /// What it was to do.
        what: String,
        /// Why it cannot.
        why: String,
        /// What to do about it.
        hint: &'static str,
    },
}
