//! Calls that are let through, as a whole and piece by piece.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::{get, post};
use crate::{ECHO, STREAM, invoke, refused, saying, with};

/// The data of the events of a stream, with their numbers.
fn events(text: &str) -> Vec<(u64, Value)> {
    let frames = text.split("\n\n").filter(|frame| frame.contains("data: "));
    frames
        .map(|frame| {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            let number = field("id: ").and_then(|id| id.parse().ok()).unwrap_or_default();
            let data = field("data: ").expect("data");
            (number, serde_json::from_str(data).expect("JSON"))
        })
        .collect()
}

#[tokio::test]
async fn a_text_is_answered_with_a_text_and_what_it_cost() {
    let gateway = Gateway::start(&format!("{ECHO}price = {{ per_call = 0.02 }}\n"));
    let url = format!("{}/invoke", gateway.agent("echo"));
    let answer = post(&url, &[("x-request-id", "one")], &saying("hello")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.headers["x-request-id"], "one");
    let answer = answer.json();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&"2.0".into(), &7.into()));
    let result = &answer["result"];
    assert_eq!((&result["state"], &result["text"]), (&"TASK_STATE_COMPLETED".into(), &"hello".into()));
    assert_eq!(result["usage"]["costMicroUsd"], 20_000);
    assert!(result["taskId"].is_string() && result["contextId"].is_string(), "{result}");
}

#[tokio::test]
async fn what_is_sent_again_is_not_done_again() {
    let gateway = Gateway::start(&format!("{ECHO}price = {{ per_call = 0.02 }}\n{STREAM}"));
    let one = [("x-request-id", "one")];
    for url in [format!("{}/invoke", gateway.agent("echo")), format!("{}/invoke", gateway.url())] {
        let body = with(&json!({"text": "hello", "skill": "echo"}));
        let first = post(&url, &one, &body).await.json();
        let again = post(&url, &one, &body).await.json();
        assert_eq!(first, again);
        let other = post(&url, &one, &with(&json!({"text": "bye", "skill": "echo"}))).await;
        assert_eq!(other.json()["error"]["message"], "VALIDATION_ERROR", "{other:?}");
    }
    let tasks = get(&format!("{}/tasks", gateway.agent("echo")), &[("a2a-version", "1.0")]).await;
    assert_eq!(tasks.json()["totalSize"], 1, "{tasks:?}");
}

#[tokio::test]
async fn parts_of_every_kind_are_taken_and_numbers_keep_their_text() {
    let gateway = Gateway::start(ECHO);
    let url = format!("{}/invoke", gateway.agent("echo"));
    let body = r#"{"jsonrpc":"2.0","id":"a","method":"invoke","params":{"parts":[{"text":"see "},{"text":"this"}]}}"#;
    let body: Value = serde_json::from_str(body).expect("JSON");
    let answer = invoke(&url, &[], &body).await.json();
    assert_eq!((&answer["id"], &answer["result"]["text"]), (&"a".into(), &"see this".into()), "{answer}");
}

#[tokio::test]
async fn the_fleet_gives_a_call_to_whoever_has_the_skill() {
    let gateway = Gateway::start(&format!("{ECHO}{STREAM}"));
    let url = format!("{}/invoke", gateway.url());
    let answer = invoke(&url, &[], &with(&json!({"text": "hello", "skill": "echo"}))).await.json();
    assert_eq!(answer["result"]["text"], "hello", "{answer}");
    let answer = invoke(&url, &[], &saying("hello")).await;
    assert_eq!(answer.status, 400, "two skills, and none is named");
    assert!(answer.text.contains("which skill"), "{answer:?}");
}

#[tokio::test]
async fn a_question_is_answered_in_the_same_task() {
    let gateway = Gateway::start("[[agent]]\nname = \"ask\"\nkind = \"builtin\"\n");
    let url = format!("{}/invoke", gateway.agent("ask"));
    let asked = invoke(&url, &[], &saying("hello")).await.json()["result"].clone();
    assert_eq!(asked["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    assert!(asked["text"].as_str().is_some_and(|text| !text.is_empty()));
    let more = with(&json!({"text": "me", "taskId": asked["taskId"], "contextId": asked["contextId"]}));
    let answer = invoke(&url, &[], &more).await.json()["result"].clone();
    assert_eq!((&answer["state"], &answer["taskId"]), (&"TASK_STATE_COMPLETED".into(), &asked["taskId"]));
}

#[tokio::test]
async fn a_stream_comes_piece_by_piece_and_can_be_taken_up_again() {
    let gateway = Gateway::start(STREAM);
    let url = format!("{}/invoke/stream", gateway.agent("stream"));
    let one = [("x-request-id", "one")];
    let answer = post(&url, &one, &saying("stream 3 1")).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["x-request-id"], "one");
    let all = events(&answer.text);
    let kinds: Vec<_> =
        all.iter().map(|(_, event)| event["result"]["event"].as_str().expect("a kind")).collect();
    assert_eq!(kinds.first(), Some(&"task"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "output").count(), 3, "{kinds:?}");
    let (_, last) = all.last().expect("events");
    assert_eq!(
        (&last["id"], &last["result"]["state"]),
        (&7.into(), &"TASK_STATE_COMPLETED".into()),
        "{last}"
    );
    let seen = all[1].0.to_string();
    let rest = post(&url, &[one[0], ("last-event-id", &seen)], &saying("stream 3 1")).await;
    assert_eq!(events(&rest.text), all[2..], "the same task, from after what was seen");
}

#[tokio::test]
async fn calls_are_governed_and_recorded_like_all_others() {
    let gateway = Gateway::start(&format!("[budget.caller]\nmax_tasks_per_minute = 2\n{ECHO}"));
    let url = format!("{}/invoke", gateway.agent("echo"));
    for _ in 0..2 {
        assert_eq!(invoke(&url, &[], &saying("hello")).await.status, 200);
    }
    refused(&invoke(&url, &[], &saying("hello")).await, 429, -32001, "BUDGET_EXCEEDED", "BUDGET_EXCEEDED");
    let tasks = get(&format!("{}/tasks", gateway.agent("echo")), &[("a2a-version", "1.0")]).await;
    assert_eq!(tasks.json()["totalSize"], 2, "{tasks:?}");
}
