//! Streams: no task first, artifacts by their places, and the last event says that it is.

use serde_json::{Value, json};

use crate::agents::*;
use crate::support::{Events, serve};

async fn payloads(events: &mut Events) -> Vec<Value> {
    events.rest().await.iter().map(|event| event.payload()).collect()
}

#[tokio::test]
async fn a_stream_tells_status_and_artifacts() {
    let site = serve(obedient()).await;
    let mut events = old(&site).open("tasks/sendSubscribe", say("mine", "chunks")).await;
    let told = payloads(&mut events).await;
    assert!(told.iter().all(|event| event["id"] == "mine"), "{told:?}");
    let states: Vec<_> = told.iter().filter_map(|event| event["status"]["state"].as_str()).collect();
    assert_eq!(states, ["submitted", "working", "completed"]);
    let finals: Vec<_> = told.iter().filter_map(|event| event.get("final")).collect();
    assert_eq!(finals, [false, false, true]);
    let artifacts: Vec<_> = told.iter().filter_map(|event| event.get("artifact")).collect();
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    assert_eq!(
        artifacts,
        [
            &json!({"name": "first", "parts": text("one "), "index": 0}),
            &json!({"name": "second", "parts": text("other"), "index": 1}),
            &json!({"parts": text("two"), "index": 0, "append": true, "lastChunk": true}),
        ]
    );
}

#[tokio::test]
async fn a_question_ends_its_stream() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let told = payloads(&mut client.open("tasks/sendSubscribe", say("mine", "ask")).await).await;
    let last = told.last().unwrap();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("input-required"), &json!(true)));
    let told = payloads(&mut client.open("tasks/sendSubscribe", say("mine", "chunks")).await).await;
    // The turn may be over before the stream begins; what it made is told all the same.
    let made = |index: u64| told.iter().any(|event| event["artifact"]["index"] == index);
    assert!(made(0) && made(1), "{told:?}");
    assert_eq!(told.last().unwrap()["status"]["state"], "completed");
    assert_eq!(told.last().unwrap()["final"], true);
}

#[tokio::test]
async fn a_task_is_watched_again_from_where_it_is() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let mut events = client.open("tasks/sendSubscribe", say("mine", "chunk, then wait")).await;
    let seen = events.through(|event| event.payload()["status"]["message"].is_object()).await;
    let mut again = client.open("tasks/resubscribe", json!({"id": "mine"})).await;
    // What came before is told first.
    let first = again.one().await.payload();
    assert_eq!(
        first,
        json!({"id": "mine", "artifact": {"name": "first", "parts": [{"type": "text", "text": "one"}], "index": 0}})
    );
    let second = again.one().await.payload();
    assert_eq!((&second["status"]["state"], &second["final"]), (&json!("working"), &json!(false)));
    // With the number of the last event that it saw, a client misses nothing and hears nothing twice.
    let before_last = seen[seen.len() - 2].id.unwrap().to_string();
    let mut resumed = client
        .clone()
        .with("last-event-id", &before_last)
        .open("tasks/resubscribe", json!({"id": "mine"}))
        .await;
    assert_eq!(resumed.one().await.payload(), seen.last().unwrap().payload());
    client.call("tasks/cancel", json!({"id": "mine"})).await.result();
    for stream in [&mut events, &mut again, &mut resumed] {
        let told = payloads(stream).await;
        assert_eq!(told.len(), 1);
        assert_eq!((&told[0]["status"]["state"], &told[0]["final"]), (&json!("canceled"), &json!(true)));
    }
}

#[tokio::test]
async fn a_task_that_has_ended_tells_how() {
    let site = serve(obedient()).await;
    let client = old(&site);
    send(&client, "mine", "chunks").await;
    let told = payloads(&mut client.open("tasks/resubscribe", json!({"id": "mine"})).await).await;
    let places: Vec<_> = told.iter().filter_map(|event| event["artifact"]["index"].as_i64()).collect();
    assert_eq!(places, [0, 1]);
    let last = told.last().unwrap();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("completed"), &json!(true)));
}

#[tokio::test]
async fn the_places_of_artifacts_stay_when_a_stream_is_resumed() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let mut events = client.open("tasks/sendSubscribe", say("mine", "chunks")).await;
    let all = events.rest().await;
    for seen in &all[..all.len() - 1] {
        let after = client.clone().with("last-event-id", &seen.id.unwrap().to_string());
        let rest = after.open("tasks/resubscribe", json!({"id": "mine"})).await.rest().await;
        let wanted: Vec<_> = all.iter().filter(|event| event.id > seen.id).collect();
        assert_eq!(rest.iter().collect::<Vec<_>>(), wanted);
    }
}
