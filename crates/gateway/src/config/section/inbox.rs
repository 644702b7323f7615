//! An agent that cannot be reached: it comes for its tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An agent that comes for its tasks.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InboxSection {
    /// So many tasks wait or are worked on at a time; further ones are rejected.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max_tasks: usize,
    /// So long a task waits to be taken before it fails, in milliseconds.
    #[schemars(range(min = 1, max = 2_592_000_000_u64))]
    pub(crate) max_wait_ms: u64,
    /// So long the agent may say nothing about a task that it has taken before the task is given out again, in milliseconds.
    #[schemars(range(min = 100, max = 86_400_000))]
    pub(crate) lease_ms: u64,
}

impl Default for InboxSection {
    fn default() -> Self {
        Self { max_tasks: 1000, max_wait_ms: 24 * 60 * 60 * 1000, lease_ms: 60_000 }
    }
}
