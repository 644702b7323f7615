//! Everything that is decided with, for all agents of a gateway: one plane, and a pipeline for each agent in front of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use chancery_protocol::{BoxFuture, Edge, Hold as _, HopId, Principal, Settled, TaskId};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::Millis;
use crate::containment::Containment;
use crate::gate::Gate;
use crate::gates::{
    BudgetGate, ContainmentGate, IdempotencyGate, IdentityGate, LineageGate, PolicyGate, RoutingGate,
};
use crate::held::Held;
use crate::identity::IdentityResolver;
use crate::ledger::{Account, Cap, Caps, Ledger, Limits, Prices, Scope, Unlimited};
use crate::lineage::{Lineage, Rules};
use crate::policy::{Policy, Slots};
use crate::routing::Pool;

/// What decisions need done, and what they cannot know: the world outside, as the gateway has it. Nothing here may wait.
pub trait Hands: Send + Sync + fmt::Debug {
    /// The time.
    fn now(&self) -> Millis;

    /// Stops the work on a task.
    fn stop(&self, stop: Stop);

    /// Keeps the record of a call that has no task to be kept with.
    fn record(&self, edge: Box<Edge>);

    /// A call is over and booked. For those who count or write it down; nothing depends on it.
    fn booked(&self, _call: &Booked<'_>) {}

    /// Something is due earlier than was said: see [`Plane::next_tick`].
    fn wake(&self);

    /// The task of an equal call that was let through before.
    fn task_of_key(
        &self,
        principal: Principal,
        agent: Arc<str>,
        key: String,
    ) -> BoxFuture<'static, Option<TaskId>>;
}

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub struct Booked<'a> {
    /// The call.
    pub hop: HopId,
    /// The call from outside that it goes back to.
    pub root: HopId,
    /// How many calls are between the two.
    pub depth: u16,
    /// What the calls of one purpose have in common, in traces.
    pub trace: &'a str,
    /// Who called.
    pub caller: &'a str,
    /// The agent that was called.
    pub agent: &'a str,
    /// The member that was chosen, if it is a pool.
    pub peer: Option<&'a str>,
    /// Its task, if there was one.
    pub task: Option<&'a TaskId>,
    /// When it was let through.
    pub opened: Millis,
    /// What it came to.
    pub settled: &'a Settled,
}

/// A task whose work is to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The agent that works on it.
    pub agent: Arc<str>,
    /// Whose task it is.
    pub principal: Principal,
    /// The task.
    pub task: TaskId,
    /// Why, for its caller to read; none if it is canceled along with what it was done for.
    pub why: Option<String>,
}

/// An agent as the gates know it.
#[derive(Debug)]
pub struct Governed {
    /// Its name.
    pub name: Arc<str>,
    /// The ids of its skills.
    pub skills: Vec<Arc<str>>,
    /// Its members, if it is a pool.
    pub pool: Option<Arc<Pool>>,
    /// Whether it runs here, where what it spends is counted, or elsewhere, where it is told.
    pub is_local: bool,
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
    /// What an agent may spend on calls of which nobody knows whom they are for.
    pub unattributed: Caps,
    /// Agents that answer here for pools of which nobody can be reached, by the name of the pool.
    pub stand_ins: HashMap<Arc<str>, Arc<str>>,
}

/// What an operator may change while calls are open.
pub struct Terms {
    /// Who may come in; everybody whom the bindings have let in, if none.
    pub resolver: Option<Arc<dyn IdentityResolver>>,
    /// What may be spent.
    pub limits: Limits,
    /// What calls cost, if that is to change.
    pub prices: Option<Prices>,
    /// How far calls may lead to calls.
    pub rules: Rules,
    /// Who may do what.
    pub policy: Policy,
    /// The rest.
    pub settings: PlaneSettings,
}

/// Everything that is decided with. What an operator sets is exchanged while calls are open, by
/// [`amend`](Plane::amend); what is held, spent and open stays.
pub struct Plane {
    /// Who may come in; everybody whom the bindings have let in, if none.
    pub resolver: ArcSwap<Option<Arc<dyn IdentityResolver>>>,
    /// What may be spent.
    pub ledger: Ledger,
    /// What calls cost.
    pub prices: ArcSwap<Prices>,
    /// How far calls may lead to calls.
    pub lineage: ArcSwap<Lineage>,
    /// Who may do what.
    pub policy: ArcSwap<Policy>,
    /// Which agents are cut off.
    pub containment: Containment,
    /// How many calls are open, by caller and skill.
    pub slots: Arc<Slots>,
    /// The rest.
    pub settings: ArcSwap<PlaneSettings>,
    /// The world outside.
    pub hands: Arc<dyn Hands>,
    /// In the order in which a call passes them.
    gates: Vec<Box<dyn Gate>>,
    held: Vec<Mutex<HashMap<HopId, Weak<Held>, RandomState>>>,
    /// Calls by when their time is up.
    due: Mutex<BTreeMap<(Millis, HopId), Weak<Held>>>,
}

const SHARDS: usize = 32;

/// What the account of an agent is called that does not say for whom it calls: this and its name.
pub(crate) const UNATTRIBUTED: &str = "unattributed/";

// === impl Plane ===

impl Plane {
    /// With the gates of this crate, in their order.
    pub fn new(
        resolver: Option<Arc<dyn IdentityResolver>>,
        ledger: Ledger,
        prices: Prices,
        lineage: Lineage,
        policy: Policy,
        settings: PlaneSettings,
        hands: Arc<dyn Hands>,
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
        let held = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (slots, due, containment) = (Slots::new(), Mutex::default(), Containment::default());
        Self {
            resolver: ArcSwap::from_pointee(resolver),
            ledger,
            prices: ArcSwap::from_pointee(prices),
            lineage: ArcSwap::from_pointee(lineage),
            policy: ArcSwap::from_pointee(policy),
            containment,
            slots,
            settings: ArcSwap::from_pointee(settings),
            hands,
            gates,
            held,
            due,
        }
    }

    /// Has other terms hold from now on. Calls that were let through keep what they were given.
    pub fn amend(&self, terms: Terms) -> Result<(), Unlimited> {
        let unattributed = terms.settings.unattributed;
        self.ledger.amend(terms.limits, |scope| match scope {
            Scope::Caller { id, .. } if id.starts_with(UNATTRIBUTED) => Some(unattributed),
            _ => None,
        })?;
        self.resolver.store(Arc::new(terms.resolver));
        self.policy.store(Arc::new(terms.policy));
        self.settings.store(Arc::new(terms.settings));
        let lineage = Lineage { rules: terms.rules, ..Lineage::clone(&self.lineage.load()) };
        self.lineage.store(Arc::new(lineage));
        if let Some(prices) = terms.prices {
            self.prices.store(Arc::new(prices));
        }
        self.ledger.poll_queue(self.hands.now());
        Ok(())
    }

    /// Adds a gate behind the others.
    #[must_use]
    pub fn with_gate(mut self, gate: impl Gate + 'static) -> Self {
        self.gates.push(Box::new(gate));
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
    pub(crate) fn stand_in(&self, pool: &str) -> Option<Arc<str>> {
        self.settings.load().stand_ins.get(pool).cloned()
    }

    pub(crate) fn mode(&self, gate: &str) -> Mode {
        self.settings.load().modes.get(gate).copied().unwrap_or_default()
    }

    /// When something is due that nobody asks for: a call whose time is up, a call that has waited long enough.
    pub fn next_tick(&self) -> Option<Millis> {
        let due = self.due.lock().first_key_value().map(|((at, _), _)| *at);
        let queue = self.ledger.next_wakeup(self.hands.now());
        due.into_iter().chain(queue).min()
    }

    /// Does what is due.
    pub fn tick(&self) {
        let now = self.hands.now();
        self.ledger.poll_queue(now);
        let mut late = Vec::new();
        {
            let mut due = self.due.lock();
            while let Some(first) = due.first_entry().filter(|first| first.key().0 <= now) {
                late.extend(first.remove().upgrade());
            }
        }
        late.iter().for_each(|held| held.time_is_up());
    }

    /// The account of whoever pays: of a caller, or of an agent that does not say for whom it calls.
    pub(crate) fn account_of(&self, realm: &Arc<str>, payer: &Arc<str>, now: Millis) -> Option<Arc<Account>> {
        let scope = Scope::Caller { realm: realm.clone(), id: payer.clone() };
        match payer.starts_with(UNATTRIBUTED) {
            true => self.ledger.account_with(&scope, &self.settings.load().unattributed, now),
            false => self.ledger.account(&scope, now),
        }
    }

    /// The open call of this id.
    pub(crate) fn held(&self, hop: HopId) -> Option<Arc<Held>> {
        self.shard(hop).lock().get(&hop)?.upgrade()
    }

    pub(crate) fn keep(&self, held: &Arc<Held>) {
        self.shard(held.hop()).lock().insert(held.hop(), Arc::downgrade(held));
    }

    pub(crate) fn forget(&self, hop: HopId, until: Option<Millis>) {
        self.shard(hop).lock().remove(&hop);
        if let Some(until) = until {
            self.due.lock().remove(&(until, hop));
        }
    }

    pub(crate) fn watch(&self, held: &Arc<Held>, until: Millis) {
        let mut due = self.due.lock();
        let is_first = due.first_key_value().is_none_or(|((first, _), _)| until < *first);
        due.insert((until, held.hop()), Arc::downgrade(held));
        drop(due);
        if is_first {
            self.hands.wake();
        }
    }

    /// A point in time as the decisions count it.
    pub(crate) fn until(&self, deadline: Option<Instant>, now: Millis) -> Option<Millis> {
        deadline.map(|deadline| now + deadline.saturating_duration_since(Instant::now()))
    }

    /// Cuts an agent off: nothing begins there any more, and what is under way is stopped, for a reason that its callers
    /// may read. Says how many calls were stopped.
    pub fn contain(&self, agent: &str, reason: &str) -> usize {
        self.containment.contain(agent, reason);
        let open = self.open_here().into_iter().filter(|held| held.is_of(agent));
        open.map(|held| held.contained(reason)).count()
    }

    /// The record of a call, as it now stands, if it is open.
    pub fn open_call(&self, hop: HopId) -> Option<Edge> {
        Some(*self.held(hop)?.edge(None))
    }

    /// All calls that are open.
    pub fn open_calls(&self) -> Vec<Edge> {
        self.open_here().into_iter().map(|held| *held.edge(None)).collect()
    }

    fn open_here(&self) -> Vec<Arc<Held>> {
        let shards = self.held.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>());
        shards.filter_map(|held| held.upgrade()).collect()
    }

    fn shard(&self, hop: HopId) -> &Mutex<HashMap<HopId, Weak<Held>, RandomState>> {
        &self.held[usize::from(hop.as_bytes()[15]) % SHARDS]
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("gates", &self.gates).finish_non_exhaustive()
    }
}
