//! The kinds of agent: what a section of the configuration becomes.
//!
//! | file | kind |
//! |---|---|
//! | `builtin` | one that comes with Chancery |
//! | `a2a` | one elsewhere that speaks A2A, or a pool of several |
//! | `absent` | one that is known, but nobody answers for it |
//! | `command` | a program that is run for each message |
//! | `model` | a model behind an OpenAI-compatible chat endpoint |
//! | `inbox` | one that cannot be reached, and comes for its tasks |
//!
//! `task_keys` is what programs that run here call others with, `neighbours` how other agents that run here do.

mod a2a;
mod absent;
mod builtin;
mod command;
mod credential;
mod inbox;
mod model;
mod neighbours;
mod pacing;
mod singleton;
mod task_keys;

use std::collections::HashMap;
use std::sync::Arc;

use chancery_control::routing::{BreakerSettings, Pool};
use chancery_protocol::AgentExtension;
use chancery_sdk::{Agent, AgentSkill, AgentSpec, JsonObject, PROVENANCE_EXTENSION, Relay};
use chancery_store::Store;
use serde_json::{Value, json};

use crate::config::{
    AgentKind, AgentSection, Cardinality, Config, OutboundSection, RuntimeSection, SkillSection, Trust,
};
use crate::fleet::Trouble;
use crate::govern::breaker;
use singleton::Singleton;

pub(crate) use command::located;
pub(crate) use inbox::{InboxRoutes, Inboxes};
pub(crate) use neighbours::Neighbours;
pub(crate) use task_keys::TaskKeys;

/// The extension by which a card states how the agent is run.
const RUNTIME_EXTENSION: &str = "urn:chancery:ext:runtime:v1";

/// What an agent may need of the gateway that it is built for.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The pools, by the name of the agent.
    pub(crate) pools: HashMap<String, Arc<Pool>>,
    /// What agents that run here call others with.
    pub(crate) keys: Arc<TaskKeys>,
    /// Where what was said before is found.
    pub(crate) store: Arc<Store>,
    /// Where tasks wait for agents that come for them.
    pub(crate) inboxes: Arc<Inboxes>,
    /// Where agents that run here find the others.
    pub(crate) neighbours: Arc<Neighbours>,
    /// How agents elsewhere are called.
    pub(crate) outbound: OutboundSection,
    /// When one of them gets no calls.
    pub(crate) breaker: BreakerSettings,
}

impl Surroundings {
    /// Those of a gateway that begins, with this store.
    pub(crate) fn new(pools: HashMap<String, Arc<Pool>>, store: Arc<Store>, config: &Config) -> Self {
        let (outbound, breaker) = (config.outbound.clone(), breaker(&config.routing));
        let inboxes = Arc::new(Inboxes::new(store.clone()));
        Self { pools, keys: Arc::default(), store, inboxes, neighbours: Arc::default(), outbound, breaker }
    }
}

/// An agent, ready to be put at its path.
pub(crate) enum Built {
    /// One that runs here.
    Agent(Box<AgentSpec>),
    /// One that runs elsewhere.
    Relay(Relay),
    /// One that is known and cannot answer, and why.
    Absent(Box<AgentSpec>, Trouble),
}

/// Makes what a section says. One that a file of its own describes is listed also if it cannot be made: it harms no other.
pub(crate) async fn build(section: &AgentSection, surroundings: &Surroundings) -> anyhow::Result<Built> {
    match make(section, surroundings).await {
        Err(error) if section.described_in.is_some() => {
            tracing::error!(agent = section.name, "agent `{}` cannot answer: {error:#}", section.name);
            // Everybody may read the first, so the causes are the operator's.
            absent::build(section, Trouble::new(error.to_string(), format!("{error:#}")))
        }
        made => made,
    }
}

async fn make(section: &AgentSection, surroundings: &Surroundings) -> anyhow::Result<Built> {
    match section.kind {
        AgentKind::Absent => {
            absent::build(section, Trouble::open(section.absent.clone().unwrap_or_default()))
        }
        AgentKind::Builtin => Ok(Built::Agent(Box::new(builtin::build(section, &surroundings.neighbours)?))),
        AgentKind::A2a => a2a::build(section, surroundings).await.map(Built::Relay),
        AgentKind::Command => Ok(Built::Agent(Box::new(command::build(section, &surroundings.keys).await?))),
        AgentKind::Inbox => Ok(Built::Agent(Box::new(inbox::build(section, &surroundings.inboxes)?))),
        AgentKind::Model => {
            Ok(Built::Agent(Box::new(model::build(section, &surroundings.store, &surroundings.outbound)?)))
        }
    }
}

/// The skills that a section alone says its agent to have. Those of an agent elsewhere only its card knows.
pub(crate) fn declared_skills(section: &AgentSection) -> anyhow::Result<Vec<String>> {
    match section.kind {
        AgentKind::Builtin => Ok(skills_of(&builtin::build(section, &Arc::default())?)),
        AgentKind::A2a => Ok(section.skills.clone()),
        AgentKind::Command | AgentKind::Model | AgentKind::Inbox | AgentKind::Absent => {
            let skills = section.card.iter().flat_map(|card| &card.skills);
            Ok(skills.map(|skill| skill.id.clone()).collect())
        }
    }
}

impl Built {
    /// The ids of what it can do, as far as that is known and believed.
    pub(crate) fn skills(&self, section: &AgentSection) -> Vec<String> {
        match self {
            Self::Agent(spec) | Self::Absent(spec, _) => skills_of(spec),
            Self::Relay(_) if section.trust == Trust::Untrusted => section.skills.clone(),
            Self::Relay(relay) => {
                let own = relay.card().into_iter().flat_map(|card| &card.skills);
                let own = own.map(|skill| skill.id.clone()).filter(|id| !section.skills.contains(id));
                section.skills.iter().cloned().chain(own).collect()
            }
        }
    }
}

fn skills_of(spec: &AgentSpec) -> Vec<String> {
    spec.skill_ids().map(str::to_owned).collect()
}

/// The media types that agents of a kind take and give, where their cards do not say others; none is all.
#[derive(Clone, Copy, Default)]
struct Modes<'a> {
    input: &'a [&'a str],
    output: &'a [&'a str],
}

/// An agent that runs here, as its section describes it.
fn described(
    section: &AgentSection,
    agent: impl Agent,
    modes: Modes<'_>,
    runtime: Value,
) -> anyhow::Result<AgentSpec> {
    let card = section.card.clone().unwrap_or_default();
    let mut spec = match card.runtime.cardinality {
        Cardinality::Many => AgentSpec::new(section.name.as_str(), agent),
        Cardinality::Singleton => AgentSpec::new(section.name.as_str(), Singleton::new(agent)),
    };
    if !modes.input.is_empty() {
        spec = spec.input_modes(modes.input.iter().copied());
    }
    if !modes.output.is_empty() {
        spec = spec.output_modes(modes.output.iter().copied());
    }
    if let Some(description) = &card.description {
        spec = spec.description(description);
    }
    if let Some(version) = &card.version {
        spec = spec.version(version);
    }
    if !card.input_modes.is_empty() {
        spec = spec.input_modes(card.input_modes.iter().map(String::as_str));
    }
    if !card.output_modes.is_empty() {
        spec = spec.output_modes(card.output_modes.iter().map(String::as_str));
    }
    spec = card.skills.iter().fold(spec, |spec, skill| spec.skill(described_skill(skill)));
    let runtime = JsonObject::from_value(&labelled(runtime, &card.runtime))?;
    let spec = spec.extension(AgentExtension::new(RUNTIME_EXTENSION).params(runtime));
    Ok(spec.extension(provenance(section)?))
}

/// Where the card of an agent comes from that is ours.
fn provenance(section: &AgentSection) -> anyhow::Result<AgentExtension> {
    let params = json!({"kind": section.kind.as_str(), "trust_tier": "trusted"});
    let mut provenance = AgentExtension::new(PROVENANCE_EXTENSION).params(JsonObject::from_value(&params)?);
    provenance.description = "Where this card comes from".to_owned();
    Ok(provenance)
}

/// How an agent is run, with what its section says about it.
fn labelled(mut runtime: Value, section: &RuntimeSection) -> Value {
    let RuntimeSection { role, cardinality, scheduling, required_skills, labels } = section;
    let is_singleton = *cardinality == Cardinality::Singleton;
    let said = [
        ("role_class", role.as_ref().map(|role| json!(role))),
        ("cardinality", is_singleton.then(|| json!("singleton"))),
        ("scheduling", scheduling.as_ref().map(|scheduling| json!(scheduling))),
        ("required_skills", (!required_skills.is_empty()).then(|| json!(required_skills))),
        ("labels", (!labels.is_empty()).then(|| json!(labels))),
    ];
    for (key, value) in said {
        if let Some(value) = value {
            runtime[key] = value;
        }
    }
    runtime
}

fn described_skill(skill: &SkillSection) -> AgentSkill {
    let name = skill.name.as_ref().unwrap_or(&skill.id);
    let described = AgentSkill::new(&skill.id, name, &skill.description);
    let tagged = skill.tags.iter().fold(described, |skill, tag| skill.tag(tag));
    skill.examples.iter().fold(tagged, |skill, example| skill.example(example))
}
