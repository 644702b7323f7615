//! Everything that is decided with, for all agents of a gateway: one plane, and a pipeline for each agent in front of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use chancery_protocol::{Amount, BoxFuture, Caller, Edge, Hold as _, HopId, Principal, Settled, TaskId};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::Millis;
use crate::containment::Containment;
use crate::foreign::ForeignRoots;
use crate::gates::KeysInFlight;
use crate::held::Held;
use crate::identity::{IdentityResolver, call_of};
use crate::ledger::{Account, Ledger, Prices, Scope, Unlimited};
use crate::lineage::{Lineage, Open};
use crate::policy::{Policy, Slots};
use crate::routing::{Pool, Reach};
use crate::terms::{PlaneSettings, Proposal, Terms};

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

    /// What calls under a root have come to by the record, ended or not; none if that cannot be told.
    fn charged_under(&self, root: HopId) -> BoxFuture<'static, Option<Amount>>;
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
    pub skills: Skills,
    /// Its members, if it is a pool.
    pub pool: Option<Arc<Pool>>,
    /// Whether it can be reached, if it is elsewhere and no pool.
    pub reach: Option<Reach>,
    /// Whether it runs here, where what it spends is counted, or elsewhere, where it is told.
    pub is_local: bool,
}

/// The ids of an agent's skills. Of one elsewhere its card says them, which may come later or be another one.
#[derive(Debug, Default)]
pub struct Skills(ArcSwap<Vec<Arc<str>>>);

/// What there is of calls: what they hold, have spent and led to. It stays, whatever an operator sets; that is the
/// [`Terms`], of which a call goes by one value from beginning to end.
pub struct Plane {
    /// What was spent.
    pub ledger: Ledger,
    /// The calls that are open, as they have led to each other.
    pub open: Arc<Open>,
    /// Which agents are cut off.
    pub containment: Containment,
    /// How many calls are open, by caller and skill.
    pub slots: Arc<Slots>,
    /// The world outside.
    pub hands: Arc<dyn Hands>,
    /// What was spent for calls of other gateways.
    pub(crate) foreign: ForeignRoots,
    /// The idempotency keys of calls that the journal does not know yet.
    pub(crate) keys_in_flight: Arc<KeysInFlight>,
    /// Those in force.
    terms: ArcSwap<Terms>,
    /// Settled calls whose tasks wait for their clients.
    parked: Mutex<HashMap<HopId, Weak<Held>>>,
    held: Vec<Mutex<HashMap<HopId, Weak<Held>, RandomState>>>,
    /// Calls by when their time is up.
    due: Mutex<BTreeMap<(Millis, HopId), Weak<Held>>>,
}

const SHARDS: usize = 32;

// === impl Skills ===

impl Skills {
    /// Those that are known now.
    pub fn now(&self) -> Arc<Vec<Arc<str>>> {
        self.0.load_full()
    }

    /// From now on it has these.
    pub fn learn(&self, skills: Vec<Arc<str>>) {
        if **self.0.load() != skills {
            self.0.store(Arc::new(skills));
        }
    }
}

impl<S: Into<Arc<str>>> FromIterator<S> for Skills {
    fn from_iter<I: IntoIterator<Item = S>>(skills: I) -> Self {
        Self(ArcSwap::from_pointee(skills.into_iter().map(Into::into).collect()))
    }
}

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
        let (held, due) = ((0..SHARDS).map(|_| Mutex::default()).collect(), Mutex::default());
        let (slots, containment, open) = (Slots::new(), Containment::default(), lineage.open.clone());
        let terms = Terms::new(resolver, ledger.edition(), Arc::new(prices), lineage, policy, settings);
        let terms = ArcSwap::from_pointee(terms);
        let foreign = ForeignRoots::default();
        let (keys_in_flight, parked) = (Arc::default(), Mutex::default());
        Self { ledger, open, containment, slots, hands, foreign, keys_in_flight, terms, parked, held, due }
    }

    /// The terms in force. A call that is on its way has its own.
    pub fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    /// Makes ready what is to take the place of the terms in force, all of it before anybody goes by any. Whoever mounts
    /// pipelines [under](crate::Pipeline::under) them has their calls go by them; if nobody does, nothing has happened.
    /// To be called by one at a time, until it is [put in force](Self::enact) or given up.
    pub fn prepare(&self, proposal: Proposal) -> Result<Arc<Terms>, Unlimited> {
        let Proposal { resolver, limits, prices, rules, policy, settings, gates } = proposal;
        let current = self.terms();
        let edition = self.ledger.prepare(limits)?;
        let prices = match *current.prices.settings() == prices {
            true => current.prices.clone(),
            false => Arc::new(current.prices.amended(prices)),
        };
        let lineage = Lineage { rules, ..current.lineage.clone() };
        let terms = Terms::new(resolver, edition, prices, lineage, policy, settings);
        Ok(Arc::new(gates.into_iter().fold(terms, Terms::with_gate)))
    }

    /// Has terms hold for whoever does not come through a pipeline that has its own. Calls that were let through keep what
    /// they were given, and those that wait what they came with.
    pub fn enact(&self, terms: Arc<Terms>) {
        self.ledger.enact(&terms.edition, self.hands.now());
        self.terms.store(terms);
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

    /// The account of what an agent has reported above what its calls could pay for, if that is limited.
    pub(crate) fn overruns_of(&self, agent: &Arc<str>, now: Millis) -> Option<Arc<Account>> {
        self.ledger.account(&Scope::Overrun(agent.clone()), now)
    }

    /// As whom somebody is judged and counted who [acts for a call](crate::identity::within_call): whoever began it all, while
    /// that call is open. None for everybody else.
    pub fn root_caller(&self, principal: &Principal) -> Option<Caller> {
        Some(self.held(call_of(principal)?)?.payer.clone())
    }

    /// The open call of this id.
    pub(crate) fn held(&self, hop: HopId) -> Option<Arc<Held>> {
        self.shard(hop).lock().get(&hop)?.upgrade()
    }

    /// A settled call whose task waits for its client, for as long as its turn goes on.
    pub(crate) fn parked(&self, hop: HopId) -> Option<Arc<Held>> {
        self.parked.lock().get(&hop)?.upgrade()
    }

    pub(crate) fn park(&self, hop: HopId, held: Weak<Held>) {
        self.parked.lock().insert(hop, held);
    }

    pub(crate) fn unpark(&self, hop: HopId) {
        self.parked.lock().remove(&hop);
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
        f.debug_struct("Plane").field("terms", &self.terms.load()).finish_non_exhaustive()
    }
}
