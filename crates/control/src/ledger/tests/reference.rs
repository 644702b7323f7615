//! The ledger as one would write it if nothing ran at the same time and nothing had to be fast: lists and sums.

use std::collections::HashMap;

use chancery_protocol::{Amount, Edge};
use jiff::tz::Offset;

use super::super::limits::{METRICS, NO_CAP, by_metric};
use super::super::{Limits, Scope, Window};
use crate::Millis;

#[derive(Clone, Default)]
pub(super) struct Reference {
    accounts: HashMap<Scope, Book>,
    limits: Limits,
}

#[derive(Clone, Default)]
struct Book {
    /// When, and how much.
    charges: Vec<(Millis, [u64; METRICS])>,
    held: [u64; METRICS],
    latest: Millis,
}

/// What stands in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) charged: u64,
    pub(super) held: u64,
}

pub(super) fn scopes(edge: &Edge) -> [Scope; 4] {
    let caller = Scope::Caller { realm: edge.realm.clone(), id: edge.caller.clone() };
    [Scope::Global, Scope::Realm(edge.realm.clone()), caller, Scope::Agent(edge.agent.clone())]
}

fn counts(window: Window, at: Millis, now: Millis) -> bool {
    let civil = |at: Millis| {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(at.0).unwrap()).unwrap();
        Offset::UTC.to_datetime(at).date()
    };
    match window {
        Window::Minute => now.0 / 1_000 <= at.0 / 1_000 + 60,
        Window::Hour => now.0 / 60_000 <= at.0 / 60_000 + 60,
        Window::Day => civil(at) == civil(now),
        Window::Month => civil(at).first_of_month() == civil(now).first_of_month(),
        Window::Life => true,
    }
}

impl Reference {
    pub(super) fn new(limits: Limits) -> Self {
        Self { accounts: HashMap::new(), limits }
    }

    fn book(&mut self, scope: &Scope, now: Millis) -> Option<&mut Book> {
        self.limits.of(scope)?;
        let book = self.accounts.entry(scope.clone()).or_default();
        book.latest = book.latest.max(now);
        Some(book)
    }

    pub(super) fn sums(&mut self, scope: &Scope, window: Window, metric: usize, now: Millis) -> Sums {
        let Some(book) = self.book(scope, now) else { return Sums { charged: 0, held: 0 } };
        let counted = book.charges.iter().filter(|(at, _)| counts(window, *at, book.latest));
        Sums { charged: counted.map(|(_, charged)| charged[metric]).sum(), held: book.held[metric] }
    }

    /// Whether there is room at every level, in every window.
    pub(super) fn fits(&mut self, scopes: &[Scope], amount: Amount, now: Millis) -> bool {
        self.room(scopes, amount, now) == by_metric(amount)
    }

    /// How much of this there is room for at every level, in every window, of each metric by itself.
    pub(super) fn room(&mut self, scopes: &[Scope], amount: Amount, now: Millis) -> [u64; METRICS] {
        let mut room = by_metric(amount);
        for scope in scopes {
            let Some(caps) = self.limits.of(scope).copied() else { continue };
            for (window, cap) in caps.windows() {
                for (metric, cap) in cap.by_metric().into_iter().enumerate().filter(|(_, cap)| *cap != NO_CAP)
                {
                    let sums = self.sums(scope, window, metric, now);
                    room[metric] = room[metric].min(cap.saturating_sub(sums.charged + sums.held));
                }
            }
        }
        room
    }

    pub(super) fn hold(&mut self, scopes: &[Scope], amount: Amount, now: Millis) {
        for scope in scopes {
            let Some(book) = self.book(scope, now) else { continue };
            for (held, more) in book.held.iter_mut().zip(by_metric(amount)) {
                *held += more;
            }
        }
    }

    pub(super) fn settle(&mut self, scopes: &[Scope], held: Amount, charged: Amount, now: Millis) {
        for scope in scopes {
            let Some(book) = self.book(scope, now) else { continue };
            for (all, held) in book.held.iter_mut().zip(by_metric(held)) {
                *all -= held;
            }
        }
        self.charge(scopes, charged, now);
    }

    pub(super) fn charge(&mut self, scopes: &[Scope], charged: Amount, now: Millis) {
        for scope in scopes {
            let Some(book) = self.book(scope, now) else { continue };
            book.charges.push((book.latest, by_metric(charged)));
        }
    }
}
