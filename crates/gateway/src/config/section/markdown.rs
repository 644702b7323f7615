//! Agents that are described by files of Markdown.

use std::collections::BTreeMap;
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
    /// What answers for a file that says nothing about it, told what the file says. A file may also choose it by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelSection>,
    /// More models, with their endpoints and keys, which files choose by these names: `model: NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<String, ModelSection>,
    /// What is run for a file that says nothing about it, if no model answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<CommandSection>,
    /// More programs, which files choose by these names: `command: NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) commands: BTreeMap<String, CommandSection>,
    /// What files may say themselves instead of choosing it. With a model or a program, whoever writes a file may have the gateway
    /// send what its environment and its files hold wherever they like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) may_define: Vec<Definable>,
}

/// What a file may say itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Definable {
    /// Any model: its endpoint, its name and where its key is.
    Model,
    /// Any program: what is run, and what it gets of the machine.
    Command,
    /// Skills that an agent of the configuration has: messages to the fleet for these may then go to either.
    Skills,
}

impl MarkdownSection {
    /// What is wrong with what its files may choose, and under which keys.
    pub(in crate::config) fn complaints(&self) -> Vec<(&'static str, String)> {
        let model = |key, name: &str, model: &ModelSection| {
            let wrong = model.complaints().into_iter();
            wrong.map(|(part, what)| (key, format!("{name}{part}: {what}"))).collect::<Vec<_>>()
        };
        let command = |key, name: &str, command: &CommandSection| {
            let wrong = command.complaints().into_iter();
            wrong.map(|(part, what)| (key, format!("{name}{part}: {what}"))).collect::<Vec<_>>()
        };
        let own = self.model.iter().flat_map(|one| model("model", "", one));
        let named = self.models.iter().flat_map(|(name, one)| model("models", &format!("{name}."), one));
        let own_command = self.command.iter().flat_map(|one| command("command", "", one));
        let commands =
            self.commands.iter().flat_map(|(name, one)| command("commands", &format!("{name}."), one));
        own.chain(named).chain(own_command).chain(commands).collect()
    }
}
