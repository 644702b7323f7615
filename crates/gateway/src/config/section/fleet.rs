//! What the configuration says about the fleet as a whole, and about an agent's place in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fleet as a whole, as its own card shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FleetSection {
    /// What people call it. Messages to it are given to the agent that has the skill they are for.
    pub(crate) name: String,
    /// What it is good for.
    pub(crate) description: String,
    /// Its own version.
    pub(crate) version: String,
}

/// How far what an agent says is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Trust {
    /// As far as one's own.
    #[default]
    Trusted,
    /// Not at all: nothing that shows who calls is passed on to it, and where others have a skill it gets no message for
    /// that skill that was sent to the fleet.
    Untrusted,
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
