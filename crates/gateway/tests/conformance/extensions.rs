//! Extensions: which are required, and which are active.

use serde_json::json;

use crate::client::{id, message, state};
use crate::errors::EXTENSION_REQUIRED;
use crate::server::{EXTENSION, Pass, Server};

const UNKNOWN: &str = "https://example.com/ext/v1,https://example.com/ext/v2";

#[test]
fn a_call_without_the_required_extension_is_refused() {
    let server = Server::start(Pass::Extension);
    for client in server.clients() {
        let send = json!({"message": message("tck-cap-ext-004")});
        let task = json!({"id": "any"});
        for (operation, params) in [
            ("SendMessage", &send),
            ("SendStreamingMessage", &send),
            ("GetTask", &task),
            ("ListTasks", &json!({})),
            ("CancelTask", &task),
            ("SubscribeToTask", &task),
            ("GetExtendedAgentCard", &json!({})),
        ] {
            client.refusal(operation, params).expect(&EXTENSION_REQUIRED);
            client.with("A2A-Extensions", UNKNOWN).refusal(operation, params).expect(&EXTENSION_REQUIRED);
        }
    }
}

#[test]
fn a_call_with_the_required_extension_is_taken() {
    let server = Server::start(Pass::Extension);
    for client in server.clients() {
        for declared in [EXTENSION.to_owned(), format!("{UNKNOWN}, {EXTENSION}")] {
            let client = client.with("A2A-Extensions", &declared);
            let task = client.completed();
            assert_eq!(client.get(id(&task)), task, "{:?}", client.binding);
            let events: Vec<_> = client.stream(&message("tck-stream-001")).collect();
            assert!(events.len() > 1, "{:?}: {events:?}", client.binding);
        }
    }
}

#[test]
fn an_answer_says_which_extensions_are_active() {
    let server = Server::start(Pass::Extension);
    for client in server.clients() {
        let client = client.with("A2A-Extensions", &format!("{UNKNOWN},{EXTENSION}"));
        for operation in ["SendMessage", "SendStreamingMessage"] {
            let response = client.ask(operation, &json!({"message": message("tck-complete-task")}));
            assert_eq!(response.header("a2a-extensions"), Some(EXTENSION), "{:?}", client.binding);
        }
    }
}

#[test]
fn unknown_extensions_are_ignored() {
    for pass in [Pass::All, Pass::None] {
        let server = Server::start(pass);
        for client in server.clients() {
            let client = client.with("A2A-Extensions", UNKNOWN);
            let response = client.ask("SendMessage", &json!({"message": message("tck-complete-task")}));
            assert_eq!(response.header("a2a-extensions"), None, "{:?}", client.binding);
            let reply = client.read(response.status, response.json()).expect("a task");
            assert_eq!(state(&reply["task"]), "TASK_STATE_COMPLETED", "{:?}", client.binding);
        }
    }
}
