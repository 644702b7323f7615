//! An agent that is a model behind an OpenAI-compatible chat endpoint.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Complaint, names_user};
use crate::config::Usd;

/// A model behind an OpenAI-compatible chat endpoint.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSection {
    /// Where it is, such as `https://api.openai.com/v1`: what stands before `/chat/completions`.
    pub(crate) url: String,
    /// The name of the model there.
    pub(crate) model: String,
    /// The variable of the gateway's environment that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_env: Option<String>,
    /// The file that holds the key, if no variable does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    /// What the model is told before anything else. No card shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<String>,
    /// So many tokens it may answer with; fewer if the budget allows fewer.
    #[serde(default = "output_tokens")]
    #[schemars(range(min = 1))]
    pub(crate) max_output_tokens: u64,
    /// So many messages it is told of what was said before in the conversation, the newest of them.
    #[serde(default = "history")]
    #[schemars(range(max = 1000))]
    pub(crate) max_history_messages: usize,
    /// So many bytes of them at most.
    #[serde(default = "history_bytes")]
    pub(crate) max_history_bytes: usize,
    /// So long an answer may take, with all that is tried again, in milliseconds.
    #[serde(default = "two_minutes")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) max_duration_ms: u64,
    /// So often it is tried again when it says that it is busy or fails.
    #[serde(default = "retries")]
    #[schemars(range(max = 20))]
    pub(crate) max_retries: u32,
    /// What 1,000 tokens cost that are read, in US dollars, instead of `price.per_1k_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price_per_1k_input_tokens: Option<Usd>,
    /// What 1,000 tokens cost that are written, in US dollars, instead of `price.per_1k_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price_per_1k_output_tokens: Option<Usd>,
}

impl ModelSection {
    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let is_url = self.url.parse::<http::Uri>().is_ok_and(|url| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.host().is_some()
                && url.query().is_none()
        });
        if names_user(&self.url) {
            let what = "a user or a password stands in it; take them out, and name `key_env` or `key_file`";
            complaints.push(("url", what.to_owned()));
        } else if !is_url {
            complaints.push(("url", format!("`{}` is no http or https URL", self.url)));
        }
        if self.model.is_empty() {
            complaints.push(("model", "names no model".to_owned()));
        }
        if self.key_env.is_some() && self.key_file.is_some() {
            complaints.push(("key_file", "there is one key: say `key_env` or `key_file`".to_owned()));
        }
        complaints
    }
}

fn output_tokens() -> u64 {
    1024
}

fn history() -> usize {
    20
}

fn history_bytes() -> usize {
    64 << 10
}

fn two_minutes() -> u64 {
    120_000
}

fn retries() -> u32 {
    3
}
