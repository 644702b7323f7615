//! The ledger: what may be spent, by whom and on what; what is held, and what was charged.
//!
//! Money is reserved before a call runs and settled after it, in whole millionths of a dollar. A call is charged to the
//! accounts of several levels at once: everything, its realm, its caller and their groups, the agent, the root call it goes back to, and
//! itself. What is held and what was charged within a window never pass the limit together, whatever runs at the
//! same time. What an agent elsewhere reports above its reservation is charged as far as every account has room; the rest is
//! an overrun, on an account of that agent alone.
//!
//! Nothing here reads a clock or waits. Memory is what counts; after a restart it is rebuilt from the [`Edge`]s in the
//! store. Once the accounts of a call are resolved, to reserve and to settle waits for no lock and allocates nothing.
//!
//! ```
//! use std::sync::Arc;
//! use chancery_control::Millis;
//! use chancery_control::ledger::{Cap, Caps, Ledger, Limits, Scope, reserve};
//! use chancery_protocol::Amount;
//!
//! let dollars = |most: u64| Cap { micro_usd: Some(most * 1_000_000), ..Cap::default() };
//! let mut limits = Limits { global: Caps { per_minute: dollars(10), ..Caps::default() }, ..Limits::default() };
//! limits.caller.default.per_day = dollars(3);
//! let ledger = Ledger::new(limits);
//!
//! let now = Millis(1_767_323_045_670);
//! let ann = Scope::Caller { realm: Arc::from("acme"), id: Arc::from("ann") };
//! let accounts: Vec<_> =
//!     [Scope::Global, ann].iter().filter_map(|scope| ledger.account(scope, now)).collect();
//!
//! let two_dollars = Amount { micro_usd: 2_000_000, tokens: 0, tasks: 1 };
//! let call = reserve(&accounts, two_dollars, now).unwrap();
//! let short = reserve(&accounts, two_dollars, now).unwrap_err();
//! assert_eq!(short.to_string(), "3.000000 USD per day for caller `ann` of realm `acme`, 1.000000 USD left");
//!
//! // The call was cheaper than thought.
//! call.settle(Amount { micro_usd: 500_000, tokens: 0, tasks: 1 }, now);
//! assert!(reserve(&accounts, two_dollars, now).is_ok());
//! ```

mod account;
mod atomic;
mod ceiling;
mod edition;
mod frame;
mod histogram;
mod limits;
mod line;
mod prices;
mod queue;
mod reservation;
mod resets;
mod shortfall;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use chancery_protocol::{Amount, BilledParty, Edge, HopId};
use foldhash::fast::RandomState;
use parking_lot::RwLock;

pub use account::{Account, Remaining, Standing};
pub use edition::Edition;
pub use limits::{Cap, Caps, Level, LevelLimits, Limits, Metric, Overflow, Scope, Window};
pub(crate) use limits::{MOST, UNATTRIBUTED};
pub(crate) use prices::LEAST_TOKENS;
pub use prices::{Estimate, Figure, Limited, Price, PriceSettings, Prices, Tariff, UnknownCost};
pub use queue::{Admission, Ticket};
pub(crate) use reservation::exceeded;
pub use reservation::{Accounts, Reservation, charge, check, check_by, reserve};
pub use resets::Reset;
pub use shortfall::{
    BUDGET_EXCEEDED, BUDGET_OVERRUN, BUDGET_QUEUE_FULL, BUDGET_WAIT_EXPIRED, COST_UNKNOWN, Frees, Refusal,
    Shortfall,
};

use crate::Millis;
use edition::PLACES;
use queue::WaitQueue;

/// All accounts, and the queue of those who wait for room in them.
#[derive(Debug)]
pub struct Ledger {
    /// The limits in force.
    edition: ArcSwap<Edition>,
    accounts: RwLock<Register>,
    queue: Arc<WaitQueue>,
}

#[derive(Debug)]
struct Register {
    /// Whose limits accounts have at each of their places.
    editions: [Arc<Edition>; PLACES],
    accounts: HashMap<Scope, Arc<Account>, RandomState>,
    /// Shared by all of a level who came when there was no place.
    others: HashMap<Level, Arc<Account>>,
    /// When it was last looked for accounts that nobody needs.
    swept: Millis,
}

/// Something is to be limited that has not been counted.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "what {0} has spent within a window that is limited now was not counted while it was not; restart to limit it"
)]
pub struct Unlimited(pub Scope);

/// How often it is looked for accounts that nobody needs, while there is no place.
const SWEEP_EVERY_MS: u64 = 1_000;

// === impl Ledger ===

impl Ledger {
    /// An empty one, with these limits.
    pub fn new(limits: Limits) -> Self {
        let edition = Arc::new(Edition::first(limits));
        let accounts = RwLock::new(Register::new(edition.clone()));
        Self { edition: ArcSwap::new(edition), accounts, queue: Arc::new(WaitQueue::new()) }
    }

    /// The limits in force.
    pub fn edition(&self) -> Arc<Edition> {
        self.edition.load_full()
    }

    /// Writes other limits down beside those in force. Nobody goes by them who does not say so, until they are
    /// [put in force](Self::enact); if they never are, nothing has happened. What is held and what was charged counts on. An
    /// account counts what it limits, so what was not limited cannot be from one moment to the next.
    pub fn prepare(&self, limits: Limits) -> Result<Arc<Edition>, Unlimited> {
        let mut register = self.accounts.write();
        let current = self.edition.load();
        let next = Arc::new(current.next(limits));
        let uncounted = |account: &&Arc<Account>| !account.can_hold(&next.caps(account.scope()));
        if let Some(account) = register.all().find(uncounted) {
            return Err(Unlimited(account.scope().clone()));
        }
        self.queue.generations.forget_before(&current);
        let place = next.place();
        register.all().for_each(|account| account.set_caps(place, &next.caps(account.scope())));
        register.editions[place] = next.clone();
        Ok(next)
    }

    /// Has limits hold for whoever does not say by which it goes. Those who wait are let in if there is room by these.
    pub fn enact(&self, edition: &Arc<Edition>, now: Millis) {
        self.edition.store(edition.clone());
        self.queue.generations.enact(edition);
        self.poll_queue(now);
    }

    /// The account of somebody or something; none if nothing is limited there.
    pub fn account(&self, scope: &Scope, now: Millis) -> Option<Arc<Account>> {
        self.account_by(&self.edition.load(), scope, now)
    }

    /// The same for a call that goes by this edition.
    pub fn account_by(&self, edition: &Edition, scope: &Scope, now: Millis) -> Option<Arc<Account>> {
        edition.limits().of(scope)?;
        if let Some(account) = self.accounts.read().accounts.get(scope) {
            return Some(account.clone());
        }
        Some(self.accounts.write().open(scope, &self.queue, now))
    }

    /// An account for a root call and all that is done on its behalf. Lives as long as somebody has it.
    pub fn root(&self, root: HopId, cap: Cap) -> Option<Arc<Account>> {
        self.for_life(Scope::Root(root), cap)
    }

    /// An account for one call. Lives as long as somebody has it.
    pub fn hop(&self, hop: HopId, cap: Cap) -> Option<Arc<Account>> {
        self.for_life(Scope::Hop(hop), cap)
    }

    fn for_life(&self, scope: Scope, cap: Cap) -> Option<Arc<Account>> {
        (!cap.is_none()).then(|| Arc::new(Account::for_life(scope, cap, self.queue.clone())))
    }

    /// The accounts that a recorded call is charged to, but for those of root and call, which end with the process.
    pub fn accounts_of(&self, edge: &Edge, now: Millis) -> Accounts {
        self.accounts_charged(&self.edition(), edge.billed(), &edge.agent, now)
    }

    /// The accounts that a call to an agent is charged to besides those of its root and its own: of everything, and of the
    /// realm, the groups and the name of whoever pays, and of the agent.
    pub fn accounts_charged(
        &self,
        edition: &Edition,
        billed: BilledParty<'_>,
        agent: &Arc<str>,
        now: Millis,
    ) -> Accounts {
        let BilledParty { realm, name, groups } = billed;
        let groups = groups.iter().map(|name| Scope::Group { realm: realm.clone(), name: name.clone() });
        let payer = name.map(|name| Scope::Caller { realm: realm.clone(), id: name.clone() });
        [Scope::Global, Scope::Realm(realm.clone()), Scope::Agent(agent.clone())]
            .into_iter()
            .chain(groups)
            .chain(payer)
            .filter_map(|scope| self.account_by(edition, &scope, now))
            .collect()
    }

    /// Holds an amount by the limits of an edition, or waits for room where it says so: no longer than it says, nor than
    /// the caller can.
    pub fn admit(
        &self,
        edition: &Arc<Edition>,
        caller: &Arc<str>,
        accounts: Accounts,
        amount: Amount,
        deadline: Option<Millis>,
        now: Millis,
    ) -> Result<Admission, Refusal> {
        self.queue.admit(edition, caller, accounts, amount, deadline, now)
    }

    /// Lets in whom there is room for now, and sends away who has waited too long. To settle or release does so too.
    pub fn poll_queue(&self, now: Millis) {
        self.queue.advance(Some(now));
    }

    /// When [`poll_queue`](Self::poll_queue) is to be called, if nothing is settled before. It changes when somebody
    /// begins to wait, and whenever the queue is polled.
    pub fn next_wakeup(&self, now: Millis) -> Option<Millis> {
        self.queue.next_wakeup(now)
    }

    /// How many calls wait for room.
    pub fn waiting(&self) -> usize {
        self.queue.depth()
    }

    /// Charges what was settled before a restart, and holds again what was not.
    ///
    /// To be called with the edges in the order in which they were settled, from the beginning of the month on, before
    /// anything is let through; `accounts` says which accounts an edge is charged to. What comes out of order counts
    /// for longer than it should. Open ones come back as the reservations that they are.
    pub fn restore<'a>(
        &self,
        edges: impl IntoIterator<Item = &'a Edge>,
        mut accounts: impl FnMut(&Edge) -> Accounts,
        now: Millis,
    ) -> Vec<(HopId, Reservation)> {
        let mut open = Vec::new();
        for edge in edges {
            let accounts = accounts(edge);
            match &edge.settled {
                Some(settled) => {
                    let overruns = self.account(&Scope::Overrun(edge.agent.clone()), now);
                    charge(overruns.as_slice(), settled.overrun, Millis::from(settled.at).min(now));
                    charge(&accounts, settled.charged, Millis::from(settled.at).min(now));
                }
                // What is held belongs to no period, and begins none.
                None => open.push((edge.hop, Reservation::force(accounts, edge.reserved, Millis(0)))),
            }
        }
        open
    }

    /// All accounts that are kept, in no particular order.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.read().all().cloned().collect()
    }
}

// === impl Register ===

impl Register {
    fn new(edition: Arc<Edition>) -> Self {
        let (accounts, others) = (HashMap::default(), HashMap::default());
        Self { editions: [edition.clone(), edition], accounts, others, swept: Millis::default() }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.values().chain(self.others.values())
    }

    fn open(&mut self, scope: &Scope, queue: &Arc<WaitQueue>, now: Millis) -> Arc<Account> {
        if let Some(account) = self.accounts.get(scope) {
            return account.clone();
        }
        let editions = &self.editions;
        let most = editions.iter().map(|edition| edition.limits().max_accounts).max().unwrap_or_default();
        let caps = |of: &Scope| editions.each_ref().map(|edition| edition.caps(of));
        if self.accounts.len() >= most && now.since(self.swept).as_millis() >= SWEEP_EVERY_MS.into() {
            self.swept = now;
            // Nobody else can get hold of one meanwhile: that needs the lock.
            self.accounts.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_idle(now));
        }
        // There are no more of these than agents, and none may stand in for another.
        if self.accounts.len() < most || scope.level() == Level::Overrun {
            let account = Arc::new(Account::new(scope.clone(), caps(scope), queue.clone()));
            return self.accounts.entry(scope.clone()).or_insert(account).clone();
        }
        let level = scope.level();
        let all = Scope::Others(level);
        let of_all = caps(&all);
        let caps = if of_all.iter().all(Caps::is_none) { caps(scope) } else { of_all };
        let shared = || Arc::new(Account::new(all, caps, queue.clone()));
        self.others.entry(level).or_insert_with(shared).clone()
    }
}
