//! What the card of an agent says that the gateway runs itself.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Complaint;

/// What the card of an agent says that the gateway runs itself.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CardSection {
    /// What the agent is good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The version of the agent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// What it can do.
    pub(crate) skills: Vec<SkillSection>,
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
        for (key, text) in [("description", &self.description), ("version", &self.version)] {
            if text.as_ref().is_some_and(String::is_empty) {
                complaints.push((key, "must not be empty; leave it out".to_owned()));
            }
        }
        complaints
    }
}
