//! Requests that are not good ones are refused, and the refusal names the field.

use serde_json::{Value, json};

use crate::client::message;
use crate::errors::INVALID_PARAMS;
use crate::server::{Pass, Server};

#[test]
fn a_message_that_is_not_whole_is_refused() {
    let cases: [(&str, Value, &str); 16] = [
        ("/messageId", json!(""), "message.messageId"),
        ("/messageId", Value::Null, "message.messageId"),
        ("/messageId", json!(7), "message.messageId"),
        ("/role", Value::Null, "message.role"),
        ("/role", json!("ROLE_UNSPECIFIED"), "message.role"),
        ("/role", json!("ROLE_AGENT"), "message.role"),
        ("/role", json!("user"), "message.role"),
        ("/parts", Value::Null, "message.parts"),
        ("/parts", json!([]), "message.parts"),
        ("/parts", json!("Hello"), "message.parts"),
        ("/parts/0", json!({}), "message.parts[0]"),
        ("/parts/0", json!({"text": "a", "url": "https://example.com"}), "message.parts[0]"),
        ("/parts/0", json!({"kind": "text"}), "message.parts[0]"),
        ("/parts/0", json!({"raw": "this is no base64!"}), "message.parts[0].raw"),
        ("/parts/0", json!({"url": "output.txt"}), "message.parts[0].url"),
        ("/parts/0", json!({"text": 7}), "message.parts[0].text"),
    ];
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (place, value, field) in &cases {
            let mut message = message("tck-complete-task");
            *message.pointer_mut(place).unwrap() = value.clone();
            for operation in ["SendMessage", "SendStreamingMessage"] {
                let refusal = client.refusal(operation, &json!({"message": message}));
                refusal.expect(&INVALID_PARAMS);
                assert_eq!(refusal.field(), Some(*field), "{:?}: {place} = {value}", client.binding);
            }
        }
        assert_eq!(client.call("ListTasks", &json!({}))["totalSize"], 0, "{:?}", client.binding);
    }
}

#[test]
fn parameters_that_are_missing_are_named() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (params, field) in [
            (json!({}), "message"),
            (json!({"message": null}), "message"),
            (json!({"message": {}}), "message.messageId"),
            (json!({"message": "Hello"}), "message"),
        ] {
            let refusal = client.refusal("SendMessage", &params);
            refusal.expect(&INVALID_PARAMS);
            assert_eq!(refusal.field(), Some(field), "{:?}: {params}", client.binding);
        }
    }
}

#[test]
fn history_cannot_be_shorter_than_nothing() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.completed();
        let send = json!({"message": message("tck-complete-task"), "configuration": {"historyLength": -1}});
        for (operation, params, field) in [
            ("GetTask", json!({"id": task["id"], "historyLength": -1}), "historyLength"),
            ("SendMessage", send, "configuration.historyLength"),
        ] {
            let refusal = client.refusal(operation, &params);
            refusal.expect(&INVALID_PARAMS);
            assert_eq!(refusal.field(), Some(field), "{:?}: {operation}", client.binding);
        }
    }
}
