//! JSON as the protocol wants it: names in camel case, enums as names, times in UTC.

use serde_json::{Value, json};

use crate::client::{Client, id, message, with};
use crate::schema::STATES;
use crate::server::{Pass, Server};

/// Everything a server can say about tasks that do everything.
fn documents(client: &Client) -> Vec<Value> {
    let mut said = Vec::new();
    for prefix in ["tck-dm-test-001", "tck-artifact-file", "tck-artifact-data", "tck-message-response"] {
        said.push(client.send(&message(prefix)));
    }
    let waiting = client.waiting();
    said.push(client.task(&with(message("tck-artifact-text"), "taskId", id(&waiting))));
    said.push(client.get(id(&waiting)));
    said.push(client.call("ListTasks", &json!({"includeArtifacts": true})));
    said.extend(client.stream(&message("tck-stream-artifact-chunked")));
    said.push(client.call("GetExtendedAgentCard", &json!({})));
    said
}

/// Visits every member of every object.
fn visit(value: &Value, look: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                look(key, value);
                visit(value, look);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, look)),
        _ => {}
    }
}

#[test]
fn names_are_in_camel_case() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let mut seen = 0;
        for document in documents(&client) {
            visit(&document, &mut |key, _| {
                assert!(key.chars().all(|c| c.is_ascii_alphanumeric()), "{:?}: {key}", client.binding);
                assert!(key.starts_with(|c: char| c.is_ascii_lowercase()), "{:?}: {key}", client.binding);
                seen += 1;
            });
        }
        assert!(seen > 100, "{:?}: {seen} names", client.binding);
    }
}

#[test]
fn enums_are_names() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let (mut states, mut roles) = (0, 0);
        for document in documents(&client) {
            visit(&document, &mut |key, value| match key {
                "state" => {
                    assert!(STATES.iter().any(|known| value == known), "{:?}: {value}", client.binding);
                    states += 1;
                }
                "role" => {
                    assert!(value == "ROLE_USER" || value == "ROLE_AGENT", "{:?}: {value}", client.binding);
                    roles += 1;
                }
                _ => {}
            });
        }
        assert!(states > 5 && roles > 5, "{:?}: {states} states, {roles} roles", client.binding);
    }
}

#[test]
fn times_are_in_utc_and_to_the_millisecond() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let mut seen = 0;
        for document in documents(&client) {
            visit(&document, &mut |key, value| {
                if key == "timestamp" {
                    let text = value.as_str().expect("a timestamp is a text");
                    let shape = text.replace(|c: char| c.is_ascii_digit(), "0");
                    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{:?}: {text}", client.binding);
                    seen += 1;
                }
            });
        }
        assert!(seen > 5, "{:?}: {seen} times", client.binding);
    }
}

#[test]
fn nothing_is_null() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for document in documents(&client) {
            visit(&document, &mut |key, value| {
                assert!(!value.is_null(), "{:?}: {key} in {document}", client.binding);
            });
        }
    }
}
