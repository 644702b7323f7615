//! Getting and canceling tasks.

use serde_json::json;

use crate::client::{id, message, saying, state};
use crate::schema;
use crate::server::{Pass, Server};

#[test]
fn a_task_can_be_had_again() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for prefix in ["tck-complete-task", "tck-input-required", "tck-artifact-text", "tck-reject-task"] {
            let sent = client.task(&message(prefix));
            let got = client.get(id(&sent));
            schema::check(&schema::TASK, &got);
            assert_eq!(got, sent, "{:?}", client.binding);
        }
    }
}

#[test]
fn both_bindings_see_the_same_tasks() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let sent = client.waiting();
        for other in server.clients() {
            assert_eq!(other.get(id(&sent)), sent, "{:?} and {:?}", client.binding, other.binding);
        }
    }
}

#[test]
fn a_task_that_waits_can_be_canceled() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for waiting in ["tck-input-required", "tck-auth-required"] {
            let task = client.task(&message(waiting));
            let canceled = client.call("CancelTask", &json!({"id": id(&task)}));
            schema::check(&schema::TASK, &canceled);
            assert_eq!(canceled["id"], task["id"], "{:?}", client.binding);
            assert_eq!(canceled["contextId"], task["contextId"], "{:?}", client.binding);
            assert_eq!(state(&canceled), "TASK_STATE_CANCELED", "{:?}", client.binding);
            assert_eq!(client.get(id(&task)), canceled, "{:?}", client.binding);
        }
    }
}

#[test]
fn a_task_that_runs_can_be_canceled() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.start(&saying("tck-cancel"));
        client.wait_for(id(&task), "TASK_STATE_WORKING");
        let canceled = client.call("CancelTask", &json!({"id": id(&task)}));
        assert_eq!(state(&canceled), "TASK_STATE_CANCELED", "{:?}", client.binding);
        assert_eq!(state(&client.get(id(&task))), "TASK_STATE_CANCELED", "{:?}", client.binding);
    }
}

#[test]
fn canceling_twice_is_canceling_once() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.waiting();
        let first = client.call("CancelTask", &json!({"id": id(&task)}));
        let second = client.call("CancelTask", &json!({"id": id(&task)}));
        assert_eq!(first, second, "{:?}", client.binding);
    }
}
