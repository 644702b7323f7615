//! What calls are charged: by what came of them, and by what their agents report.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chancery_control::Plane;
use chancery_control::ledger::{Cap, Scope};
use chancery_control::policy::Limits as PolicyLimits;
use chancery_protocol::{Amount, CallOutcome, CostSource, Hold, Settling, TaskId, TaskState, Usage};

use crate::world::*;

const TASK: &str = "t-1";

fn spent(cost_micro_usd: u64) -> Option<Usage> {
    Some(Usage { cost_micro_usd, ..Usage::default() })
}

/// A call to an agent elsewhere that something has left this process for.
fn dispatched(plane: &Arc<Plane>, caller: &str) -> Arc<dyn Hold> {
    let worker = working();
    run(&remote(plane, "worker", worker.clone()), call(caller)).err().expect("it works on");
    let hold = worker.calls.lock().pop().and_then(|context| context.hold).expect("it was let through");
    hold.dispatched();
    hold
}

fn settle(hold: &dyn Hold, outcome: CallOutcome, usage: Option<Usage>) -> Settling {
    let settling = hold.settle(&TaskId::from(TASK), outcome, usage);
    hold.settled(&settling.settled);
    settling
}

/// How many calls count within the minute.
fn tasks(setup: &Setup) -> Setup {
    Setup { tasks_per_minute: Some(1_000), ..setup.clone() }
}

#[test]
fn a_dispatched_call_costs_its_price_and_counts_whatever_came_back() {
    let states = [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];
    let outcomes = states.map(CallOutcome::Task).into_iter().chain([CallOutcome::Answered]);
    let priced = Setup { price: Some(100), ..Setup::default() };
    for outcome in outcomes {
        let world = Arc::new(World::default());
        let plane = plane(&tasks(&priced), &world);
        let settled = settle(&*dispatched(&plane, "alice"), outcome, None).settled;
        assert_eq!(settled.charged, Amount { micro_usd: 100, tokens: 0, tasks: 1 }, "{outcome:?}");
        assert_eq!(held(&plane, "alice"), (0, 1), "{outcome:?}");
    }
}

#[test]
fn a_report_does_not_make_a_call_cheaper_than_its_price() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { price: Some(100), ..Setup::default() }, &world);
    let settling = settle(&*dispatched(&plane, "alice"), CallOutcome::Task(TaskState::Completed), spent(1));
    assert_eq!(settling.settled.charged.micro_usd, 100);
    assert_eq!(settling.settled.source, CostSource::Declared);
}

#[test]
fn calls_whose_agent_answers_with_errors_are_charged_and_counted() {
    let world = Arc::new(World::default());
    let setup = Setup { tasks_per_minute: Some(5), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let agent = Arc::new(Failing::default());
    let pipeline = remote(&plane, "worker", agent.clone());
    let refused: Vec<_> = (0..12).filter_map(|_| reason(&run(&pipeline, call("alice")))).collect();
    assert_eq!(refused, ["BUDGET_EXCEEDED"; 7]);
    assert_eq!(agent.executions.load(Ordering::Relaxed), 5);
    let records = world.records.lock();
    assert_eq!(records.len(), 5);
    assert!(records.iter().all(|edge| edge.settled.is_some_and(|settled| settled.charged.micro_usd == 100)));
}

#[test]
fn what_never_left_this_process_is_free_and_does_not_count() {
    let world = Arc::new(World::default());
    let plane = plane(&tasks(&Setup { price: Some(100), ..Setup::default() }), &world);
    let settled = settle(&*dispatched(&plane, "alice"), CallOutcome::NotDispatched, spent(7)).settled;
    assert_eq!((settled.charged, settled.overrun), (Amount::default(), Amount::default()));
    assert_eq!(held(&plane, "alice"), (0, 0));
    let worker = working();
    assert!(run(&remote(&plane, "worker", worker.clone()), call("alice")).is_err());
    worker.calls.lock().clear();
    assert_eq!(held(&plane, "alice"), (0, 0));
    assert!(world.records.lock().is_empty());
}

#[test]
fn an_unknown_outcome_costs_what_was_held() {
    let world = Arc::new(World::default());
    let setup = Setup { price: Some(100), planner_price: Some(0), ..Setup::default() };
    let (plane, working) = (plane(&Setup { usd_per_minute: Some(1_000), ..setup }, &world), working());
    let hold = dispatched(&plane, "alice");
    hold.spend(Usage { cost_micro_usd: 300, ..Usage::default() }).expect("there is enough");
    let settled = settle(&*hold, CallOutcome::Unknown(Some(TaskState::Failed)), None).settled;
    assert_eq!((settled.charged.micro_usd, settled.source), (300, CostSource::Reported));

    // A caller that calls for somebody holds as much as it is good for.
    let parent = begun(&remote(&plane, "planner", working.clone()), &working, call("bob"), "t-2");
    let mut child = on_behalf_of("planner", &*parent);
    child.context.ceiling_micro_usd = Some(250);
    let hold = begun(&remote(&plane, "worker", working.clone()), &working, child, TASK);
    let settled = settle(&*hold, CallOutcome::Unknown(None), None).settled;
    assert_eq!((settled.charged.micro_usd, settled.source), (250, CostSource::Held));
}

#[test]
fn a_dispatched_call_that_nobody_settles_costs_what_was_held() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { usd_per_minute: Some(1_000), price: Some(100), ..Setup::default() }, &world);
    drop(dispatched(&plane, "alice"));
    assert_eq!(held(&plane, "alice"), (0, 100));
    let edge = world.records.lock().pop().expect("it is recorded");
    assert_eq!(edge.settled.expect("it is over").charged, Amount { micro_usd: 100, tokens: 0, tasks: 1 });
}

#[test]
fn a_report_above_the_hold_is_charged_as_far_as_there_is_room_and_the_rest_is_an_overrun() {
    let root_cap = Cap { micro_usd: Some(400), ..Cap::default() };
    let policy = PolicyLimits { max_micro_usd: Some(350), ..PolicyLimits::default() };
    let bounds = [
        (Setup { usd_per_minute: Some(500), ..Setup::default() }, None, 500),
        (Setup { global_usd_per_minute: Some(450), ..Setup::default() }, None, 450),
        (Setup { root_cap, ..Setup::default() }, None, 400),
        (Setup { policy, usd_per_minute: Some(500), ..Setup::default() }, None, 350),
        (Setup { usd_per_minute: Some(500), ..Setup::default() }, Some(300), 300),
        // Of an agent that nobody trusts no report takes more than was held.
        (Setup { usd_per_minute: Some(500), untrusted: true, ..Setup::default() }, None, 100),
    ];
    for (setup, ceiling, most) in bounds {
        let world = Arc::new(World::default());
        let setup = Setup { price: Some(100), ..setup };
        let plane = plane(&setup, &world);
        let worker = working();
        let mut outset = call("alice");
        outset.context.ceiling_micro_usd = ceiling;
        let hold = begun(&remote(&plane, "worker", worker.clone()), &worker, outset, TASK);
        worker.calls.lock().clear();
        if setup.untrusted {
            hold.spend(spent(10_000).expect("a report")).expect("it stops nothing either");
        }
        let settling = settle(&*hold, CallOutcome::Task(TaskState::Completed), spent(10_000));
        assert_eq!(settling.settled.charged.micro_usd, most);
        assert_eq!(settling.settled.overrun, Amount { micro_usd: 10_000 - most, ..Amount::default() });
        assert_eq!(settling.statement.overrun, settling.settled.overrun);
        assert_eq!(settling.statement.usage.cost_micro_usd, most, "its caller pays for no more");
        assert_eq!(settling.edge.settled, Some(settling.settled));
    }
}

#[test]
fn an_absurd_report_costs_nobody_but_its_caller_and_can_keep_its_agent_out() {
    let world = Arc::new(World::default());
    let setup = Setup {
        usd_per_minute: Some(500),
        global_usd_per_minute: Some(2_000),
        overrun_per_minute: Some(1_000),
        price: Some(100),
        planner_price: Some(100),
        ..Setup::default()
    };
    let plane = plane(&setup, &world);
    let completed = CallOutcome::Task(TaskState::Completed);
    let pipeline = remote(&plane, "worker", Arc::new(Failing::default()));
    settle(&*dispatched(&plane, "alice"), completed, spent(1_500));
    assert_eq!(held(&plane, "alice"), (0, 500));
    assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("BUDGET_EXCEEDED"));
    assert!(reason(&run(&pipeline, call("bob"))).is_none(), "its overruns are within what it may");
    settle(&*dispatched(&plane, "carol"), completed, spent(u64::MAX));
    assert_eq!(stands(&plane, &Scope::Global), (0, 1_100), "500 each of two, and 100 of bob");
    let refused = run(&pipeline, call("bob")).err().and_then(|error| error.denied().cloned());
    let refused = refused.expect("its overruns have passed the limit");
    assert_eq!((&*refused.gate, &*refused.reason), ("budget", "BUDGET_OVERRUN"));
    assert!(refused.limit.is_some_and(|limit| limit.contains("overruns of agent `worker`")));
    assert!(refused.retry_after.is_some_and(|after| after.as_secs() == 61), "{:?}", refused.retry_after);
    let planner = remote(&plane, "planner", Arc::new(Failing::default()));
    assert!(reason(&run(&planner, call("bob"))).is_none(), "another agent may work");
    world.now.store(61_000, Ordering::Relaxed);
    assert!(reason(&run(&pipeline, call("bob"))).is_none(), "the minute has passed");
}

#[test]
fn overruns_count_after_a_restart() {
    let world = Arc::new(World::default());
    let setup = Setup { overrun_per_minute: Some(10), price: Some(100), ..Setup::default() };
    let plane = plane(&setup, &world);
    let now = plane.hands.now();
    plane.overran_before(&"worker".into(), Amount { micro_usd: 11, ..Amount::default() }, now);
    let pipeline = remote(&plane, "worker", Arc::new(Never));
    assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("BUDGET_OVERRUN"));
}

#[test]
fn a_report_that_is_refused_while_the_work_goes_on_is_charged_as_far_as_there_is_room_in_the_end() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { usd_per_minute: Some(500), price: Some(100), ..Setup::default() }, &world);
    let hold = dispatched(&plane, "alice");
    hold.begin(&TaskId::from(TASK));
    hold.began();
    hold.spend(Usage { cost_micro_usd: 800, ..Usage::default() }).expect_err("there is not so much");
    assert_eq!(world.stops.lock().len(), 1);
    let settled = settle(&*hold, CallOutcome::Task(TaskState::Failed), None).settled;
    assert_eq!((settled.charged.micro_usd, settled.overrun.micro_usd), (500, 300));
}

#[test]
fn a_commit_that_fails_leaves_what_was_held_for_it_to_the_next() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { usd_per_minute: Some(500), price: Some(100), ..Setup::default() }, &world);
    let hold = dispatched(&plane, "alice");
    let task = TaskId::from(TASK);
    let first = hold.settle(&task, CallOutcome::Task(TaskState::Completed), spent(400));
    assert_eq!((first.settled.charged.micro_usd, held(&plane, "alice")), (400, (400, 0)));
    hold.refused();
    let settled = settle(&*hold, CallOutcome::Task(TaskState::Canceled), None).settled;
    assert_eq!(settled.charged.micro_usd, 100);
    assert_eq!(held(&plane, "alice"), (0, 100));
}

#[test]
fn a_direct_answer_may_report_what_it_used() {
    let world = Arc::new(World::default());
    let plane = plane(&tasks(&Setup::default()), &world);
    let agent = Arc::new(Reporting(r#"{"inputTokens":"3e1","outputTokens":-1,"costMicroUsd":7.0}"#));
    assert!(run(&remote(&plane, "worker", agent), call("alice")).is_ok());
    let settled = world.records.lock()[0].settled.expect("it is over");
    assert_eq!(settled.charged, Amount { micro_usd: 7, tokens: 30, tasks: 1 });
    assert_eq!(settled.source, CostSource::Reported);
}

#[test]
fn what_could_not_be_read_of_a_report_is_told() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { price: Some(100), ..Setup::default() }, &world);
    let hold = dispatched(&plane, "alice");
    let report = r#"{"inputTokens":1.5,"outputTokens":4}"#;
    let report: chancery_protocol::UsageReport = serde_json::from_str(report).expect("a report");
    hold.ignore(report.ignored);
    let settling = settle(&*hold, CallOutcome::Task(TaskState::Completed), report.usage);
    let told = serde_json::to_value(settling.statement).expect("it is JSON");
    assert_eq!(told["ignored"], serde_json::json!(["inputTokens"]));
    assert_eq!((&told["outputTokens"], &told["costSource"]), (&4.into(), &"declared".into()));
}

#[test]
fn tokens_that_nobody_counted_are_none_and_say_so() {
    let world = Arc::new(World::default());
    let plane = plane(&Setup { price: Some(100), tokens_per_minute: Some(9), ..Setup::default() }, &world);
    let settling = settle(&*dispatched(&plane, "alice"), CallOutcome::Task(TaskState::Completed), None);
    let told = serde_json::to_value(settling.statement).expect("it is JSON");
    assert_eq!((&told["costSource"], &told["tokenSource"]), (&"declared".into(), &"unknown".into()));
    assert_eq!(settling.settled.charged.tokens, 0);
    // But a limit that is used up lets nothing in.
    let usage = Usage { input_tokens: 20, ..Usage::default() };
    let settling =
        settle(&*dispatched(&plane, "alice"), CallOutcome::Task(TaskState::Completed), Some(usage));
    assert_eq!((settling.settled.charged.tokens, settling.settled.overrun.tokens), (9, 11));
    let pipeline = remote(&plane, "worker", Arc::new(Never));
    assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("BUDGET_EXCEEDED"));
}

#[test]
fn an_agent_without_a_price_is_refused_where_the_operator_limits_money_and_nowhere_else() {
    let world = Arc::new(World::default());
    let limited = plane(&Setup { usd_per_minute: Some(500), ..Setup::default() }, &world);
    let pipeline = remote(&limited, "found-later", Arc::new(Never));
    assert_eq!(reason(&run(&pipeline, call("alice"))).as_deref(), Some("COST_UNKNOWN"));
    let unlimited = plane(&tasks(&Setup::default()), &world);
    let mut careful = call("alice");
    careful.context.ceiling_micro_usd = Some(5);
    let pipeline = remote(&unlimited, "found-later", Arc::new(Reporting(r#"{"costMicroUsd":9}"#)));
    assert!(run(&pipeline, careful).is_ok());
    let settled = world.records.lock()[0].settled.expect("it is over");
    assert_eq!((settled.charged.micro_usd, settled.overrun.micro_usd), (5, 4));
}
