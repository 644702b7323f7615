//! History: what was said, and how much of it is shown.

use serde_json::{Value, json};

use crate::client::{Client, id, message, with};
use crate::server::{Pass, Server};

/// A task of four turns: it waits three times, then ends.
fn conversation(client: &Client) -> Value {
    let task = client.waiting();
    for number in [1, 2] {
        let part = json!([{"text": format!("TCK history message {number}")}]);
        let follow_up = with(message("tck-input-required"), "taskId", id(&task));
        client.task(&with(follow_up, "parts", part));
    }
    client.task(&with(message("tck-complete-task"), "taskId", id(&task)))
}

fn history(task: &Value) -> &[Value] {
    task["history"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn history_has_what_was_said_once_and_in_order() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.get(id(&conversation(&client)));
        let said: Vec<_> = history(&task)
            .iter()
            .filter(|message| message["role"] == "ROLE_USER")
            .map(|message| message["parts"][0]["text"].as_str().unwrap())
            .collect();
        let expected = ["Hello", "TCK history message 1", "TCK history message 2", "Hello"];
        assert_eq!(said, expected, "{:?}", client.binding);
        let of_the_task =
            |message: &Value| message["taskId"] == task["id"] && message["contextId"] == task["contextId"];
        assert!(history(&task).iter().all(of_the_task), "{:?}: {task}", client.binding);
    }
}

#[test]
fn history_is_as_long_as_asked_for() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.get(id(&conversation(&client)));
        let whole = history(&task);
        assert!(whole.len() >= 4, "{:?}: {task}", client.binding);
        for length in [1, 2, whole.len(), whole.len() + 10] {
            let cut = client.call("GetTask", &json!({"id": id(&task), "historyLength": length}));
            let newest = &whole[whole.len().saturating_sub(length)..];
            assert_eq!(history(&cut), newest, "{:?}: the newest {length}", client.binding);
        }
    }
}

#[test]
fn no_history_is_shown_if_none_is_asked_for() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = conversation(&client);
        let got = client.call("GetTask", &json!({"id": id(&task), "historyLength": 0}));
        assert_eq!(got.get("history"), None, "{:?}", client.binding);
        let waiting = client.waiting();
        let follow_up = with(message("tck-complete-task"), "taskId", id(&waiting));
        for message in [message("tck-complete-task"), follow_up] {
            let params = json!({"message": message, "configuration": {"historyLength": 0}});
            let reply = client.call("SendMessage", &params);
            assert_eq!(reply["task"].get("history"), None, "{:?}", client.binding);
        }
    }
}

#[test]
fn a_sender_may_bound_the_history_of_the_reply() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let waiting = client.waiting();
        let message = with(message("tck-input-required"), "taskId", id(&waiting));
        let params = json!({"message": message, "configuration": {"historyLength": 1}});
        let reply = client.call("SendMessage", &params);
        let whole = client.get(id(&waiting));
        assert!(history(&whole).len() > 1, "{:?}: {whole}", client.binding);
        assert_eq!(history(&reply["task"]), &history(&whole)[history(&whole).len() - 1..]);
    }
}
