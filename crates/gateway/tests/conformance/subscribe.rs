//! Streams that are joined later.

use serde_json::{Value, json};

use crate::client::{Binding, id, message, saying, with};
use crate::http::Response;
use crate::server::{Pass, Server};
use crate::stream::told;

#[test]
fn a_subscription_begins_with_the_task_as_it_is() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for waiting in ["tck-input-required", "tck-auth-required"] {
            let task = client.task(&message(waiting));
            let first = client.subscribe(id(&task)).next();
            assert_eq!(first, Some(json!({"task": client.get(id(&task))})), "{:?}", client.binding);
        }
    }
}

#[test]
fn a_subscription_ends_with_the_task() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.waiting();
        let mut events = client.subscribe(id(&task));
        events.next().expect("the task");
        let follow_up = with(message("tck-complete-task"), "taskId", id(&task));
        let done = client.task(&follow_up);
        let rest: Vec<_> = events.collect();
        let end = &rest.last().expect("an end")["statusUpdate"];
        assert_eq!(end["status"], done["status"], "{:?}", client.binding);
        assert_eq!(end["status"]["state"], "TASK_STATE_COMPLETED", "{:?}", client.binding);
    }
}

#[test]
fn a_subscription_outlives_a_turn() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.waiting();
        let events = client.subscribe(id(&task));
        client.task(&with(message("tck-input-required"), "taskId", id(&task)));
        client.call("CancelTask", &json!({"id": id(&task)}));
        let events: Vec<_> = events.collect();
        let states: Vec<_> = events.iter().filter_map(told).collect();
        let expected = [
            "TASK_STATE_INPUT_REQUIRED",
            "TASK_STATE_WORKING",
            "TASK_STATE_INPUT_REQUIRED",
            "TASK_STATE_CANCELED",
        ];
        assert_eq!(states, expected, "{:?}", client.binding);
    }
}

#[test]
fn all_subscribers_see_the_same() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.waiting();
        let mut subscriptions = [client.subscribe(id(&task)), client.subscribe(id(&task))];
        let [first, second] = subscriptions.each_mut().map(Iterator::next);
        assert!(first.is_some(), "{:?}", client.binding);
        assert_eq!(first, second, "{:?}", client.binding);
        client.task(&with(message("tck-stream-ordering-001"), "taskId", id(&task)));
        let [first, second] = subscriptions.map(Iterator::collect::<Vec<Value>>);
        assert!(first.len() >= 3, "{:?}: {first:?}", client.binding);
        assert_eq!(first, second, "{:?}", client.binding);
    }
}

#[test]
fn subscribers_of_both_bindings_see_the_same() {
    let server = Server::start(Pass::All);
    let [one, other] = Binding::ALL.map(|binding| server.client(binding));
    let task = one.waiting();
    let subscriptions = [one.subscribe(id(&task)), other.subscribe(id(&task))];
    other.task(&with(message("tck-stream-ordering-001"), "taskId", id(&task)));
    let [first, second] = subscriptions.map(Iterator::collect::<Vec<Value>>);
    assert!(first.len() >= 4, "{first:?}");
    assert_eq!(first, second);
}

#[test]
fn who_leaves_disturbs_nobody() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.waiting();
        let (mut leaves, stays) = (client.subscribe(id(&task)), client.subscribe(id(&task)));
        leaves.next().expect("the task");
        drop(leaves);
        client.task(&with(message("tck-complete-task"), "taskId", id(&task)));
        let seen: Vec<_> = stays.collect();
        assert_eq!(seen.last().and_then(told), Some("TASK_STATE_COMPLETED"), "{:?}", client.binding);
    }
}

#[test]
fn a_task_goes_on_when_its_sender_has_left() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let mut events = client.stream(&saying("tck-long-running"));
        let task = events.next().unwrap()["task"].clone();
        drop(events);
        client.wait_for(id(&task), "TASK_STATE_COMPLETED");
    }
}

#[test]
fn a_task_that_takes_long_can_be_joined_again_and_canceled() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let mut events = client.stream(&message("test-resubscribe-message-id"));
        let task = events.next().unwrap()["task"].clone();
        drop(events);
        client.wait_for(id(&task), "TASK_STATE_WORKING");
        let events = client.subscribe(id(&task));
        client.call("CancelTask", &json!({"id": id(&task)}));
        let states: Vec<_> = events.filter_map(|event| told(&event).map(str::to_owned)).collect();
        assert_eq!(states, ["TASK_STATE_WORKING", "TASK_STATE_CANCELED"], "{:?}", client.binding);
    }
}

#[test]
fn http_json_subscribes_with_get_and_with_post() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    let task = client.waiting();
    for verb in ["GET", "POST"] {
        let response: Response = client.raw(verb, &format!("/tasks/{}:subscribe", id(&task)), "");
        assert_eq!(response.media_type(), "text/event-stream", "{verb}");
        assert_eq!(response.frames().next(), Some(json!({"task": task})), "{verb}");
    }
}
