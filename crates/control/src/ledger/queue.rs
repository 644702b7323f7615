//! Where calls wait for room: bounded, fair between callers, and left by dropping the ticket.
//!
//! Callers take turns. Nobody overtakes at an account where somebody in front is refused, so a large call is not
//! starved by small ones; who waits for another account is let past. Whoever frees something advances the queue, and
//! for room that time alone makes there is [`next_wakeup`](WaitQueue::next_wakeup).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chancery_protocol::Amount;
use parking_lot::{Mutex, MutexGuard};

use super::account::Account;
use super::atomic::{AtomicU64, lock};
use super::edition::{Edition, Generations};
use super::limits::{Overflow, by_metric};
use super::line::Line;
use super::reservation::{Accounts, Reservation, hold, tightest, try_reserve};
use super::shortfall::{Frees, Refusal, Shortfall};
use crate::Millis;

/// The calls that wait for room.
pub(super) struct WaitQueue {
    line: Mutex<Line>,
    /// How many wait, to be read without the lock.
    waiting: AtomicU64,
    /// Which limits are in force. It is here because all accounts have it at hand.
    pub(super) generations: Generations,
}

/// A place in the queue: resolves to the reservation, or to why there is none. Dropped, it leaves the queue.
#[must_use = "who drops the ticket does not wait"]
pub struct Ticket {
    waiter: Arc<Waiter>,
    queue: Arc<WaitQueue>,
}

/// What came of asking for room.
#[derive(Debug)]
pub enum Admission {
    /// There is room.
    Reserved(Reservation),
    /// There will be, perhaps.
    Waiting(Ticket),
}

/// One call that waits.
pub(super) struct Waiter {
    pub(super) accounts: Accounts,
    amount: Amount,
    /// The limits that it came with.
    by: Arc<Edition>,
    since: Millis,
    pub(super) deadline: Millis,
    outcome: Mutex<Outcome>,
}

enum Outcome {
    Waiting(Option<Waker>),
    Known(Box<Result<Reservation, Refusal>>),
    Taken,
}

// === impl WaitQueue ===

impl WaitQueue {
    pub(super) fn new() -> Self {
        let (line, waiting) = (Mutex::default(), AtomicU64::new(0));
        Self { line, waiting, generations: Generations::default() }
    }

    /// Asks for room: at once if nobody waits, else behind those who do.
    pub(super) fn admit(
        self: &Arc<Self>,
        edition: &Arc<Edition>,
        caller: &Arc<str>,
        accounts: Accounts,
        amount: Amount,
        deadline: Option<Millis>,
        now: Millis,
    ) -> Result<Admission, Refusal> {
        let (max_depth, max_wait) = match edition.limits().overflow {
            Overflow::Shed => (0, Duration::ZERO),
            Overflow::Queue { max_depth, max_wait } => (max_depth, max_wait),
        };
        if accounts.is_empty() || self.waiting.load(SeqCst) == 0 {
            let asked = by_metric(amount);
            match hold(&accounts, asked, Some(edition), now) {
                Ok(()) => {
                    let held = Reservation::holding(accounts, Some(edition.clone()), asked);
                    return Ok(Admission::Reserved(held));
                }
                Err(short) if max_depth == 0 || short.frees == Frees::Never => {
                    return Err(Refusal::Short(short));
                }
                Err(_) => {}
            }
        }
        let longest = now + max_wait;
        let waiter = Arc::new(Waiter {
            accounts,
            amount,
            by: edition.clone(),
            since: now,
            deadline: deadline.map_or(longest, |deadline| deadline.min(longest)),
            outcome: Mutex::new(Outcome::Waiting(None)),
        });
        let ticket = self.enter(caller, waiter, max_depth, now)?;
        self.advance(Some(now));
        match ticket.waiter.take() {
            Some(known) => known.map(Admission::Reserved),
            None => Ok(Admission::Waiting(ticket)),
        }
    }

    fn enter(
        self: &Arc<Self>,
        caller: &Arc<str>,
        waiter: Arc<Waiter>,
        max_depth: usize,
        now: Millis,
    ) -> Result<Ticket, Refusal> {
        let mut line = self.lock();
        let depth = line.depth();
        if depth >= max_depth {
            drop(line);
            return Err(Refusal::QueueFull { short: waiter.shortfall(now), depth });
        }
        line.enter(caller, waiter.clone());
        self.count(&line);
        Ok(Ticket { waiter, queue: self.clone() })
    }

    /// Something was freed, or time has passed: lets in whom there is room for, and sends away who has waited too long.
    /// Without a time, it is as late as it was when somebody last said so.
    #[inline]
    pub(super) fn advance(&self, now: Option<Millis>) {
        if self.waiting.load(SeqCst) > 0 {
            self.advance_line(now);
        }
    }

    #[cold]
    fn advance_line(&self, now: Option<Millis>) {
        let mut line = self.lock();
        let concluded = line.advance(now);
        self.count(&line);
        drop(line);
        for waker in concluded.into_iter().flatten() {
            waker.wake();
        }
    }

    /// When somebody's wait ends, or could: the queue should be advanced then.
    pub(super) fn next_wakeup(&self, now: Millis) -> Option<Millis> {
        if self.waiting.load(SeqCst) == 0 { None } else { self.lock().next_wakeup(now) }
    }

    /// How many wait.
    pub(super) fn depth(&self) -> usize {
        self.lock().depth()
    }

    fn leave(&self, waiter: &Arc<Waiter>) {
        let mut line = self.lock();
        let was_there = line.leave(waiter);
        self.count(&line);
        drop(line);
        // Let in, but nobody asks any more: what it holds is released outside all locks.
        drop(waiter.take());
        if was_there {
            self.advance(None);
        }
    }

    fn count(&self, line: &Line) {
        self.waiting.store(line.depth() as u64, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        lock(&self.line)
    }
}

impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

// === impl Waiter ===

impl Waiter {
    /// Tries to let it in. The account that has no room, if there is none.
    /// It goes by the limits that it came with; but what an operator allows meanwhile is allowed to those who wait as well.
    pub(super) fn attempt(&self, now: Millis) -> Result<Reservation, &Arc<Account>> {
        let by = |edition| try_reserve(&self.accounts, self.amount, edition, now);
        match by(Some(&self.by)) {
            Err(_) if self.is_outdated() => by(None),
            tried => tried,
        }
    }

    /// Why it waits. There may be room by now: then it is where there is the least.
    pub(super) fn shortfall(&self, now: Millis) -> Shortfall {
        let by = |edition| tightest(&self.accounts, self.amount, edition, now);
        let short = by(Some(&*self.by));
        let is_never = short.frees == Frees::Never && self.is_outdated();
        if is_never { by(None) } else { short }
    }

    /// Whether other limits have come into force since it came.
    fn is_outdated(&self) -> bool {
        self.accounts.first().is_some_and(|account| !account.queue.generations.is_in_force(&self.by))
    }

    /// It has waited for as long as it could.
    pub(super) fn expired(&self, now: Millis) -> Refusal {
        Refusal::Expired { short: self.shortfall(now), waited: now.since(self.since) }
    }

    /// Its wait is over. Whom to wake.
    pub(super) fn conclude(&self, known: Result<Reservation, Refusal>) -> Option<Waker> {
        match std::mem::replace(&mut *self.outcome.lock(), Outcome::Known(Box::new(known))) {
            Outcome::Waiting(waker) => waker,
            Outcome::Known(_) | Outcome::Taken => None,
        }
    }

    fn take(&self) -> Option<Result<Reservation, Refusal>> {
        let mut outcome = self.outcome.lock();
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Known(known) => Some(*known),
            other => {
                *outcome = other;
                None
            }
        }
    }
}

// === impl Ticket ===

impl Future for Ticket {
    type Output = Result<Reservation, Refusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = self.waiter.outcome.lock();
        if let Outcome::Waiting(waker) = &mut *outcome {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(outcome);
        self.waiter.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queue.leave(&self.waiter);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("amount", &self.waiter.amount).finish_non_exhaustive()
    }
}
