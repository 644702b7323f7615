//! Agents that are described by files of Markdown.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandSection, ModelSection};

/// A folder of files that each describe an agent.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkdownSection {
    /// Where the `*.md` are, seen from the directory of this file.
    pub(crate) folder: PathBuf,
    /// What answers for a file that says `model: NAME`, or says nothing about it at all: this model, which then has the name
    /// and the text of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelSection>,
    /// What is run for a file that says nothing about it, if no model answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<CommandSection>,
}
