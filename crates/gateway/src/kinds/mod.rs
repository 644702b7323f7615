//! The kinds of agent: what a section of the configuration becomes.
//!
//! | file | kind |
//! |---|---|
//! | `builtin` | one that comes with Chancery |
//! | `a2a` | one elsewhere that speaks A2A, or a pool of several |
//! | `command` | a program that is run for each message |
//! | `model` | a model behind an OpenAI-compatible chat endpoint |
//! | `inbox` | one that cannot be reached, and comes for its tasks |
//!
//! `task_keys` is what those that run here call others with.

mod a2a;
mod builtin;
mod command;
mod inbox;
mod model;
mod task_keys;

use std::collections::HashMap;
use std::sync::Arc;

use chancery_control::routing::Pool;
use chancery_sdk::{Agent, AgentSkill, AgentSpec, Relay};
use chancery_store::Store;

use crate::config::{AgentKind, AgentSection, SkillSection};

pub(crate) use inbox::{InboxRoutes, Inboxes};
pub(crate) use task_keys::TaskKeys;

/// The extension by which a card states how the agent is run.
const RUNTIME_EXTENSION: &str = "urn:chancery:ext:runtime:v1";

/// What an agent may need of the gateway that it is built for.
pub(crate) struct Surroundings {
    /// The pools, by the name of the agent.
    pub(crate) pools: HashMap<String, Arc<Pool>>,
    /// What agents that run here call others with.
    pub(crate) keys: Arc<TaskKeys>,
    /// Where what was said before is found.
    pub(crate) store: Arc<Store>,
    /// Where tasks wait for agents that come for them.
    pub(crate) inboxes: Arc<Inboxes>,
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
        AgentKind::Command => Ok(Built::Agent(Box::new(command::build(section, &surroundings.keys).await?))),
        AgentKind::Inbox => Ok(Built::Agent(Box::new(inbox::build(section, &surroundings.inboxes)?))),
        AgentKind::Model => Ok(Built::Agent(Box::new(model::build(section, &surroundings.store)?))),
    }
}

/// The skills that a section alone says its agent to have. Those of an agent elsewhere only its card knows.
pub(crate) fn declared_skills(section: &AgentSection) -> anyhow::Result<Vec<String>> {
    match section.kind {
        AgentKind::Builtin => Ok(skills_of(&builtin::build(section)?)),
        AgentKind::A2a => Ok(Vec::new()),
        AgentKind::Command | AgentKind::Model | AgentKind::Inbox => {
            let skills = section.card.iter().flat_map(|card| &card.skills);
            Ok(skills.map(|skill| skill.id.clone()).collect())
        }
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

/// An agent that runs here, as its section describes it.
fn described(section: &AgentSection, agent: impl Agent) -> AgentSpec {
    let mut spec = AgentSpec::new(section.name.as_str(), agent);
    let Some(card) = &section.card else { return spec };
    if let Some(description) = &card.description {
        spec = spec.description(description);
    }
    if let Some(version) = &card.version {
        spec = spec.version(version);
    }
    card.skills.iter().fold(spec, |spec, skill| spec.skill(described_skill(skill)))
}

fn described_skill(skill: &SkillSection) -> AgentSkill {
    let name = skill.name.as_ref().unwrap_or(&skill.id);
    let described = AgentSkill::new(&skill.id, name, &skill.description);
    let tagged = skill.tags.iter().fold(described, |skill, tag| skill.tag(tag));
    skill.examples.iter().fold(tagged, |skill, example| skill.example(example))
}
