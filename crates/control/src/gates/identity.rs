//! Who calls, on whose behalf, and whether they may ask this of this agent at all: before anything is looked up.

use chancery_protocol::{Denied, LINEAGE_EXTENSION, Operation, Proof};
use serde::Deserialize;

use crate::gate::{Gate, Passage, Verdict, is_send};
use crate::identity::Access;
use crate::lineage::{Arrival, Traceparent};
use crate::policy::Subject;
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
        let denied = self.unauthorized(passage);
        if denied.is_some() && passage.terms.mode(self.name()) == Mode::Enforce {
            return denied.map_or(Verdict::Admit, Verdict::Deny);
        }
        let attributed = match is_send(passage.operation()) {
            true => self.attribute(passage),
            false => Ok(()),
        };
        denied.map_or(attributed, Err).into()
    }
}

impl IdentityGate {
    /// Why the caller may not ask this of this agent, if so.
    fn unauthorized(&self, passage: &mut Passage) -> Option<Denied> {
        let operation = passage.operation();
        let context = &passage.call.context;
        if let Some(resolver) = &passage.terms.resolver
            && let Err(denied) = resolver.resolve(&Access::of(context, operation))
        {
            return Some(denied);
        }
        let subject = Subject {
            realm: &context.principal.realm,
            caller: &context.principal.id,
            groups: &context.identity.groups,
        };
        let authorized = passage.terms.policy.authorize(subject, &passage.agent.name, operation);
        passage.would_deny.extend(authorized.would_deny);
        authorized.denied
    }

    /// Finds out on whose behalf the call is made: the budget asks who pays, and the lineage gate how far it may go.
    /// Where that is refused and only observed, the call goes on as one of which nothing is known.
    fn attribute(&self, passage: &mut Passage) -> Result<(), Denied> {
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
        let lineage = &passage.terms.lineage;
        let (descent, attributed) = match lineage.attribute(&arrival, passage.now) {
            Ok(descent) => (descent, Ok(())),
            Err(denied) if passage.terms.observes(self.name(), &denied) => {
                (lineage.assume(&arrival), Err(denied))
            }
            Err(denied) => return Err(denied),
        };
        passage.note("identity", || format!("on behalf of: {:?}, depth {}", descent.basis, descent.depth));
        passage.given.descent = Some(descent);
        attributed
    }
}
