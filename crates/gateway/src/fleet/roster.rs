//! Who is in the fleet, in the order of names.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::health::Asked;
use crate::config::{AgentKind, AgentSection, Trust};

/// An agent of the fleet.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: Arc<str>,
    pub(crate) kind: AgentKind,
    pub(crate) trust: Trust,
    /// Whether anybody outside the fleet is to know of it.
    pub(crate) exposed: bool,
    /// Whether it is a member of another fleet, and was found there.
    pub(crate) discovered: bool,
    /// Whether the configuration itself has it, and it is trusted.
    pub(crate) configured: bool,
    /// Whether it gets no messages for skills that those have.
    pub(crate) yields: bool,
    /// Skills that the operator says it has.
    pub(crate) skills: Vec<Arc<str>>,
    /// How one elsewhere is asked how it is.
    pub(crate) asked: Option<Arc<Asked>>,
}

/// The members, by name. Never changed: another takes its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster(BTreeMap<Arc<str>, Member>);

impl Roster {
    /// The agents of a configuration, and how those elsewhere are asked.
    pub(crate) fn of(agents: &[AgentSection], asked: &HashMap<String, Arc<Asked>>) -> Self {
        let member = |agent: &AgentSection| {
            let discovered = agent.discovered_in.is_some();
            let is_ours = !discovered && agent.trust == Trust::Trusted;
            let configured = is_ours && agent.described_in.is_none();
            Member {
                name: agent.name.as_str().into(),
                kind: agent.kind,
                trust: agent.trust,
                exposed: agent.exposed,
                discovered,
                configured,
                yields: !configured && !agent.claims_skills,
                skills: agent.skills.iter().map(|skill| skill.as_str().into()).collect(),
                asked: asked.get(&agent.name).filter(|_| agent.kind == AgentKind::A2a).cloned(),
            }
        };
        Self(agents.iter().map(member).map(|member| (member.name.clone(), member)).collect())
    }

    /// The agents of another configuration, of which those that were not made anew are asked as before.
    pub(crate) fn amended(&self, agents: &[AgentSection], made: &HashMap<String, Arc<Asked>>) -> Self {
        let mut asked = made.clone();
        for member in self.0.values() {
            if let Some(known) = &member.asked {
                asked.entry(member.name.to_string()).or_insert_with(|| known.clone());
            }
        }
        Self::of(agents, &asked)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Member> {
        self.0.values()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Member> {
        self.0.get(name)
    }

    /// Those that the world may know of.
    pub(crate) fn exposed(&self) -> impl Iterator<Item = &Member> {
        self.0.values().filter(|member| member.exposed)
    }

    /// The one that the world may know of, if there is one alone.
    pub(crate) fn only_exposed(&self) -> Option<&Member> {
        let mut exposed = self.exposed();
        exposed.next().filter(|_| exposed.next().is_none())
    }

    /// Those whose names come after this one.
    pub(crate) fn exposed_after(&self, name: &str) -> impl Iterator<Item = &Member> {
        use std::ops::Bound;
        let range = self.0.range::<str, _>((Bound::Excluded(name), Bound::Unbounded));
        range.map(|(_, member)| member).filter(|member| member.exposed)
    }
}
