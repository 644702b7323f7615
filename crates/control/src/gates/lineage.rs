//! Whether the chain of calls may go on to this agent.

use crate::gate::{Gate, Passage, Verdict};

/// The fourth gate. It is asked again, with the state of the whole tree, when the call leaves.
#[derive(Debug)]
pub struct LineageGate;

impl Gate for LineageGate {
    fn name(&self) -> &'static str {
        "lineage"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let Some(descent) = &passage.given.descent else { return Verdict::Admit };
        let lineage = &passage.terms.lineage;
        let received = lineage.receive(descent, &passage.agent.name);
        if passage.rehearsal {
            let (depth, deepest) = (descent.depth, lineage.rules.max_call_depth);
            let way = format!("depth {depth} of at most {deepest}, by way of {:?}", descent.visited);
            passage.note("lineage", || way);
        }
        received.into()
    }
}
