//! Agents that an operator has cut off: nobody reaches them, and they reach nobody, until they are released.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use chancery_protocol::{Denied, DeniedKind};

/// The gate that refuses for this reason.
pub const GATE: &str = "containment";
/// The agent that is called is contained.
pub const AGENT_CONTAINED: &str = "AGENT_CONTAINED";
/// The agent that calls is contained.
pub const CALLER_CONTAINED: &str = "CALLER_CONTAINED";

/// Which agents are contained, and why. Asked for every call, changed once in a blue moon.
#[derive(Debug, Default)]
pub struct Containment(ArcSwap<BTreeMap<Arc<str>, Arc<str>>>);

impl Containment {
    /// Contains an agent, for a reason that everybody who is refused may read.
    pub fn contain(&self, agent: &str, reason: &str) {
        self.0.rcu(|contained| {
            let mut contained = BTreeMap::clone(contained);
            contained.insert(agent.into(), reason.into());
            contained
        });
    }

    /// Releases an agent. Says whether it was contained.
    pub fn release(&self, agent: &str) -> bool {
        let before = self.0.rcu(|contained| {
            let mut contained = BTreeMap::clone(contained);
            contained.remove(agent);
            contained
        });
        before.contains_key(agent)
    }

    /// Why an agent is contained, if it is.
    pub fn reason(&self, agent: &str) -> Option<Arc<str>> {
        self.0.load().get(agent).cloned()
    }

    /// All agents that are contained, and why.
    pub fn all(&self) -> Arc<BTreeMap<Arc<str>, Arc<str>>> {
        self.0.load_full()
    }

    /// Whether a call from an agent, or from somebody who is none, may begin work at another.
    pub fn check(&self, caller: Option<&str>, agent: &str) -> Result<(), Denied> {
        let contained = self.0.load();
        if contained.is_empty() {
            return Ok(());
        }
        if let Some(reason) = contained.get(agent) {
            return Err(refusal(AGENT_CONTAINED, agent, reason));
        }
        match caller.and_then(|caller| Some((caller, contained.get(caller)?))) {
            Some((caller, reason)) => Err(refusal(CALLER_CONTAINED, caller, reason)),
            None => Ok(()),
        }
    }
}

fn refusal(why: &'static str, agent: &str, reason: &str) -> Denied {
    let mut denied = Denied::new(GATE, DeniedKind::Forbidden, why);
    denied.observed = Some(format!("agent `{agent}` is contained: {reason}"));
    denied.hint = Some("ask the operator, who can release it".to_owned());
    denied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_agent_is_neither_reached_nor_reaches_anybody_until_it_is_released() {
        let containment = Containment::default();
        assert_eq!(containment.check(Some("planner"), "writer"), Ok(()));

        containment.contain("writer", "leaks prompts");
        let reached = containment.check(Some("planner"), "writer").unwrap_err();
        assert_eq!(reached.reason, AGENT_CONTAINED);
        assert_eq!(reached.observed.as_deref(), Some("agent `writer` is contained: leaks prompts"));
        assert!(reached.to_string().ends_with("agent `writer` is contained: leaks prompts"), "{reached}");
        assert_eq!(containment.check(Some("writer"), "planner").unwrap_err().reason, CALLER_CONTAINED);
        assert_eq!(containment.check(None, "planner"), Ok(()));

        assert!(containment.release("writer"));
        assert!(!containment.release("writer"));
        assert_eq!(containment.check(Some("planner"), "writer"), Ok(()));
    }
}
