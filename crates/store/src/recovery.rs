//! Tasks that were being worked on when the process ended. Whoever starts again finds them here.

use chancery_protocol::{ContextId, TaskId};

use crate::Store;
use crate::error::StoreError;
use crate::record::Scope;

/// A task that is neither over nor waiting for anybody: SUBMITTED or WORKING.
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
    /// The unfinished tasks of an agent in all scopes, ordered by scope and id: after one of them, and at most
    /// so many.
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
}
