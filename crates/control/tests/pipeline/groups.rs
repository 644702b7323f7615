//! Groups: what their callers do costs them together, and their rules hold for all that is done on behalf of their callers.

use chancery_control::ledger::Scope;
use chancery_control::policy::{Callers, Limits, Rule};

use crate::world::*;
use crate::*;

fn interns() -> Scope {
    Scope::Group { realm: "default".into(), name: "interns".into() }
}

fn refuses_interns() -> Rule {
    let limits = Limits { max_micro_usd: Some(1), ..Limits::default() };
    Rule { callers: Callers::Groups(["interns".into()].into()), limits, ..Rule::named("interns") }
}

#[test]
fn callers_of_a_group_share_its_budget_with_what_their_agents_call_also_after_a_restart() {
    let world = Arc::new(World::default());
    let setup = Setup {
        group_usd_per_minute: Some(250),
        price: Some(100),
        planner_price: Some(0),
        ..Setup::default()
    };
    let before = plane(&setup, &world);
    let works_on = working();
    let planner = pipeline(&before, "planner", works_on.clone());
    let worker = pipeline(&before, "worker", Arc::new(Worker::default()));
    let hold = begun(&planner, &works_on, call_of("alice", "interns"), "t-1");
    assert!(run(&worker, on_behalf_of("planner", &*hold)).is_ok());
    assert!(run(&worker, call_of("bob", "interns")).is_ok());
    assert_eq!(stands(&before, &interns()), (0, 200));
    // There is room for half of a third.
    for one_more in [call_of("bob", "interns"), on_behalf_of("planner", &*hold)] {
        assert_eq!(reason(&run(&worker, one_more)).as_deref(), Some("BUDGET_EXCEEDED"));
    }
    assert!(run(&worker, call_of("bob", "staff")).is_ok());

    let after = plane(&setup, &world);
    let now = after.hands.now();
    for edge in world.records.lock().iter() {
        let accounts = after.accounts_charged(edge.billed(), &edge.agent, now);
        after.charged_before(&accounts, edge.settled.expect("it is over").charged, now);
    }
    assert_eq!(stands(&after, &interns()), (0, 200));
}

#[test]
fn a_rule_for_a_group_holds_for_what_is_done_on_behalf_of_its_callers() {
    for (group, is_refused) in [("interns", true), ("staff", false)] {
        let world = Arc::new(World::default());
        let setup = Setup {
            price: Some(100),
            planner_price: Some(0),
            rules: vec![refuses_interns()],
            ..Setup::default()
        };
        let before = plane(&setup, &world);
        let works_on = working();
        let planner = pipeline(&before, "planner", works_on.clone());
        let hold = begun(&planner, &works_on, call_of("alice", group), "t-1");
        let open = vec![before.open_calls().remove(0)];
        let expected = is_refused.then(|| "COST_LIMIT".to_owned());
        let worker = pipeline(&before, "worker", Arc::new(Worker::default()));
        assert_eq!(reason(&run(&worker, on_behalf_of("planner", &*hold))), expected);

        // The planner calls in the name of its caller, as a program that the gateway runs does.
        let in_the_name_of_alice = |hold: &dyn chancery_protocol::Hold| {
            let mut call = on_behalf_of("planner", hold);
            call.context.principal.id = "alice".into();
            call
        };
        assert_eq!(reason(&run(&worker, in_the_name_of_alice(&*hold))), expected);

        let after = plane(&Setup { edges: open.clone(), ..setup }, &world);
        let restored = after.restore(&open).remove(0).hold;
        let worker = pipeline(&after, "worker", Arc::new(Worker::default()));
        for again in [on_behalf_of("planner", &*restored), in_the_name_of_alice(&*restored)] {
            assert_eq!(reason(&run(&worker, again)), expected, "after a restart");
        }
    }
}

#[test]
fn calls_at_a_time_count_for_whoever_they_are_made_for() {
    let world = Arc::new(World::default());
    let limits = Limits { max_concurrency: Some(1), ..Limits::default() };
    let rule = Rule { callers: Callers::Groups(["interns".into()].into()), limits, ..Rule::named("interns") };
    let plane = plane(&Setup { rules: vec![rule], ..Setup::default() }, &world);
    let (planning, at_work) = (working(), working());
    let planner = pipeline(&plane, "planner", planning.clone());
    let worker = pipeline(&plane, "worker", at_work.clone());
    let hold = begun(&planner, &planning, call_of("alice", "interns"), "t-1");
    let below = begun(&worker, &at_work, on_behalf_of("planner", &*hold), "t-2");
    for one_more in [on_behalf_of("planner", &*hold), call_of("alice", "interns")] {
        assert_eq!(reason(&run(&worker, one_more)).as_deref(), Some("CONCURRENCY_EXCEEDED"));
    }
    let ended = below.settle(&TaskId::from("t-2"), CallOutcome::Task(TaskState::Completed), None).settled;
    below.settled(&ended);
    at_work.calls.lock().clear();
    let again = begun(&worker, &at_work, on_behalf_of("planner", &*hold), "t-3");
    drop(again);
}
