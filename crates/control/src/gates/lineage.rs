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
        let Some(descent) = passage.given.descent.clone() else { return Verdict::Admit };
        let deepest = passage.terms.lineage.rules.max_call_depth;
        passage.note("lineage", || {
            format!("depth {} of at most {deepest}, by way of {:?}", descent.depth, descent.visited)
        });
        passage.terms.lineage.receive(&descent, &passage.agent.name).into()
    }
}
