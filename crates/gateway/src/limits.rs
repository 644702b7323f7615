//! What an agent takes in one message: said in its card, and a gate of its own that holds to it on every wire.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_control::{Gate, Passage, Verdict};
use chancery_protocol::{AgentExtension, Content, Denied, DeniedKind, JsonObject, Message};
use serde_json::json;

use crate::config::{AgentSection, Config, Mode, Usd};

/// The extension by which a card says what the agent takes, and what a call costs at least.
pub(crate) const LIMITS_EXTENSION: &str = "urn:chancery:ext:limits:v1";

/// The largest request body, as the server has it unless told otherwise.
const LARGEST_BODY: u64 = 1 << 20;

/// How many bytes are taken for a token.
const BYTES_PER_TOKEN: u64 = 4;

/// The name of the gate, and what it refuses for.
const GATE: &str = "limits";
pub(crate) const TOO_MANY_TOKENS: &str = "INPUT_TOKENS_EXCEEDED";
pub(crate) const TOO_MANY_BYTES: &str = "PAYLOAD_TOO_LARGE";

/// What one agent takes in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputLimits {
    pub(crate) max_input_tokens: Option<u64>,
    pub(crate) max_payload_bytes: u64,
    /// What a call costs in any case, in millionths of a US dollar.
    pub(crate) minimum_micro_usd: Option<u64>,
    /// Whether more is refused, or only written down.
    mode: Mode,
}

/// What every agent of a configuration takes, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllLimits(Arc<HashMap<Arc<str>, InputLimits>>);

/// Holds messages to what their agent takes.
#[derive(Debug)]
pub(crate) struct LimitsGate(pub(crate) AllLimits);

// === impl InputLimits ===

impl InputLimits {
    pub(crate) fn of(agent: &AgentSection) -> Self {
        let limits = agent.limits.unwrap_or_default();
        Self {
            max_input_tokens: limits.max_input_tokens,
            max_payload_bytes: limits.max_payload_bytes.unwrap_or(LARGEST_BODY),
            minimum_micro_usd: agent.price.and_then(|price| price.per_call).map(|Usd(micro)| micro),
            mode: limits.mode,
        }
    }

    /// The same in a card.
    pub(crate) fn extension(&self) -> AgentExtension {
        let mut params = json!({"maxPayloadBytes": self.max_payload_bytes});
        if let Some(tokens) = self.max_input_tokens {
            params["maxInputTokens"] = tokens.into();
        }
        if let Some(micro) = self.minimum_micro_usd {
            params["minimumCostUsd"] = Usd(micro).to_string().into();
        }
        let mut extension = AgentExtension::new(LIMITS_EXTENSION);
        extension.description =
            "What the agent takes in one message, and what a call costs at least".to_owned();
        extension.params = JsonObject::from_value(&params).ok();
        extension
    }

    /// Why a message is too much, if it is.
    pub(crate) fn refusal(&self, bytes: u64) -> Option<Denied> {
        let tokens = tokens(bytes);
        let (reason, limit, observed) = match self.max_input_tokens {
            _ if bytes > self.max_payload_bytes => (TOO_MANY_BYTES, (self.max_payload_bytes, "bytes"), bytes),
            Some(most) if tokens > most => (TOO_MANY_TOKENS, (most, "tokens"), tokens),
            _ => return None,
        };
        let (most, unit) = limit;
        Some(Denied {
            limit: Some(format!("{most} {unit}")),
            observed: Some(format!("{observed} {unit}")),
            hint: Some("send less, or send a reference to it".to_owned()),
            ..Denied::new(GATE, DeniedKind::Forbidden, reason)
        })
    }
}

impl Default for InputLimits {
    fn default() -> Self {
        Self {
            max_input_tokens: None,
            max_payload_bytes: LARGEST_BODY,
            minimum_micro_usd: None,
            mode: Mode::Enforce,
        }
    }
}

/// How many tokens so many bytes are taken for.
pub(crate) fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// How much a message says, in bytes.
pub(crate) fn content_bytes(message: &Message) -> u64 {
    let bytes = message.parts.iter().map(|part| match &part.content {
        Content::Text(text) | Content::Url(text) => text.len(),
        Content::Raw(bytes) => bytes.len(),
        Content::Data(json) => json.as_str().len(),
    });
    bytes.sum::<usize>() as u64
}

// === impl AllLimits ===

impl AllLimits {
    pub(crate) fn of(config: &Config) -> Self {
        let limits = config.agent.iter().map(|agent| (agent.name.as_str().into(), InputLimits::of(agent)));
        Self(Arc::new(limits.collect()))
    }

    pub(crate) fn at(&self, agent: &str) -> InputLimits {
        self.0.get(agent).copied().unwrap_or_default()
    }
}

// === impl LimitsGate ===

impl Gate for LimitsGate {
    fn name(&self) -> &'static str {
        GATE
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let bytes = passage.send().map_or(0, |request| content_bytes(&request.message));
        let limits = self.0.at(&passage.agent.name);
        match limits.refusal(bytes) {
            Some(denied) if limits.mode == Mode::Enforce => return Verdict::Deny(denied),
            Some(denied) => passage.observe(GATE, denied),
            None => {}
        }
        Verdict::Admit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_before_tokens_and_both_are_held_to() {
        let limits =
            InputLimits { max_input_tokens: Some(10), max_payload_bytes: 100, ..InputLimits::default() };
        assert_eq!(limits.refusal(40), None);
        let reason = |bytes| limits.refusal(bytes).expect("it is too much").reason;
        assert_eq!(reason(41), TOO_MANY_TOKENS);
        assert_eq!(reason(101), TOO_MANY_BYTES);
        let denied = limits.refusal(41).expect("it is too much");
        assert_eq!(
            (denied.limit.as_deref(), denied.observed.as_deref()),
            (Some("10 tokens"), Some("11 tokens"))
        );
    }
}
