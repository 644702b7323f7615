//! What the operator lets this caller do with this agent: which skills, how many at once, how much, how long. A call that is made
//! for somebody else is also judged as if they had made it.

use std::sync::Arc;

use chancery_protocol::{Denied, Principal};
use smallvec::SmallVec;

use crate::gate::{Gate, Passage, Verdict};
use crate::policy::{Caps, Decision, Facts, SlotKey, media_types, named_skill};

/// The sixth gate.
#[derive(Debug)]
pub struct PolicyGate;

/// What the rules for one of those say whom a call is judged by.
struct Judged<'a> {
    principal: &'a Principal,
    decision: Decision<'a>,
}

impl Gate for PolicyGate {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let (agent, terms) = (passage.agent.clone(), passage.terms.clone());
        let Some(request) = passage.send() else { return Verdict::Admit };
        let (named, media_types) = (named_skill(request), media_types(&request.message));
        let judge = |(principal, subject)| Judged {
            principal,
            decision: terms.policy.decide(&Facts {
                subject,
                agent: &agent.name,
                operation: passage.operation(),
                skills: &agent.skills,
                path_skill: passage.call.context.skill.as_deref(),
                named_skill: named.as_deref(),
                input_bytes: request.message.parts.iter().map(|part| part.weight() as u64).sum(),
                media_types: &media_types,
                reserved: passage.given.estimate.map(|estimate| estimate.hold).unwrap_or_default(),
            }),
        };
        let judged: SmallVec<[Judged<'_>; 2]> = passage.judged_by().map(judge).collect();
        let mut notes = Vec::new();
        let (mut caps, mut skill, mut denied, mut would_deny) = (Caps::default(), None, None, Vec::new());
        let mut places: SmallVec<[(SlotKey, u32); 2]> = SmallVec::new();
        for Judged { principal, decision } in judged {
            if passage.rehearsal {
                notes.push(format!("{}: {}", principal.id, decision.enforced));
            }
            places.push((slot_key(principal, &agent.name, &decision), decision.enforced.concurrency()));
            caps = caps.least(decision.enforced.caps());
            skill = decision.skill;
            would_deny.extend(decision.would_deny);
            denied = denied.or(decision.denied);
        }
        drop(media_types);
        notes.into_iter().for_each(|text| passage.note("policy", || text));
        (passage.given.caps, passage.given.skill) = (caps, skill);
        passage.would_deny.extend(would_deny);
        match denied.map_or_else(|| take_slots(passage, places), Err) {
            Ok(()) => Verdict::Admit,
            Err(denied) => Verdict::Deny(denied),
        }
    }
}

fn slot_key(principal: &Principal, agent: &Arc<str>, decision: &Decision<'_>) -> SlotKey {
    SlotKey {
        realm: principal.realm.clone(),
        caller: principal.id.clone(),
        agent: agent.clone(),
        skill: decision.skill.clone(),
    }
}

/// Takes a place among the open calls of everybody by whose rules the call is judged.
fn take_slots(passage: &mut Passage, places: SmallVec<[(SlotKey, u32); 2]>) -> Result<(), Denied> {
    let slots = passage.plane.slots.clone();
    for (key, most) in places {
        passage.note("policy", || {
            let taken = slots.taken(&key);
            format!("{taken} of {most} calls at a time are open")
        });
        let slot = slots.take(key, most)?;
        if !passage.rehearsal {
            passage.given.slots.push(slot);
        }
    }
    Ok(())
}
