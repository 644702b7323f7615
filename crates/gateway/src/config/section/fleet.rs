//! What the configuration says about the fleet as a whole, and about an agent's place in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Complaint;

/// The fleet as a whole, as its own card shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FleetSection {
    /// What people call it. Messages to it are given to the agent that has the skill they are for.
    pub(crate) name: String,
    /// What it is good for.
    pub(crate) description: String,
    /// Its own version, by the rules of Semantic Versioning, such as `1.4.0`.
    pub(crate) version: String,
}

/// How far what an agent says is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Trust {
    /// As far as one's own.
    #[default]
    Trusted,
    /// Not at all, which an agent elsewhere may be: nothing that shows who calls is passed on to it, what it reports may only
    /// raise a charge, nothing but the URL that is configured is asked for, and messages to the fleet go to it only for the
    /// `skills` that are configured and that no other agent has.
    Untrusted,
}

impl FleetSection {
    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        version_complaint(&self.version).map(|what| ("version", what)).into_iter().collect()
    }
}

/// What is wrong with a version: whoever compares cards must be able to compare them.
pub(super) fn version_complaint(version: &str) -> Option<String> {
    let wrong = semver::Version::parse(version).err()?;
    Some(format!("`{version}` is no version such as `1.4.0`: {wrong}"))
}

impl Default for FleetSection {
    fn default() -> Self {
        Self {
            name: "Chancery".to_owned(),
            description: "A fleet of agents behind one address".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
