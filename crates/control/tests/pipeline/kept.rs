//! What is kept of a call, and told of it: to who goes on with it after a restart, and to its caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chancery_control::policy::Limits as PolicyLimits;
use chancery_control::routing::{Peer, Pool, PoolSettings};
use chancery_control::{Executor, Governed, Pipeline, RestoredCall, Skills};
use chancery_protocol::{CallOutcome, Edge, Hold, LINEAGE_EXTENSION, TaskId, TaskState, Usage, Whereabouts};

use crate::world::*;

/// The record of a call as a crash would leave it.
fn left(hold: &dyn Hold, task: &str) -> Edge {
    *hold.begin(&TaskId::from(task))
}

#[test]
fn what_a_caller_wants_to_spend_at_most_holds_after_a_restart() {
    let world = Arc::new(World::default());
    let setup = Setup { price: Some(100), planner_price: Some(100), ..Setup::default() };
    let before = plane(&setup, &world);
    let first = working();
    let planner = pipeline(&before, "planner", first.clone());
    let mut outset = call("alice");
    outset.context.ceiling_micro_usd = Some(350);
    let hold = begun(&planner, &first, outset, "t-1");
    let worker = pipeline(&before, "worker", Arc::new(Worker::default()));
    run(&worker, on_behalf_of("planner", &*hold)).expect("there is money for three");
    let edges = vec![left(&*hold, "t-1"), world.records.lock()[0].clone()];
    assert_eq!(edges[0].limits.ceiling_micro_usd, Some(350));

    let after = plane(&Setup { edges: edges.clone(), ..setup }, &world);
    let restored = after.restore(&edges);
    assert_eq!(restored.len(), 1);
    let worker = pipeline(&after, "worker", Arc::new(Worker::default()));
    // The agent has the token that it was given before.
    run(&worker, on_behalf_of("planner", &*hold)).expect("there is money for one more");
    let refused = run(&worker, on_behalf_of("planner", &*hold));
    assert_eq!(reason(&refused).as_deref(), Some("BUDGET_EXCEEDED"));
}

#[test]
fn what_a_call_holds_and_has_used_by_now_is_known_after_a_restart() {
    let setup = Setup { usd_per_minute: Some(1_000_000), price: Some(100), ..Setup::default() };
    let usage = |cost_micro_usd| Usage { cost_micro_usd, ..Usage::default() };
    let restored = |world: &Arc<World>| {
        let edge = world.records.lock().last().expect("it is on record").clone();
        let after = plane(&Setup { edges: vec![edge.clone()], ..setup.clone() }, world);
        (after.restore(&[edge]).remove(0).hold, held(&after, "alice").0)
    };

    // One that runs here asks before it spends.
    let world = Arc::new(World::default());
    let (before, at_work) = (plane(&setup, &world), working());
    let hold = begun(&pipeline(&before, "worker", at_work.clone()), &at_work, call("alice"), "t-1");
    hold.set_aside(usage(5_000)).expect("there is room");
    let (again, is_held) = restored(&world);
    assert_eq!(is_held, 5_000);
    let settled = again.settle(&TaskId::from("t-1"), CallOutcome::Unknown(None), None).settled;
    assert_eq!(settled.charged.micro_usd, 5_000);

    // One elsewhere says what it has spent, and may not say it again.
    let world = Arc::new(World::default());
    let (before, at_work) = (plane(&setup, &world), working());
    let hold = begun(&remote(&before, "worker", at_work.clone()), &at_work, call("alice"), "t-1");
    hold.spend(usage(7_000)).expect("there is room");
    let (again, is_held) = restored(&world);
    assert_eq!(is_held, 7_000);
    let completed = CallOutcome::Task(TaskState::Completed);
    let settled = again.settle(&TaskId::from("t-1"), completed, None).settled;
    assert_eq!(settled.charged.micro_usd, 7_000);
}

#[test]
fn what_policy_allows_a_call_holds_after_a_restart() {
    let world = Arc::new(World::default());
    let policy = PolicyLimits {
        max_duration: Some(Duration::from_millis(500)),
        max_micro_usd: Some(1_000),
        ..PolicyLimits::default()
    };
    let setup = Setup { policy, price: Some(100), ..Setup::default() };
    let before = plane(&setup, &world);
    let first = working();
    let hold = begun(&pipeline(&before, "worker", first.clone()), &first, call("alice"), "t-1");
    let edges = vec![left(&*hold, "t-1")];

    // Another process, by whose configuration nothing is limited.
    let after = plane(&Setup { edges: edges.clone(), ..Setup::default() }, &world);
    let restored = after.restore(&edges);
    let [RestoredCall { hold, .. }] = &restored[..] else { panic!("{restored:?}") };
    hold.spend(Usage { cost_micro_usd: 999, ..Usage::default() }).expect("so much is allowed");
    let denied = hold.spend(Usage { cost_micro_usd: 1_001, ..Usage::default() }).expect_err("it is too much");
    assert_eq!(denied.gate, "policy");
    assert_eq!(world.stops.lock().len(), 1);

    let after = plane(&Setup { edges: edges.clone(), ..Setup::default() }, &world);
    let restored = after.restore(&edges);
    assert_eq!(after.next_tick().map(|at| at.0), Some(500));
    world.now.store(500, Ordering::Relaxed);
    after.tick();
    let stops = world.stops.lock();
    assert!(stops[1].why.as_ref().is_some_and(|why| why.starts_with("PolicyTimeout")), "{stops:?}");
    drop(restored);
}

fn told(hold: &dyn Hold, task: &str) -> Option<Arc<Whereabouts>> {
    hold.settle(&TaskId::from(task), CallOutcome::Task(TaskState::Completed), None).whereabouts
}

#[test]
fn a_caller_is_told_where_its_call_stands() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup::default(), &world);
    let (first, second) = (working(), working());
    let planner = pipeline(&plane, "planner", first.clone());
    let plain = begun(&planner, &first, call("alice"), "t-0");
    assert_eq!(told(&*plain, "t-0"), None, "there is nothing to say");

    let mut curious = call("alice");
    curious.context.extensions.push(LINEAGE_EXTENSION.to_owned());
    let root = begun(&planner, &first, curious, "t-1");
    let of_root = told(&*root, "t-1").expect("it asked for it");
    assert_eq!((of_root.depth, &of_root.parent_task_id), (0, &None));
    assert_eq!(of_root.path.iter().map(|name| &**name).collect::<Vec<_>>(), ["planner"]);

    let writer = pipeline(&plane, "writer", second.clone());
    let child = begun(&writer, &second, on_behalf_of("planner", &*root), "t-2");
    let of_child = told(&*child, "t-2").expect("it is not the root");
    assert_eq!((of_child.depth, &of_child.parent_task_id), (1, &Some(TaskId::from("t-1"))));
    assert_eq!(of_child.path.iter().map(|name| &**name).collect::<Vec<_>>(), ["planner", "writer"]);
    assert_eq!(of_child.trace_id, of_root.trace_id);

    // Without a token it is found out on whose behalf the call is made, and that is not told.
    drop(plain);
    first.calls.lock().remove(0);
    let mut lost = on_behalf_of("planner", &*root);
    lost.context.lineage = None;
    let child = begun(&writer, &second, lost, "t-3");
    let of_child = told(&*child, "t-3").expect("it is not the root");
    assert_eq!((of_child.depth, of_child.path.len()), (1, 1));
}

#[test]
fn a_caller_is_told_who_of_a_pool_answers_and_why() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup::default(), &world);
    let peers =
        ["north", "south"].map(|name| Peer { name: name.into(), price_micro_usd: None, skills: Vec::new() });
    let pool = Pool::try_new("pool", peers, PoolSettings::default()).expect("a pool");
    let worker = working();
    let governed = Governed {
        name: "pool".into(),
        skills: Skills::default(),
        pool: Some(Arc::new(pool)),
        reach: None,
        is_local: false,
    };
    let pipeline = Pipeline::new(plane, Arc::new(governed), Executor::Remote(worker.clone()));
    let hold = begun(&pipeline, &worker, call("alice"), "t-1");
    let choice = told(&*hold, "t-1").and_then(|told| told.routing.clone()).expect("a choice was made");
    assert!(["north", "south"].contains(&choice.peer.as_deref().expect("somebody")), "{choice:?}");
    assert_eq!(&*choice.pool, "pool");
    assert!(!choice.selector.is_empty() && !choice.reason.is_empty(), "{choice:?}");
}
