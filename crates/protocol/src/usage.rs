//! What work consumes and costs: money in whole millionths of a US dollar, never in floats.

use serde::{Deserialize, Serialize};

/// The extension under which usage is reported in the metadata of a task.
pub const USAGE_EXTENSION: &str = "urn:chancery:ext:usage:v1";

/// What was consumed. The reports of a task add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
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
    /// Nobody has said; the figure is 0.
    #[default]
    Unknown,
    /// What was held for the call. Older records say `estimated`.
    #[serde(alias = "estimated")]
    Held,
    /// The price that the operator or the agent's card names.
    Declared,
    /// What the agent says that it has spent.
    Reported,
    /// Counted here, as it was spent.
    Metered,
}

/// Reads an amount of US dollars, such as `0.05`, in millionths; what is finer than that is cut off. None if it is not
/// one, or more than can be counted.
pub fn parse_usd(text: &str) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let millionths = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let fraction = millionths.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    whole.checked_mul(1_000_000)?.checked_add(fraction)
}

// === impl Usage ===

impl Usage {
    /// Adds what was consumed besides.
    pub fn add(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(more.cost_micro_usd);
    }

    /// Of two reports of the same work, the higher figure of each kind.
    pub fn most(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cost_micro_usd: self.cost_micro_usd.max(other.cost_micro_usd),
        }
    }

    /// Whether it is nothing at all.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
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

    /// Whether it is nothing at all.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    pub fn plus(self, more: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.saturating_add(more.micro_usd),
            tokens: self.tokens.saturating_add(more.tokens),
            tasks: self.tasks.saturating_add(more.tasks),
        }
    }
}

// === impl CostSource ===

impl CostSource {
    /// The name as it stands in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Held => "held",
            Self::Declared => "declared",
            Self::Reported => "reported",
            Self::Metered => "metered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_usd;

    #[test]
    fn dollars_are_read_without_floats() {
        assert_eq!(parse_usd("0.05"), Some(50_000));
        assert_eq!(parse_usd(" 12 "), Some(12_000_000));
        assert_eq!(parse_usd(".5"), Some(500_000));
        assert_eq!(parse_usd("0.1234567"), Some(123_456));
        assert_eq!(parse_usd("18446744073709.551615"), Some(u64::MAX));
        for wrong in [
            "",
            ".",
            "-1",
            "1e3",
            "1,5",
            "0x1",
            "1.2.3",
            "NaN",
            "18446744073709.551616",
            "99999999999999999999",
        ] {
            assert_eq!(parse_usd(wrong), None, "{wrong}");
        }
    }
}
