//! Reserved calls: admitted and written down before anything leaves the process for them.
//!
//! A reserved call is no task yet. It becomes one when its agent shows a task or an event; a direct answer or an error
//! closes it, and no task is left.

use chancery_protocol::{Edge, Json, TaskId};

use crate::Store;
use crate::error::StoreError;
use crate::record::{Admission, Scope};

/// An admitted call whose agent has shown nothing yet.
#[derive(Clone, Debug, PartialEq)]
pub struct ReservedCall {
    /// Whose call it is.
    pub scope: Scope,
    /// The task that it may become.
    pub task: TaskId,
    /// What the runtime keeps of it.
    pub call: Json,
}

/// A change of a reservation, with what rides in the same transaction.
#[derive(Clone, Debug)]
pub struct ReservationWrite {
    /// What changes.
    pub change: ReservationChange,
    /// The record of the call, as it now stands.
    pub edge: Option<Box<Edge>>,
}

/// What happens to the reservation of a task. [`Batch::opens_reserved`](crate::Batch::opens_reserved) is the fourth way.
#[derive(Clone, Debug)]
pub enum ReservationChange {
    /// The call is reserved, or what is kept of it changes. The first write may use up an idempotency key.
    Put(Json, Option<Admission>),
    /// The call ends without a task. Its idempotency key repeats this answer from now on.
    Answer(Json, Option<String>),
    /// The call never left. Its idempotency key is free again.
    Release(Option<String>),
}

/// What an idempotency key was used for.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyUse {
    /// The task or reserved call.
    pub task: TaskId,
    /// The answer, if the call ended without a task.
    pub answer: Option<Json>,
}

impl Store {
    /// Commits a change of a reservation.
    pub async fn reserve(
        &self,
        scope: &Scope,
        task: &TaskId,
        write: ReservationWrite,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.reserve(scope, task, write),
            Self::Sqlite(store) => Box::pin(store.reserve(scope, task, write)).await,
        }
    }

    /// The reserved calls of an agent in all scopes, ordered by scope and task: after one of them, at most so many.
    pub async fn reserved(
        &self,
        agent: &str,
        after: Option<&ReservedCall>,
        limit: usize,
    ) -> Result<Vec<ReservedCall>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.reserved(agent, after, limit)),
            Self::Sqlite(store) => Box::pin(store.reserved(agent, after, limit)).await,
        }
    }

    /// Random bytes that stay the same for as long as the store is kept. Ids that agents elsewhere are told derive from them.
    pub fn context_secret(&self) -> [u8; 32] {
        match self {
            Self::Memory(store) => store.context_secret(),
            Self::Sqlite(store) => store.context_secret(),
        }
    }
}
