//! What the operator lets this caller do with this agent: which skills, how many at once, how much, how long. A call that is made
//! for somebody else is also judged as if they had made it.

use std::sync::Arc;

use chancery_protocol::{Denied, Principal};
use smallvec::SmallVec;

use crate::gate::{Gate, Passage, Verdict};
use crate::policy::{Caps, Decision, Facts, SlotKey, exceeded, media_types, named_skill};

/// The sixth gate.
#[derive(Debug)]
pub struct PolicyGate;

/// What the rules for one of those say whom a call is judged by.
struct Judged<'a> {
    principal: &'a Principal,
    decision: Decision<'a>,
}

/// How many calls of somebody may be open at a time: as it is enforced, and as it would be if every rule were.
struct Places {
    key: SlotKey,
    most: u32,
    observed: Option<u32>,
}

impl Gate for PolicyGate {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let (agent, terms) = (passage.agent.clone(), passage.terms.clone());
        let skills = agent.skills.now();
        let Some(request) = passage.send() else { return Verdict::Admit };
        let (named, media_types) = (named_skill(request), media_types(&request.message));
        let judge = |(principal, subject)| Judged {
            principal,
            decision: terms.policy.decide(&Facts {
                subject,
                agent: &agent.name,
                operation: passage.operation(),
                skills: &skills,
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
        let mut places: SmallVec<[Places; 2]> = SmallVec::new();
        for Judged { principal, decision } in judged {
            if passage.rehearsal {
                notes.push(format!("{}: {}", principal.id, decision.enforced));
            }
            places.push(Places {
                key: slot_key(principal, &agent.name, &decision),
                most: decision.enforced.concurrency(),
                observed: decision.rehearsed.map(|limits| limits.concurrency()),
            });
            caps = caps.least(decision.enforced.caps());
            skill = decision.skill;
            would_deny.extend(decision.would_deny);
            denied = denied.or(decision.denied);
        }
        drop(media_types);
        notes.into_iter().for_each(|text| passage.note("policy", || text));
        (passage.given.caps, passage.given.skill) = (caps, skill);
        would_deny.into_iter().for_each(|denied| passage.observe(self.name(), denied));
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
fn take_slots(passage: &mut Passage, places: SmallVec<[Places; 2]>) -> Result<(), Denied> {
    let slots = passage.plane.slots.clone();
    for Places { key, most, observed } in places {
        let taken = slots.taken(&key);
        passage.note("policy", || format!("{taken} of {most} calls at a time are open"));
        if let Some(denied) = observed.and_then(|most| exceeded(most, taken)) {
            passage.observe(PolicyGate.name(), denied);
        }
        if passage.rehearsal {
            exceeded(most, taken).map_or(Ok(()), Err)?;
        } else {
            let slot = slots.take(key, most)?;
            passage.given.slots.push(slot);
        }
    }
    Ok(())
}
