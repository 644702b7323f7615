//! What a turn is told besides its message, and what it reports besides its events.

mod support;

use chancery_sdk::{AgentSpec, Outcome, Turn, USAGE_EXTENSION, Usage};
use serde_json::{Value, json};
use support::*;

/// Says which metadata the request had; asks back, or for authentication, if the text says so.
fn reporter() -> AgentSpec {
    agent(|turn: Turn| async move {
        let metadata = turn.request_metadata().map_or("none", |metadata| metadata.as_str());
        match &*turn.text() {
            "ask" => Ok(turn.ask(metadata)),
            "hold" => {
                turn.working("holding").await?;
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                Ok(turn.ask(metadata))
            }
            _ => Ok(Outcome::text(metadata)),
        }
    })
}

async fn send(client: &Client, message: Value, metadata: &str) -> Value {
    client.call_text("SendMessage", &format!(r#"{{"message":{message},"metadata":{metadata}}}"#)).await.task()
}

#[tokio::test]
async fn the_metadata_of_the_request_reaches_the_turn() {
    const SENT: &str = r#"{"trace":"t-1","n":12345678901234567890}"#;
    let site = serve(reporter()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let none = client.say("go").await;
        assert_eq!(text(&none["artifacts"][0]), "none");
        // A new task, and one with a key.
        assert_eq!(text(&send(&client, message("go"), SENT).await["artifacts"][0]), SENT);
        let keyed = client.clone().with("idempotency-key", &format!("{wire:?}"));
        assert_eq!(text(&send(&keyed, message("go"), SENT).await["artifacts"][0]), SENT);
        // The next turn has its own.
        let asked = send(&client, message("ask"), r#"{"first":1}"#).await;
        assert_eq!(text(&asked["status"]["message"]), r#"{"first":1}"#);
        let done = send(&client, follow_up(&id(&asked), "go"), SENT).await;
        assert_eq!(text(&done["artifacts"][0]), SENT);
        let asked = send(&client, message("ask"), SENT).await;
        let done = client.send(follow_up(&id(&asked), "go")).await.task();
        assert_eq!(text(&done["artifacts"][0]), "none");
    }
}

#[tokio::test]
async fn the_metadata_of_a_message_that_waited_reaches_its_turn() {
    let site = serve(reporter()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let held = id(&client.start("hold").await);
        client.wait_for(&held, WORKING).await;
        let done = send(&client, follow_up(&held, "go"), r#"{"queued":true}"#).await;
        assert_eq!(state(&done), COMPLETED);
        assert_eq!(text(&done["artifacts"][0]), r#"{"queued":true}"#);
    }
}

#[tokio::test]
async fn usage_adds_up_over_the_turns_of_a_task() {
    let spec = agent(|turn: Turn| async move {
        if turn.text() != "free" {
            turn.usage(Usage { input_tokens: 10, output_tokens: 1, cost_micro_usd: 100 });
            turn.working("half").await?;
            turn.usage(Usage { input_tokens: 5, output_tokens: 2, cost_micro_usd: 50 });
        }
        if turn.text() == "end" { Ok(Outcome::completed()) } else { Ok(turn.ask("more?")) }
    });
    let site = serve(spec).await;
    let usage = |turns: u64| json!({"inputTokens": 15 * turns, "outputTokens": 3 * turns, "costMicroUsd": 150 * turns});
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("begin").await;
        assert_eq!(task["metadata"][USAGE_EXTENSION], usage(1));
        let task = client.send(follow_up(&id(&task), "go on")).await.task();
        assert_eq!(task["metadata"][USAGE_EXTENSION], usage(2));
        // A turn that reports nothing takes nothing away.
        let task = client.send(follow_up(&id(&task), "free")).await.task();
        assert_eq!(task["metadata"][USAGE_EXTENSION], usage(2));
        let task = client.send(follow_up(&id(&task), "end")).await.task();
        assert_eq!((state(&task), &task["metadata"][USAGE_EXTENSION]), (COMPLETED, &usage(3)));
        // Another task begins with nothing, and one that consumes nothing says nothing.
        assert_eq!(client.say("end").await["metadata"][USAGE_EXTENSION], usage(1));
        assert!(client.say("free").await.get("metadata").is_none());
        // Streams tell it with the last status of the turn.
        let last = client.stream(message("end")).await.rest().await.pop().expect("an event").payload();
        assert_eq!(last["statusUpdate"]["metadata"][USAGE_EXTENSION], usage(1));
    }
}
