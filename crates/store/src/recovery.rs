//! Tasks that were being worked on when the process ended. Whoever starts again finds them here.

use chancery_protocol::{ContextId, TaskId, TaskState};

use crate::Store;
use crate::error::StoreError;
use crate::record::Scope;

/// A task that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Whose it is.
    pub scope: Scope,
    /// The task.
    pub task: TaskId,
    /// Its conversation.
    pub context_id: Option<ContextId>,
}

impl Store {
    /// The tasks of an agent that are neither over nor waiting for anybody, SUBMITTED or WORKING, in all scopes, ordered
    /// by scope and id: after one of them, and at most so many.
    pub async fn unfinished(
        &self,
        agent: &str,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.unfinished(agent, after, limit)),
            Self::Sqlite(store) => Box::pin(store.unfinished(agent, after, limit)).await,
        }
    }

    /// The same for those that wait in a state.
    pub async fn waiting(
        &self,
        agent: &str,
        state: TaskState,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.waiting(agent, state, after, limit)),
            Self::Sqlite(store) => Box::pin(store.waiting(agent, state, after, limit)).await,
        }
    }
}
