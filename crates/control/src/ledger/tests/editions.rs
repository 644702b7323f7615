//! Limits that are exchanged while calls are let through: each call goes by one edition of them.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::super::*;
use super::*;

/// So much for everybody together, and for each caller.
fn limits(most: u64) -> Limits {
    let mut limits = Limits { global: per_minute(most), ..Limits::default() };
    limits.caller.default = per_minute(most);
    limits
}

/// What is to be had by an edition.
fn asks(ledger: &Ledger, edition: &Arc<Edition>, id: &str, amount: u64) -> Result<Reservation, Refusal> {
    let scopes = [Scope::Global, caller(id)];
    let accounts = scopes.iter().filter_map(|scope| ledger.account_by(edition, scope, NOON)).collect();
    match ledger.admit(edition, &Arc::from(id), accounts, usd(amount), None, NOON)? {
        Admission::Reserved(call) => Ok(call),
        Admission::Waiting(_) => panic!("nobody waits here"),
    }
}

#[test]
fn what_is_prepared_and_given_up_has_not_happened() {
    let ledger = Ledger::new(limits(10));
    let first = ledger.edition();
    let _held = asks(&ledger, &first, "ann", 6).unwrap();
    let given_up = ledger.prepare(limits(1_000)).unwrap();
    assert!(asks(&ledger, &first, "ann", 5).is_err());
    assert!(reserve(accounts(&ledger, "ann"), usd(5), NOON).is_err());
    assert!(asks(&ledger, &given_up, "ann", 5).is_ok(), "whoever goes by it all the same");
    drop(given_up);
    let next = ledger.prepare(limits(11)).unwrap();
    ledger.enact(&next, NOON);
    assert!(asks(&ledger, &next, "ann", 6).is_err());
    assert!(asks(&ledger, &next, "ann", 5).is_ok());
    assert!(asks(&ledger, &first, "ann", 5).is_err(), "who came before goes by what was");
}

#[test]
fn an_account_that_is_opened_in_between_knows_both_editions() {
    let ledger = Ledger::new(limits(10));
    let first = ledger.edition();
    let mut by_day = limits(1_000);
    by_day.caller.default = Caps { per_day: cap(100), ..Caps::default() };
    let next = ledger.prepare(by_day).unwrap();
    drop(asks(&ledger, &first, "ann", 10).unwrap());
    assert!(asks(&ledger, &first, "ann", 11).is_err());
    drop(asks(&ledger, &next, "ann", 100).unwrap());
    assert!(asks(&ledger, &next, "ann", 101).is_err());
    assert!(asks(&ledger, &first, "ann", 11).is_err());
}

#[test]
fn who_waits_is_let_in_by_what_it_came_with_or_by_what_is_in_force() {
    let overflow = Overflow::Queue { max_depth: 4, max_wait: seconds(30) };
    let ledger = Ledger::new(Limits { overflow, ..limits(10) });
    let edition = ledger.edition();
    let waits = |amount| {
        let accounts = accounts(&ledger, "bob");
        match ledger.admit(&edition, &Arc::from("bob"), accounts, usd(amount), None, NOON).unwrap() {
            Admission::Waiting(ticket) => ticket,
            Admission::Reserved(_) => panic!("there is no room"),
        }
    };
    let let_in = |ticket: Ticket| match pin!(ticket).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(call)) => call,
        other => panic!("it is left waiting: {other:?}"),
    };
    let held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let (first, second) = (waits(8), waits(5));
    // Half of what was: there is no room for eight by these, and there never will be.
    amend(&ledger, limits(5)).unwrap();
    assert_eq!(ledger.waiting(), 2);
    drop(held);
    let _held = let_in(first);
    assert_eq!(ledger.waiting(), 1);
    amend(&ledger, limits(13)).unwrap();
    let _held_too = let_in(second);
}

#[test]
fn a_call_goes_by_what_it_came_with_however_often_that_was_exchanged() {
    let ledger = Ledger::new(limits(10));
    let first = ledger.edition();
    let mut call = asks(&ledger, &first, "ann", 4).unwrap();
    for most in [5, 1, 1_000, 2] {
        amend(&ledger, limits(most)).unwrap();
        call.extend(usd(1), NOON).expect("there is room by what it came with");
        assert_eq!(call.remaining(NOON).micro_usd, Some(10 - call.amount().micro_usd));
    }
    assert!(call.extend(usd(3), NOON).is_err());
    assert!(asks(&ledger, &first, "bob", 3).is_err());
    drop(asks(&ledger, &first, "bob", 2).expect("one that was long in coming"));
    assert!(asks(&ledger, &ledger.edition(), "bob", 1).is_err(), "what is held counts by any");
}

/// A ledger whose limits flip, while callers go by the edition that they find: what fits that is never refused, and what does
/// not fit never passes. Each has a purse of its own, since what others hold counts by any edition.
#[test]
fn no_call_meets_the_limits_of_another_edition_while_they_flip() {
    const LOW: u64 = 3;
    let of_each = |most| Limits { global: Caps::default(), ..limits(most) };
    let ledger = Arc::new(Ledger::new(of_each(LOW)));
    let published = Arc::new(ArcSwap::new(ledger.edition()));
    let callers = ["ann", "bob"].map(|id| {
        let (ledger, published) = (ledger.clone(), published.clone());
        std::thread::spawn(move || {
            for _ in 0..10_000 {
                let edition = published.load_full();
                let most = edition.limits().caller.default.per_minute.micro_usd.unwrap();
                let fits = asks(&ledger, &edition, id, most);
                assert!(fits.is_ok(), "{most}: {fits:?}");
                drop(fits);
                assert!(asks(&ledger, &edition, id, most + 1).is_err(), "{most}");
            }
        })
    });
    let mut most = LOW;
    while !callers.iter().all(|caller| caller.is_finished()) {
        most = if most == LOW { 100 * LOW } else { LOW };
        let next = ledger.prepare(of_each(most)).unwrap();
        published.store(next.clone());
        ledger.enact(&next, NOON);
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

proptest! {
    /// Whatever is exchanged in between, each of two editions decides as a ledger would that has it alone, with all that was
    /// charged by either.
    #[test]
    fn two_editions_decide_as_two_ledgers_with_one_purse(
        (low, high) in (1..50_u64, 50..100_u64),
        steps in prop::collection::vec((any::<bool>(), 0..40_u64, any::<bool>()), 1..40),
    ) {
        let ledger = Ledger::new(limits(low));
        let (mut here, mut spent) = (ledger.edition(), 0);
        let mut before = here.clone();
        for (by_newest, asked, is_exchanged) in steps {
            if is_exchanged {
                let was_low = here.limits().global.per_minute == cap(low);
                let next = ledger.prepare(limits(if was_low { high } else { low })).unwrap();
                ledger.enact(&next, NOON);
                (before, here) = (here, next);
            }
            let edition = if by_newest { &here } else { &before };
            let most = edition.limits().global.per_minute.micro_usd.unwrap();
            let fits = asked == 0 || spent + asked <= most;
            match asks(&ledger, edition, "ann", asked) {
                Ok(call) => {
                    prop_assert!(fits);
                    call.settle(usd(asked), NOON);
                    spent += asked;
                }
                Err(_) => prop_assert!(!fits),
            }
        }
    }
}
