//! The HTTP+JSON binding: paths, verbs, media types, and the errors that only it has.

use serde_json::json;

use crate::client::{Binding, id, message, state};
use crate::errors::{METHOD_NOT_FOUND, PARSE_ERROR, Refusal, TASK_NOT_FOUND};
use crate::server::{Pass, Server};

const A2A_JSON: &str = "application/a2a+json";

#[test]
fn an_answer_has_the_media_type_that_is_asked_for() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    let task = client.completed();
    let json = ("Content-Type", "application/json");
    for (header, answer) in [
        (json, "application/json"),
        (("Content-Type", "application/json; charset=utf-8"), "application/json"),
        (("Content-Type", A2A_JSON), A2A_JSON),
        (("Accept", "*/*"), "application/json"),
        (("Accept", "application/a2a+json, application/json;q=0.5"), A2A_JSON),
    ] {
        let client = client.with(header.0, header.1);
        let sent = client.ask("SendMessage", &json!({"message": message("tck-complete-task")}));
        assert_eq!((sent.status, sent.media_type()), (200, answer), "{header:?}");
        let got = client.ask("GetTask", &json!({"id": id(&task)}));
        assert_eq!((got.status, got.media_type()), (200, answer), "{header:?}");
        let missing = client.ask("GetTask", &json!({"id": "tck-nonexistent"}));
        assert_eq!((missing.status, missing.media_type()), (404, answer), "{header:?}");
    }
}

#[test]
fn an_error_is_a_status_with_details() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    let response = client.ask("GetTask", &json!({"id": "tck-nonexistent"}));
    assert_eq!(response.status, 404);
    let body = response.json();
    assert_eq!(body.as_object().map(|body| body.len()), Some(1), "{body}");
    assert_eq!(body["error"]["code"], 404);
    assert_eq!(body["error"]["status"], "NOT_FOUND");
    Refusal::of_status(404, &body["error"]).expect(&TASK_NOT_FOUND);
}

#[test]
fn an_error_before_the_stream_is_no_stream() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson).with("Accept", "text/event-stream");
    let ended = client.completed();
    for (task, status) in [(id(&ended), 400), ("tck-nonexistent", 404)] {
        let response = client.ask("SubscribeToTask", &json!({"id": task}));
        assert_eq!((response.status, response.media_type()), (status, "application/json"), "{task}");
    }
}

#[test]
fn what_is_not_served_is_not_found() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    for path in ["/message:receive", "/task/1", "/tasks/1/pushNotificationConfigs/2/3"] {
        let response = client.raw("GET", path, "");
        assert_eq!(response.status, 404, "{path}");
        Refusal::of_status(404, &response.json()["error"]).expect(&METHOD_NOT_FOUND);
    }
}

#[test]
fn another_verb_is_told_which_ones_there_are() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    for (verb, path, allowed) in [
        ("GET", "/message:send", "POST"),
        ("PUT", "/tasks", "GET"),
        ("PUT", "/tasks/1:cancel", "POST"),
        ("POST", "/extendedAgentCard", "GET"),
    ] {
        let response = client.raw(verb, path, "");
        assert_eq!(response.status, 405, "{verb} {path}");
        assert_eq!(response.header("allow"), Some(allowed), "{verb} {path}");
    }
}

#[test]
fn a_body_that_is_no_json_is_refused() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    for body in ["this is no JSON", "{\"message\":", ""] {
        let response = client.raw("POST", "/message:send", body);
        assert_eq!(response.status, 400, "{body}");
        Refusal::of_status(400, &response.json()["error"]).expect(&PARSE_ERROR);
    }
}

#[test]
fn canceling_takes_no_body_or_an_object() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::HttpJson);
    for body in ["", "{}", "{\"metadata\":{\"why\":\"because\"}}"] {
        let path = format!("/tasks/{}:cancel", id(&client.waiting()));
        let response = client.raw("POST", &path, body);
        assert_eq!(response.status, 200, "{body}");
        assert_eq!(state(&response.json()), "TASK_STATE_CANCELED", "{body}");
    }
}
