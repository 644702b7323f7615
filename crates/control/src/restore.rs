//! Calls that an earlier process had let through and that are not settled: they hold on to what they held.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_protocol::{Amount, Edge, Hold, HopId, Principal, TaskId};

use crate::Millis;
use crate::gate::Given;
use crate::held::{Held, Leaving};
use crate::ledger::{Accounts, Reservation};
use crate::plane::Plane;

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
    /// Books what was charged before a restart, in the order in which it was, before anything is let through.
    pub fn charged_before(&self, accounts: &Accounts, charged: Amount, at: Millis) {
        Reservation::force(accounts, Amount::default(), at).settle(charged, at);
    }

    /// Holds again what open calls held. The table of open calls must have been rebuilt from the same records.
    pub fn restore(self: &Arc<Self>, open: &[Edge]) -> Vec<RestoredCall> {
        let now = self.hands.now();
        let by_hop: HashMap<HopId, &Edge> = open.iter().map(|edge| (edge.hop, edge)).collect();
        let unsettled = open.iter().filter(|edge| edge.settled.is_none());
        let reservations = self.ledger.restore(unsettled, |edge| self.ledger.accounts_of(edge, now), now);
        let restored = reservations.into_iter().filter_map(|(hop, reservation)| {
            let edge = by_hop.get(&hop)?;
            let payer = by_hop.get(&edge.root).unwrap_or(edge);
            self.restored(edge, payer, reservation)
        });
        restored.collect()
    }

    fn restored(
        self: &Arc<Self>,
        edge: &Edge,
        payer: &Edge,
        reservation: Reservation,
    ) -> Option<RestoredCall> {
        let task = edge.task.clone()?;
        let open = self.lineage.load().open.find(edge.root, edge.hop)?;
        let principal = Principal { realm: edge.realm.clone(), id: edge.caller.clone() };
        let given = Given { reservation: Some(reservation), skill: edge.skill.clone(), ..Given::default() };
        let leaving = Leaving {
            open,
            principal: principal.clone(),
            payer: Principal { realm: payer.realm.clone(), id: payer.caller.clone() },
            // Its agent has the one that it was given.
            token: String::new(),
            now: Millis(u64::try_from(edge.opened.as_millis()).unwrap_or_default()),
            is_local: false,
            watched: None,
        };
        let held = Held::new(self.clone(), leaving, given);
        Some(RestoredCall { agent: edge.agent.clone(), principal, task, hold: held })
    }
}
