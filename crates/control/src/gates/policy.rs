//! What the operator lets this caller do with this agent: which skills, how many at once, how much, how long.

use crate::gate::{Gate, Passage, Verdict};
use crate::policy::{Facts, SlotKey, Subject, media_types, named_skill};

/// The sixth gate.
#[derive(Debug)]
pub struct PolicyGate;

impl Gate for PolicyGate {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let (agent, terms) = (passage.agent.clone(), passage.terms.clone());
        let Some(request) = passage.send() else { return Verdict::Admit };
        let context = &passage.call.context;
        let (named, media_types) = (named_skill(request), media_types(&request.message));
        let facts = Facts {
            subject: Subject {
                realm: &context.principal.realm,
                caller: &context.principal.id,
                groups: &context.identity.groups,
            },
            agent: &agent.name,
            operation: passage.operation(),
            skills: &agent.skills,
            path_skill: context.skill.as_deref(),
            named_skill: named.as_deref(),
            input_bytes: request.message.parts.iter().map(|part| part.weight() as u64).sum(),
            media_types: &media_types,
            reserved: passage.given.estimate.map(|estimate| estimate.hold).unwrap_or_default(),
        };
        let decision = terms.policy.decide(&facts);
        let key = SlotKey {
            realm: context.principal.realm.clone(),
            caller: context.principal.id.clone(),
            agent: agent.name.clone(),
            skill: decision.skill.clone(),
        };
        let most = decision.enforced.concurrency();
        let limits = passage.rehearsal.then(|| decision.enforced.to_string());
        drop(media_types);
        passage.note("policy", || limits.unwrap_or_default());
        passage.given.caps = decision.enforced.caps();
        passage.given.skill = decision.skill;
        passage.would_deny.extend(decision.would_deny);
        if let Some(denied) = decision.denied {
            return Verdict::Deny(denied);
        }
        let slots = passage.plane.slots.clone();
        passage.note("policy", || {
            let taken = slots.taken(&key);
            format!("{taken} of {most} calls at a time are open")
        });
        match slots.take(key, most) {
            Ok(slot) => {
                passage.given.slot = Some(slot).filter(|_| !passage.rehearsal);
                Verdict::Admit
            }
            Err(denied) => Verdict::Deny(denied),
        }
    }
}
