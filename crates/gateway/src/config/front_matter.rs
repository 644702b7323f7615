//! What may stand at the head of a file of Markdown that describes an agent. The doc comments are the reference:
//! `chancery config-schema --markdown` prints them. Only what is named here can come to be on a card; the text below is for
//! the model alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{Cardinality, CommandSection, ModelSection, PriceSection, SkillSection};

/// The head of a file, between two lines of `---`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FrontMatter {
    /// The name of the agent, which is also its path; that of the file unless said otherwise.
    pub(super) name: Option<String>,
    /// What the agent is good for.
    pub(super) description: Option<String>,
    /// The version of the agent; made from what the file says unless said otherwise.
    pub(super) version: Option<String>,
    /// Words to find it by, where it names no skills.
    pub(super) tags: Vec<String>,
    /// What it needs to do its work.
    pub(super) tools: Vec<String>,
    /// What it can do; one thing, of its own name, unless said otherwise.
    pub(super) skills: Vec<SkillSection>,
    /// What may be said to it, where it names no skills.
    pub(super) examples: Vec<String>,
    /// The media types that it takes.
    pub(super) input_modes: Vec<String>,
    /// The media types that it answers with.
    pub(super) output_modes: Vec<String>,
    /// The name of a model that its folder names; or an endpoint and a model, where the folder says `may_define = ["model"]`.
    pub(super) model: Option<ModelChoice>,
    /// The name of a program that its folder names; or a program and its arguments, or all that can be said about one, where
    /// the folder says `may_define = ["command"]`.
    pub(super) command: Option<CommandChoice>,
    /// What sort of work it does.
    pub(super) role: Option<String>,
    /// Whether it does one thing at a time.
    pub(super) cardinality: Option<Cardinality>,
    /// How its work is to be scheduled.
    pub(super) scheduling: Option<String>,
    /// Anything else to know it by.
    pub(super) labels: BTreeMap<String, String>,
    /// What a call costs.
    pub(super) price: Option<PriceSection>,
}

/// Which model answers.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ModelChoice {
    /// The one that the folder names so.
    Named(String),
    /// This one.
    Own(Box<ModelSection>),
}

/// Which program is run.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum CommandChoice {
    /// The one that the folder names so.
    Named(String),
    /// A program and its arguments.
    Run(Vec<String>),
    /// All that can be said about one.
    Own(Box<CommandSection>),
}
