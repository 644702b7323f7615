//! What a caller may see and use: what the gates of identity and policy would let through. Budgets and loops hide nobody.

use std::collections::HashSet;
use std::sync::Arc;

use chancery_control::identity::Access;
use chancery_control::policy::{Facts, SKILL_NOT_ALLOWED, Subject};
use chancery_control::{Mode, Terms};
use chancery_protocol::{AgentCard, AgentSkill, Caller, Operation};

use super::{Formation, Member};
use crate::config::Trust;

/// A member as a caller sees it.
pub(crate) struct Seen {
    pub(crate) member: Member,
    pub(crate) card: Arc<AgentCard>,
    /// What of it the caller may use.
    pub(crate) skills: Vec<AgentSkill>,
    /// Of what it is believed to have, what the caller may use: messages to the fleet for these may go to it.
    pub(crate) believed: Vec<AgentSkill>,
}

impl Formation {
    /// The members that a caller may send messages to. Messages for skills that agents of the configuration have are for these, whether
    /// the caller may see them or not.
    pub(crate) fn seen_by(&self, caller: &Caller) -> Vec<Seen> {
        let exposed = self.regime.roster.exposed();
        let mut seen: Vec<_> = exposed.filter_map(|member| self.seen(caller, member)).collect();
        if seen.iter().any(|seen| seen.member.yields) {
            let configured = self.configured_skills();
            for seen in seen.iter_mut().filter(|seen| seen.member.yields) {
                seen.believed.retain(|skill| !configured.contains(&skill.id));
            }
        }
        seen
    }

    /// The ids of the skills that agents of the configuration have.
    fn configured_skills(&self) -> HashSet<String> {
        let mut ids = HashSet::new();
        for member in self.regime.roster.all().filter(|member| member.configured) {
            ids.extend(member.skills.iter().map(|id| id.to_string()));
            let card = self.regime.card(&member.name);
            ids.extend(card.iter().flat_map(|card| &card.skills).map(|skill| skill.id.clone()));
        }
        ids
    }

    /// A member as a caller sees it, if it may be seen.
    pub(crate) fn seen(&self, caller: &Caller, member: &Member) -> Option<Seen> {
        let (terms, caller) = (&self.regime.terms, &*self.regime.judged_as(caller));
        if !may_send(terms, caller, &member.name) {
            return None;
        }
        let card = self.regime.card(&member.name)?;
        let believed = believed(member, &card);
        // Whatever skill a message named, it would be refused.
        if !may_use(terms, caller, &member.name, &ids(&believed), None) {
            return None;
        }
        let skills = usable(terms, caller, &member.name, card.skills.clone());
        let believed = usable(terms, caller, &member.name, believed);
        Some(Seen { member: member.clone(), card, skills, believed })
    }
}

/// The skills that a member is believed to have. What the card of one says that nobody trusts decides nothing; of a whole
/// fleet that was found, it only says which of its members has what the operator vouches for.
fn believed(member: &Member, card: &AgentCard) -> Vec<AgentSkill> {
    let on_card = |id: &str| card.skills.iter().any(|skill| skill.id == id);
    let (own, vouched): (&[AgentSkill], Vec<_>) = match (member.trust, member.discovered) {
        (Trust::Trusted, _) => (&card.skills, member.skills.iter().filter(|id| !on_card(id)).collect()),
        (Trust::Untrusted, true) => (&[], member.skills.iter().filter(|id| on_card(id)).collect()),
        (Trust::Untrusted, false) => (&[], member.skills.iter().collect()),
    };
    let vouched = vouched.into_iter().map(|id| AgentSkill::new(&**id, &**id, "As the operator has it"));
    own.iter().cloned().chain(vouched).collect()
}

/// Those of these skills of an agent that a caller may use.
pub(crate) fn usable(
    terms: &Terms,
    caller: &Caller,
    agent: &str,
    mut skills: Vec<AgentSkill>,
) -> Vec<AgentSkill> {
    let all = ids(&skills);
    skills.retain(|skill| may_use(terms, caller, agent, &all, Some(&skill.id)));
    skills
}

fn ids(skills: &[AgentSkill]) -> Vec<Arc<str>> {
    skills.iter().map(|skill| skill.id.as_str().into()).collect()
}

fn subject(caller: &Caller) -> Subject<'_> {
    Subject { realm: &caller.principal.realm, caller: &caller.principal.id, groups: &caller.identity.groups }
}

/// Whether a caller may send messages to an agent at all.
fn may_send(terms: &Terms, caller: &Caller, agent: &str) -> bool {
    if terms.mode("identity") == Mode::Observe {
        return true;
    }
    let access = Access::new(caller, agent, Operation::SendMessage);
    terms.resolver.as_ref().is_none_or(|resolver| resolver.resolve(&access).is_ok())
        && terms.policy.authorize(subject(caller), agent, Operation::SendMessage).denied.is_none()
}

/// Whether a caller may use a skill of an agent, or any of them.
fn may_use(terms: &Terms, caller: &Caller, agent: &str, all: &[Arc<str>], skill: Option<&str>) -> bool {
    let facts = Facts {
        skills: all,
        named_skill: skill,
        ..Facts::new(subject(caller), agent, Operation::SendMessage)
    };
    let denied = terms.policy.decide(&facts).denied;
    terms.mode("policy") == Mode::Observe || denied.is_none_or(|denied| denied.reason != SKILL_NOT_ALLOWED)
}
