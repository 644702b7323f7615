//! What one call holds in the accounts that it is charged to, from when it is let through until it is settled.

use std::sync::Arc;

use chancery_protocol::Amount;
use smallvec::SmallVec;

use super::account::{Account, Remaining};
use super::edition::Edition;
use super::limits::{METRICS, Metric, Scope, Window, amount_of, by_metric};
use super::shortfall::{Frees, Shortfall};
use crate::Millis;

/// The accounts of one call. One of each level fits without allocating.
pub type Accounts = SmallVec<[Arc<Account>; 6]>;

/// What a call holds. Whoever has it settles or releases it, which ends it; dropped before, it is released.
///
/// How it keeps its accounts is up to whoever makes it: by themselves, shared with other calls, or borrowed.
#[derive(Debug)]
#[must_use = "what is not kept is released at once"]
pub struct Reservation<A: AsRef<[Arc<Account>]> = Accounts> {
    accounts: A,
    /// The limits that it goes by; those in force if none.
    by: Option<Arc<Edition>>,
    held: [u64; METRICS],
}

/// Holds an amount in all of these accounts, or in none, by the limits in force.
///
/// If several have no room, the answer is the limit that has none for longest.
#[inline]
pub fn reserve<A: AsRef<[Arc<Account>]>>(
    accounts: A,
    amount: Amount,
    now: Millis,
) -> Result<Reservation<A>, Shortfall> {
    let asked = by_metric(amount);
    hold(accounts.as_ref(), asked, None, now)?;
    Ok(Reservation::holding(accounts, None, asked))
}

/// Whether [`reserve`] would succeed. Holds nothing.
pub fn check(accounts: &[Arc<Account>], amount: Amount, now: Millis) -> Result<(), Shortfall> {
    refusing_longest(accounts, by_metric(amount), None, now).map_or(Ok(()), Err)
}

/// The same by the limits of an edition.
pub fn check_by(
    edition: &Edition,
    accounts: &[Arc<Account>],
    amount: Amount,
    now: Millis,
) -> Result<(), Shortfall> {
    refusing_longest(accounts, by_metric(amount), Some(edition), now).map_or(Ok(()), Err)
}

/// As [`reserve`], but only says which account refused, and wakes nobody.
pub(super) fn try_reserve<'a>(
    accounts: &'a Accounts,
    amount: Amount,
    by: Option<&Arc<Edition>>,
    now: Millis,
) -> Result<Reservation, &'a Arc<Account>> {
    let asked = by_metric(amount);
    take_all(accounts, asked, by.map(|by| &**by), now)?;
    Ok(Reservation::holding(accounts.clone(), by.cloned(), asked))
}

/// Charges an amount whether there is room or not: what was charged before a restart, and overruns.
pub fn charge(accounts: &[Arc<Account>], charged: Amount, at: Millis) {
    for account in accounts {
        account.book([0; METRICS], by_metric(charged), at);
    }
    wake(accounts, Some(at));
}

/// The limit that overruns have passed, if they have.
pub(crate) fn exceeded(account: &Account, by: &Edition, now: Millis) -> Option<Shortfall> {
    account.exceeded(Some(by), now)
}

/// Takes it from all accounts, or says why not.
#[inline]
pub(super) fn hold(
    accounts: &[Arc<Account>],
    asked: [u64; METRICS],
    by: Option<&Edition>,
    now: Millis,
) -> Result<(), Shortfall> {
    take_all(accounts, asked, by, now).map_err(|_| {
        let short = in_the_way(accounts, asked, by, now);
        // What was taken and given back may have been in the way of somebody who waits.
        wake(accounts, Some(now));
        short
    })
}

#[inline]
fn take_all<'a>(
    accounts: &'a [Arc<Account>],
    asked: [u64; METRICS],
    by: Option<&Edition>,
    now: Millis,
) -> Result<(), &'a Arc<Account>> {
    let refuses = |account: &Arc<Account>| !account.take(asked, by, now);
    let Some(refused) = accounts.iter().position(refuses) else { return Ok(()) };
    for taken in &accounts[..refused] {
        taken.give_back(asked);
    }
    Err(&accounts[refused])
}

/// The most restrictive of the limits that refuse.
fn refusing_longest(
    accounts: &[Arc<Account>],
    asked: [u64; METRICS],
    by: Option<&Edition>,
    now: Millis,
) -> Option<Shortfall> {
    accounts.iter().filter_map(|account| account.shortfall(asked, by, now)).reduce(Shortfall::or_worse)
}

/// The limit that was in the way. Should room have been made meanwhile, the one that leaves the least.
pub(super) fn tightest(
    accounts: &[Arc<Account>],
    amount: Amount,
    by: Option<&Edition>,
    now: Millis,
) -> Shortfall {
    in_the_way(accounts, by_metric(amount), by, now)
}

#[cold]
fn in_the_way(
    accounts: &[Arc<Account>],
    asked: [u64; METRICS],
    by: Option<&Edition>,
    now: Millis,
) -> Shortfall {
    let closest = || {
        let each = accounts.iter().filter_map(|account| account.tightest(asked, by, now));
        each.min_by_key(|short| short.remaining)
    };
    // Should nothing be limited any more, it was until just now.
    let lifted = || nothing_left(accounts, asked, now);
    refusing_longest(accounts, asked, by, now).or_else(closest).unwrap_or_else(lifted)
}

/// There was no room, but which limit was in the way is not known any more.
fn nothing_left(accounts: &[Arc<Account>], asked: [u64; METRICS], now: Millis) -> Shortfall {
    let metric = Metric::ALL.into_iter().find(|metric| asked[metric.index()] > 0).unwrap_or(Metric::Tasks);
    let asked = asked[metric.index()];
    let scope = accounts.last().map_or(Scope::Global, |innermost| innermost.scope().clone());
    Shortfall {
        scope,
        metric,
        window: Window::Life,
        cap: 0,
        asked,
        observed: asked,
        remaining: 0,
        frees: Frees::WhenSettled,
        now,
    }
}

/// Lets in whom there is room for now.
#[inline]
fn wake(accounts: &[Arc<Account>], now: Option<Millis>) {
    if let Some(account) = accounts.first() {
        account.queue.advance(now);
    }
}

// === impl Reservation ===

impl<A: AsRef<[Arc<Account>]>> Reservation<A> {
    pub(super) fn holding(accounts: A, by: Option<Arc<Edition>>, held: [u64; METRICS]) -> Self {
        Self { accounts, by, held }
    }

    /// Holds an amount whether there is room or not: for what was let through before a restart.
    pub fn force(accounts: A, amount: Amount, now: Millis) -> Self {
        let asked = by_metric(amount);
        for account in accounts.as_ref() {
            account.force(asked, now);
        }
        Self::holding(accounts, None, asked)
    }

    /// Holds more. To be asked before it is spent; who is refused must not spend it.
    pub fn extend(&mut self, more: Amount, now: Millis) -> Result<(), Shortfall> {
        let more = by_metric(more);
        hold(self.accounts(), more, self.by.as_deref(), now)?;
        for (held, more) in self.held.iter_mut().zip(more) {
            *held = held.saturating_add(more);
        }
        Ok(())
    }

    /// Holds more as far as every account has room, and says how much that is: for what an agent elsewhere has spent
    /// already.
    pub fn extend_partly(&mut self, more: Amount, now: Millis) -> Amount {
        let mut fits = by_metric(more);
        let by = self.by.as_deref();
        // From the narrowest account to the widest: what is taken for a moment and given back is in the way of fewer calls.
        let narrowest_first = || self.accounts.as_ref().iter().rev();
        let mut taken: SmallVec<[[u64; METRICS]; 6]> = SmallVec::new();
        for account in narrowest_first() {
            fits = account.take_partly(fits, by, now);
            taken.push(fits);
        }
        let mut is_given_back = false;
        for (account, taken) in narrowest_first().zip(taken) {
            let too_much = std::array::from_fn(|metric| taken[metric] - fits[metric]);
            is_given_back |= too_much != [0; METRICS];
            account.give_back(too_much);
        }
        if is_given_back {
            wake(self.accounts(), Some(now));
        }
        for (held, more) in self.held.iter_mut().zip(fits) {
            *held = held.saturating_add(more);
        }
        amount_of(fits)
    }

    /// Charges this, which is at most what is held, and holds nothing any more.
    #[inline]
    pub fn settle(mut self, charged: Amount, now: Millis) {
        let held = std::mem::take(&mut self.held);
        let charged = by_metric(charged);
        let charged = std::array::from_fn(|metric| charged[metric].min(held[metric]));
        for account in self.accounts() {
            account.book(held, charged, now);
        }
        wake(self.accounts(), Some(now));
    }

    /// Charges nothing and holds nothing any more.
    pub fn release(mut self, now: Millis) {
        self.give_back(Some(now));
    }

    /// What it holds.
    pub fn amount(&self) -> Amount {
        amount_of(self.held)
    }

    /// How much could still be held besides: the least over its accounts.
    pub fn remaining(&self, now: Millis) -> Remaining {
        self.accounts()
            .iter()
            .map(|account| account.remaining_by(self.by.as_deref(), now))
            .fold(Remaining::default(), Remaining::least)
    }

    /// The accounts that it holds something in.
    pub fn accounts(&self) -> &[Arc<Account>] {
        self.accounts.as_ref()
    }

    fn give_back(&mut self, now: Option<Millis>) {
        let held = std::mem::take(&mut self.held);
        for account in self.accounts() {
            account.give_back(held);
        }
        wake(self.accounts(), now);
    }
}

impl<A: AsRef<[Arc<Account>]>> Drop for Reservation<A> {
    #[inline]
    fn drop(&mut self) {
        if self.held != [0; METRICS] {
            self.give_back(None);
        }
    }
}
