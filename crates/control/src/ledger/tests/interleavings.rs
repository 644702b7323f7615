//! The invariant, at every interleaving that a model checker finds: all of them where that ends, else thousands.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use shuttle::scheduler::{DfsScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

use super::super::atomic::model;
use super::super::limits::by_metric;
use super::super::*;
use super::{NOON, account, cap, per_minute, seconds, usd};
use crate::Millis;

fn explore(scheduler: impl Scheduler + 'static, work: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(move || model(&work));
}

/// Runs these at the same time.
fn at_once(works: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = works.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn life(most: u64) -> Arc<Account> {
    Ledger::new(Limits::default()).root(HopId::generate(), cap(most)).unwrap()
}

/// What has really been let through and charged, checked each time that it grows. It grows after the ledger has said
/// yes and shrinks before the ledger hears of it, so that it is never more than what the ledger knows.
#[derive(Default)]
struct Truth(Mutex<Facts>);

#[derive(Default)]
struct Facts {
    latest: Millis,
    held: u64,
    charges: Vec<(Millis, u64)>,
}

impl Truth {
    fn is_now(&self, now: Millis) {
        let mut facts = self.0.lock().unwrap();
        facts.latest = facts.latest.max(now);
    }

    fn held(&self, more: u64, most: u64) {
        let mut facts = self.0.lock().unwrap();
        facts.held += more;
        let counts = |at: Millis| facts.latest.0 / 1_000 <= at.0 / 1_000 + 60;
        let charged: u64 =
            facts.charges.iter().filter(|(at, _)| counts(*at)).map(|(_, charged)| charged).sum();
        assert!(facts.held + charged <= most, "{} held and {charged} charged of {most}", facts.held);
    }

    fn not_held(&self, less: u64) {
        self.0.lock().unwrap().held -= less;
    }

    fn charged(&self, at: Millis, charged: u64) {
        self.0.lock().unwrap().charges.push((at, charged));
    }
}

fn two_take_six_of_ten() {
    let account = life(10);
    let other = account.clone();
    let asked = by_metric(usd(6));
    let second = thread::spawn(move || other.take(asked, None, NOON));
    let first = account.take(asked, None, NOON);
    assert!(first != second.join().unwrap());
    assert_eq!(account.standings(NOON)[0].held, 6);
}

#[test]
fn of_two_who_want_the_same_room_exactly_one_gets_it() {
    explore(RandomScheduler::new(3_000), two_take_six_of_ten);
    // All that there are would be too many; these are all that differ in their last steps.
    explore(DfsScheduler::new(Some(3_000), false), two_take_six_of_ten);
}

#[test]
fn what_one_settles_for_less_another_gets_and_no_more() {
    explore(DfsScheduler::new(None, false), || {
        let account = life(10);
        let other = account.clone();
        assert!(account.take(by_metric(usd(6)), None, NOON));
        let second = thread::spawn(move || other.take(by_metric(usd(5)), None, NOON));
        account.book(by_metric(usd(6)), by_metric(usd(5)), NOON);
        let held = if second.join().unwrap() { 5 } else { 0 };
        let standing = account.standings(NOON)[0];
        assert_eq!((standing.charged, standing.held), (5, held));
    });
}

/// One thread's calls: each at a time of its own, since clocks are read before they are needed.
fn calls(
    accounts: [Arc<Account>; 2],
    truth: Arc<Truth>,
    most: u64,
    script: [(u64, u64, u64); 3],
) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        for (after_ms, asked, charged) in script {
            let now = Millis(NOON.0 + after_ms);
            truth.is_now(now);
            let Ok(mut call) = reserve(&accounts, usd(asked), now) else { continue };
            truth.held(asked, most);
            if call.extend(usd(1), now).is_ok() {
                truth.held(1, most);
                truth.not_held(1);
            }
            truth.not_held(asked);
            call.settle(usd(charged), now);
            truth.charged(now, charged);
        }
    })
}

#[test]
fn nothing_passes_a_rolling_limit_while_seconds_begin() {
    explore(RandomScheduler::new(300), || {
        let truth = Arc::new(Truth::default());
        let accounts = [account(per_minute(20)), account(per_minute(12))];
        // The minute is half over for what was charged before.
        reserve(&accounts, usd(4), NOON).unwrap().settle(usd(4), NOON);
        truth.charged(NOON, 4);
        let thread = |script| calls(accounts.clone(), truth.clone(), 12, script);
        at_once(vec![
            thread([(59_000, 3, 3), (60_999, 5, 2), (61_001, 4, 4)]),
            thread([(60_000, 4, 1), (61_000, 6, 6), (62_000, 5, 5)]),
            thread([(60_500, 2, 2), (61_000, 3, 3), (121_500, 12, 12)]),
        ]);
        for account in &accounts {
            let standing = account.standings(NOON + seconds(122))[0];
            assert!(standing.held == 0 && standing.charged <= standing.cap, "{standing:?}");
        }
    });
}

#[test]
fn nothing_passes_the_limit_of_a_day_while_it_begins() {
    explore(RandomScheduler::new(4_000), || {
        let midnight = NOON + seconds(12 * 3_600);
        let account = [account(Caps { per_day: cap(10), ..Caps::default() })];
        let let_in = Arc::new(Mutex::new(0));
        let work = |ms: u64| {
            let (account, let_in) = (account.clone(), let_in.clone());
            let work = move || {
                let now = Millis(midnight.0 + ms);
                if let Ok(call) = reserve(&account, usd(6), now) {
                    call.settle(usd(6), now);
                    *let_in.lock().unwrap() += 1;
                }
            };
            Box::new(work) as Box<dyn FnOnce() + Send>
        };
        at_once(vec![work(0), work(0), work(1)]);
        assert_eq!(*let_in.lock().unwrap(), 1);
        let standing = account[0].standings(midnight)[0];
        assert_eq!((standing.charged, standing.held), (6, 0));
    });
}

/// One thread's calls, whose agents report in the end what they have spent: that is charged as far as there is room.
fn reporting(
    accounts: [Arc<Account>; 2],
    truth: Arc<Truth>,
    most: u64,
    script: [(u64, u64, u64); 2],
) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        for (after_ms, asked, spent) in script {
            let now = Millis(NOON.0 + after_ms);
            truth.is_now(now);
            let Ok(mut call) = reserve(&accounts, usd(asked), now) else { continue };
            truth.held(asked, most);
            let more = call.extend_partly(usd(spent.saturating_sub(asked)), now).micro_usd;
            truth.held(more, most);
            let charged = spent.min(asked + more);
            truth.not_held(asked + more);
            call.settle(usd(charged), now);
            truth.charged(now, charged);
        }
    })
}

#[test]
fn what_is_reported_above_what_was_held_never_passes_a_limit_of_any_account() {
    explore(RandomScheduler::new(2_000), || {
        let truth = Arc::new(Truth::default());
        let accounts = [account(per_minute(20)), account(per_minute(12))];
        let thread = |script| reporting(accounts.clone(), truth.clone(), 12, script);
        at_once(vec![
            thread([(59_000, 2, 9), (61_001, 1, 30)]),
            thread([(60_000, 3, 3), (61_000, 4, 20)]),
            thread([(60_500, 1, 12), (122_500, 5, 40)]),
        ]);
        for account in &accounts {
            let standing = account.standings(NOON + seconds(123))[0];
            assert!(standing.held == 0 && standing.charged <= standing.cap, "{standing:?}");
        }
    });
}

/// Reserves one, comes to much more, and says what of that was charged.
fn comes_to_more(accounts: &[Arc<Account>; 2], spent: u64) -> u64 {
    let Ok(mut call) = reserve(accounts, usd(1), NOON) else { return 0 };
    let charged = spent.min(1 + call.extend_partly(usd(spent - 1), NOON).micro_usd);
    call.settle(usd(charged), NOON);
    charged
}

#[test]
fn of_two_reports_at_once_each_account_is_charged_the_same_and_the_room_is_not_lost() {
    explore(RandomScheduler::new(3_000), || {
        let (shared, own) = (life(10), [life(6), life(6)]);
        let accounts = own.clone().map(|own| [shared.clone(), own]);
        let [one, other] = accounts.map(|accounts| thread::spawn(move || comes_to_more(&accounts, 8)));
        let charged = [one.join().unwrap(), other.join().unwrap()];
        let booked = |account: &Account| {
            let standing = account.standings(NOON)[0];
            assert_eq!(standing.held, 0);
            standing.charged
        };
        assert_eq!(own.each_ref().map(|own| booked(own)), charged);
        assert_eq!(booked(&shared), charged[0] + charged[1]);
        assert_eq!(charged[0] + charged[1], 10, "all of it is spent, whoever came first");
    });
}

#[test]
fn a_report_and_a_call_that_wants_room_leave_nothing_behind() {
    explore(DfsScheduler::new(Some(4_000), false), || {
        let accounts = [life(10), life(4)];
        let reports = accounts.clone();
        let report = thread::spawn(move || comes_to_more(&reports, 9));
        let other = reserve([accounts[0].clone()], usd(6), NOON).map(|call| call.amount().micro_usd);
        let charged = report.join().unwrap();
        assert!(charged + other.unwrap_or(0) <= 10);
        assert!(charged <= 4, "its own account has no more");
        assert_eq!(accounts.each_ref().map(|account| account.standings(NOON)[0].charged), [charged; 2]);
    });
}

/// Begins whatever periods it is time for.
fn looks(account: &Arc<Account>, now: Millis) -> Box<dyn FnOnce() + Send> {
    let account = [account.clone()];
    Box::new(move || drop(reserve(&account, usd(1), now)))
}

#[test]
fn a_day_that_several_begin_at_once_has_room_for_all_of_its_limit() {
    explore(RandomScheduler::new(4_000), || {
        let midnight = NOON + seconds(12 * 3_600);
        let account = account(Caps { per_day: cap(10), ..Caps::default() });
        reserve([account.clone()], usd(10), NOON).unwrap().settle(usd(10), NOON);
        at_once(vec![looks(&account, midnight), looks(&account, midnight), looks(&account, midnight)]);
        assert!(reserve([account], usd(10), midnight).is_ok());
    });
}

#[test]
fn what_is_added_or_forgotten_while_a_day_begins_is_there_at_once() {
    explore(RandomScheduler::new(4_000), || {
        let midnight = NOON + seconds(12 * 3_600);
        let account = account(Caps { per_day: cap(10), ..Caps::default() });
        let beginning = thread::spawn(looks(&account, midnight));
        assert!(account.top_up(Window::Day, usd(5), midnight));
        let all = reserve([account.clone()], usd(14), midnight).expect("one may be held by the other");
        all.settle(usd(14), midnight);
        account.reset(midnight);
        assert!(reserve([account], usd(14), midnight).is_ok());
        beginning.join().unwrap();
    });
}

#[test]
fn lower_limits_hold_from_when_they_are_in_force() {
    explore(RandomScheduler::new(4_000), || {
        let ledger = super::ledger(20, 100, Overflow::default());
        let account = ledger.account(&Scope::Global, NOON).unwrap();
        let others = [NOON, NOON + seconds(1)].map(|now| thread::spawn(looks(&account, now)));
        for most in [10, 5] {
            super::amend(&ledger, Limits { global: per_minute(most), ..Limits::default() }).unwrap();
            assert!(reserve([account.clone()], usd(most + 1), NOON + seconds(1)).is_err());
        }
        for other in others {
            other.join().unwrap();
        }
        assert!(reserve([account.clone()], usd(6), NOON + seconds(1)).is_err());
        assert!(reserve([account], usd(5), NOON + seconds(1)).is_ok());
    });
}

/// What is written down of calls: what each holds, and what it was charged.
type Journal = Arc<Mutex<HashMap<u64, (u64, Option<u64>)>>>;

/// Calls one after the other, each written down as begun once it is held, and as settled before that is booked.
fn journaled(
    account: Arc<Account>,
    journal: Journal,
    script: [(u64, u64, u64); 2],
) -> Box<dyn FnOnce() + Send> {
    let write = move |call: u64, held: u64, charged: Option<u64>| {
        journal.lock().unwrap().insert(call, (held, charged));
    };
    Box::new(move || {
        for (name, asked, charged) in script {
            let Ok(call) = reserve([account.clone()], usd(asked), NOON) else { continue };
            write(name, asked, None);
            thread::yield_now();
            write(name, asked, Some(charged));
            call.settle(usd(charged), NOON);
        }
    })
}

#[test]
fn a_crash_at_any_moment_leaves_a_journal_that_is_within_the_limit() {
    explore(RandomScheduler::new(3_000), || {
        let (account, journal) = (life(12), Journal::default());
        let thread = |script| journaled(account.clone(), journal.clone(), script);
        let crash = journal.clone();
        let dies = move || {
            let again = life(12);
            let found: Vec<_> = crash.lock().unwrap().values().copied().collect();
            let calls = found.iter().map(|(held, charged)| match charged {
                Some(charged) => {
                    charge(std::slice::from_ref(&again), usd(*charged), NOON);
                    None
                }
                None => Some(Reservation::force([again.clone()], usd(*held), NOON)),
            });
            let calls: Vec<_> = calls.collect();
            let standing = again.standings(NOON)[0];
            assert!(standing.held + standing.charged <= 12, "{found:?}");
            drop(calls);
        };
        at_once(vec![
            thread([(1, 5, 5), (2, 4, 3)]),
            thread([(3, 6, 2), (4, 6, 6)]),
            thread([(5, 3, 0), (6, 7, 4)]),
            Box::new(dies),
        ]);
    });
}

/// Takes from all calls together, is refused by its own limit, and gives back.
fn is_refused(ledger: &Ledger) {
    let accounts = [ledger.account(&Scope::Global, NOON).unwrap(), account(per_minute(1))];
    assert!(reserve(accounts, usd(5), NOON).is_err());
}

fn is_let_in(ticket: Ticket) -> bool {
    let mut ticket = pin!(ticket);
    let polled = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Ok(_)))
}

fn one_who_waits() -> (Arc<Ledger>, Reservation) {
    let overflow = Overflow::Queue { max_depth: 4, max_wait: seconds(30) };
    let ledger = Arc::new(super::ledger(10, 100, overflow));
    let held = reserve(super::accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    (ledger, held)
}

fn bob(ledger: &Ledger) -> Admission {
    ledger
        .admit(&ledger.edition(), &Arc::from("bob"), super::accounts(ledger, "bob"), usd(10), None, NOON)
        .unwrap()
}

#[test]
fn who_begins_to_wait_while_room_is_made_is_let_in() {
    explore(RandomScheduler::new(800), || {
        let (ledger, held) = one_who_waits();
        let waits = ledger.clone();
        let asks = thread::spawn(move || bob(&waits));
        drop(held);
        match asks.join().unwrap() {
            Admission::Reserved(call) => assert_eq!(call.amount(), usd(10)),
            Admission::Waiting(ticket) => assert!(is_let_in(ticket), "left waiting beside an empty account"),
        }
        assert_eq!(ledger.waiting(), 0);
    });
}

#[test]
fn who_waits_is_let_in_though_another_was_in_the_way_for_a_moment() {
    explore(RandomScheduler::new(3_000), || {
        let (ledger, held) = one_who_waits();
        let Admission::Waiting(ticket) = bob(&ledger) else { panic!("there is no room") };
        let in_the_way = thread::spawn(move || is_refused(&ledger));
        drop(held);
        in_the_way.join().unwrap();
        assert!(is_let_in(ticket), "left waiting beside an empty account");
    });
}
