//! Listing tasks: filters, pages, and what of a task is shown.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Binding, Client, id, message, with};
use crate::errors::INVALID_PARAMS;
use crate::schema;
use crate::server::{Pass, Server};

fn list(client: &Client, params: &Value) -> Value {
    let page = client.call("ListTasks", params);
    schema::check(&schema::LIST_TASKS_RESPONSE, &page);
    page
}

fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(id).collect()
}

/// Puts a task into a context and gives its id. No later status has the same time.
fn put(client: &Client, prefix: &str, context: &str) -> String {
    let task = client.task(&with(message(prefix), "contextId", context));
    std::thread::sleep(Duration::from_millis(2));
    id(&task).to_owned()
}

#[test]
fn an_unknown_context_has_no_tasks() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        client.completed();
        for more in [json!({}), json!({"pageSize": 2}), json!({"pageSize": 100, "includeArtifacts": false})] {
            let page = list(&client, &with(more, "contextId", "tck-test-context-5eed"));
            assert_eq!(page["tasks"], json!([]), "{:?}", client.binding);
            assert_eq!(page["totalSize"], 0, "{:?}", client.binding);
            assert_eq!(page["nextPageToken"], "", "{:?}", client.binding);
        }
    }
}

#[test]
fn tasks_are_listed_newest_status_first() {
    for binding in Binding::ALL {
        let server = Server::start(Pass::All);
        let client = server.client(binding);
        let oldest = put(&client, "tck-input-required", "c");
        let middle = put(&client, "tck-complete-task", "c");
        let newest = put(&client, "tck-artifact-text", "c");
        assert_eq!(ids(&list(&client, &json!({}))), [&newest, &middle, &oldest], "{:?}", client.binding);
        client.call("CancelTask", &json!({"id": oldest}));
        assert_eq!(ids(&list(&client, &json!({}))), [&oldest, &newest, &middle], "{:?}", client.binding);
    }
}

#[test]
fn a_list_can_be_filtered() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let (here, there) = (client.binding.name().replace('+', "-"), "elsewhere");
        let done = put(&client, "tck-complete-task", &here);
        let waiting = put(&client, "tck-input-required", &here);
        put(&client, "tck-complete-task", there);
        let in_context = json!({"contextId": here});
        assert_eq!(ids(&list(&client, &in_context)), [&waiting, &done], "{:?}", client.binding);
        let both = with(in_context.clone(), "status", "TASK_STATE_COMPLETED");
        assert_eq!(ids(&list(&client, &both)), [&done], "{:?}", client.binding);
        let none = with(in_context.clone(), "status", "TASK_STATE_CANCELED");
        assert_eq!(ids(&list(&client, &none)), [""; 0], "{:?}", client.binding);

        let since = client.get(&waiting)["status"]["timestamp"].clone();
        let recent = list(&client, &with(in_context.clone(), "statusTimestampAfter", since));
        assert!(ids(&recent).contains(&waiting.as_str()), "{:?}: the time itself counts", client.binding);
        let future = with(in_context, "statusTimestampAfter", "2999-01-01T00:00:00Z");
        assert_eq!(ids(&list(&client, &future)), [""; 0], "{:?}", client.binding);
    }
}

#[test]
fn pages_join_to_the_whole_list() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let context = client.binding.name().replace('+', "-");
        let mut expected: Vec<_> = (0..5).map(|_| put(&client, "tck-complete-task", &context)).collect();
        expected.reverse();
        let (mut found, mut token) = (Vec::new(), String::new());
        for length in [2, 2, 1] {
            let page = list(&client, &json!({"contextId": context, "pageSize": 2, "pageToken": token}));
            assert_eq!(page["pageSize"], 2, "{:?}", client.binding);
            assert_eq!(page["totalSize"], 5, "{:?}", client.binding);
            assert_eq!(ids(&page).len(), length, "{:?}", client.binding);
            found.extend(ids(&page).into_iter().map(str::to_owned));
            page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
            assert_eq!(token.is_empty(), length == 1, "{:?}: only the last has no next", client.binding);
        }
        assert_eq!(found, expected, "{:?}", client.binding);
        let whole = list(&client, &json!({"contextId": context}));
        assert_eq!(whole["pageSize"], 50, "{:?}: unless asked for", client.binding);
        assert_eq!(ids(&whole), expected, "{:?}", client.binding);
    }
}

#[test]
fn artifacts_are_listed_only_if_asked_for() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let context = client.binding.name().replace('+', "-");
        let made = put(&client, "tck-artifact-text", &context);
        for hidden in [json!({}), json!({"includeArtifacts": false})] {
            let page = list(&client, &with(hidden, "contextId", context.clone()));
            assert_eq!(page["tasks"][0].get("artifacts"), None, "{:?}", client.binding);
        }
        let page = list(&client, &json!({"contextId": context, "includeArtifacts": true}));
        assert_eq!(page["tasks"][0], client.get(&made), "{:?}", client.binding);
        assert!(page["tasks"][0]["artifacts"].is_array(), "{:?}", client.binding);
    }
}

#[test]
fn history_is_listed_as_long_as_asked_for() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let context = client.binding.name().replace('+', "-");
        let task = put(&client, "tck-input-required", &context);
        client.task(&with(message("tck-input-required"), "taskId", task));
        let shown = |length: u64| {
            let page = list(&client, &json!({"contextId": context, "historyLength": length}));
            page["tasks"][0]["history"].as_array().map(Vec::len)
        };
        assert_eq!((shown(0), shown(1), shown(2)), (None, Some(1), Some(2)), "{:?}", client.binding);
    }
}

#[test]
fn a_list_cannot_be_asked_for_anyhow() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (field, value) in [
            ("pageSize", json!(0)),
            ("pageSize", json!(-1)),
            ("pageSize", json!(101)),
            ("pageToken", json!("no-token")),
            ("historyLength", json!(-1)),
            ("status", json!("TASK_STATE_UNHEARD_OF")),
            ("statusTimestampAfter", json!("yesterday")),
        ] {
            let refusal = client.refusal("ListTasks", &json!({field: value}));
            refusal.expect(&INVALID_PARAMS);
            assert_eq!(refusal.field(), Some(field), "{:?}: {value}", client.binding);
        }
    }
}
