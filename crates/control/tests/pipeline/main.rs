//! The way of a call through all gates: what is refused goes no further, what is let through is settled once.

mod charged;
mod foreign;
mod groups;
mod kept;
mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chancery_control::ledger::Cap;
use chancery_control::policy::Limits as PolicyLimits;
use chancery_control::routing::{Peer, Pool, PoolSettings};
use chancery_control::{Executor, Governed, Millis, Pipeline, Skills};
use chancery_protocol::{Amount, CallOutcome, Identity, Proof, TaskId, TaskState, Usage};
use proptest::prelude::*;
use world::*;

#[test]
fn a_spent_budget_reaches_neither_a_selector_nor_an_agent() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { tasks_per_minute: Some(0), ..Setup::default() }, &world);
    let settings = PoolSettings { selector: Arc::new(NeverSelects), ..PoolSettings::default() };
    let pool = Pool::try_new("worker", [Peer::new("one"), Peer::new("two")], settings).expect("two names");
    let agent = Governed {
        name: "worker".into(),
        skills: Skills::default(),
        pool: Some(Arc::new(pool)),
        reach: None,
        is_local: false,
    };
    let pipeline = Pipeline::new(plane, Arc::new(agent), Executor::Remote(Arc::new(Never)));
    assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("BUDGET_EXCEEDED"));
}

#[test]
fn a_direct_answer_is_charged_once_and_recorded() {
    let world = Arc::new(World::default());
    let setup = Setup { usd_per_minute: Some(1_000), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let pipeline = pipeline(&plane, "worker", Arc::new(Worker::default()));
    for calls in 1..=10 {
        assert!(run(&pipeline, call("alice")).is_ok());
        assert_eq!(held(&plane, "alice"), (0, calls * 100));
    }
    assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("BUDGET_EXCEEDED"));
    assert!(run(&pipeline, call("bob")).is_ok(), "it was not his money");
    let records = world.records.lock();
    assert_eq!(records.len(), 11);
    assert!(records.iter().all(|edge| edge.settled.is_some_and(|settled| settled.charged.micro_usd == 100)));
    assert!(plane.open_calls().is_empty());
}

#[test]
fn what_comes_to_nothing_gives_everything_back() {
    let world = Arc::new(World::default());
    let setup = Setup { usd_per_minute: Some(1_000), price: Some(1_000), ..Setup::default() };
    let plane = plane(&setup, &world);
    let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
    let pipeline = pipeline(&plane, "worker", worker.clone());
    for _ in 0..3 {
        assert!(run(&pipeline, call("alice")).is_err());
        assert_eq!(held(&plane, "alice"), (1_000, 0), "its agent still has it");
        assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("BUDGET_EXCEEDED"));
        worker.calls.lock().clear();
        assert_eq!(held(&plane, "alice"), (0, 0));
    }
    assert!(world.records.lock().is_empty(), "there is nothing to say about them");
}

#[test]
fn a_task_is_settled_by_its_commit_and_only_once() {
    let world = Arc::new(World::default());
    let setup = Setup { usd_per_minute: Some(10_000), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
    let pipeline = pipeline(&plane, "worker", worker.clone());
    let _ = run(&pipeline, call("alice"));
    let hold = worker.calls.lock()[0].hold.clone().expect("it was let through");
    let task = TaskId::from("t-1");
    assert!(hold.begin(&task).settled.is_none());
    hold.spend(Usage { input_tokens: 5, output_tokens: 5, cost_micro_usd: 700 }).expect("there is enough");
    assert_eq!(held(&plane, "alice"), (700, 0), "what is spent is held");
    let settling = hold.settle(&task, CallOutcome::Task(TaskState::Completed), None);
    assert_eq!(settling.settled.charged, Amount { micro_usd: 700, tokens: 10, tasks: 1 });
    assert_eq!(settling.statement.remaining_micro_usd, Some(9_300));
    assert_eq!(held(&plane, "alice"), (700, 0), "asking books nothing");
    for _ in 0..3 {
        hold.settled(&settling.settled);
        assert_eq!(held(&plane, "alice"), (0, 700));
    }
    drop(hold);
    worker.calls.lock().clear();
    assert_eq!(held(&plane, "alice"), (0, 700));
}

#[test]
fn who_spends_more_than_there_is_is_stopped() {
    let world = Arc::new(World::default());
    let setup = Setup { usd_per_minute: Some(500), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
    let pipeline = pipeline(&plane, "worker", worker.clone());
    let _ = run(&pipeline, call("alice"));
    let hold = worker.calls.lock()[0].hold.clone().expect("it was let through");
    hold.begin(&TaskId::from("t-1"));
    hold.began();
    let used = |cost_micro_usd| Usage { cost_micro_usd, ..Usage::default() };
    hold.spend(used(500)).expect("it is all there is");
    let denied = hold.spend(used(501)).expect_err("there is no more");
    assert_eq!(denied.reason, "BUDGET_EXCEEDED");
    {
        let stops = world.stops.lock();
        assert_eq!(stops.len(), 1);
        assert!(stops[0].why.as_ref().is_some_and(|why| why.contains("BUDGET_EXCEEDED")));
    }
    let settling = hold.settle(&TaskId::from("t-1"), CallOutcome::Task(TaskState::Failed), Some(used(501)));
    assert_eq!(settling.settled.charged.micro_usd, 500, "what was refused has not been spent");
}

#[test]
fn what_is_to_be_stopped_before_it_has_a_task_is_stopped_when_it_has_one() {
    let world = Arc::new(World::default());
    let setup = Setup { usd_per_minute: Some(500), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
    let pipeline = pipeline(&plane, "worker", worker.clone());
    let _ = run(&pipeline, call("alice"));
    let hold = worker.calls.lock()[0].hold.clone().expect("it was let through");
    hold.spend(Usage { cost_micro_usd: 501, ..Usage::default() }).expect_err("there is not so much");
    hold.begin(&TaskId::from("t-1"));
    assert!(world.stops.lock().is_empty(), "there is nothing in the journal to be stopped");
    hold.began();
    hold.began();
    assert_eq!(world.stops.lock().len(), 1);
}

#[test]
fn what_may_stand_in_the_journal_is_charged_although_nobody_heard_of_the_commit() {
    let world = Arc::new(World::default());
    let setup = Setup { usd_per_minute: Some(1_000), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
    let pipeline = pipeline(&plane, "worker", worker.clone());
    for (is_refused, charged) in [(false, 100), (true, 100)] {
        let _ = run(&pipeline, call("alice"));
        let hold = worker.calls.lock().pop().and_then(|context| context.hold).expect("it was let through");
        let settling = hold.settle(&TaskId::from("t-1"), CallOutcome::Task(TaskState::Completed), None);
        if is_refused {
            hold.refused();
        }
        drop(hold);
        assert_eq!(held(&plane, "alice"), (0, charged));
        let recorded = world.records.lock().pop().and_then(|edge| edge.settled).expect("it is recorded");
        assert_eq!(recorded.charged == settling.settled.charged, !is_refused);
    }
}

#[test]
fn a_call_whose_time_is_up_is_stopped_and_says_why() {
    let world = Arc::new(World::default());
    let limit = std::time::Duration::from_millis(500);
    let policy = PolicyLimits { max_duration: Some(limit), ..PolicyLimits::default() };
    let plane = plane(&Setup { policy, ..Setup::default() }, &world);
    let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
    let pipeline = pipeline(&plane, "worker", worker.clone());
    let _ = run(&pipeline, call("alice"));
    let hold = worker.calls.lock()[0].hold.clone().expect("it was let through");
    hold.begin(&TaskId::from("t-1"));
    hold.began();
    assert_eq!(plane.next_tick(), Some(Millis(500)));
    world.now.store(499, Ordering::Relaxed);
    plane.tick();
    assert!(world.stops.lock().is_empty());
    world.now.store(500, Ordering::Relaxed);
    plane.tick();
    plane.tick();
    let stops = world.stops.lock();
    assert_eq!(stops.len(), 1);
    assert!(stops[0].why.as_ref().is_some_and(|why| why.starts_with("PolicyTimeout")), "{stops:?}");
}

#[test]
fn cancelling_a_call_cancels_what_it_led_to_and_loops_are_refused() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup::default(), &world);
    let agents = ["a", "b", "c"].map(|name| {
        let worker = Arc::new(Worker { works_on: true, ..Worker::default() });
        (pipeline(&plane, name, worker.clone()), worker)
    });
    let mut next = call("alice");
    let mut holds = Vec::new();
    for (place, (pipeline, worker)) in agents.iter().enumerate() {
        let _ = run(pipeline, next);
        let hold = worker.calls.lock()[0].hold.clone().expect("it was let through");
        hold.begin(&TaskId::from(format!("t-{place}")));
        hold.began();
        next = on_behalf_of(["a", "b", "c"][place], &*hold);
        holds.push(hold);
    }
    assert_eq!(reason(&run(&agents[0].0, next)).as_deref(), Some("REVISIT_DENIED"));
    assert_eq!(agents[0].1.calls.lock().len(), 1, "the second call to `a` was not dispatched");
    let settling = holds[0].settle(&TaskId::from("t-0"), CallOutcome::Task(TaskState::Canceled), None);
    holds[0].settled(&settling.settled);
    let mut stopped: Vec<_> = world.stops.lock().iter().map(|stop| stop.agent.to_string()).collect();
    stopped.sort();
    assert_eq!(stopped, ["b", "c"]);
}

#[test]
fn a_root_bounds_all_that_is_done_on_its_behalf() {
    let world = Arc::new(World::default());
    let root_cap = Cap { micro_usd: Some(250), ..Cap::default() };
    let setup = Setup { price: Some(100), planner_price: Some(0), root_cap, ..Setup::default() };
    let plane = plane(&setup, &world);
    let first = Arc::new(Worker { works_on: true, ..Worker::default() });
    let planner = pipeline(&plane, "planner", first.clone());
    let worker = pipeline(&plane, "worker", Arc::new(Worker::default()));
    let mut outset = call("alice");
    outset.context.ceiling_micro_usd = Some(250);
    let _ = run(&planner, outset);
    let hold = first.calls.lock()[0].hold.clone().expect("it was let through");
    hold.begin(&TaskId::from("t-1"));
    let mut settled = 0;
    for _ in 0..10 {
        settled += u64::from(run(&worker, on_behalf_of("planner", &*hold)).is_ok()) * 100;
    }
    assert!(settled <= 250, "{settled}");
    assert_eq!(reason(&run(&worker, on_behalf_of("planner", &*hold))).as_deref(), Some("BUDGET_EXCEEDED"));
    assert!(run(&worker, call("bob")).is_ok(), "another root has its own");
}

#[test]
fn what_is_done_for_somebody_is_paid_by_them_also_after_a_restart() {
    let world = Arc::new(World::default());
    let setup = Setup {
        usd_per_minute: Some(1_000_000),
        price: Some(100),
        allow_unattributed: true,
        planner_price: Some(0),
        ..Setup::default()
    };
    let before = plane(&setup, &world);
    let first = Arc::new(Worker { works_on: true, ..Worker::default() });
    let planner = pipeline(&before, "planner", first.clone());
    let worker = pipeline(&before, "worker", Arc::new(Worker::default()));
    let _ = run(&planner, call("alice"));
    let hold = first.calls.lock()[0].hold.clone().expect("it was let through");
    assert!(run(&worker, on_behalf_of("planner", &*hold)).is_ok());
    let for_alice = world.records.lock()[0].clone();
    assert_eq!((&*for_alice.caller, for_alice.payer.as_deref()), ("planner", Some("alice")));
    assert_eq!(held(&before, "planner"), (0, 0));

    // Of an agent that works on nothing, nobody knows for whom it calls.
    let mut lost = on_behalf_of("idler", &*hold);
    lost.context.lineage = None;
    assert!(run(&worker, lost).is_ok());
    let for_nobody = world.records.lock()[1].clone();
    assert_eq!((&*for_nobody.caller, &**for_nobody.paid_by()), ("idler", "unattributed/idler"));

    let after = plane(&setup, &world);
    let now = after.hands.now();
    for edge in [for_alice, for_nobody] {
        let accounts = after.accounts_charged(edge.billed(), &edge.agent, now);
        after.charged_before(&accounts, edge.settled.expect("it is over").charged, now);
    }
    assert_eq!(held(&after, "alice"), (0, 100));
    assert_eq!((held(&after, "planner"), held(&after, "idler")), ((0, 0), (0, 0)));
}

#[test]
fn a_repeated_call_is_not_paid_for_again() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { tasks_per_minute: Some(0), ..Setup::default() }, &world);
    let pipeline = pipeline(&plane, "worker", Arc::new(Worker::default()));
    let mut repeated = call("alice");
    repeated.context.idempotency_key = Some("known".to_owned());
    assert!(run(&pipeline, repeated).is_ok());
    let mut other = call("alice");
    other.context.idempotency_key = Some("new".to_owned());
    assert_eq!(reason(&run(&pipeline, other)).as_deref(), Some("BUDGET_EXCEEDED"));
}

#[test]
fn a_gate_that_observes_lets_pass_what_it_would_refuse() {
    let world = Arc::new(World::default());
    let setup = Setup { tasks_per_minute: Some(0), observed: &["budget"], ..Setup::default() };
    let pipeline = pipeline(&plane(&setup, &world), "worker", Arc::new(Worker::default()));
    let explanation = pipeline.explain(call("alice"), Millis(0));
    assert!(explanation.denied().is_none());
    assert!(explanation.to_string().contains("would refuse: BUDGET_EXCEEDED"), "{explanation}");
    assert!(run(&pipeline, call("alice")).is_ok());
}

#[test]
fn an_agent_that_does_not_say_for_whom_it_calls_is_refused_or_only_noted() {
    for observed in [&[][..], &["identity"], &["lineage"]] {
        let world = Arc::new(World::default());
        let plane = plane(&Setup { observed, ..Setup::default() }, &world);
        let pipeline = pipeline(&plane, "worker", Arc::new(Worker::default()));
        let lost = |token: Option<&str>| {
            let mut lost = call("idler");
            let identity =
                Identity { proof: Proof::ApiKey, agent: Some("idler".into()), ..Identity::default() };
            lost.context.identity = Arc::new(identity);
            lost.context.lineage = token.map(str::to_owned);
            lost
        };
        let explanation = pipeline.explain(lost(None), Millis(0)).to_string();
        let outcome = run(&pipeline, lost(None));
        if observed.is_empty() {
            assert_eq!(reason(&outcome).as_deref(), Some("LINEAGE_REQUIRED"));
            assert!(explanation.contains("identity: refuses: LINEAGE_REQUIRED"), "{explanation}");
            assert!(explanation.contains("`Chancery-Lineage`"), "{explanation}");
        } else {
            assert!(outcome.is_ok(), "{observed:?}");
            assert!(explanation.contains("identity: would refuse: LINEAGE_REQUIRED"), "{explanation}");
            assert!(run(&pipeline, lost(Some("x.y.z"))).is_ok(), "{observed:?}");
        }
    }
}

prop_compose! {
    fn setups()(
        tasks_per_minute in proptest::option::of(0u64..4),
        usd_per_minute in proptest::option::of(0u64..500),
        root in proptest::option::of(0u64..300),
        max_call_depth in 0u16..3,
        price in proptest::option::of(0u64..200),
        skills in proptest::option::of(proptest::collection::vec(prop_oneof!["read", "write"], 0..2)),
        max_micro_usd in proptest::option::of(0u64..200),
        max_concurrency in proptest::option::of(0u32..2),
        observed in prop_oneof![Just(&[][..]), Just(&["budget"][..]), Just(&["policy", "lineage"][..])],
    ) -> Setup {
        let allowed_skills = skills.map(|skills| skills.iter().map(|skill| skill.as_str().into()).collect());
        let policy = PolicyLimits { allowed_skills, max_micro_usd, max_concurrency, ..PolicyLimits::default() };
        let root_cap = Cap { micro_usd: root, ..Cap::default() };
        let max_call_depth = Some(max_call_depth);
        Setup { tasks_per_minute, usd_per_minute, root_cap, max_call_depth, policy, price, observed, ..Setup::default() }
    }
}

proptest! {
    /// Whatever is configured and whatever has been spent, `explain` says what the gates then do.
    #[test]
    fn explain_foretells_the_verdict(
        setup in setups(),
        calls in proptest::collection::vec((0usize..2, proptest::option::of(prop_oneof!["read", "write", "fly"]),
            proptest::option::of(0u64..300), any::<bool>()), 1..12),
    ) {
        let world = Arc::new(World::default());
        let plane = plane(&setup, &world);
        let keeper = Arc::new(Worker { works_on: true, ..Worker::default() });
        let keeping = pipeline(&plane, "keeper", keeper.clone());
        let answering = pipeline(&plane, "worker", Arc::new(Worker::default()));
        for (caller, skill, ceiling, delegates) in calls {
            let parent = keeper.calls.lock().first().and_then(|context| context.hold.clone());
            let mut next = match parent.filter(|_| delegates) {
                Some(parent) => on_behalf_of("keeper", &*parent),
                None => call(["alice", "bob"][caller]),
            };
            next.context.skill = skill.map(|skill| skill.as_str().into());
            next.context.ceiling_micro_usd = ceiling;
            let pipeline = if delegates { &answering } else { &keeping };
            let foretold = pipeline.explain(next.clone(), plane.hands.now());
            let foretold = foretold.denied().map(|denied| denied.reason.to_string());
            let known = keeper.calls.lock().len();
            let outcome = run(pipeline, next);
            // What the agent itself says is not a verdict of the gates.
            let said = reason(&outcome);
            let was_dispatched = outcome.is_ok() || keeper.calls.lock().len() > known;
            prop_assert_eq!(was_dispatched, said.is_none());
            prop_assert_eq!(foretold, said);
            world.now.fetch_add(7, Ordering::Relaxed);
        }
    }
}
