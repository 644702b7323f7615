//! Those who wait for room, in the order in which they are let in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::account::Account;
use super::queue::Waiter;
use super::reservation::Reservation;
use super::shortfall::{Frees, Refusal};
use crate::Millis;

/// Those who wait, by caller. The first caller is the next whose turn it is.
#[derive(Default)]
pub(super) struct Line {
    callers: VecDeque<(Arc<str>, VecDeque<Arc<Waiter>>)>,
    depth: usize,
    /// No deadline is earlier.
    first_deadline: Option<Millis>,
    latest: Millis,
}

/// Accounts at which somebody in front waits.
#[derive(Default)]
struct Taken(Vec<Arc<Account>>);

// === impl Line ===

impl Line {
    /// How many wait.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn enter(&mut self, caller: &Arc<str>, waiter: Arc<Waiter>) {
        let deadline = waiter.deadline;
        self.first_deadline = Some(self.first_deadline.map_or(deadline, |first| first.min(deadline)));
        self.depth += 1;
        match self.callers.iter_mut().find(|(name, _)| name == caller) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.callers.push_back((caller.clone(), VecDeque::from([waiter]))),
        }
    }

    /// Takes somebody out. Says whether it was in.
    pub(super) fn leave(&mut self, leaving: &Arc<Waiter>) -> bool {
        let before = self.depth;
        self.keep(|waiter| !Arc::ptr_eq(waiter, leaving));
        self.depth < before
    }

    /// Ends the wait of all for whom it is over. Whom to wake.
    pub(super) fn advance(&mut self, now: Option<Millis>) -> Vec<Option<Waker>> {
        self.latest = now.map_or(self.latest, |now| now.max(self.latest));
        let mut concluded = Vec::new();
        self.expire(&mut concluded);
        self.let_in(&mut concluded);
        concluded
    }

    fn expire(&mut self, concluded: &mut Vec<Option<Waker>>) {
        let now = self.latest;
        if self.first_deadline.is_none_or(|first| first > now) {
            return;
        }
        self.keep(|waiter| {
            let waits_on = waiter.deadline > now;
            if !waits_on {
                concluded.push(waiter.conclude(Err(waiter.expired(now))));
            }
            waits_on
        });
    }

    fn let_in(&mut self, concluded: &mut Vec<Option<Waker>>) {
        let now = self.latest;
        let mut taken = Taken::default();
        let mut turn = 0;
        while let Some((_, waiters)) = self.callers.get(turn) {
            let Some((place, known)) = waiters
                .iter()
                .enumerate()
                .find_map(|(place, waiter)| Some((place, taken.conclusion(waiter, now)?)))
            else {
                turn += 1;
                continue;
            };
            concluded.push(waiters[place].conclude(known));
            self.served(turn, place);
        }
    }

    /// One of this caller's is out; the caller's next turn comes after all others'.
    fn served(&mut self, turn: usize, place: usize) {
        let Some((caller, mut waiters)) = self.callers.remove(turn) else { return };
        waiters.remove(place);
        self.depth -= 1;
        if !waiters.is_empty() {
            self.callers.push_back((caller, waiters));
        }
    }

    /// When a wait expires, or time alone could end one.
    pub(super) fn next_wakeup(&self, now: Millis) -> Option<Millis> {
        let mut next = self.first_deadline.filter(|_| self.depth > 0);
        let mut taken = Taken::default();
        for waiter in self.callers.iter().flat_map(|(_, waiters)| waiters) {
            if taken.stop(waiter) {
                continue;
            }
            let short = waiter.shortfall(now);
            if let Frees::At(at) = short.frees {
                next = Some(next.map_or(at, |next| next.min(at)).max(now));
            }
            taken.0.extend(waiter.accounts.iter().find(|account| *account.scope() == short.scope).cloned());
        }
        next
    }

    fn keep(&mut self, mut wanted: impl FnMut(&Arc<Waiter>) -> bool) {
        for (_, waiters) in &mut self.callers {
            waiters.retain(&mut wanted);
        }
        self.callers.retain(|(_, waiters)| !waiters.is_empty());
        let everyone = || self.callers.iter().flat_map(|(_, waiters)| waiters);
        self.depth = everyone().count();
        self.first_deadline = everyone().map(|waiter| waiter.deadline).min();
    }
}

// === impl Taken ===

impl Taken {
    /// What the wait of this one comes to. None if it goes on: behind somebody, or because an account has no room, which is taken
    /// from now on.
    fn conclusion(&mut self, waiter: &Waiter, now: Millis) -> Option<Result<Reservation, Refusal>> {
        if self.stop(waiter) {
            return None;
        }
        match waiter.attempt(now) {
            Ok(reservation) => Some(Ok(reservation)),
            Err(refusing) => {
                let short = waiter.shortfall(now);
                if short.frees != Frees::Never {
                    self.0.push(refusing.clone());
                    return None;
                }
                Some(Err(Refusal::Short(short)))
            }
        }
    }

    /// Whether somebody waits in front of this one.
    fn stop(&self, waiter: &Waiter) -> bool {
        waiter.accounts.iter().any(|account| self.0.iter().any(|taken| Arc::ptr_eq(taken, account)))
    }
}
