//! The gateway looked after while it runs.

use chancery_sdk::protocol::{StreamResponse, Task};
use chancery_sdk::{ErrorCode, Events};
use serde_json::Value;

use super::ECHO;
use super::gateway::Gateway;
use super::refusals::{Refusal, is_send};
use super::wire::{Manner, WIRES};

fn asked(gateway: &Gateway, arguments: &[&str]) -> Value {
    let text = gateway.run(&[&["admin", "-o", "json"], arguments].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The task that a stream begins with.
async fn first_task(events: &mut Events) -> Task {
    let first = events.next().await.expect("an event").expect("a good one");
    match first.payload().expect("it can be read") {
        StreamResponse::Task(task) => task,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_contained_agent_refuses_on_every_wire_also_after_a_restart_until_it_is_released() {
    let mut gateway = Gateway::start(ECHO);
    gateway.run(&["admin", "contain", "echo", "--reason", "leaks prompts"]);
    let refusal =
        Refusal { gate: "containment", code: ErrorCode::PermissionDenied, reason: "AGENT_CONTAINED" };
    for round in 0..2 {
        refusal.is_met(&gateway, "echo", Manner::default(), is_send).await;
        if round == 0 {
            gateway.kill_and_restart();
        }
    }
    assert!(gateway.run(&["admin", "agents"]).contains("contained: leaks prompts"));
    gateway.run(&["admin", "release", "echo"]);
    let client = WIRES[0].connect(&gateway, "echo").await;
    assert_eq!(client.send("hello").await.expect("it is released").text(), "hello");
}

#[tokio::test]
async fn what_a_contained_agent_was_doing_is_stopped_and_says_why() {
    let gateway = Gateway::start("[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n");
    let client = WIRES[0].connect(&gateway, "stream").await;
    let mut events = client.stream("stream 1000 1000").await.expect("it is let through");
    let task = first_task(&mut events).await;
    let contained = asked(&gateway, &["contain", "stream", "--reason", "too chatty"]);
    assert_eq!(contained["stopped"], 1, "{contained}");
    while let Some(event) = events.next().await {
        event.expect("it ends as it should");
    }
    let ended = client.get(task.id.as_str()).await.expect("it can still be read");
    assert_eq!(ended.status.state.as_str(), "TASK_STATE_FAILED");
    let said = ended.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default();
    assert_eq!(said, "agent `stream` is contained: too chatty");
}

#[tokio::test]
async fn open_calls_are_seen_with_what_they_hold_and_can_be_canceled() {
    let config = "[budget.global]\nmax_usd_per_day = 10.0\n\
                  [[agent]]\nname = \"stream\"\nkind = \"builtin\"\nprice = { per_call = 0.25 }\n";
    let gateway = Gateway::start(config);
    let client = WIRES[0].connect(&gateway, "stream").await;
    let mut events = client.stream("stream 1000 1000").await.expect("it is let through");
    let task = first_task(&mut events).await;
    let calls = asked(&gateway, &["calls"]);
    let call = &calls["calls"][0];
    assert_eq!(call["task"], task.id.as_str(), "{calls}");
    assert_eq!(call["reserved"]["microUsd"], 250_000, "{calls}");
    let held = &asked(&gateway, &["budgets"])["accounts"][0]["limits"][0];
    assert_eq!((&held["held"], &held["charged"]), (&250_000.into(), &0.into()), "{held}");

    assert_eq!(asked(&gateway, &["cancel", task.id.as_str()])["canceled"], true);
    while let Some(event) = events.next().await {
        event.expect("it ends as it should");
    }
    assert_eq!(
        client.get(task.id.as_str()).await.expect("it is kept").status.state.as_str(),
        "TASK_STATE_CANCELED"
    );
    let tree = asked(&gateway, &["tree", call["root"].as_str().expect("it has one")]);
    assert_eq!(tree["calls"][0]["settled"]["state"], "TASK_STATE_CANCELED", "{tree}");
    assert_eq!(tree["chargedMicroUsd"], 250_000, "{tree}");
}

#[tokio::test]
async fn metrics_count_what_was_answered_refused_and_spent() {
    let config = format!("[budget.caller]\nmax_tasks_per_hour = 2\n{ECHO}price = {{ per_call = 0.01 }}\n");
    let gateway = Gateway::start(&config);
    let client = WIRES[0].connect(&gateway, "echo").await;
    for _ in 0..2 {
        client.send("hello").await.expect("there is room");
    }
    client.send("hello").await.expect_err("there is none");
    let metrics = gateway.run(&["admin", "metrics"]);
    for line in [
        r#"chancery_calls_total{agent="echo",operation="SendMessage",code="OK"} 2"#,
        r#"chancery_denials_total{agent="echo",gate="budget"} 1"#,
        r#"chancery_call_seconds_count{agent="echo",operation="SendMessage"} 3"#,
        r#"chancery_spend_micro_usd_total{agent="echo",source="declared"} 20000"#,
        r#"chancery_tasks{state="TASK_STATE_COMPLETED"} 2"#,
        r#"chancery_open_calls{agent="echo"} 0"#,
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
    }
    assert_eq!(asked(&gateway, &["ready"])["ready"], true);
}

#[tokio::test]
async fn nobody_without_the_token_learns_anything() {
    let gateway = Gateway::start(ECHO);
    let door: Value = serde_json::from_str(&gateway.read("chancery-data/admin.json")).expect("it is JSON");
    let url = door["url"].as_str().expect("it says where");
    for path in ["/agents", "/calls", "/budgets", "/config", "/metrics"] {
        for token in ["", "wrong"] {
            let status = gateway.status_of(&format!("{url}{path}"), token).await;
            assert_eq!(status, 401, "{path} with `{token}`");
        }
        let token = door["token"].as_str().expect("there is one");
        assert_eq!(gateway.status_of(&format!("{url}{path}"), token).await, 200, "{path}");
    }
    assert_eq!(gateway.status_of(&format!("{url}/livez"), "").await, 200);
}
