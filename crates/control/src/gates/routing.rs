//! Which member of the pool answers, where the agent is one.

use chancery_protocol::Denied;

use crate::gate::{Gate, Passage, Verdict};
use crate::plane::Governed;
use crate::routing::{Route, Wanted};

/// An agent that is no pool answers itself, if it can be reached.
fn reach(passage: &mut Passage, agent: &Governed) -> Result<(), Denied> {
    let Some(reach) = &agent.reach else { return Ok(()) };
    if passage.rehearsal {
        return reach.foretell(passage.now);
    }
    passage.given.ticket = Some(reach.begin(passage.now)?);
    Ok(())
}

/// The fifth gate.
#[derive(Debug)]
pub struct RoutingGate;

impl Gate for RoutingGate {
    fn name(&self) -> &'static str {
        "routing"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let agent = passage.agent.clone();
        // What is here stays here, whoever is there again.
        let Some(pool) = agent.pool.as_ref().filter(|_| !passage.given.is_of_stand_in) else {
            return reach(passage, &agent).into();
        };
        let message = passage.send().map(|request| &request.message);
        let wanted = Wanted {
            principal: &passage.call.context.principal,
            skill: passage.given.skill.as_deref(),
            task: message.and_then(|message| message.task_id.as_ref()),
            context: message.and_then(|message| message.context_id.as_ref()),
            turn: 0,
        };
        let now = passage.now;
        let routed = match passage.rehearsal {
            true => pool.foretell(&wanted, now).map(|decision| Route { ticket: None, decision }),
            false => pool.route(&wanted, now),
        };
        match routed {
            Ok(route) => {
                if !passage.rehearsal {
                    tracing::debug!(call = %passage.hop, "routed to {}", route.decision);
                }
                passage.note("routing", || route.decision.to_string());
                passage.given.route = Some(route);
                Verdict::Admit
            }
            Err(denied) => Verdict::Deny(denied),
        }
    }
}
