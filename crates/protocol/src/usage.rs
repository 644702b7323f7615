//! What work consumes and costs: money in whole millionths of a US dollar, never in floats.

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

/// How much of what is limited: held for a call before it runs, charged for it afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Amount {
    /// Millionths of a US dollar.
    pub micro_usd: u64,
    /// Tokens, read and written together.
    pub tokens: u64,
    /// Calls.
    pub tasks: u64,
}

/// Where a figure comes from. A later one is better founded than an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostSource {
    /// Guessed from what such calls have cost before, or from a default.
    #[default]
    Estimated,
    /// The price that the operator or the agent's card names.
    Declared,
    /// What the agent says that it has spent.
    Reported,
    /// Counted here, as it was spent.
    Metered,
}

// === impl Usage ===

impl Usage {
    /// Adds what was consumed besides.
    pub fn add(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(more.cost_micro_usd);
    }

    /// Tokens, read and written together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

// === impl Amount ===

impl Amount {
    /// One call that costs nothing else.
    pub const ONE_TASK: Self = Self { micro_usd: 0, tokens: 0, tasks: 1 };
}

// === impl CostSource ===

impl CostSource {
    /// The name as it stands in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Estimated => "estimated",
            Self::Declared => "declared",
            Self::Reported => "reported",
            Self::Metered => "metered",
        }
    }
}
