//! How long the audit log is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much is kept of the audit log. What is removed leaves a checkpoint that the gateway has signed, from which the log
/// goes on.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuditSection {
    /// For how many days an entry is kept.
    #[schemars(range(min = 1, max = 36_500))]
    pub(crate) keep_days: u32,
    /// How many entries are kept at most; the oldest go first. A store in memory keeps no more than 25,000.
    #[schemars(range(min = 1_000))]
    pub(crate) max_entries: u64,
}

impl Default for AuditSection {
    fn default() -> Self {
        Self { keep_days: 365, max_entries: 10_000_000 }
    }
}
