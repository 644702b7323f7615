//! Whether an equal call was let through before: then it joins that one's task, and is not paid for twice.

use crate::gate::{Gate, Passage, Verdict};

/// The second gate.
#[derive(Debug)]
pub struct IdempotencyGate;

impl Gate for IdempotencyGate {
    fn name(&self) -> &'static str {
        "idempotency"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let Some(key) = passage.call.context.idempotency_key.clone() else { return Verdict::Admit };
        let (principal, agent) = (passage.call.context.principal.clone(), passage.agent.name.clone());
        let known = passage.plane.hands.task_of_key(principal, agent, key);
        Verdict::Wait(Box::pin(async move {
            let known = known.await;
            Box::new(move |passage: &mut Passage| {
                passage.note("idempotency", || match &known {
                    Some(task) => format!("the key belongs to task {task}, which this call joins"),
                    None => "the key has not been used".to_owned(),
                });
                passage.given.repeats = known;
                Verdict::Admit
            }) as crate::gate::Continue
        }))
    }
}
