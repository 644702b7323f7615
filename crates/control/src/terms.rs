//! What an operator has set, as one value: a call goes by it from beginning to end, whatever takes its place meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use chancery_protocol::Denied;

use crate::gate::Gate;
use crate::gates::{
    BudgetGate, ContainmentGate, IdempotencyGate, IdentityGate, LineageGate, PolicyGate, RoutingGate,
};
use crate::identity::{self, Access, IdentityResolver};
use crate::ledger::{Cap, Edition, Limits, PriceSettings, Prices};
use crate::lineage::{Lineage, Rules};
use crate::policy::Policy;

/// What an operator has set. Never changed: [`Plane::prepare`](crate::Plane::prepare) makes another, which takes its place.
pub struct Terms {
    /// Who may come in; everybody whom the bindings have let in, if none.
    pub resolver: Option<Arc<dyn IdentityResolver>>,
    /// What may be spent.
    pub edition: Arc<Edition>,
    /// What calls cost.
    pub prices: Arc<Prices>,
    /// How far calls may lead to calls.
    pub lineage: Lineage,
    /// Who may do what.
    pub policy: Policy,
    /// The rest.
    pub settings: PlaneSettings,
    /// In the order in which a call passes them.
    gates: Vec<Box<dyn Gate>>,
}

/// What an operator wants to be set.
pub struct Proposal {
    /// Who may come in; everybody whom the bindings have let in, if none.
    pub resolver: Option<Arc<dyn IdentityResolver>>,
    /// What may be spent.
    pub limits: Limits,
    /// What calls cost.
    pub prices: PriceSettings,
    /// How far calls may lead to calls.
    pub rules: Rules,
    /// Who may do what.
    pub policy: Policy,
    /// The rest.
    pub settings: PlaneSettings,
    /// Gates of the application's own, behind the others.
    pub gates: Vec<Box<dyn Gate>>,
}

/// Whether what a gate refuses is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is.
    #[default]
    Enforce,
    /// It is let through, and written down.
    Observe,
}

/// What is set for all calls.
#[derive(Clone, Debug, Default)]
pub struct PlaneSettings {
    /// By the name of the gate; enforced where nothing is said.
    pub modes: HashMap<&'static str, Mode>,
    /// What a call from outside and all the calls it leads to may cost.
    pub root_cap: Cap,
    /// What one call may cost.
    pub call_cap: Cap,
    /// Agents that answer here for pools of which nobody can be reached, by the name of the pool.
    pub stand_ins: HashMap<Arc<str>, Arc<str>>,
}

// === impl Terms ===

impl Terms {
    /// With the gates of this crate, in their order.
    pub(crate) fn new(
        resolver: Option<Arc<dyn IdentityResolver>>,
        edition: Arc<Edition>,
        prices: Arc<Prices>,
        lineage: Lineage,
        policy: Policy,
        settings: PlaneSettings,
    ) -> Self {
        // Budget stands before routing, so that a spent budget never pays for a choice; policy stands after it, since it
        // judges a concrete target.
        let gates: Vec<Box<dyn Gate>> = vec![
            Box::new(IdentityGate),
            Box::new(ContainmentGate),
            Box::new(IdempotencyGate),
            Box::new(BudgetGate),
            Box::new(LineageGate),
            Box::new(RoutingGate),
            Box::new(PolicyGate),
        ];
        Self { resolver, edition, prices, lineage, policy, settings, gates }
    }

    /// Adds a gate behind the others.
    pub(crate) fn with_gate(mut self, gate: Box<dyn Gate>) -> Self {
        self.gates.push(gate);
        self
    }

    /// The gates in the order in which a call passes them.
    pub fn gates(&self) -> impl Iterator<Item = &dyn Gate> {
        self.gates.iter().map(|gate| &**gate)
    }

    pub(crate) fn gate(&self, place: usize) -> Option<&dyn Gate> {
        self.gates.get(place).map(|gate| &**gate)
    }

    /// Who answers here for a pool of which nobody can be reached.
    pub(crate) fn stand_in(&self, pool: &str) -> Option<&Arc<str>> {
        self.settings.stand_ins.get(pool)
    }

    /// Whether what a gate refuses is refused.
    pub fn mode(&self, gate: &str) -> Mode {
        self.settings.modes.get(gate).copied().unwrap_or_default()
    }

    /// Whether somebody is on the list of those who may come in, if there is one that counts.
    pub fn may_come_in(&self, access: &Access<'_>) -> Result<(), Denied> {
        match &self.resolver {
            Some(resolver) if self.mode(identity::GATE) == Mode::Enforce => resolver.resolve(access),
            _ => Ok(()),
        }
    }

    /// Whether a refusal is only written down: one by a gate, for reasons that may be another gate's.
    pub(crate) fn observes(&self, gate: &str, denied: &Denied) -> bool {
        [gate, &*denied.gate].into_iter().any(|gate| self.mode(gate) == Mode::Observe)
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("gates", &self.gates).finish_non_exhaustive()
    }
}
