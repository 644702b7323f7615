//! Who acts for a call: an agent, within one call that is open, by a name that is neither its own nor its caller's.
//!
//! Such a caller owns what it begins, and nothing else. It is judged, counted and paid for as the root caller of that call:
//! [`Plane::root_caller`](crate::Plane::root_caller).

use std::sync::Arc;

use chancery_protocol::{Caller, Denied, DeniedKind, HopId, Identity, Operation, Principal, Proof, Request};

use super::GATE;
use crate::ledger::UNATTRIBUTED;
use crate::lineage::OpenHop;

/// What the names of those begin with who act for a call.
const PREFIX: &str = "call:";

/// An agent asks for what is not its to ask within the call that it works on.
pub const OUTSIDE_OF_CALL: &str = "OUTSIDE_OF_CALL";

/// Whoever acts for a call of a realm as this agent.
pub fn within_call(realm: &Arc<str>, hop: HopId, agent: &str) -> Principal {
    Principal { realm: realm.clone(), id: format!("{PREFIX}{hop}/{agent}").into() }
}

/// The call that somebody acts for, if it is for one.
pub fn call_of(principal: &Principal) -> Option<HopId> {
    HopId::parse(principal.id.strip_prefix(PREFIX)?.split_once('/')?.0)
}

/// Whether a name is none that anybody can be given.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(PREFIX) || name.starts_with(UNATTRIBUTED)
}

/// Somebody who has proven nothing but that it works on an open call, by the token of that.
pub(crate) fn caller_within(call: &OpenHop, token: &str) -> Caller {
    let agent = call.bearer();
    let identity = Identity {
        proof: Proof::Application,
        agent: Some(agent.clone()),
        lineage: Some(token.into()),
        ..Identity::default()
    };
    Caller { principal: within_call(&call.realm, call.hop, agent), identity: Arc::new(identity) }
}

/// Why somebody may not ask this who acts for a call, if so.
pub fn outside_of_call(principal: &Principal, request: &Request) -> Option<Denied> {
    if call_of(principal).is_none() || is_within_call(request) {
        return None;
    }
    let allowed =
        "messages without a receiver of notifications, and to see, list, watch and cancel what they began";
    Some(Denied {
        limit: Some(allowed.into()),
        observed: Some(request.operation().method().into()),
        hint: Some("for more than that, the agent calls with a key of its own".into()),
        ..Denied::new(GATE, DeniedKind::Forbidden, OUTSIDE_OF_CALL)
    })
}

/// Whether somebody who acts for a call may ask this: what ends with the call, and nothing that is sent elsewhere later.
fn is_within_call(request: &Request) -> bool {
    match request {
        Request::SendMessage(sent) | Request::SendStreamingMessage(sent) => {
            let wanted = sent.configuration.as_ref();
            wanted.is_none_or(|wanted| wanted.task_push_notification_config.is_none())
        }
        other => matches!(
            other.operation(),
            Operation::GetTask | Operation::ListTasks | Operation::CancelTask | Operation::SubscribeToTask
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_which_call_and_nobody_can_be_given_it() {
        let hop = HopId::generate();
        let principal = within_call(&"r".into(), hop, "planner");
        assert_eq!(call_of(&principal), Some(hop));
        assert!(principal.id.ends_with("/planner") && is_reserved(&principal.id), "{principal:?}");
        for plain in ["alice", "call", "call:", "call:x/y", "alice@example.com"] {
            assert_eq!(call_of(&Principal::new("r", plain)), None, "{plain}");
        }
        assert!(is_reserved("unattributed/planner") && !is_reserved("alice"));
    }
}
