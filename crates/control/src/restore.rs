//! Calls that an earlier process had let through and that are not settled: they hold on to what they held.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Amount, BilledParty, CallLimits, Caller, Edge, Hold, HopId, Identity, Principal, TaskId,
};

use crate::Millis;
use crate::foreign;
use crate::gate::Given;
use crate::held::{Held, Leaving, is_cut_short};
use crate::ledger::{Account, Accounts, Reservation, charge};
use crate::lineage::{Allowance, DEEPEST};
use crate::plane::Plane;
use crate::policy::Caps;
use crate::way::LONGEST;

/// A call that goes on after a restart.
#[derive(Debug)]
pub struct RestoredCall {
    /// The agent that works on it.
    pub agent: Arc<str>,
    /// Whose task it is.
    pub principal: Principal,
    /// The task.
    pub task: TaskId,
    /// What it holds.
    pub hold: Arc<dyn Hold>,
}

impl Plane {
    /// Charges what was charged before a restart, in the order in which it was, before anything is let through.
    pub fn charged_before(&self, accounts: &Accounts, charged: Amount, at: Millis) {
        charge(accounts, charged, at);
    }

    /// Books what an agent had reported before a restart above what its calls could pay for.
    pub fn overran_before(&self, agent: &Arc<str>, overrun: Amount, at: Millis) {
        charge(self.overruns_of(agent, at).as_slice(), overrun, at);
    }

    /// The accounts that are charged for a call to an agent, by the limits in force.
    pub fn accounts_charged(&self, billed: BilledParty<'_>, agent: &Arc<str>, now: Millis) -> Accounts {
        self.ledger.accounts_charged(&self.terms().edition, billed, agent, now)
    }

    /// Holds again what open calls held, and has those stopped that are for nobody any more. To be given the records of all
    /// roots that have open calls, ended calls included; the table of open calls must have been rebuilt from the same.
    pub fn restore(self: &Arc<Self>, edges: &[Edge]) -> Vec<RestoredCall> {
        let (now, terms) = (self.hands.now(), self.terms());
        let by_hop: HashMap<HopId, &Edge> = edges.iter().map(|edge| (edge.hop, edge)).collect();
        let roots = self.roots(edges, now);
        let unsettled = edges.iter().filter(|edge| edge.settled.is_none());
        let accounts = |edge: &Edge| {
            let ceiling = edge.limits.ceiling_micro_usd.filter(|_| edge.hop != edge.root);
            let call = self.ledger.hop(edge.hop, terms.settings.call_cap.lowered(ceiling));
            let mut accounts = self.accounts_charged(edge.billed(), &edge.agent, now);
            accounts.extend(roots.get(&edge.root).cloned().into_iter().chain(call));
            accounts
        };
        let reservations = self.ledger.restore(unsettled, accounts, now);
        let restored = reservations.into_iter().filter_map(|(hop, reservation)| {
            let edge = by_hop.get(&hop)?;
            let held = self.restored(edge, reservation, roots.get(&edge.root).cloned())?;
            if is_for_nobody(edge, &by_hop) {
                held.stop(None);
            }
            let principal = Principal { realm: edge.realm.clone(), id: edge.caller.clone() };
            let agent = held.works_at().clone();
            Some(RestoredCall { agent, principal, task: edge.task.clone()?, hold: held })
        });
        restored.collect()
    }

    /// The accounts of roots, charged with what their ended calls have cost.
    fn roots(&self, edges: &[Edge], now: Millis) -> HashMap<HopId, Arc<Account>> {
        let (mut roots, root_cap) = (HashMap::new(), self.terms().settings.root_cap);
        let origins: HashMap<_, _> =
            edges.iter().filter_map(|edge| Some((edge.root, edge.origin.as_ref()?))).collect();
        let own = edges.iter().filter(|edge| edge.hop == edge.root);
        let ceilings: HashMap<_, _> =
            own.filter_map(|edge| Some((edge.root, edge.limits.ceiling_micro_usd?))).collect();
        for edge in edges {
            let account = match roots.entry(edge.root) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let origin = origins.get(&edge.root);
                    let cap = match origin {
                        Some(origin) => foreign::cap(root_cap, origin),
                        None => root_cap.lowered(ceilings.get(&edge.root).copied()),
                    };
                    let Some(account) = self.ledger.root(edge.root, cap) else { continue };
                    if origin.is_some() {
                        self.foreign.keep(edge.root, account.clone(), now);
                    }
                    place.insert(account)
                }
            };
            if let Some(settled) = edge.settled {
                charge(std::slice::from_ref(account), settled.charged, now);
            }
        }
        roots
    }

    fn restored(
        self: &Arc<Self>,
        edge: &Edge,
        reservation: Reservation,
        root: Option<Arc<Account>>,
    ) -> Option<Arc<Held>> {
        edge.task.as_ref()?;
        let (open, terms) = (self.open.find(edge.root, edge.hop)?, self.terms());
        let principal = Principal { realm: edge.realm.clone(), id: edge.caller.clone() };
        let skill = edge.skill.clone();
        let tariff = terms.prices.tariff(&edge.agent, skill.as_ref());
        // What was held is what it is good for, and what it costs if nobody says otherwise.
        let estimate = tariff.held_before(edge.reserved);
        let CallLimits { ceiling_micro_usd, micro_usd, tokens, duration_ms } = edge.limits;
        let caps = Caps { tokens, micro_usd, duration: duration_ms.map(Duration::from_millis) };
        // Its agent has the token that it was given, and may have to be given one again.
        let now = self.hands.now();
        let left = Allowance::from(reservation.remaining(now));
        let until = caps.duration.map_or(now + LONGEST, |duration| Millis::from(edge.opened) + duration);
        let token = terms.lineage.tokens.mint_again(&open, left, until);
        let given = Given {
            caps,
            reservation: Some(reservation),
            root,
            tariff: Some(tariff),
            estimate: Some(estimate),
            skill,
            ..Given::default()
        };
        let leaving = Leaving {
            open,
            principal,
            payer: payer_of(edge),
            token,
            now: edge.opened.into(),
            is_local: false,
            stays_here: edge.peer.as_ref().is_some_and(|peer| terms.stand_in(&edge.agent) == Some(peer)),
            ceiling: ceiling_micro_usd,
            whereabouts: None,
            watched: None,
        };
        let held = Held::new(self.clone(), leaving, given);
        held.restore_used(edge.used);
        held.has_begun();
        Some(held)
    }
}

/// Who pays for a call, as far as the record tells.
fn payer_of(edge: &Edge) -> Caller {
    let principal = Principal { realm: edge.realm.clone(), id: edge.paid_by().clone() };
    let identity = Identity { groups: edge.groups.clone(), ..Identity::default() };
    Caller { principal, identity: Arc::new(identity) }
}

/// Whether a call was made on behalf of one that was canceled or has failed, or of which the journal had not heard yet: then
/// whoever made that one got no answer.
fn is_for_nobody(edge: &Edge, by_hop: &HashMap<HopId, &Edge>) -> bool {
    let mut edge = edge;
    for _ in 0..DEEPEST {
        let Some(parent) = edge.parent else { return false };
        match by_hop.get(&parent) {
            Some(above) if above.settled.as_ref().is_some_and(is_cut_short) => return true,
            Some(above) => edge = above,
            None => return true,
        }
    }
    true
}
