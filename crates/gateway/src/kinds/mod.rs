//! The kinds of agent: what a section of the configuration becomes.
//!
//! | file | kind |
//! |---|---|
//! | `builtin` | one that comes with Chancery |
//! | `a2a` | one elsewhere that speaks A2A, or a pool of several |

mod a2a;
mod builtin;

use std::collections::HashMap;
use std::sync::Arc;

use chancery_control::routing::Pool;
use chancery_sdk::{AgentSpec, Relay};

use crate::config::{AgentKind, AgentSection};

/// What an agent may need of the gateway that it is built for.
pub(crate) struct Surroundings {
    /// The pools, by the name of the agent.
    pub(crate) pools: HashMap<String, Arc<Pool>>,
}

/// An agent, ready to be put at its path.
pub(crate) enum Built {
    /// One that runs here.
    Agent(Box<AgentSpec>),
    /// One that runs elsewhere.
    Relay(Relay),
}

/// Makes what a section says.
pub(crate) async fn build(section: &AgentSection, surroundings: &Surroundings) -> anyhow::Result<Built> {
    match section.kind {
        AgentKind::Builtin => Ok(Built::Agent(Box::new(builtin::build(section)?))),
        AgentKind::A2a => a2a::build(section, surroundings.pools.get(&section.name)).await.map(Built::Relay),
    }
}

/// The skills that a section alone says its agent to have. Those of an agent elsewhere only its card knows.
pub(crate) fn declared_skills(section: &AgentSection) -> anyhow::Result<Vec<String>> {
    match section.kind {
        AgentKind::Builtin => Ok(skills_of(&builtin::build(section)?)),
        AgentKind::A2a => Ok(Vec::new()),
    }
}

impl Built {
    /// The ids of what it can do, as far as that is known.
    pub(crate) fn skills(&self) -> Vec<String> {
        match self {
            Self::Agent(spec) => skills_of(spec),
            Self::Relay(relay) => {
                let skills = relay.card().map(|card| card.skills.iter().map(|skill| skill.id.clone()));
                skills.into_iter().flatten().collect()
            }
        }
    }
}

fn skills_of(spec: &AgentSpec) -> Vec<String> {
    spec.skill_ids().map(str::to_owned).collect()
}
