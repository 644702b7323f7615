//! Streams of events that a message opens.

use serde_json::{Value, json};

use crate::client::{Binding, id, message, saying, state, with};
use crate::server::{Pass, Server};

/// What kind of event it is.
fn kind(event: &Value) -> &str {
    event.as_object().and_then(|event| event.keys().next()).expect("an event has a kind")
}

/// The state that an event tells.
pub(crate) fn told(event: &Value) -> Option<&str> {
    [&event["task"], &event["statusUpdate"]].into_iter().find_map(|told| told["status"]["state"].as_str())
}

/// States only ever go from one rank to the next.
fn rank(state: &str) -> u8 {
    match state {
        "TASK_STATE_SUBMITTED" => 0,
        "TASK_STATE_WORKING" | "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED" => 1,
        _ => 2,
    }
}

/// The task, then its events, then the end: what every stream of a task looks like.
fn check_order(events: &[Value]) {
    let first = &events.first().expect("a stream has events")["task"];
    assert!(first.is_object(), "the task comes first: {events:?}");
    for event in &events[1..] {
        let update = &event[kind(event)];
        assert!(["statusUpdate", "artifactUpdate"].contains(&kind(event)), "after a task: {event}");
        assert_eq!(update["taskId"], first["id"], "{event}");
        assert_eq!(update["contextId"], first["contextId"], "{event}");
    }
    let ranks: Vec<_> = events.iter().filter_map(told).map(rank).collect();
    assert!(ranks.is_sorted(), "{events:?}");
}

fn artifact_texts(events: &[Value]) -> Vec<&str> {
    let updates = events.iter().filter_map(|event| event.get("artifactUpdate"));
    updates.filter_map(|update| update["artifact"]["parts"][0]["text"].as_str()).collect()
}

#[test]
fn a_stream_tells_of_the_task_in_order() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (prefix, texts) in [
            ("tck-stream-001", &["Stream hello from TCK"][..]),
            ("tck-stream-002", &[]),
            ("tck-stream-003", &["Stream task lifecycle"]),
            ("tck-stream-ordering-001", &["Ordered output"]),
            ("tck-stream-artifact-text", &["Streamed text content"]),
            ("tck-stream-artifact-chunked", &["chunk-1 ", "chunk-2"]),
            ("tck-artifact-text", &["Generated text content"]),
            ("tck-transport-test-001", &[]),
        ] {
            let events: Vec<_> = client.stream(&message(prefix)).collect();
            check_order(&events);
            assert_eq!(artifact_texts(&events), texts, "{:?}: {prefix}", client.binding);
            let end = events.last().and_then(told);
            assert_eq!(end, Some("TASK_STATE_COMPLETED"), "{:?}: {prefix}", client.binding);
        }
    }
}

#[test]
fn a_stream_says_that_work_has_begun() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for prefix in ["tck-stream-001", "tck-stream-003", "tck-stream-ordering-001"] {
            let events: Vec<_> = client.stream(&message(prefix)).collect();
            let states: Vec<_> = events.iter().filter_map(told).collect();
            let expected = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"];
            assert_eq!(states, expected, "{:?}: {prefix}", client.binding);
        }
    }
}

#[test]
fn a_stream_leads_to_the_task_that_is_kept() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let events: Vec<_> = client.stream(&message("tck-stream-artifact-chunked")).collect();
        let task = client.get(id(&events[0]["task"]));
        assert_eq!(task["status"], events.last().unwrap()["statusUpdate"]["status"], "{:?}", client.binding);
        let parts = task["artifacts"][0]["parts"].as_array().unwrap();
        let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        assert_eq!(text, "chunk-1 chunk-2", "{:?}", client.binding);
    }
}

#[test]
fn chunks_are_appended_until_the_last() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let events: Vec<_> = client.stream(&message("tck-stream-artifact-chunked")).collect();
        let chunks: Vec<_> = events.iter().filter_map(|event| event.get("artifactUpdate")).collect();
        let [first, last] = chunks[..] else { panic!("{:?}: two chunks: {events:?}", client.binding) };
        assert_eq!(first["artifact"]["artifactId"], last["artifact"]["artifactId"], "{:?}", client.binding);
        let flags = |chunk: &Value| ["append", "lastChunk"].map(|flag| chunk[flag] == true);
        assert_eq!((flags(first), flags(last)), ([false, false], [true, true]), "{:?}", client.binding);
    }
}

#[test]
fn a_file_can_be_streamed() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let events: Vec<_> = client.stream(&message("tck-stream-artifact-file")).collect();
        check_order(&events);
        let part = events.iter().find_map(|event| event["artifactUpdate"].pointer("/artifact/parts/0"));
        let part = part.expect("an artifact");
        assert_eq!(part["filename"], "output.txt", "{:?}", client.binding);
        assert_eq!(part["mediaType"], "text/plain", "{:?}", client.binding);
    }
}

#[test]
fn a_direct_answer_is_the_only_event() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let events: Vec<_> = client.stream(&message("tck-message-response")).collect();
        assert_eq!(events.len(), 1, "{:?}: {events:?}", client.binding);
        assert_eq!(events[0]["message"]["parts"][0]["text"], "Direct message response");
    }
}

#[test]
fn a_stream_ends_where_the_client_must_speak() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let events: Vec<_> = client.stream(&message("tck-input-required")).collect();
        check_order(&events);
        assert_eq!(events.last().and_then(told), Some("TASK_STATE_INPUT_REQUIRED"), "{:?}", client.binding);
        let follow_up = with(message("tck-complete-task"), "taskId", id(&events[0]["task"]));
        let more: Vec<_> = client.stream(&follow_up).collect();
        check_order(&more);
        assert_eq!(more[0]["task"]["id"], events[0]["task"]["id"], "{:?}", client.binding);
        assert_eq!(more.last().and_then(told), Some("TASK_STATE_COMPLETED"), "{:?}", client.binding);
    }
}

#[test]
fn a_stream_stays_open_while_authentication_is_awaited() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let mut events = client.stream(&message("tck-auth-required"));
        let first = events.next().unwrap();
        let asked = events.find(|event| told(event) == Some("TASK_STATE_AUTH_REQUIRED"));
        assert!(asked.is_some(), "{:?}", client.binding);
        client.call("CancelTask", &json!({"id": id(&first["task"])}));
        let rest: Vec<_> = events.collect();
        assert_eq!(rest.last().and_then(told), Some("TASK_STATE_CANCELED"), "{:?}", client.binding);
    }
}

#[test]
fn events_come_when_they_happen() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let mut events = client.stream(&saying("tck-cancel"));
        let task = events.next().unwrap()["task"].clone();
        let working = events.next();
        assert_eq!(working.as_ref().and_then(told), Some("TASK_STATE_WORKING"), "{:?}", client.binding);
        assert_eq!(state(&client.get(id(&task))), "TASK_STATE_WORKING", "{:?}", client.binding);
        client.call("CancelTask", &json!({"id": id(&task)}));
        let rest: Vec<_> = events.collect();
        assert_eq!(rest.len(), 1, "{:?}: {rest:?}", client.binding);
        assert_eq!(told(&rest[0]), Some("TASK_STATE_CANCELED"), "{:?}", client.binding);
    }
}

#[test]
fn streams_are_not_to_be_cached() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let params = json!({"message": message("tck-sse-streaming-001")});
        let response = client.ask("SendStreamingMessage", &params);
        assert_eq!(response.media_type(), "text/event-stream", "{:?}", client.binding);
        assert_eq!(response.header("cache-control"), Some("no-cache"), "{:?}", client.binding);
        for frame in response.frames() {
            let event = if client.binding == Binding::JsonRpc { &frame["result"] } else { &frame };
            assert!(event.is_object(), "{:?}: {frame}", client.binding);
        }
    }
}
