//! What a caller may see and use: what the gates of identity and policy would let through. Budgets and loops hide nobody.

use std::sync::Arc;

use chancery_control::identity::Access;
use chancery_control::policy::{Facts, SKILL_NOT_ALLOWED, Subject};
use chancery_control::{Mode, Plane};
use chancery_protocol::{AgentSkill, Caller, Operation};

use super::{Fleet, Member};

/// A member as a caller sees it.
pub(super) struct Seen {
    pub(super) member: Member,
    pub(super) card: Arc<chancery_protocol::AgentCard>,
    /// What of it the caller may use.
    pub(super) skills: Vec<AgentSkill>,
}

impl Fleet {
    /// The members that a caller may send messages to.
    pub(super) fn seen_by(&self, caller: &Caller) -> Vec<Seen> {
        let roster = self.roster.load();
        roster.exposed().filter_map(|member| self.seen(caller, member)).collect()
    }

    /// A member as a caller sees it, if it may be seen.
    pub(super) fn seen(&self, caller: &Caller, member: &Member) -> Option<Seen> {
        let plane = self.governor.plane();
        if !may_send(plane, caller, &member.name) {
            return None;
        }
        let card = self.card(&member.name)?;
        let all: Vec<Arc<str>> = card.skills.iter().map(|skill| skill.id.as_str().into()).collect();
        let usable = |skill: &&AgentSkill| may_use(plane, caller, &member.name, &all, &skill.id);
        let skills = card.skills.iter().filter(usable).cloned().collect();
        Some(Seen { member: member.clone(), card, skills })
    }
}

fn observes(plane: &Plane, gate: &str) -> bool {
    plane.settings.load().modes.get(gate) == Some(&Mode::Observe)
}

fn subject(caller: &Caller) -> Subject<'_> {
    Subject { realm: &caller.principal.realm, caller: &caller.principal.id, groups: &caller.identity.groups }
}

/// Whether a caller may send messages to an agent at all.
fn may_send(plane: &Plane, caller: &Caller, agent: &str) -> bool {
    if observes(plane, "identity") {
        return true;
    }
    let access = Access::new(caller, agent, Operation::SendMessage);
    (**plane.resolver.load()).as_ref().is_none_or(|resolver| resolver.resolve(&access).is_ok())
        && plane.policy.load().authorize(subject(caller), agent, Operation::SendMessage).denied.is_none()
}

/// Whether a caller may use a skill of an agent.
fn may_use(plane: &Plane, caller: &Caller, agent: &str, all: &[Arc<str>], skill: &str) -> bool {
    let facts = Facts {
        skills: all,
        named_skill: Some(skill),
        ..Facts::new(subject(caller), agent, Operation::SendMessage)
    };
    let denied = plane.policy.load().decide(&facts).denied;
    observes(plane, "policy") || denied.is_none_or(|denied| denied.reason != SKILL_NOT_ALLOWED)
}
