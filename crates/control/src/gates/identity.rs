//! Who calls, on whose behalf, and whether they may ask this of this agent at all: before anything is looked up.

use std::sync::Arc;

use chancery_protocol::{Denied, Identity, LINEAGE_EXTENSION, Operation, Proof};
use serde::Deserialize;

use crate::gate::{Gate, Passage, Verdict, is_send};
use crate::held::Held;
use crate::identity::{Access, call_of, outside_of_call};
use crate::lineage::{Arrival, Descent, Traceparent};
use crate::policy;
use crate::terms::Mode;

/// The first gate, for every operation.
#[derive(Debug)]
pub struct IdentityGate;

/// The lineage extension in the metadata of a message.
#[derive(Deserialize)]
struct Carried {
    token: String,
}

impl Gate for IdentityGate {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn concerns(&self, _: Operation) -> bool {
        true
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let attributed = match is_send(passage.operation()) || passage.call.context.identity.lineage.is_some()
        {
            true => self.attribute(passage),
            false => Ok(()),
        };
        let denied = self.unauthorized(passage);
        if denied.is_some() && passage.terms.mode(self.name()) == Mode::Enforce {
            return denied.map_or(Verdict::Admit, Verdict::Deny);
        }
        denied.map_or(attributed, Err).into()
    }
}

impl IdentityGate {
    /// Why the caller may not ask this of this agent, or whoever it calls for may not, if so.
    fn unauthorized(&self, passage: &mut Passage) -> Option<Denied> {
        let operation = passage.operation();
        let context = &passage.call.context;
        let acts_for_call = call_of(&context.principal).is_some();
        if let Some(denied) = outside_of_call(&context.principal, &passage.call.request) {
            return Some(denied);
        }
        let access = match passage.given.root_caller.as_ref().filter(|_| acts_for_call) {
            Some(root_caller) => Access::new(root_caller, &context.agent, operation),
            None => Access::of(context, operation),
        };
        if let Some(resolver) = &passage.terms.resolver
            && let Err(denied) = resolver.resolve(&access)
        {
            return Some(denied);
        }
        let mut would_deny = Vec::new();
        let denied = passage.judged_by().find_map(|(_, subject)| {
            let authorized = passage.terms.policy.authorize(subject, &passage.agent.name, operation);
            would_deny.extend(authorized.would_deny);
            authorized.denied
        });
        would_deny.into_iter().for_each(|denied| passage.observe(policy::GATE, denied));
        denied
    }

    /// Keeps in sight who began what the call is made for. An agent that calls in the name of its caller is in the groups of
    /// its caller; one that calls in its own name is judged beside whom it calls for, and one that acts for the call in their place.
    fn remember_root_caller(passage: &mut Passage, descent: &Descent) {
        let parent = descent.parent.as_ref().and_then(|parent| passage.plane.held(parent.hop));
        let Some(root_caller) = parent.map(|parent| parent.payer.clone()) else { return };
        let context = &mut passage.call.context;
        if root_caller.principal != context.principal {
            passage.given.root_caller = Some(root_caller);
        } else if root_caller.identity.groups != context.identity.groups {
            let groups = root_caller.identity.groups.clone();
            context.identity = Arc::new(Identity { groups, ..(*context.identity).clone() });
        }
    }

    /// A task goes on that waited for its client: its call stands where the settled one stood.
    fn continue_call(passage: &mut Passage, settled: &Held) -> Result<(), Denied> {
        let descent = passage.terms.lineage.continued(&settled.open)?;
        let context = &mut passage.call.context;
        if settled.payer.principal == context.principal {
            context.identity = settled.payer.identity.clone();
        }
        Self::remember_root_caller(passage, &descent);
        passage.given.descent = Some(descent);
        Ok(())
    }

    /// Finds out on whose behalf the call is made: the budget asks who pays, and the lineage gate how far it may go.
    /// Where that is refused and only observed, the call goes on as one of which nothing is known.
    fn attribute(&self, passage: &mut Passage) -> Result<(), Denied> {
        if let Some(settled) = passage.call.context.continues.and_then(|hop| passage.plane.parked(hop)) {
            return Self::continue_call(passage, &settled);
        }
        let context = &passage.call.context;
        let carried = match &context.lineage {
            Some(_) => None,
            None => passage.extension::<Carried>(LINEAGE_EXTENSION).map(|carried| carried.token),
        };
        let token = context.lineage.clone().or(carried);
        let (realm, agent) = (context.principal.realm.clone(), context.identity.agent.clone());
        let trace = context.traceparent.as_deref().and_then(Traceparent::parse);
        let arrival = Arrival {
            realm: &realm,
            agent: agent.as_ref(),
            anonymous: context.identity.proof == Proof::Anonymous,
            token: token.as_deref(),
            trace: trace.map(|seen| seen.trace),
        };
        let lineage = &passage.terms.lineage;
        let (descent, attributed) = match lineage.attribute(&arrival, passage.now) {
            Ok(descent) => (descent, Ok(())),
            Err(denied) if passage.terms.observes(self.name(), &denied) => {
                (lineage.assume(&arrival), Err(denied))
            }
            Err(denied) => return Err(denied),
        };
        if let Some(within) = token.as_deref().and_then(|token| descent.caller_within(&arrival, token)) {
            let context = &mut passage.call.context;
            (context.principal, context.identity) = (within.principal, within.identity);
        }
        Self::remember_root_caller(passage, &descent);
        passage.note("identity", || format!("on behalf of: {:?}, depth {}", descent.basis, descent.depth));
        passage.given.descent = Some(descent);
        attributed
    }
}
