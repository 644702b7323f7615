//! Whether an operator has cut the agent off, or the one that calls it. Stands behind identity, so that nobody learns of it
//! who may not call at all; it cannot be set to observe.

use crate::containment::GATE;
use crate::gate::{Gate, Passage, Verdict};

/// For what begins work: what is there already can be read and canceled.
#[derive(Debug)]
pub struct ContainmentGate;

impl Gate for ContainmentGate {
    fn name(&self) -> &'static str {
        GATE
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let caller = passage.call.context.identity.agent.as_deref();
        passage.plane.containment.check(caller, &passage.agent.name).into()
    }
}
