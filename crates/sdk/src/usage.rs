//! What a turn consumed, as the usage extension reports it.

use serde::{Deserialize, Serialize};

/// The extension under which usage is reported in the metadata of a task.
pub const USAGE_EXTENSION: &str = "urn:chancery:ext:usage:v1";

/// What was consumed. The reports of a task add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Money spent, in millionths of a US dollar.
    pub cost_micro_usd: u64,
}

impl Usage {
    pub(crate) fn add(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(more.cost_micro_usd);
    }
}
