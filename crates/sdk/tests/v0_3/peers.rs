//! Peers as they are found: cards at the older place, methods that nobody knows, streams that begin in the middle.

use std::sync::Arc;

use chancery_sdk as sdk;
use chancery_sdk::ErrorCode;
use chancery_sdk::protocol::{ListTasksRequest, StreamResponse, TaskState, Version};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Heard, Peer, Reply};

/// The card of v0.2 of the very peer that is asked.
fn card(heard: &Heard) -> Value {
    let url = format!("http://{}", heard.header("host").unwrap());
    json!({"protocolVersion": "0.2.6", "name": "peer", "description": "d", "url": url, "version": "1",
        "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": []})
}

fn task(state: &str, chunks: &[&str]) -> Value {
    let parts: Vec<_> = chunks.iter().map(|chunk| json!({"kind": "text", "text": chunk})).collect();
    let artifacts = if chunks.is_empty() { json!([]) } else { json!([{"artifactId": "a", "parts": parts}]) };
    json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts})
}

fn status(state: &str, is_last: bool) -> Value {
    json!({"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": state}, "final": is_last})
}

fn chunk(text: &str) -> Value {
    json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "append": true,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": text}]}})
}

/// A peer of v0.2 that answers calls as told: by their method, and by how many of it came before.
async fn peer(answer: impl Fn(&str, usize, &Heard) -> Reply + Send + Sync + 'static) -> Peer {
    let counts = parking_lot::Mutex::new(std::collections::HashMap::<String, usize>::new());
    Peer::start(move |_, heard| match heard.line() {
        "GET /.well-known/agent-card.json" => Reply::Whole(404, Vec::new(), "Not Found".to_owned()),
        "GET /.well-known/agent.json" => Reply::json(200, &card(heard)),
        _ => {
            let method = heard.json()["method"].as_str().unwrap().to_owned();
            let mut counts = counts.lock();
            let count = counts.entry(method.clone()).or_default();
            *count += 1;
            answer(&method, *count, heard)
        }
    })
    .await
}

async fn all(mut events: sdk::Events) -> Vec<StreamResponse> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap().payload().unwrap());
    }
    seen
}

/// What a reader of the stream has at its end.
fn told(events: &[StreamResponse]) -> (String, TaskState) {
    let (mut text, mut state) = (String::new(), TaskState::Unspecified);
    for event in events {
        match event {
            StreamResponse::Task(task) => {
                state = task.status.state;
                text = task
                    .artifacts
                    .iter()
                    .flat_map(|artifact| &artifact.parts)
                    .filter_map(|part| part.as_text())
                    .collect();
            }
            StreamResponse::StatusUpdate(update) => state = update.status.state,
            StreamResponse::ArtifactUpdate(update) => {
                text.extend(update.artifact.parts.iter().filter_map(|part| part.as_text()));
            }
            StreamResponse::Message(_) => {}
        }
    }
    (text, state)
}

#[tokio::test]
async fn a_card_is_found_where_older_agents_have_it() {
    let peer = peer(|method, _, heard| match method {
        "message/send" => heard.result(&task("completed", &["done"])),
        _ => heard.error(-32601),
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.unwrap();
    assert_eq!(client.card().await.unwrap().supported_interfaces[0].protocol_version, "0.3");
    assert_eq!(client.send("hi").await.unwrap().text(), "done");
    let heard = peer.heard().into_iter().rfind(|heard| !heard.body.is_empty()).unwrap();
    assert_eq!(heard.header("a2a-version"), None);
    let params = &heard.json()["params"];
    assert_eq!(
        (&params["message"]["kind"], &params["configuration"]["blocking"]),
        (&json!("message"), &json!(true))
    );
    assert!(params["configuration"]["acceptedOutputModes"].is_array());
    let list = client.list(ListTasksRequest::default()).await.unwrap_err();
    assert_eq!(list.code(), Some(ErrorCode::UnsupportedOperation));
    let pinned = sdk::Client::builder().version(Version::V1_0).connect(&peer.url).await.unwrap_err();
    assert!(pinned.to_string().contains("JSONRPC 0.3"), "{pinned}");
}

#[tokio::test]
async fn who_does_not_know_a_method_is_asked_in_another_version() {
    let peer = Peer::start(|_, heard| {
        let url = format!("http://{}", heard.header("host").unwrap());
        let at =
            |version: &str| json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version});
        if heard.is_card() {
            return Reply::json(200, &json!({"name": "peer", "supportedInterfaces": [at("1.0"), at("0.3")]}));
        }
        match heard.json()["method"].as_str() {
            Some("message/send") => heard.result(&task("completed", &["done"])),
            _ => heard.error(-32601),
        }
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.unwrap();
    assert_eq!(client.send("hi").await.unwrap().text(), "done");
    let methods: Vec<_> = peer.calls().iter().map(|heard| heard.json()["method"].clone()).collect();
    assert_eq!(methods, ["SendMessage", "message/send"]);
    // Nobody who asked for one version is spoken to in another.
    let pinned = sdk::Client::builder().version(Version::V1_0).connect(&peer.url).await.unwrap();
    assert_eq!(pinned.send("hi").await.unwrap_err().code(), Some(ErrorCode::MethodNotFound));
}

#[tokio::test]
async fn a_subscription_begins_with_the_task() {
    // The first chunk comes by the stream, too; the task that is asked for has it already.
    let peer = peer(|method, _, heard| match method {
        "tasks/resubscribe" => {
            let rest = [(0, chunk("one ")), (0, chunk("two")), (0, status("completed", true))];
            Reply::events(heard.stream(&rest))
        }
        "tasks/get" => heard.result(&task("working", &["zero ", "one "])),
        _ => heard.error(-32601),
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.unwrap();
    let events = all(client.subscribe("t").await.unwrap()).await;
    assert!(matches!(&events[0], StreamResponse::Task(_)), "{events:?}");
    assert_eq!(told(&events), ("zero one two".to_owned(), TaskState::Completed));
}

#[tokio::test]
async fn a_chunk_like_one_before_it_is_told_though_it_comes_while_the_task_is_asked_for() {
    // The task has one such chunk when it is first asked for. The second comes by the stream before that is answered.
    let (stream, arrived) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (go_on, first) = (stream.clone(), arrived.clone());
    let peer = peer(move |method, count, heard| match (method, count) {
        ("tasks/resubscribe", _) => {
            Reply::later(&go_on, &heard.stream(&[(0, chunk("x")), (0, status("completed", true))]))
        }
        ("tasks/get", 1) => {
            go_on.notify_one();
            let Reply::Whole(_, _, body) = heard.result(&task("working", &["x"])) else { unreachable!() };
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
            Reply::InTwo(head.into(), first.clone(), body.into())
        }
        ("tasks/get", _) => heard.result(&task("completed", &["x", "x"])),
        _ => heard.error(-32601),
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.unwrap();
    let subscribed = tokio::spawn(async move { all(client.subscribe("t").await.unwrap()).await });
    // Enough for what has been written to the one connection to be there before what is written to the other.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    arrived.notify_one();
    let events = subscribed.await.unwrap();
    assert_eq!(told(&events), ("xx".to_owned(), TaskState::Completed), "{events:?}");
}

#[tokio::test]
async fn what_was_missed_between_two_streams_is_told() {
    let peer = peer(|method, _, heard| match method {
        "message/stream" => Reply::cut(&heard.stream(&[(0, task("working", &[])), (0, chunk("one "))])),
        "tasks/resubscribe" => {
            Reply::events(heard.stream(&[(0, chunk("three")), (0, status("completed", true))]))
        }
        "tasks/get" => heard.result(&task("working", &["one ", "two "])),
        _ => heard.error(-32601),
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.unwrap();
    let events = all(client.stream("go").await.unwrap()).await;
    assert_eq!(told(&events), ("one two three".to_owned(), TaskState::Completed));
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_ends_with_the_task() {
    for code in [-32001, -32602, -32601, -32004] {
        let peer = peer(move |method, _, heard| match method {
            "message/stream" => Reply::cut(&heard.stream(&[(0, task("working", &[])), (0, chunk("one "))])),
            "tasks/get" => heard.result(&task("completed", &["one ", "two"])),
            _ => heard.error(code),
        })
        .await;
        let client = sdk::Client::connect(&peer.url).await.unwrap();
        let events = all(client.stream("go").await.unwrap()).await;
        assert_eq!(told(&events), ("one two".to_owned(), TaskState::Completed), "{code}");
    }
}

#[tokio::test]
async fn the_peer_says_when_a_stream_is_over() {
    // It may say so of a state in which v1.0 would go on.
    let peer = peer(|method, _, heard| match method {
        "message/stream" => {
            Reply::events(heard.stream(&[(0, task("submitted", &[])), (0, status("unknown", true))]))
        }
        _ => heard.error(-32601),
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.unwrap();
    assert_eq!(all(client.stream("go").await.unwrap()).await.len(), 2);
}
