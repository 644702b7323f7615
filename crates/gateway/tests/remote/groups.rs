//! Groups: their rules and their budgets hold for what agents elsewhere do on behalf of their callers, also after a kill.

use serde_json::json;

use crate::agents::{Hostile, SPOKEN};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::until;

const CONFIG: &str = "[server]\nanonymous = true\n[budget.groups.team]\nmax_usd_per_day = 0.05\n\
    [policy.interns]\ngroups = [\"interns\"]\nmax_cost_usd = 0.005\n";

/// A key for a group, once the gateway knows it.
async fn key_of(gateway: &Gateway, name: &str, group: &str) -> String {
    let key = gateway.run(&["key", "create", "--caller", name, "--group", group]).trim().to_owned();
    while caller(gateway, &key).get("none").await.status == 401 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    key
}

fn caller(gateway: &Gateway, key: &str) -> Caller {
    Caller::new(gateway, SPOKEN[0].name("free")).with_key(key)
}

/// Has the free agent call the priced one, which counts what it does.
fn sub_call(gateway: &Gateway, times: usize, text: &str) -> String {
    let url = format!("{}/", gateway.agent(&SPOKEN[0].name("priced")));
    format!("call {}", json!({"url": url, "times": times, "text": text}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_elsewhere_is_held_to_the_groups_of_whom_it_works_for() {
    let hostile = Hostile::start().await;
    let free = hostile.sections("free", "-", "price = { per_call = 0.0 }");
    let priced = hostile.sections("priced", "-", "price = { per_call = 0.01 }");
    let mut gateway = Gateway::start_with_key(&format!("{CONFIG}{free}{priced}"), "somebody");
    let worked = |text: &str| hostile.of(SPOKEN[0]).count(text);

    // The agent calls in its own name, on behalf of an intern.
    let (intern, other) = (key_of(&gateway, "ida", "interns").await, key_of(&gateway, "otto", "staff").await);
    caller(&gateway, &intern).send(&sub_call(&gateway, 1, "echo by-intern")).await;
    caller(&gateway, &other).send(&sub_call(&gateway, 1, "echo by-other")).await;
    assert_eq!((worked("by-intern"), worked("by-other")), (0, 1));

    // Five calls at a cent each are all that a team of two has, before and after a kill.
    let (ann, bob) = (key_of(&gateway, "ann", "team").await, key_of(&gateway, "bob", "team").await);
    caller(&gateway, &ann).send(&sub_call(&gateway, 2, "echo by-team")).await;
    caller(&gateway, &bob).send(&sub_call(&gateway, 1, "echo by-team")).await;
    let cut = caller(&gateway, &ann).send_beside(&sub_call(&gateway, 1, "slow 60000 by-team"));
    until("the fourth call is at work", || worked("by-team") >= 4).await;
    gateway.kill_and_restart();
    drop(cut.await);
    caller(&gateway, &bob).send(&sub_call(&gateway, 9, "echo by-team")).await;
    assert_eq!(worked("by-team"), 5);
    let spent = gateway.run(&["budget", "show", "--group", "team"]);
    assert!(spent.contains("0.000000 USD of 0.050000 USD left per day"), "{spent}");
}
