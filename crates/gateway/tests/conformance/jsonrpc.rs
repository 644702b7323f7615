//! The JSON-RPC binding: its envelope, its endpoint, and the errors that only it has.

use serde_json::{Value, json};

use crate::client::{Binding, Client, id, message, open_envelope, state, with};
use crate::errors::{
    Fault, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Refusal, TASK_NOT_FOUND,
};
use crate::http::Response;
use crate::server::{Pass, Server};

fn post(client: &Client, envelope: &Value) -> Response {
    client.raw("POST", "", envelope.to_string())
}

#[test]
fn an_answer_has_the_id_of_its_request() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::JsonRpc);
    for id in [json!(0), json!(-1), json!(9_007_199_254_740_993_u64), json!(""), json!("a \"quoted\" id")] {
        let send = json!({"message": message("tck-complete-task")});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "SendMessage", "params": send});
        let result = open_envelope(post(&client, &call).json(), &id).expect("a task");
        assert_eq!(state(&result["task"]), "TASK_STATE_COMPLETED");

        let missing = with(call.clone(), "method", "GetTask");
        let missing = with(missing, "params", json!({"id": "tck-nonexistent"}));
        let refusal = open_envelope(post(&client, &missing).json(), &id).expect_err("no task");
        refusal.expect(&TASK_NOT_FOUND);

        let streamed = post(&client, &with(call, "method", "SendStreamingMessage"));
        let frames: Vec<_> = streamed.frames().collect();
        assert!(!frames.is_empty(), "{id}");
        for frame in frames {
            open_envelope(frame, &id).expect("an event");
        }
    }
}

#[test]
fn an_error_is_an_answer_like_any_other() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::JsonRpc);
    let response = client.ask("GetTask", &json!({"id": "tck-nonexistent"}));
    assert_eq!(response.status, 200);
    assert_eq!(response.media_type(), "application/json");
    open_envelope(response.json(), &json!(7)).expect_err("no task").expect(&TASK_NOT_FOUND);
}

#[test]
fn an_error_before_the_stream_is_no_stream() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::JsonRpc).with("Accept", "text/event-stream");
    let ended = client.completed();
    for task in [id(&ended), "tck-nonexistent"] {
        let response = client.ask("SubscribeToTask", &json!({"id": task}));
        assert_eq!(response.media_type(), "application/json", "{task}");
        open_envelope(response.json(), &json!(7)).expect_err("no stream");
    }
}

#[test]
fn what_is_no_call_is_refused() {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}});
    let without = |key: &str| {
        let mut call = call.clone();
        call.as_object_mut().unwrap().remove(key);
        call.to_string()
    };
    let instead = |key: &str, value: Value| with(call.clone(), key, value).to_string();
    let cases: [(String, Value, &Fault); 12] = [
        ("this is no JSON".to_owned(), Value::Null, &PARSE_ERROR),
        ("{\"jsonrpc\":".to_owned(), Value::Null, &PARSE_ERROR),
        (String::new(), Value::Null, &PARSE_ERROR),
        ("42".to_owned(), Value::Null, &INVALID_REQUEST),
        (json!([call]).to_string(), Value::Null, &INVALID_REQUEST),
        (without("jsonrpc"), json!(1), &INVALID_REQUEST),
        (instead("jsonrpc", json!("1.0")), json!(1), &INVALID_REQUEST),
        (without("method"), json!(1), &INVALID_REQUEST),
        (without("id"), Value::Null, &INVALID_REQUEST),
        (instead("method", json!("NonExistentMethod")), json!(1), &METHOD_NOT_FOUND),
        (instead("method", json!("message/send")), json!(1), &METHOD_NOT_FOUND),
        (instead("params", json!(["x"])), json!(1), &INVALID_PARAMS),
    ];
    let server = Server::start(Pass::All);
    let client = server.client(Binding::JsonRpc);
    for (body, id, fault) in cases {
        let answer = client.raw("POST", "", &body).json();
        assert_eq!(answer["id"], id, "{body}");
        assert_eq!(answer["jsonrpc"], "2.0", "{body}");
        Refusal::of_code(&answer["error"]).expect(fault);
    }
}

#[test]
fn parameters_may_have_their_proto_names() {
    let server = Server::start(Pass::All);
    let client = server.client(Binding::JsonRpc);
    let made = client.task(&with(message("tck-artifact-text"), "contextId", "c"));
    client.task(&with(message("tck-artifact-text"), "contextId", "c"));
    client.completed();
    let task = client.call("GetTask", &json!({"id": id(&made), "history_length": 0}));
    assert_eq!(task.get("history"), None);
    let page =
        client.call("ListTasks", &json!({"context_id": "c", "page_size": 1, "include_artifacts": true}));
    assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(2), &json!(1)));
    assert!(page["tasks"][0]["artifacts"].is_array(), "{page}");
    let snake = json!({"message_id": "tck-input-required", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    let waiting = client.task(&snake);
    assert_eq!(state(&waiting), "TASK_STATE_INPUT_REQUIRED");
    let follow_up = with(message("tck-complete-task"), "task_id", id(&waiting));
    assert_eq!(client.task(&follow_up)["id"], waiting["id"]);
}

#[test]
fn an_endpoint_is_there_with_and_without_a_slash() {
    let server = Server::start_fleet();
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage",
        "params": {"message": message("tck-complete-task")}});
    let card = server.get("/agents/conformance/.well-known/agent-card.json", &[]).json();
    let url = card["supportedInterfaces"][0]["url"].as_str().unwrap();
    assert!(!url.ends_with('/'), "{url}");
    for path in ["/agents/conformance", "/agents/conformance/"] {
        let response = post(&Client::new(Binding::JsonRpc, server.address, path), &call);
        assert_eq!(response.status, 200, "{path}");
        let result = open_envelope(response.json(), &json!(7)).expect("a task");
        assert_eq!(state(&result["task"]), "TASK_STATE_COMPLETED", "{path}");
    }
}
