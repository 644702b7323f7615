//! Decisions about calls: gates, pipeline, ledger, lineage, routing, policy. No HTTP, no SQL.
//!
//! What stands here so far is the list of gates that a call will pass, in their order. The gates themselves
//! come with the control plane.

pub mod lineage;
pub mod policy;
pub mod routing;
mod time;

pub use time::Millis;

/// The gates of the pipeline, in the order a call passes them.
///
/// Budget stands before routing, so that a spent budget never pays for a selection; policy stands after it,
/// since it judges a concrete target.
pub const GATES: [&str; 6] = ["identity", "idempotency", "budget", "lineage", "routing", "policy"];

#[cfg(test)]
mod tests {
    use super::GATES;

    #[test]
    fn budget_is_asked_before_routing_and_policy_after() {
        let place = |gate| GATES.iter().position(|known| *known == gate);
        assert!(place("identity") < place("idempotency"));
        assert!(place("budget") < place("routing"));
        assert!(place("routing") < place("policy"));
    }
}
