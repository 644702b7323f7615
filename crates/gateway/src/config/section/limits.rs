//! How much an agent takes at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Mode;

/// How much an agent takes in one message, whoever sends it. Its card says so, under `urn:chancery:ext:limits:v1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsSection {
    /// Refused or only written down.
    pub(crate) mode: Mode,
    /// So many tokens. Nobody knows how an agent counts them, so every four bytes of a message are taken for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) max_input_tokens: Option<u64>,
    /// So many bytes of content; at most as many as a request may have, which is 1,048,576.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) max_payload_bytes: Option<u64>,
}
