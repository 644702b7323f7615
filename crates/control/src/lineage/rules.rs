//! How far a chain of calls may go, and the refusals of this gate.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_protocol::signing::AgentId;
use chancery_protocol::{Denied, DeniedKind};

/// The name of the gate.
pub const GATE: &str = "lineage";

/// The chain of calls is too long.
pub const CALL_DEPTH_EXCEEDED: &str = "CALL_DEPTH_EXCEEDED";
/// The agent is in the chain of calls already.
pub const REVISIT_DENIED: &str = "REVISIT_DENIED";
/// Too many calls go back to the same root.
pub const TOO_MANY_DESCENDANTS: &str = "TOO_MANY_DESCENDANTS";
/// An agent calls without saying on whose behalf, and it is not known.
pub const LINEAGE_REQUIRED: &str = "LINEAGE_REQUIRED";
/// The token does not hold: forged, expired, of a call that has ended, or somebody else's.
pub const LINEAGE_INVALID: &str = "LINEAGE_INVALID";
/// More calls are open than this gateway keeps track of.
pub const TOO_MANY_OPEN_CALLS: &str = "TOO_MANY_OPEN_CALLS";

/// No chain is longer than this, whatever the rules say.
pub const DEEPEST: u16 = 256;

/// How far a chain of calls may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The depth of the deepest call that is let through; the root has depth 0. At most [`DEEPEST`].
    pub max_call_depth: u16,
    /// Whether an agent that is in the chain already may not be called again.
    pub deny_revisit: bool,
    /// Agents that may be called again all the same.
    pub revisit_allowlist: BTreeSet<Arc<str>>,
    /// How often an agent may be called again within a chain where it may at all; unlimited if none.
    pub max_revisits: Option<u16>,
    /// How many calls may go back to one root, as long as any of them is open; unlimited if none.
    pub max_descendants: Option<u32>,
    /// Whether an agent of the fleet may call without saying on whose behalf, where that cannot be known: at its own
    /// expense, which should be limited.
    pub allow_unattributed: bool,
}

// === impl Rules ===

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_call_depth: 8,
            deny_revisit: true,
            revisit_allowlist: BTreeSet::new(),
            max_revisits: None,
            max_descendants: None,
            allow_unattributed: false,
        }
    }
}

impl Rules {
    /// Whether an agent that the chain has come through so often may be called at this depth.
    pub fn check(&self, agent: &str, depth: u16, visits: usize) -> Result<(), Denied> {
        let deepest = self.max_call_depth.min(DEEPEST);
        if depth > deepest {
            return Err(Denied {
                limit: Some(deepest.to_string()),
                observed: Some(depth.to_string()),
                remaining: Some("0".into()),
                hint: Some(
                    "answer from what you have instead of calling on, or raise `max_call_depth`".into(),
                ),
                ..refusal(CALL_DEPTH_EXCEEDED)
            });
        }
        let revisits = self.revisits(agent);
        if revisits.is_some_and(|most| visits > usize::from(most)) {
            let hint = "call another agent, or put this one on `revisit_allowlist`";
            return Err(Denied {
                limit: revisits.map(|most| most.to_string()),
                observed: Some(format!("`{agent}` has been called {visits} time(s) in this chain")),
                hint: Some(hint.into()),
                ..refusal(REVISIT_DENIED)
            });
        }
        Ok(())
    }

    /// Whether one more call may go back to a root that so many go back to already.
    pub fn check_descendants(&self, descendants: u32) -> Result<(), Denied> {
        match self.max_descendants {
            Some(most) if descendants >= most => Err(Denied {
                limit: Some(most.to_string()),
                observed: Some(descendants.saturating_add(1).to_string()),
                remaining: Some("0".into()),
                hint: Some("let the root finish, make fewer calls for it, or raise `max_descendants`".into()),
                ..refusal(TOO_MANY_DESCENDANTS)
            }),
            _ => Ok(()),
        }
    }

    /// How often an agent may come again; none for as often as it likes.
    fn revisits(&self, agent: &str) -> Option<u16> {
        if self.deny_revisit && !self.revisit_allowlist.contains(agent) { Some(0) } else { self.max_revisits }
    }
}

/// A refusal of this gate.
pub(super) fn refusal(reason: &'static str) -> Denied {
    Denied::new(GATE, DeniedKind::Lineage, reason)
}

/// The token, or what it stands for, does not hold.
pub(super) fn invalid(observed: &str) -> Denied {
    Denied {
        observed: Some(observed.into()),
        hint: Some(
            "pass on the token that came with the task you work on, for as long as that is open".into(),
        ),
        ..refusal(LINEAGE_INVALID)
    }
}

/// The token is for this gateway, of another one that nobody has listed here.
pub(super) fn unlisted(id: &AgentId) -> Denied {
    Denied {
        observed: Some(format!("the token is of a gateway that is not listed here: {id}")),
        hint: Some("list the gateway under `[[identity.gateway]]`, or leave the token out".into()),
        ..refusal(LINEAGE_INVALID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(result: Result<(), Denied>) -> Option<String> {
        result.err().map(|denied| denied.reason.into_owned())
    }

    #[test]
    fn depth_eight_passes_and_nine_is_refused() {
        let rules = Rules::default();
        assert_eq!(rules.check("a", 8, 0), Ok(()));
        let denied = rules.check("a", 9, 0).unwrap_err();
        assert_eq!(denied.reason, CALL_DEPTH_EXCEEDED);
        assert_eq!((denied.limit.as_deref(), denied.observed.as_deref()), (Some("8"), Some("9")));
    }

    #[test]
    fn no_setting_goes_deeper_than_the_deepest() {
        let rules = Rules { max_call_depth: u16::MAX, ..Rules::default() };
        assert_eq!(rules.check("a", DEEPEST, 0), Ok(()));
        assert_eq!(reason(rules.check("a", DEEPEST + 1, 0)), Some(CALL_DEPTH_EXCEEDED.into()));
    }

    #[test]
    fn who_may_come_again_and_how_often() {
        let allowing = |deny_revisit, max_revisits| Rules {
            deny_revisit,
            max_revisits,
            revisit_allowlist: BTreeSet::from(["tool".into()]),
            ..Rules::default()
        };
        for (rules, agent, visits, passes) in [
            (allowing(true, None), "other", 1, false),
            (allowing(true, Some(5)), "other", 1, false),
            (allowing(true, None), "tool", 7, true),
            (allowing(true, Some(1)), "tool", 1, true),
            (allowing(true, Some(1)), "tool", 2, false),
            (allowing(false, None), "other", 7, true),
            (allowing(false, Some(2)), "other", 2, true),
            (allowing(false, Some(2)), "other", 3, false),
            (allowing(false, Some(0)), "tool", 1, false),
        ] {
            let expected = if passes { None } else { Some(REVISIT_DENIED.to_owned()) };
            assert_eq!(reason(rules.check(agent, 1, visits)), expected, "{agent} {visits} {rules:?}");
        }
    }

    #[test]
    fn a_root_has_as_many_descendants_as_it_may_have() {
        let rules = Rules { max_descendants: Some(2), ..Rules::default() };
        assert_eq!(rules.check_descendants(1), Ok(()));
        assert_eq!(reason(rules.check_descendants(2)), Some(TOO_MANY_DESCENDANTS.into()));
        assert_eq!(Rules::default().check_descendants(u32::MAX), Ok(()));
    }
}
