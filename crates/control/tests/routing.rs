//! Pools as an application uses them: who is chosen, who is out, what is remembered and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

use std::sync::{Arc, Barrier};
use std::time::Duration;

use chancery_control::Millis;
use chancery_control::routing::{
    Binding, CapabilityMatch, Chained, CheapestUnderLatency, Fallback, LowestLatency, NO_PEER_AVAILABLE,
    NO_PEER_FITS, PEER_UNAVAILABLE, Peer, PeerSelector, Pool, PoolSettings, PowerOfTwoChoices, RoundRobin,
    StickySettings, TASK_PEER_GONE, TOO_MANY_OPEN_TASKS, Ticket, Wanted, Why,
};
use chancery_protocol::{ContextId, Denied, DeniedKind, Principal, TaskId};

fn me() -> Principal {
    Principal::anonymous()
}

fn pool_of(peers: &[&str], selector: impl PeerSelector + 'static) -> Pool {
    let settings = PoolSettings { selector: Arc::new(selector), ..PoolSettings::default() };
    Pool::try_new("p", peers.iter().map(|name| Peer::new(*name)), settings).unwrap()
}

fn route(pool: &Pool, now: u64) -> Result<Ticket, Denied> {
    pool.route(&Wanted::by(&me()), Millis(now)).map(|route| route.ticket.expect("a peer"))
}

/// Has a peer answer once, after so many milliseconds.
fn measure(pool: &Pool, peer: &str, ms: u64) {
    let ticket = pool.begin(peer, Millis(0)).unwrap();
    ticket.succeeded(Millis(ms));
}

fn take_out(pool: &Pool, peer: &str, now: u64) {
    for _ in 0..5 {
        pool.begin(peer, Millis(now)).unwrap().transport_failure(Millis(now));
    }
}

fn bind(pool: &Pool, task: &str, context: &str, peer: &str) {
    let (task, context) = (task.into(), Some(context.into()));
    pool.bind(Binding { principal: me(), task, context, peer: peer.into() });
}

fn route_on(pool: &Pool, task: &str, context: &str, now: u64) -> Result<(Arc<str>, Why), Denied> {
    let (task, context, me) = (TaskId::from(task), ContextId::from(context), me());
    let wanted = Wanted { task: Some(&task), context: Some(&context), ..Wanted::by(&me) };
    let route = pool.route(&wanted, Millis(now))?;
    Ok((route.decision.peer.expect("a peer"), route.decision.why))
}

#[test]
fn the_fastest_is_chosen_once_all_have_been_tried() {
    let pool = pool_of(&["slow", "fast", "middle"], LowestLatency);
    let tried: Vec<_> = (0..3).map(|_| route(&pool, 0).unwrap()).collect();
    let names: Vec<_> = tried.iter().map(|ticket| &**ticket.peer()).collect();
    assert_eq!(names, ["slow", "fast", "middle"]);
    for (ticket, ms) in tried.iter().zip([300, 20, 100]) {
        ticket.first_event(Millis(ms));
    }
    let wanted = pool.route(&Wanted::by(&me()), Millis(300)).unwrap();
    assert_eq!(wanted.decision.peer.as_deref(), Some("fast"));
    assert_eq!(wanted.decision.to_string(), "fast of pool p: the fastest");
    assert_eq!(wanted.decision.considered.len(), 3);
}

#[test]
fn the_cheapest_that_is_fast_enough_is_chosen_and_else_the_fastest() {
    let chain = Chained::new(
        Arc::new(CheapestUnderLatency { budget: Duration::from_millis(2000) }),
        Arc::new(LowestLatency),
    );
    let settings = PoolSettings { selector: Arc::new(chain), ..PoolSettings::default() };
    let prices = [("cheap", 10), ("fair", 50), ("dear", 900)];
    let peers = prices.map(|(name, price)| Peer::new(name).price_micro_usd(price));
    let pool = Pool::try_new("p", peers, settings).unwrap();
    for (peer, ms) in [("cheap", 5000), ("fair", 500), ("dear", 100)] {
        measure(&pool, peer, ms);
    }
    assert_eq!(&**route(&pool, 5000).unwrap().peer(), "fair");
    for _ in 0..20 {
        for peer in ["fair", "dear"] {
            measure(&pool, peer, 4000);
        }
    }
    let late = pool.route(&Wanted::by(&me()), Millis(6000)).unwrap().decision;
    assert_eq!(late.peer.as_deref(), Some("dear"));
    assert_eq!(late.reason, "nobody answers within 2000 ms; lowest_latency: the fastest");
}

#[test]
fn what_a_call_has_cost_counts_for_more_than_what_was_declared() {
    let settings = PoolSettings {
        selector: Arc::new(CheapestUnderLatency { budget: Duration::from_secs(1) }),
        ..PoolSettings::default()
    };
    let peers = [Peer::new("a").price_micro_usd(10), Peer::new("b").price_micro_usd(20)];
    let pool = Pool::try_new("p", peers, settings).unwrap();
    measure(&pool, "a", 1);
    measure(&pool, "b", 1);
    assert_eq!(&**route(&pool, 1).unwrap().peer(), "a");
    pool.begin("a", Millis(1)).unwrap().cost(500);
    assert_eq!(&**route(&pool, 1).unwrap().peer(), "b");
}

#[test]
fn only_who_declares_the_skill_gets_the_call() {
    let settings = PoolSettings { selector: Arc::new(CapabilityMatch), ..PoolSettings::default() };
    let peers = [Peer::new("a").skill("sum"), Peer::new("b").skill("sum").skill("draw")];
    let pool = Pool::try_new("p", peers, settings).unwrap();
    let me = me();
    let wanting = |skill| pool.route(&Wanted { skill: Some(skill), ..Wanted::by(&me) }, Millis(0));
    for _ in 0..3 {
        assert_eq!(wanting("draw").unwrap().decision.peer.as_deref(), Some("b"));
    }
    let refused = wanting("sing").unwrap_err();
    assert_eq!(refused.reason, NO_PEER_FITS);
    assert_eq!(refused.observed.as_deref(), Some("nobody declares the skill `sing`"));
}

#[test]
fn two_choices_keep_the_load_even() {
    let names: Vec<_> = (0..10).map(|at| format!("peer-{at}")).collect();
    let pool = pool_of(&names.iter().map(String::as_str).collect::<Vec<_>>(), PowerOfTwoChoices { seed: 7 });
    names.iter().for_each(|name| measure(&pool, name, 10));
    let open: Vec<_> = (0..1000).map(|_| route(&pool, 10).unwrap()).collect();
    let load: Vec<_> = pool.members(Millis(10)).iter().map(|one| one.open).collect();
    assert!(load.iter().all(|open| (90..=110).contains(open)), "{load:?}");
    drop(open);
    assert!(pool.members(Millis(10)).iter().all(|one| one.open == 0));
}

#[test]
fn a_pool_that_is_all_out_says_when_to_come_back() {
    let pool = pool_of(&["a", "b"], RoundRobin::default());
    take_out(&pool, "a", 0);
    take_out(&pool, "b", 4000);
    let refused = route(&pool, 5000).unwrap_err();
    assert_eq!((refused.gate.as_ref(), refused.reason.as_ref()), ("routing", NO_PEER_AVAILABLE));
    assert_eq!(refused.kind, DeniedKind::Unavailable);
    assert_eq!(refused.retry_after, Some(Duration::from_secs(5)));
    assert_eq!(refused.observed.as_deref(), Some("2 of 2 peers are out"));
    let trial = route(&pool, 10_000).unwrap();
    assert_eq!(&**trial.peer(), "a");
    let meanwhile = route(&pool, 10_000).unwrap_err();
    assert_eq!(meanwhile.retry_after, Some(Duration::from_secs(1)));
    trial.succeeded(Millis(10_100));
    assert_eq!(&**route(&pool, 10_100).unwrap().peer(), "a");
    let empty = pool_of(&[], RoundRobin::default());
    assert_eq!(route(&empty, 0).unwrap_err().retry_after, None);
}

#[test]
fn a_trial_that_comes_to_nothing_makes_room_for_the_next() {
    let pool = pool_of(&["a"], RoundRobin::default());
    take_out(&pool, "a", 0);
    drop(route(&pool, 10_000).unwrap());
    let second = route(&pool, 10_000).unwrap();
    second.transport_failure(Millis(10_050));
    assert_eq!(route(&pool, 20_049).unwrap_err().retry_after, Some(Duration::from_millis(1)));
    assert!(route(&pool, 20_050).is_ok());
}

#[test]
fn of_many_at_once_only_one_tries_a_peer_that_was_out() {
    let pool = pool_of(&["a"], RoundRobin::default());
    for round in 1..=50u64 {
        take_out(&pool, "a", 0);
        let (now, barrier) = (Millis(10_000), Barrier::new(4));
        let tickets: Vec<_> = std::thread::scope(|scope| {
            let one = || {
                barrier.wait();
                pool.route(&Wanted::by(&me()), now).ok()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(tickets.len(), 1, "round {round}");
        tickets[0].ticket.as_ref().unwrap().succeeded(now);
    }
}

#[test]
fn without_anybody_a_call_is_served_here_if_the_operator_says_so() {
    let settings = PoolSettings { fallback: Fallback::Local, ..PoolSettings::default() };
    let pool = Pool::try_new("p", [Peer::new("a")], settings).unwrap();
    bind(&pool, "t", "c", "a");
    take_out(&pool, "a", 0);
    let route = pool.route(&Wanted::by(&me()), Millis(1)).unwrap();
    assert!(route.ticket.is_none() && route.decision.peer.is_none());
    assert_eq!(route.decision.reason, "1 of 1 peers are out, so it is served here");
    // What has begun there is not begun here again.
    assert_eq!(route_on(&pool, "t", "c", 1).unwrap_err().reason, PEER_UNAVAILABLE);
    assert_eq!(route_on(&pool, "", "c", 1).unwrap_err().reason, PEER_UNAVAILABLE);
}

#[test]
fn a_task_stays_where_it_is_and_its_conversation_too() {
    let pool = pool_of(&["a", "b"], RoundRobin::default());
    bind(&pool, "t", "c", "b");
    for _ in 0..5 {
        assert_eq!(route_on(&pool, "t", "", 0).unwrap(), ("b".into(), Why::Task));
        assert_eq!(route_on(&pool, "", "c", 0).unwrap(), ("b".into(), Why::Context));
    }
    pool.release(&me(), &"t".into());
    assert_eq!(route_on(&pool, "t", "c", 0).unwrap(), ("b".into(), Why::Context));
    pool.replace([Peer::new("a")], PoolSettings::default()).unwrap();
    assert!(matches!(route_on(&pool, "", "c", 0).unwrap(), (peer, Why::Selector(_)) if &*peer == "a"));
    bind(&pool, "u", "d", "b");
    assert_eq!(route_on(&pool, "u", "d", 0).unwrap_err().reason, TASK_PEER_GONE);
}

#[test]
fn what_was_learnt_stays_with_the_peers_that_stay() {
    let pool = pool_of(&["a", "b"], LowestLatency);
    measure(&pool, "a", 100);
    let open = pool.begin("a", Millis(100)).unwrap();
    pool.replace([Peer::new("c"), Peer::new("a").price_micro_usd(3)], PoolSettings::default()).unwrap();
    let seen = pool.members(Millis(100));
    let a = seen.iter().find(|one| one.name() == "a").unwrap();
    assert_eq!((a.latency, a.open), (Some(Duration::from_millis(100)), 1));
    assert_eq!(a.likely_cost_micro_usd, Some(3));
    assert!(pool.begin("b", Millis(100)).is_err());
    drop(open);
    assert!(pool.members(Millis(100)).iter().all(|one| one.open == 0));
    let twice = pool.replace([Peer::new("x"), Peer::new("x")], PoolSettings::default()).unwrap_err();
    assert_eq!(twice.to_string(), "pool `p` has two peers of the name `x`");
    assert_eq!(pool.members(Millis(100)).len(), 2);
}

#[test]
fn when_too_many_tasks_are_open_no_new_one_is_let_in() {
    let sticky = StickySettings { open_tasks: 2, ..StickySettings::default() };
    let settings = PoolSettings { sticky, ..PoolSettings::default() };
    let pool = Pool::try_new("p", [Peer::new("a")], settings).unwrap();
    bind(&pool, "t", "c", "a");
    bind(&pool, "u", "c", "a");
    let refused = route(&pool, 0).unwrap_err();
    assert_eq!((refused.reason.as_ref(), refused.kind), (TOO_MANY_OPEN_TASKS, DeniedKind::Exhausted));
    assert!(route_on(&pool, "t", "", 0).is_ok());
    pool.release(&me(), &"t".into());
    assert!(route(&pool, 0).is_ok());
}
