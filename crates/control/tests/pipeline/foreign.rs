//! What a call of another gateway may cost here: as much as that one holds for it, however often its token comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chancery_control::Plane;
use chancery_control::ledger::Cap;
use chancery_control::lineage::{Federation, OwnKey};
use chancery_protocol::signing::{AgentId, AgentKey};
use chancery_protocol::{Call, CallOutcome, Hold, TaskId, TaskState};

use crate::world::*;

const PRICE: u64 = 100;
/// What the other gateway holds for its call.
const HELD: u64 = 350;

/// One of two gateways that list each other.
fn federation(seed: u8, other: u8) -> Option<Arc<Federation>> {
    let key = |seed| AgentKey::from_seed(&[seed; 32]);
    let listed = [(key(other).id(), Arc::from(format!("gateway-{other}")))];
    let agents: [(Arc<str>, AgentId); 0] = [];
    Some(Arc::new(Federation::new(OwnKey::new(key(seed), []), listed, agents)))
}

/// A call that the other gateway holds so much for.
fn away(world: &Arc<World>) -> Arc<dyn Hold> {
    let setup = Setup {
        usd_per_minute: Some(1_000_000),
        price: Some(HELD),
        federation: federation(1, 2),
        ..Setup::default()
    };
    let worker = working();
    begun(&pipeline(&plane(&setup, world), "worker", worker.clone()), &worker, call("alice"), "t-away")
}

fn here() -> Setup {
    Setup { price: Some(PRICE), planner_price: Some(PRICE), federation: federation(2, 1), ..Setup::default() }
}

fn with(token: &dyn Hold) -> Call {
    let mut from_there = call("gateway-1");
    from_there.context.lineage = token.lineage().map(str::to_owned);
    from_there
}

/// How many of so many calls are let through, and are over at once.
fn let_through(plane: &Arc<Plane>, token: &dyn Hold, tries: usize) -> usize {
    let worker = pipeline(plane, "worker", Arc::new(Worker::default()));
    let outcomes: Vec<_> = (0..tries).map(|_| run(&worker, with(token))).collect();
    let refused = outcomes.iter().filter_map(reason);
    assert!(refused.into_iter().all(|reason| reason == "BUDGET_EXCEEDED"));
    outcomes.iter().filter(|outcome| outcome.is_ok()).count()
}

#[test]
fn a_token_that_comes_again_and_again_is_good_for_what_it_says_once() {
    let world = Arc::new(World::default());
    let token = away(&world);
    let plane = plane(&here(), &world);
    assert_eq!(let_through(&plane, &*token, 10), 3);
    // By and by nobody has the account in memory any more.
    for _ in 0..3 {
        world.now.fetch_add(20_000, Ordering::Relaxed);
        assert_eq!(let_through(&plane, &*away(&world), 10), 3, "another call there has its own");
    }
    assert_eq!(let_through(&plane, &*token, 10), 0);
    let worker = pipeline(&plane, "worker", Arc::new(Worker::default()));
    assert!(run(&worker, call("gateway-1")).is_ok(), "without it, it is the caller's own business");
}

#[test]
fn what_its_calls_lead_to_is_paid_from_it_as_well() {
    let world = Arc::new(World::default());
    let token = away(&world);
    let plane = plane(&here(), &world);
    let planning = working();
    let planner = pipeline(&plane, "planner", planning.clone());
    let hold = begun(&planner, &planning, with(&*token), "t-1");
    let worker = pipeline(&plane, "worker", Arc::new(Worker::default()));
    let mut let_through = 0;
    for _ in 0..10 {
        let_through += usize::from(run(&worker, on_behalf_of("planner", &*hold)).is_ok());
        let_through += usize::from(run(&worker, with(&*token)).is_ok());
    }
    assert_eq!(let_through, 2);
}

#[test]
fn what_a_token_limits_needs_a_price() {
    let world = Arc::new(World::default());
    let token = away(&world);
    let plane = plane(&Setup { price: None, ..here() }, &world);
    let worker = pipeline(&plane, "worker", Arc::new(Worker::default()));
    assert_eq!(reason(&run(&worker, with(&*token))).as_deref(), Some("COST_UNKNOWN"));
    assert!(run(&worker, call("gateway-1")).is_ok(), "nothing is limited here");
    let planning = working();
    let planner = pipeline(&plane, "planner", planning.clone());
    let hold = begun(&planner, &planning, with(&*token), "t-1");
    let below = run(&worker, on_behalf_of("planner", &*hold));
    assert_eq!(reason(&below).as_deref(), Some("COST_UNKNOWN"));
}

#[test]
fn a_lower_limit_of_a_root_here_holds_for_all_of_it_too() {
    let world = Arc::new(World::default());
    let token = away(&world);
    let root_cap = Cap { micro_usd: Some(2 * PRICE), ..Cap::default() };
    let plane = plane(&Setup { root_cap, ..here() }, &world);
    assert_eq!(let_through(&plane, &*token, 10), 2);
}

#[test]
fn a_restart_lifts_nothing() {
    let world = Arc::new(World::default());
    let token = away(&world);
    let setup = here();
    let before = plane(&setup, &world);
    let planning = working();
    let planner = pipeline(&before, "planner", planning.clone());
    let hold = begun(&planner, &planning, with(&*token), "t-1");
    assert_eq!(let_through(&before, &*token, 1), 1);
    let mut open = before.open_call(hold.hop()).expect("it is open");
    open.task = Some(TaskId::from("t-1"));
    let ended = world.records.lock().clone();
    let lineage = hold.lineage().map(str::to_owned);

    // The call that is open goes on in the next process, with a token that is as good.
    let edges = [vec![open], ended].concat();
    let after = plane(&Setup { edges: edges.clone(), ..setup.clone() }, &world);
    let restored = after.restore(&edges);
    assert_eq!(restored.len(), 1);
    assert!(restored[0].hold.lineage().is_some_and(|token| !token.is_empty()));
    let worker = pipeline(&after, "worker", Arc::new(Worker::default()));
    let on_behalf = |token: Option<String>| {
        let mut call = on_behalf_of("planner", &*restored[0].hold);
        call.context.lineage = token;
        call
    };
    assert!(run(&worker, on_behalf(lineage)).is_ok());
    assert_eq!(
        reason(&run(&worker, on_behalf(restored[0].hold.lineage().map(str::to_owned)))).as_deref(),
        Some("BUDGET_EXCEEDED")
    );
    assert_eq!(let_through(&after, &*token, 10), 0);
    let task = TaskId::from("t-1");
    let settling = restored[0].hold.settle(&task, CallOutcome::Task(TaskState::Completed), None);
    restored[0].hold.settled(&settling.settled);
    world.records.lock().push(*settling.edge);
    drop(restored);

    // Nothing is open when the one after that begins.
    let last = plane(&setup, &world);
    assert_eq!(let_through(&last, &*token, 10), 0);
}
