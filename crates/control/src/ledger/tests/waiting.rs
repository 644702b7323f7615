//! Who waits for room, for how long, and who is next.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use chancery_protocol::Denied;

use super::super::*;
use super::*;

const QUEUE: Overflow = Overflow::Queue { max_depth: 4, max_wait: Duration::from_secs(30) };

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(ticket: &mut Ticket, waker: &Waker) -> Poll<Result<Reservation, Refusal>> {
    Pin::new(ticket).poll(&mut Context::from_waker(waker))
}

fn wait_by(ledger: &Ledger, id: &str, amount: Amount, deadline: Option<Millis>) -> Ticket {
    match ledger
        .admit(&ledger.edition(), &Arc::from(id), accounts(ledger, id), amount, deadline, NOON)
        .unwrap()
    {
        Admission::Waiting(ticket) => ticket,
        Admission::Reserved(_) => panic!("{id} does not have to wait"),
    }
}

fn wait(ledger: &Ledger, id: &str, amount: Amount) -> Ticket {
    wait_by(ledger, id, amount, None)
}

fn let_in(ticket: &mut Ticket) -> Option<Reservation> {
    match poll(ticket, Waker::noop()) {
        Poll::Ready(Ok(reservation)) => Some(reservation),
        Poll::Ready(Err(refusal)) => panic!("{refusal:?}"),
        Poll::Pending => None,
    }
}

#[test]
fn nobody_waits_where_calls_are_shed() {
    let ledger = ledger(10, 10, Overflow::Shed);
    let held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let refused =
        ledger.admit(&ledger.edition(), &Arc::from("bob"), accounts(&ledger, "bob"), usd(1), None, NOON);
    assert!(matches!(refused, Err(Refusal::Short(_))));
    held.release(NOON);
    let admitted =
        ledger.admit(&ledger.edition(), &Arc::from("bob"), accounts(&ledger, "bob"), usd(1), None, NOON);
    assert!(matches!(admitted, Ok(Admission::Reserved(_))));
}

#[test]
fn who_settles_wakes_who_waits() {
    let ledger = ledger(10, 10, QUEUE);
    let held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let mut ticket = wait(&ledger, "bob", usd(4));
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut ticket, &Waker::from(woken.clone())).is_pending());
    held.settle(usd(6), NOON);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(let_in(&mut ticket).unwrap().amount(), usd(4));
    assert_eq!(ledger.waiting(), 0);
}

#[test]
fn what_is_dropped_makes_room_as_well() {
    let ledger = ledger(10, 10, QUEUE);
    let held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let mut ticket = wait(&ledger, "bob", usd(10));
    drop(held);
    assert!(let_in(&mut ticket).is_some());
}

#[test]
fn callers_take_turns_however_many_calls_each_has() {
    let ledger = ledger(10, 100, Overflow::Queue { max_depth: 10, max_wait: seconds(30) });
    let mut held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let order = ["ann", "ann", "ann", "bob", "cid"];
    let mut tickets = order.map(|id| (id, wait(&ledger, id, usd(10))));
    let mut served = Vec::new();
    for _ in order {
        held.release(NOON);
        let next = tickets.iter_mut().enumerate().find_map(|(place, (id, ticket))| {
            (!served.contains(&(*id, place))).then(|| let_in(ticket).map(|call| (*id, place, call))).flatten()
        });
        let (id, place, call) = next.expect("somebody is let in");
        served.push((id, place));
        held = call;
    }
    assert_eq!(served, [("ann", 0), ("bob", 3), ("cid", 4), ("ann", 1), ("ann", 2)]);
}

#[test]
fn a_large_call_is_not_starved_and_other_accounts_are_not_held_up() {
    let ledger = ledger(100, 10, QUEUE);
    let of_ann = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let _of_bob = reserve(accounts(&ledger, "bob"), usd(5), NOON).unwrap();
    let mut large = wait(&ledger, "ann", usd(10));
    // Bob waits behind nobody who waits for the same.
    let small =
        ledger.admit(&ledger.edition(), &Arc::from("bob"), accounts(&ledger, "bob"), usd(1), None, NOON);
    assert!(matches!(small, Ok(Admission::Reserved(_))));
    // There would be room for this one, but ann's large call came first.
    of_ann.settle(usd(5), NOON);
    let mut later = wait(&ledger, "ann", usd(1));
    assert!(let_in(&mut large).is_none() && let_in(&mut later).is_none());
    drop(large);
    assert!(let_in(&mut later).is_some());
}

#[test]
fn calls_of_one_caller_that_wait_at_one_agent_hold_up_none_to_another() {
    let mut limits = Limits { global: per_minute(100), overflow: QUEUE, ..Limits::default() };
    limits.agent.default = per_minute(5);
    let ledger = Ledger::new(limits);
    let ask = |agent: &str, amount| {
        let agent = Scope::Agent(Arc::from(agent));
        let accounts =
            [Scope::Global, agent].iter().filter_map(|scope| ledger.account(scope, NOON)).collect();
        ledger.admit(&ledger.edition(), &Arc::from("ann"), accounts, usd(amount), None, NOON).unwrap()
    };
    let Admission::Reserved(busy) = ask("busy", 5) else { panic!("there is room") };
    let (Admission::Waiting(mut first), Admission::Waiting(mut second)) = (ask("busy", 5), ask("busy", 1))
    else {
        panic!("there is no room")
    };
    let Admission::Reserved(_free) = ask("free", 5) else { panic!("nobody waits for this agent") };
    // Those that wait at one agent keep their order.
    busy.settle(usd(3), NOON);
    assert!(let_in(&mut first).is_none() && let_in(&mut second).is_none());
    drop(first);
    assert!(let_in(&mut second).is_some());
}

#[test]
fn the_queue_has_an_end() {
    let ledger = ledger(10, 10, QUEUE);
    let _held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let tickets: Vec<_> = (0..4).map(|_| wait(&ledger, "bob", usd(1))).collect();
    let refused = ledger
        .admit(&ledger.edition(), &Arc::from("cid"), accounts(&ledger, "cid"), usd(1), None, NOON)
        .unwrap_err();
    let denied = Denied::from(refused);
    assert_eq!(denied.reason, BUDGET_QUEUE_FULL);
    drop(tickets);
    assert_eq!(ledger.waiting(), 0);
}

#[test]
fn a_wait_ends_at_the_callers_deadline_or_at_the_longest_wait() {
    let ledger = ledger(10, 10, QUEUE);
    let _held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let mut soon = wait_by(&ledger, "bob", usd(1), Some(NOON + seconds(5)));
    let mut late = wait_by(&ledger, "cid", usd(1), Some(NOON + seconds(300)));
    assert_eq!(ledger.next_wakeup(NOON), Some(NOON + seconds(5)));
    ledger.poll_queue(NOON + seconds(5));
    let Poll::Ready(Err(refusal)) = poll(&mut soon, Waker::noop()) else { panic!("it still waits") };
    let Refusal::Expired { waited, .. } = &refusal else { panic!("{refusal:?}") };
    assert_eq!(*waited, seconds(5));
    assert_eq!(Denied::from(refusal).reason, BUDGET_WAIT_EXPIRED);
    assert_eq!(ledger.next_wakeup(NOON + seconds(5)), Some(NOON + seconds(30)));
    ledger.poll_queue(NOON + seconds(30));
    assert!(matches!(poll(&mut late, Waker::noop()), Poll::Ready(Err(Refusal::Expired { .. }))));
    assert_eq!(ledger.next_wakeup(NOON + seconds(30)), None);
}

#[test]
fn time_alone_makes_room_and_says_when() {
    let ledger = ledger(10, 10, Overflow::Queue { max_depth: 4, max_wait: seconds(100) });
    reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap().settle(usd(10), NOON);
    let mut ticket = wait(&ledger, "bob", usd(4));
    assert_eq!(ledger.next_wakeup(NOON), Some(NOON + seconds(61)));
    ledger.poll_queue(NOON + seconds(60));
    assert!(let_in(&mut ticket).is_none());
    ledger.poll_queue(NOON + seconds(61));
    assert!(let_in(&mut ticket).is_some());
}

#[test]
fn what_can_never_fit_does_not_wait() {
    let ledger = ledger(100, 10, QUEUE);
    let too_much =
        || ledger.admit(&ledger.edition(), &Arc::from("bob"), accounts(&ledger, "bob"), usd(11), None, NOON);
    assert!(matches!(too_much(), Err(Refusal::Short(_))));
    let _held = reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap();
    let _ticket = wait(&ledger, "ann", usd(1));
    assert!(matches!(too_much(), Err(Refusal::Short(_))));
}

#[test]
fn a_top_up_and_a_reset_let_in_who_waits() {
    let ledger = ledger(10, 100, QUEUE);
    reserve(accounts(&ledger, "ann"), usd(10), NOON).unwrap().settle(usd(10), NOON);
    let mut first = wait(&ledger, "bob", usd(10));
    let mut second = wait(&ledger, "cid", usd(10));
    let global = ledger.account(&Scope::Global, NOON).unwrap();
    global.top_up(Window::Minute, usd(10), NOON);
    let kept = let_in(&mut first).unwrap();
    assert!(let_in(&mut second).is_none());
    global.reset(NOON);
    assert!(let_in(&mut second).is_some());
    drop(kept);
}
