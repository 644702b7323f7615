//! What a text asks of the conformance agent, and that a message id asks before it.

use serde_json::{Value, json};

use crate::client::{Client, id, saying, state, with};
use crate::server::{Pass, Server};
use crate::stream::told;

/// The task, or the message, that comes of a text.
fn answer(client: &Client, text: &str) -> Value {
    client.send(&saying(&format!("{text} please")))
}

#[test]
fn a_text_decides_how_a_task_ends() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (text, end) in [
            ("tck-complete-task", "TASK_STATE_COMPLETED"),
            ("tck-input-required", "TASK_STATE_INPUT_REQUIRED"),
            ("tck-auth-required", "TASK_STATE_AUTH_REQUIRED"),
            ("tck-reject-task", "TASK_STATE_REJECTED"),
            ("tck-task-failure", "TASK_STATE_FAILED"),
            ("tck-multi-turn", "TASK_STATE_INPUT_REQUIRED"),
            ("tck-long-running", "TASK_STATE_COMPLETED"),
            ("tck-artifact-text", "TASK_STATE_COMPLETED"),
            ("tck-stream-basic", "TASK_STATE_COMPLETED"),
            ("anything else", "TASK_STATE_COMPLETED"),
        ] {
            assert_eq!(state(&answer(&client, text)["task"]), end, "{:?}: {text}", client.binding);
        }
    }
}

#[test]
fn who_must_act_or_has_failed_is_told_why() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for text in ["tck-input-required", "tck-auth-required", "tck-task-failure", "tck-reject-task"] {
            let task = answer(&client, text)["task"].take();
            let why = task["status"]["message"]["parts"][0]["text"].as_str();
            assert!(why.is_some_and(|why| !why.is_empty()), "{:?}: {text}: {task}", client.binding);
        }
    }
}

#[test]
fn a_text_decides_what_is_made() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (text, kind, content) in [
            ("tck-artifact-text", "text", json!("Generated text content")),
            ("tck-artifact-data", "data", json!({"key": "value", "count": 42})),
            ("tck-artifact-file", "raw", json!("R2VuZXJhdGVkIGZpbGUgY29udGVudA==")),
            ("tck-artifact-file-url", "url", json!("https://example.com/output.txt")),
        ] {
            let task = answer(&client, text)["task"].take();
            assert_eq!(task["artifacts"][0]["parts"][0][kind], content, "{:?}: {text}", client.binding);
        }
        let reply = answer(&client, "tck-message-response");
        let said = &reply["message"]["parts"][0]["text"];
        assert_eq!(said, "Direct message response", "{:?}", client.binding);
    }
}

#[test]
fn a_text_decides_what_is_streamed() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (text, artifacts) in [("tck-stream-basic", 1), ("tck-stream-chunked", 2)] {
            let events: Vec<_> = client.stream(&saying(text)).collect();
            let made = events.iter().filter(|event| event["artifactUpdate"].is_object()).count();
            assert_eq!(made, artifacts, "{:?}: {text}", client.binding);
            let states: Vec<_> = events.iter().filter_map(told).collect();
            let expected = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"];
            assert_eq!(states, expected, "{:?}: {text}", client.binding);
        }
    }
}

#[test]
fn a_task_goes_on_after_authentication() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = answer(&client, "tck-auth-required")["task"].take();
        let done = client.task(&with(saying("here I am"), "taskId", id(&task)));
        assert_eq!(done["id"], task["id"], "{:?}", client.binding);
        assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{:?}", client.binding);
    }
}

#[test]
fn a_message_id_decides_before_a_text() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let message = with(saying("tck-reject-task"), "messageId", "tck-input-required-5eed");
        assert_eq!(state(&client.task(&message)), "TASK_STATE_INPUT_REQUIRED", "{:?}", client.binding);
    }
}
