//! Conversations: contexts, follow-ups, and what they may not name.

use serde_json::json;

use crate::client::{id, message, saying, state, with};
use crate::errors::INVALID_PARAMS;
use crate::server::{Pass, Server};

#[test]
fn a_new_task_gets_a_context() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.task(&message("tck-multi-001"));
        assert!(task["contextId"].as_str().is_some_and(|context| !context.is_empty()), "{task}");
        assert_ne!(client.task(&message("tck-multi-001"))["contextId"], task["contextId"]);
    }
}

#[test]
fn a_context_may_be_the_clients_own() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let send = || client.task(&with(message("tck-multi-002"), "contextId", "tck-client-context-5eed"));
        let (first, second) = (send(), send());
        assert_eq!(first["contextId"], "tck-client-context-5eed", "{:?}", client.binding);
        assert_eq!(second["contextId"], "tck-client-context-5eed", "{:?}", client.binding);
        assert_ne!(first["id"], second["id"], "{:?}: a context holds many tasks", client.binding);
    }
}

#[test]
fn task_ids_are_the_servers_own_and_used_once() {
    let server = Server::start(Pass::All);
    let mut seen = std::collections::BTreeSet::new();
    for client in server.clients() {
        for _ in 0..10 {
            assert!(seen.insert(id(&client.completed()).to_owned()), "{:?}", client.binding);
        }
    }
}

#[test]
fn a_follow_up_that_names_only_its_task_stays_in_its_context() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let waiting = client.waiting();
        let follow_up = client.task(&with(message("tck-infer-ctx"), "taskId", id(&waiting)));
        assert_eq!(follow_up["id"], waiting["id"], "{:?}", client.binding);
        assert_eq!(follow_up["contextId"], waiting["contextId"], "{:?}", client.binding);
    }
}

#[test]
fn a_follow_up_may_name_its_context_too() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let waiting = client.waiting();
        let context = waiting["contextId"].clone();
        let message = with(with(message("tck-complete-task"), "taskId", id(&waiting)), "contextId", context);
        let task = client.task(&message);
        assert_eq!(task["id"], waiting["id"], "{:?}", client.binding);
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{:?}", client.binding);
    }
}

#[test]
fn a_follow_up_in_another_context_is_refused() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for task in [client.waiting(), client.completed()] {
            let strayed = with(message("tck-complete-task"), "taskId", id(&task));
            let strayed = with(strayed, "contextId", "tck-wrong-context-5eed");
            let refusal = client.refusal("SendMessage", &json!({"message": strayed}));
            refusal.expect(&INVALID_PARAMS);
            assert_eq!(refusal.field(), Some("message.contextId"), "{:?}", client.binding);
            assert_eq!(client.get(id(&task)), task, "{:?}: it has not changed", client.binding);
        }
    }
}

#[test]
fn a_task_goes_on_for_as_many_turns_as_it_takes() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.task(&saying("tck-multi-turn"));
        assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{:?}", client.binding);
        for text in ["not yet", "nearly"] {
            let task = client.task(&with(saying(text), "taskId", id(&task)));
            assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{:?}: {text}", client.binding);
        }
        let done = client.task(&with(saying("done"), "taskId", id(&task)));
        assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{:?}", client.binding);
        assert_eq!(done["id"], task["id"], "{:?}", client.binding);
    }
}

#[test]
fn a_follow_up_has_its_own_behaviour() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for again in [false, true] {
            let task = client.waiting();
            if again {
                let more = client.task(&with(message("tck-input-required"), "taskId", id(&task)));
                assert_eq!(state(&more), "TASK_STATE_INPUT_REQUIRED", "{:?}", client.binding);
            }
            let done = client.task(&with(message("tck-complete-task"), "taskId", id(&task)));
            assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{:?}", client.binding);
        }
    }
}
