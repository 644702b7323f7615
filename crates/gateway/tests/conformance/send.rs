//! Sending messages: what comes back, and when.

use serde_json::json;

use crate::client::{id, message, saying, state, with};
use crate::schema;
use crate::server::{Pass, Server};

#[test]
fn a_message_becomes_a_task() {
    for pass in [Pass::All, Pass::None] {
        let server = Server::start(pass);
        for client in server.clients() {
            let reply = client.send(&message("tck-complete-task"));
            schema::check(&schema::SEND_MESSAGE_RESPONSE, &reply);
            assert_eq!(state(&reply["task"]), "TASK_STATE_COMPLETED", "{:?}", client.binding);
            let said = &reply["task"]["status"]["message"];
            assert_eq!(said["parts"][0]["text"], "Hello from TCK", "{:?}", client.binding);
            assert_eq!(said["role"], "ROLE_AGENT", "{:?}", client.binding);
            assert_eq!(said["taskId"], reply["task"]["id"], "{:?}", client.binding);
            assert_eq!(said["contextId"], reply["task"]["contextId"], "{:?}", client.binding);
        }
    }
}

#[test]
fn a_message_may_be_answered_with_a_message() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let reply = client.send(&message("tck-message-response"));
        schema::check(&schema::SEND_MESSAGE_RESPONSE, &reply);
        let said = &reply["message"];
        assert_eq!(said["parts"], json!([{"text": "Direct message response"}]), "{:?}", client.binding);
        assert_eq!(said["role"], "ROLE_AGENT", "{:?}", client.binding);
        assert!(said["contextId"].is_string(), "{:?}: {said}", client.binding);
    }
}

#[test]
fn a_sender_waits_for_the_end_unless_told_otherwise() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for configuration in [json!({}), json!({"returnImmediately": false})] {
            let params = json!({"message": saying("tck-long-running"), "configuration": configuration});
            let reply = client.call("SendMessage", &params);
            assert_eq!(state(&reply["task"]), "TASK_STATE_COMPLETED", "{:?}", client.binding);
        }
    }
}

#[test]
fn a_sender_need_not_wait() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.start(&saying("tck-long-running"));
        schema::check(&schema::TASK, &task);
        let first = state(&task);
        assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&first), "{first}");
        client.wait_for(id(&task), "TASK_STATE_COMPLETED");
    }
}

#[test]
fn the_same_message_id_may_come_again() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let (first, second) = (client.completed(), client.completed());
        assert_ne!(first["id"], second["id"], "{:?}", client.binding);
        assert_ne!(first["contextId"], second["contextId"], "{:?}", client.binding);
    }
}

#[test]
fn what_is_unknown_is_ignored() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let message = with(message("tck-complete-task"), "tckUnknownField", json!({"a": [1]}));
        let reply = client.call("SendMessage", &json!({"message": message, "tckExtraParam": 42}));
        assert_eq!(state(&reply["task"]), "TASK_STATE_COMPLETED", "{:?}", client.binding);
        schema::check(&schema::SEND_MESSAGE_RESPONSE, &reply);
    }
}
