//! What the card of an agent says that the gateway runs itself.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Complaint;
use super::fleet::version_complaint;

/// What the card of an agent says that the gateway runs itself.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CardSection {
    /// What the agent is good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The version of the agent itself, by the rules of Semantic Versioning, such as `1.4.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// What it can do.
    pub(crate) skills: Vec<SkillSection>,
    /// The media types that it takes, instead of those that its kind takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) input_modes: Vec<String>,
    /// The media types that it answers with, instead of those that its kind does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) output_modes: Vec<String>,
    /// How it is run.
    #[serde(skip_serializing_if = "RuntimeSection::is_default")]
    pub(crate) runtime: RuntimeSection,
}

/// How an agent is run, for those who choose by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuntimeSection {
    /// What sort of work it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// Whether it does one thing at a time.
    pub(crate) cardinality: Cardinality,
    /// How its work is to be scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheduling: Option<String>,
    /// What it needs to do its work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) required_skills: Vec<String>,
    /// Anything else to know it by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// Whether an agent does one thing at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cardinality {
    /// As much as comes.
    #[default]
    Many,
    /// One turn at a time; others wait for it.
    Singleton,
}

/// Something that an agent can do.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillSection {
    /// Tells it apart from the agent's other skills.
    pub(crate) id: String,
    /// What people call it; its id unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// What it does.
    pub(crate) description: String,
    /// Words to find it by.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// What may be said to it.
    #[serde(default)]
    pub(crate) examples: Vec<String>,
}

impl RuntimeSection {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl CardSection {
    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        let mut seen = BTreeSet::new();
        let mut complaints = Vec::new();
        for skill in &self.skills {
            if skill.id.is_empty() {
                complaints.push(("skills", "a skill needs an id".to_owned()));
            } else if !seen.insert(&skill.id) {
                complaints.push(("skills", format!("there are two skills `{}`", skill.id)));
            }
        }
        if self.description.as_ref().is_some_and(String::is_empty) {
            complaints.push(("description", "must not be empty; leave it out".to_owned()));
        }
        complaints.extend(self.version.as_deref().and_then(version_complaint).map(|what| ("version", what)));
        for (key, modes) in [("input_modes", &self.input_modes), ("output_modes", &self.output_modes)] {
            for mode in modes.iter().filter(|mode| !is_media_type(mode)) {
                complaints.push((key, format!("`{mode}` is no media type, such as `text/plain`")));
            }
        }
        complaints
    }
}

fn is_media_type(mode: &str) -> bool {
    let is_token =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    mode.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}
