//! Who calls, on whose behalf, and whether they may ask this of this agent at all: before anything is looked up.

use chancery_protocol::{LINEAGE_EXTENSION, Operation, Proof};
use serde::Deserialize;

use crate::gate::{Gate, Passage, Verdict, is_send};
use crate::identity::Access;
use crate::lineage::{Arrival, Traceparent};
use crate::policy::Subject;

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
        let operation = passage.operation();
        let context = &passage.call.context;
        if let Some(resolver) = &passage.terms.resolver
            && let Err(denied) = resolver.resolve(&Access::of(context, operation))
        {
            return Verdict::Deny(denied);
        }
        let subject = Subject {
            realm: &context.principal.realm,
            caller: &context.principal.id,
            groups: &context.identity.groups,
        };
        let authorized = passage.terms.policy.authorize(subject, &passage.agent.name, operation);
        if let Some(denied) = authorized.denied {
            return Verdict::Deny(denied);
        }
        passage.would_deny.extend(authorized.would_deny);
        if !is_send(operation) {
            return Verdict::Admit;
        }
        self.attribute(passage)
    }
}

impl IdentityGate {
    /// Finds out on whose behalf the call is made: the budget asks who pays, and the lineage gate how far it may go.
    fn attribute(&self, passage: &mut Passage) -> Verdict {
        let context = &passage.call.context;
        let carried = match &context.lineage {
            Some(_) => None,
            None => passage.extension::<Carried>(LINEAGE_EXTENSION).map(|carried| carried.token),
        };
        let trace = context.traceparent.as_deref().and_then(Traceparent::parse);
        let arrival = Arrival {
            realm: &context.principal.realm,
            agent: context.identity.agent.as_ref(),
            anonymous: context.identity.proof == Proof::Anonymous,
            token: context.lineage.as_deref().or(carried.as_deref()),
            trace: trace.map(|seen| seen.trace),
        };
        match passage.terms.lineage.attribute(&arrival, passage.now) {
            Ok(descent) => {
                passage.note("identity", || {
                    format!("on behalf of: {:?}, depth {}", descent.basis, descent.depth)
                });
                passage.given.descent = Some(descent);
                Verdict::Admit
            }
            Err(denied) => Verdict::Deny(denied),
        }
    }
}
