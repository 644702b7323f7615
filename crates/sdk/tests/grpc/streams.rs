//! Streams: order, resuming, slow readers, what ends them.

use chancery_sdk::{AgentSpec, ErrorCode, Outcome, ServerLimits, Turn};
use serde_json::{Value, json};

use crate::caller::{Answer, Caller, Messages};
use crate::support::*;

/// Says as many chunks as it is told to.
fn chunks() -> AgentSpec {
    agent(|turn: Turn| async move {
        let count: usize = turn.text().parse().unwrap_or(1);
        let mut artifact = turn.begin_artifact("chunks");
        for number in 0..count {
            artifact.append(format!("{number:05}")).await?;
        }
        Ok(Outcome::completed())
    })
}

fn said(event: &Value) -> Option<&str> {
    event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str()
}

async fn stream(caller: &Caller, text: &str) -> Messages {
    caller.stream("SendStreamingMessage", json!({"message": message(text)})).await
}

/// The number of an event, in the field that was agreed on, by hand: tag 1000 as a varint, and the number.
fn number(bytes: &[u8]) -> Option<u8> {
    let at = bytes.windows(2).rposition(|pair| pair == [0xc0, 0x3e])?;
    (at + 3 == bytes.len()).then(|| bytes[at + 2])
}

#[tokio::test]
async fn a_stream_tells_everything_in_order() {
    let site = serve(chunks()).await;
    let Answer { messages, trailers, .. } = stream(&Caller::new(&site), "3").await.all().await;
    assert_eq!(trailers["grpc-status"], "0");
    assert!(messages[0]["task"]["id"].is_string(), "{messages:?}");
    let texts: Vec<_> = messages.iter().filter_map(said).collect();
    assert_eq!(texts, ["00000", "00001", "00002"]);
    assert_eq!(messages.last().unwrap()["statusUpdate"]["status"]["state"], COMPLETED);
}

#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    let site = serve(chunks()).await;
    let mut slow = stream(&Caller::new(&site), "20000").await;
    let first = slow.one().await;
    let id = first["task"]["id"].as_str().expect("a task").to_owned();
    site.jsonrpc().wait_for(&id, COMPLETED).await;
    let rest = slow.all().await;
    let texts: Vec<_> = rest.messages.iter().filter_map(said).collect();
    assert_eq!(texts.len(), 20_000);
    assert!(texts.is_sorted());
    assert_eq!(rest.code(), 0);
}

#[tokio::test]
async fn whoever_asks_for_numbers_can_come_back() {
    let site = serve(chunks()).await;
    let plain = stream(&Caller::new(&site), "2").await.next_bytes().await.expect("an event");
    assert_eq!(number(&plain), None);
    let caller = Caller::new(&site).with("chancery-event-numbers", "1");
    let mut events = stream(&caller, "5").await;
    let mut id = String::new();
    for expected in 1..=3 {
        let bytes = events.next_bytes().await.expect("an event");
        assert_eq!(number(&bytes), Some(expected));
        let event = events.decoded(&bytes);
        if let Some(task) = event["task"]["id"].as_str() {
            task.clone_into(&mut id);
        }
    }
    drop(events);
    let again = caller.with("last-event-id", "3");
    let mut rest = again.stream("SubscribeToTask", json!({"id": id})).await;
    let bytes = rest.next_bytes().await.expect("an event");
    assert_eq!(number(&bytes), Some(4));
    let rest = rest.all().await;
    assert_eq!(rest.messages.last().unwrap()["statusUpdate"]["status"]["state"], COMPLETED);
    let wrong = again.with("last-event-id", "x").call("SubscribeToTask", json!({"id": id})).await;
    assert_eq!(wrong.refused(ErrorCode::InvalidParams)[1]["fieldViolations"][0]["field"], "Last-Event-ID");
}

#[tokio::test]
async fn a_subscription_begins_with_the_task() {
    let site = serve(sleeper()).await;
    let caller = Caller::new(&site);
    let id = id(&caller.start("x").await);
    let mut one = caller.stream("SubscribeToTask", json!({"id": id})).await;
    let mut other = caller.stream("SubscribeToTask", json!({"id": id})).await;
    assert_eq!(one.one().await["task"]["id"], id.as_str());
    assert_eq!(other.one().await["task"]["id"], id.as_str());
    caller.call("CancelTask", json!({"id": id})).await.one();
    for stream in [one, other] {
        let rest = stream.all().await;
        assert_eq!(rest.messages.last().unwrap()["statusUpdate"]["status"]["state"], CANCELED);
        assert_eq!(rest.code(), 0);
    }
}

#[tokio::test]
async fn a_stream_that_cannot_begin_is_a_failure_in_the_head() {
    let site = serve(chunks()).await;
    let caller = Caller::new(&site);
    let missing = caller.call("SubscribeToTask", json!({"id": "nobody"})).await;
    missing.refused(ErrorCode::TaskNotFound);
    assert!(missing.only_head);
    let task = caller.say("1").await;
    let over = caller.call("SubscribeToTask", json!({"id": task["id"]})).await;
    over.refused(ErrorCode::UnsupportedOperation);
    assert!(over.only_head);
}

#[tokio::test]
async fn there_is_room_for_so_many_streams() {
    let limits = ServerLimits { streams: 1, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(sleeper()).limits(limits)).await;
    let caller = Caller::new(&site);
    let mut first = stream(&caller, "x").await;
    first.one().await;
    let second = stream(&caller, "y").await.all().await;
    let details = second.refused(ErrorCode::Unavailable);
    assert_eq!(details[1]["retryDelay"], "1s");
    drop(first);
    until("a free place", || async {
        let mut next = stream(&caller, "z").await;
        next.next().await.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_deadline_ends_the_call_and_not_the_task() {
    let site = serve(sleeper()).await;
    let caller = Caller::new(&site).with("grpc-timeout", "300m");
    let mut events = stream(&caller, "x").await;
    let id = events.one().await["task"]["id"].as_str().expect("a task").to_owned();
    let ended = events.all().await;
    assert_eq!((ended.code(), ended.only_head), (4, false));
    let sent = caller.call("SendMessage", json!({"message": message("x")})).await;
    assert_eq!((sent.code(), sent.only_head), (4, true));
    assert_eq!(state(&site.jsonrpc().get(&id).await), WORKING);
    let wrong = caller.with("grpc-timeout", "soon").call("GetTask", json!({"id": id})).await;
    wrong.refused(ErrorCode::InvalidParams);
}
