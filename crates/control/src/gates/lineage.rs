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
        let plane = passage.plane.clone();
        let Some(descent) = passage.given.descent.clone() else { return Verdict::Admit };
        passage.note("lineage", || {
            let rules = &plane.lineage.load().rules;
            format!(
                "depth {} of at most {}, by way of {:?}",
                descent.depth, rules.max_call_depth, descent.visited
            )
        });
        plane.lineage.load().receive(&descent, &passage.agent.name).into()
    }
}
