//! The gate as a whole: who hangs under whom, what tokens prove, what is open.

mod attribution;
mod federated;
mod open;
mod tokens;

use std::sync::Arc;

use chancery_protocol::{Denied, DeniedKind, HopId};

use super::*;
use crate::Millis;

pub(super) const GATEWAY: &str = "https://gateway.example";
pub(super) const LATER: Millis = Millis(3_600_000);

pub(super) fn gate(rules: Rules) -> Lineage {
    let tokens = Tokens::new(GATEWAY, Keyring::try_new("k1", &[7; 32]).unwrap());
    Lineage { rules, tokens, open: Arc::default() }
}

/// Where agents may call without saying on whose behalf.
pub(super) fn lenient() -> Rules {
    Rules { allow_unattributed: true, ..Rules::default() }
}

pub(super) fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// Who makes a call in these tests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who<'a> {
    User,
    Anonymous,
    Agent(&'a str),
}

impl Lineage {
    pub(super) fn descend(&self, who: Who<'_>, token: Option<&str>) -> Result<Descent, Denied> {
        let (realm, agent) =
            (text("default"), if let Who::Agent(agent) = who { Some(text(agent)) } else { None });
        let anonymous = matches!(who, Who::Anonymous);
        let arrival = Arrival { realm: &realm, agent: agent.as_ref(), anonymous, token, trace: None };
        self.attribute(&arrival, Millis(0))
    }

    /// One call, all the way through the gate.
    pub(super) fn call(&self, who: Who<'_>, token: Option<&str>, to: &str) -> Result<Arc<OpenHop>, Denied> {
        let descent = self.descend(who, token)?;
        self.receive(&descent, to)?;
        let (realm, caller, agent) = (text("default"), text("caller"), text(to));
        self.dispatch(&descent, Departure::new(HopId::generate(), &realm, &caller, &agent))
    }

    pub(super) fn token(&self, hop: &OpenHop) -> String {
        self.tokens.mint(hop, LATER)
    }

    /// A chain of calls in which each agent passes its token on.
    pub(super) fn chain(&self, agents: &[&str]) -> Result<Arc<OpenHop>, Denied> {
        let mut last = self.call(Who::User, None, agents[0])?;
        for pair in agents.windows(2) {
            last = self.call(Who::Agent(pair[0]), Some(&self.token(&last)), pair[1])?;
        }
        Ok(last)
    }
}

pub(super) fn reason<T: std::fmt::Debug>(result: Result<T, Denied>) -> String {
    result.unwrap_err().reason.into_owned()
}

#[test]
fn with_the_defaults_depth_eight_passes_and_nine_is_refused() {
    let gate = gate(Rules::default());
    let names: Vec<String> = (0..10).map(|number| format!("agent-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let deepest = gate.chain(&names[..9]).unwrap();
    assert_eq!(deepest.context.depth, 8);
    assert_eq!(deepest.context.visited.names(), names[..9]);
    let further = gate.call(Who::Agent(names[8]), Some(&gate.token(&deepest)), names[9]);
    assert_eq!(reason(further), CALL_DEPTH_EXCEEDED);
    assert_eq!(gate.open.len(), 9);
}

#[test]
fn a_cycle_is_refused_before_the_second_visit_leaves() {
    let gate = gate(Rules::default());
    let end = gate.chain(&["a", "b", "c"]).unwrap();
    let descent = gate.descend(Who::Agent("c"), Some(&gate.token(&end))).unwrap();
    let denied = gate.receive(&descent, "a").unwrap_err();
    assert_eq!(denied.reason, REVISIT_DENIED);
    assert_eq!(denied.gate, "lineage");
    assert!(denied.observed.unwrap().contains("`a`"));
    assert_eq!(gate.open.open_at(&text("default"), &text("a")), 1);
}

#[test]
fn an_agent_that_begins_by_itself_is_on_the_way_too() {
    let gate = gate(lenient());
    let first = gate.call(Who::Agent("a"), None, "b").unwrap();
    assert_eq!((first.context.depth, &*first.context.root_agent_id), (0, "a"));
    let second = gate.call(Who::Agent("b"), Some(&gate.token(&first)), "c").unwrap();
    assert_eq!(reason(gate.call(Who::Agent("c"), Some(&gate.token(&second)), "a")), REVISIT_DENIED);
}

#[test]
fn a_pool_is_not_called_again_through_another_member() {
    let gate = gate(Rules::default());
    let (realm, caller, pool, member) = (text("default"), text("caller"), text("pool"), text("member-1"));
    let descent = gate.descend(Who::User, None).unwrap();
    let departure = Departure::new(HopId::generate(), &realm, &caller, &pool);
    let hop = gate.dispatch(&descent, Departure { peer: Some(&member), ..departure }).unwrap();
    let (token, other) = (gate.token(&hop), text("other-pool"));
    for known_as in ["pool", "member-1"] {
        let descent = gate.descend(Who::Agent(known_as), Some(&token)).unwrap();
        assert_eq!(reason(gate.receive(&descent, "pool")), REVISIT_DENIED);
        let departure = Departure::new(HopId::generate(), &realm, &caller, &other);
        let elsewhere = gate.dispatch(&descent, Departure { peer: Some(&member), ..departure });
        assert_eq!(reason(elsewhere), REVISIT_DENIED, "the member serves another pool, too");
    }
    assert_eq!(gate.open.open_at(&realm, &member), 1);
}

#[test]
fn a_root_never_has_more_descendants_than_it_may_ever_have() {
    let gate = gate(Rules { max_descendants: Some(3), ..Rules::default() });
    let root = gate.call(Who::User, None, "a").unwrap();
    let token = gate.token(&root);
    for number in 0..3 {
        let hop = gate.call(Who::Agent("a"), Some(&token), &format!("b{number}")).unwrap();
        assert!(gate.open.remove(&hop));
    }
    assert_eq!(reason(gate.call(Who::Agent("a"), Some(&token), "b3")), TOO_MANY_DESCENDANTS);
    // What was received before another call took the last place does not leave either.
    assert_eq!(gate.open.descendants_ever(root.hop), 3);
}

#[test]
fn children_know_the_task_that_they_are_for() {
    let gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    root.began(&"task-1".into());
    let child = gate.call(Who::Agent("a"), Some(&gate.token(&root)), "b").unwrap();
    assert_eq!(child.context.parent_task_id.as_ref().map(|task| task.as_str()), Some("task-1"));
    assert_eq!((child.root, child.parent), (root.hop, Some(root.hop)));
    assert_eq!(child.context.trace_id, TraceId::of(root.hop));
}
