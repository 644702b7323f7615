//! Callers and agents that speak v0.1, in which callers name their tasks.

use chancery_sdk::protocol::Version;
use chancery_sdk::{AgentSpec, Outcome, Turn};
use serde_json::{Value, json};

use crate::pair::*;
use crate::support::*;

/// Asks back, waits, or says what it is told.
fn obedient() -> AgentSpec {
    agent(|turn: Turn| async move {
        match &*turn.text() {
            "ask" => Ok(turn.ask("which one?")),
            "wait" => {
                turn.working("going on").await?;
                std::future::pending().await
            }
            text => Ok(Outcome::text(text)),
        }
    })
}

fn say(name: &str, text: &str) -> Value {
    json!({"id": name, "message": {"role": "user", "parts": [{"type": "text", "text": text}]}})
}

#[tokio::test]
async fn a_caller_s_name_for_a_task_holds_through_a_relay() {
    let pair = pair(obedient(), Wire::JsonRpc).await;
    let client = pair.relay.jsonrpc().without("a2a-version");
    let asked = client.call("tasks/send", say("mine", "ask")).await.result();
    assert_eq!((&asked["id"], &asked["status"]["state"]), (&json!("mine"), &json!("input-required")));
    assert_eq!(
        client.call("tasks/get", json!({"id": "mine"})).await.result()["status"]["state"],
        "input-required"
    );
    let done = client.call("tasks/send", say("mine", "this one")).await.result();
    assert_eq!((&done["id"], &done["status"]["state"]), (&json!("mine"), &json!("completed")));
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "this one");
    let there = pair.agent.jsonrpc().call("ListTasks", json!({})).await.result();
    assert_eq!(there["totalSize"], 1, "it is one task there, too");
    let mut ended = client.open("tasks/resubscribe", json!({"id": "mine"})).await;
    assert_eq!(ended.rest().await.last().unwrap().payload()["final"], true);
    let foreign = client.by("r", "bob").call("tasks/get", json!({"id": "mine"})).await;
    assert_eq!(foreign.json()["error"]["code"], -32001);
}

#[tokio::test]
async fn a_task_that_is_named_can_be_canceled_while_its_sender_waits() {
    let pair = pair(obedient(), Wire::JsonRpc).await;
    let client = pair.relay.jsonrpc().without("a2a-version");
    let sender = client.clone();
    let sent = tokio::spawn(async move { sender.call("tasks/send", say("mine", "wait")).await.result() });
    until("the task to be known", || async {
        client.call("tasks/get", json!({"id": "mine"})).await.json().get("result").is_some()
    })
    .await;
    let canceled = client.call("tasks/cancel", json!({"id": "mine"})).await.result();
    assert_eq!(canceled["id"], "mine");
    let sent = within("the sender", sent).await.unwrap();
    assert_eq!((&sent["id"], &sent["status"]["state"]), (&json!("mine"), &json!("canceled")));
}

#[tokio::test]
async fn a_stream_is_told_under_the_caller_s_name() {
    let pair = pair(obedient(), Wire::Rest).await;
    let client = pair.relay.jsonrpc().without("a2a-version");
    let mut events = client.open("tasks/sendSubscribe", say("mine", "hello")).await;
    let told: Vec<_> = events.rest().await.iter().map(|event| event.payload()).collect();
    assert!(told.iter().all(|event| event["id"] == "mine"), "{told:?}");
    assert!(told.iter().any(|event| event["artifact"]["parts"][0]["text"] == "hello"), "{told:?}");
    assert_eq!(told.last().unwrap()["final"], true);
}

#[tokio::test]
async fn an_agent_of_v0_1_is_served_as_any_other() {
    let agent = serve_with(|server| {
        server.agent(obedient()).without_version(Version::V1_0).without_version(Version::V0_3)
    })
    .await;
    let relay = serve_relay(&format!("http://{}", agent.address), Wire::JsonRpc).await;
    for wire in WIRES {
        let client = relay.client(wire);
        let asked = client.say("ask").await;
        assert_eq!(state(&asked), INPUT_REQUIRED);
        let done = client.send(follow_up(&id(&asked), "this one")).await.task();
        assert_eq!(
            (id(&done), state(&done), text(&done["artifacts"][0])),
            (id(&asked), COMPLETED, "this one")
        );
        let mut events = client.stream(message("hello")).await;
        let told = events.rest().await;
        assert_eq!(told[0].kind(), "task");
        assert!(told.last().unwrap().is(COMPLETED));
        // A message there is always waited for, so what is to be canceled is streamed.
        let mut events = client.stream(message("wait")).await;
        let begun = events.one().await.payload()["task"].clone();
        let canceled = client.cancel(&id(&begun)).await.task();
        assert_eq!(state(&canceled), CANCELED);
        assert!(events.rest().await.last().unwrap().is(CANCELED));
    }
}
