//! Who calls on whose behalf, and how far that may go.
//!
//! Every call that is let through is a *hop*: it has a root, a parent and a depth, and stands in the table of open calls
//! ([`Open`]) until it is settled. Its agent is given a token that names the hop ([`Tokens`]) and sends it along with the calls
//! that it makes. Depth, path and payer of those come from the table, never from what a caller writes:
//!
//! | caller | token | the call |
//! |---|---|---|
//! | no agent of the fleet | none | is a root, at the caller's expense |
//! | an agent | of an open hop that is its own | hangs under that hop, at its root's expense |
//! | an agent | none, and one hop is open at it | the same |
//! | an agent | none, and none or several are open at it | is refused; where [`Rules::allow_unattributed`] says so, it is a root at the agent's own `unattributed` expense, one deeper than the deepest of those hops, with all agents before it in any of them on its way |
//! | nobody in particular | of an open hop | hangs under that hop |
//! | no agent of the fleet | of another gateway that is [listed](Federation) | is one at the caller's expense, as deep as that gateway says; all calls with that token cost no more than it says |
//! | an agent, and none is open at it | the same | is at the agent's own `unattributed` expense, and as deep; refused like one without a token |
//! | anybody | that another gateway has made, and not for this one | is as without one |
//! | anybody | any other, also of a gateway that is not listed and made it for this one | is refused |
//!
//! A call is looked at three times: [`Lineage::attribute`] says what it descends from (and so who pays, which the budget asks),
//! [`Lineage::receive`] whether it may go on to an agent, and [`Lineage::dispatch`], once it is known who answers, whether
//! it may leave; that adds it to the table.
//!
//! ```
//! use chancery_control::Millis;
//! use chancery_control::lineage::{Arrival, Departure, Keyring, Lineage, Open, Payer, Rules, Tokens};
//! use chancery_protocol::HopId;
//! use std::sync::Arc;
//!
//! let tokens = Tokens::new("https://gateway.example", Keyring::try_new("2026-11", &[7; 32]).unwrap());
//! let lineage = Lineage { rules: Rules::default(), tokens, open: Arc::new(Open::default()) };
//! let (realm, user, planner) = (Arc::from("default"), Arc::from("alice"), Arc::from("planner"));
//!
//! // Alice calls the planner: a root.
//! let arrival = Arrival { realm: &realm, agent: None, anonymous: false, token: None, trace: None };
//! let descent = lineage.attribute(&arrival, Millis(0)).unwrap();
//! assert_eq!(descent.payer(), Payer::Caller);
//! lineage.receive(&descent, "planner").unwrap();
//! let hop = lineage.dispatch(&descent, Departure::new(HopId::generate(), &realm, &user, &planner)).unwrap();
//! let token = lineage.tokens.mint(&hop, Millis(60_000));
//!
//! // The planner calls on, and may call anybody but itself.
//! let arrival = Arrival { agent: Some(&planner), token: Some(&token), ..arrival };
//! let descent = lineage.attribute(&arrival, Millis(1)).unwrap();
//! assert_eq!((descent.depth, descent.payer()), (1, Payer::Root(hop.root)));
//! assert!(lineage.receive(&descent, "writer").is_ok());
//! assert_eq!(lineage.receive(&descent, "planner").unwrap_err().reason, "REVISIT_DENIED");
//!
//! // Once its own call is over, its token is worth nothing.
//! lineage.open.remove(&hop);
//! assert_eq!(lineage.attribute(&arrival, Millis(2)).unwrap_err().reason, "LINEAGE_INVALID");
//! ```

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use chancery_protocol::{Amount, Denied, HopId};

mod attribution;
mod context;
mod federation;
mod keys;
mod open;
mod rebuild;
mod rules;
mod seats;
#[cfg(test)]
mod tests;
mod token;
mod trace;

pub use attribution::{Arrival, Basis, Descent, Payer};
pub use context::{TaskContext, Visit, Visited};
pub use federation::{Federation, MOST_GATEWAYS, OwnKey};
pub use keys::{KeyError, Keyring, MIN_SECRET_BYTES};
pub use open::{Allowance, DEFAULT_OPEN_CALLS, Open, OpenHop};
pub use rebuild::Rebuilt;
pub use rules::{
    CALL_DEPTH_EXCEEDED, DEEPEST, GATE, LINEAGE_INVALID, LINEAGE_REQUIRED, REVISIT_DENIED, Rules,
    TOO_MANY_DESCENDANTS, TOO_MANY_OPEN_CALLS,
};
pub use token::{LINEAGE_EXTENSION, MAX_TOKEN_BYTES, Tokens};
pub use trace::{TraceId, Traceparent};

/// The gate: its rules, its tokens, and what is open. Rules and keys may be exchanged at any time for others over the
/// same table.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// How far a chain of calls may go.
    pub rules: Rules,
    /// What makes and reads tokens.
    pub tokens: Tokens,
    /// The calls that are open.
    pub open: Arc<Open>,
}

/// A call that is about to leave, with all that has been decided about it.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// Its id.
    pub hop: HopId,
    /// What isolates.
    pub realm: &'a Arc<str>,
    /// Who calls.
    pub caller: &'a Arc<str>,
    /// The agent that is called.
    pub agent: &'a Arc<str>,
    /// The member of it that is to answer, if it is a pool.
    pub peer: Option<&'a Arc<str>>,
    /// What is held for it.
    pub reserved: Amount,
    /// What is left for it and for all that goes on from it.
    pub allowance: Allowance,
}

// === impl Lineage ===

impl Lineage {
    /// Whether a call of this descent may go on to an agent.
    pub fn receive(&self, descent: &Descent, agent: &str) -> Result<(), Denied> {
        self.rules.check(agent, descent.depth, descent.visited.count(agent))?;
        match descent.root_above() {
            Some(root) if self.rules.max_descendants.is_some() => {
                self.rules.check_descendants(self.open.descendants_ever(root))
            }
            _ => Ok(()),
        }
    }

    /// Whether a call may leave for whoever is to answer it; if so, it is open from now on. Decided together with the
    /// state of its tree, so that nothing passes that other calls have used up meanwhile.
    pub fn dispatch(&self, descent: &Descent, departure: Departure<'_>) -> Result<Arc<OpenHop>, Denied> {
        let Departure { hop, realm, caller, agent, peer, reserved, allowance } = departure;
        for name in std::iter::once(agent).chain(peer) {
            self.rules.check(name, descent.depth, descent.visited.count(name))?;
        }
        let visit = Visit { agent: agent.clone(), peer: peer.cloned(), hop: Some(hop) };
        let opened = OpenHop {
            hop,
            root: descent.root(hop),
            parent: descent.parent.as_ref().map(|parent| parent.hop),
            origin: descent.origin().cloned(),
            realm: realm.clone(),
            caller: caller.clone(),
            agent: agent.clone(),
            peer: peer.cloned(),
            context: descent.context(visit, hop),
            reserved,
            allowance,
            perhaps_for: descent.perhaps_for(),
            perhaps_for_nobody: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            task: OnceLock::new(),
        };
        self.open.add(&self.rules, opened)
    }
}

// === impl Departure ===

impl<'a> Departure<'a> {
    /// To an agent that is no pool, with nothing held and no limits.
    pub fn new(hop: HopId, realm: &'a Arc<str>, caller: &'a Arc<str>, agent: &'a Arc<str>) -> Self {
        let (reserved, allowance) = (Amount::default(), Allowance::default());
        Self { hop, realm, caller, agent, peer: None, reserved, allowance }
    }
}
