//! How many tasks there are, whoever they belong to: for those who look after the store, not for callers.

use chancery_protocol::TaskState;

use crate::Store;
use crate::error::StoreError;

impl Store {
    /// How many tasks are in each state that any is in, ordered by the number of the state.
    pub async fn census(&self) -> Result<Vec<(TaskState, u64)>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.census()),
            Self::Sqlite(store) => Box::pin(store.census()).await,
        }
    }
}
