//! Errors: which one, how it looks on each binding, and when it comes.

use serde_json::{Value, json};

use crate::client::{Binding, id, message, with};
use crate::server::{Pass, Server};

/// An error of the protocol.
#[derive(Debug)]
pub(crate) struct Fault {
    reason: &'static str,
    code: i64,
    status: i64,
}

pub(crate) const TASK_NOT_FOUND: Fault = fault("TASK_NOT_FOUND", -32001, 404);
pub(crate) const TASK_NOT_CANCELABLE: Fault = fault("TASK_NOT_CANCELABLE", -32002, 400);
pub(crate) const PUSH_NOT_SUPPORTED: Fault = fault("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400);
pub(crate) const UNSUPPORTED_OPERATION: Fault = fault("UNSUPPORTED_OPERATION", -32004, 400);
pub(crate) const CONTENT_TYPE_NOT_SUPPORTED: Fault = fault("CONTENT_TYPE_NOT_SUPPORTED", -32005, 400);
pub(crate) const EXTENSION_REQUIRED: Fault = fault("EXTENSION_SUPPORT_REQUIRED", -32008, 400);
pub(crate) const VERSION_NOT_SUPPORTED: Fault = fault("VERSION_NOT_SUPPORTED", -32009, 400);
pub(crate) const PARSE_ERROR: Fault = fault("PARSE_ERROR", -32700, 400);
pub(crate) const INVALID_REQUEST: Fault = fault("INVALID_REQUEST", -32600, 400);
pub(crate) const METHOD_NOT_FOUND: Fault = fault("METHOD_NOT_FOUND", -32601, 404);
pub(crate) const INVALID_PARAMS: Fault = fault("INVALID_PARAMS", -32602, 400);

const fn fault(reason: &'static str, code: i64, status: i64) -> Fault {
    Fault { reason, code, status }
}

/// An error as it came, its shape already checked.
#[derive(Debug)]
pub(crate) struct Refusal {
    binding: Binding,
    /// The code of JSON-RPC or the status of HTTP.
    code: i64,
    reason: String,
    details: Vec<Value>,
}

impl Refusal {
    /// The `error` of a JSON-RPC answer.
    pub(crate) fn of_code(error: &Value) -> Self {
        let mut members: Vec<_> = error.as_object().expect("an object").keys().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(members, ["code", "data", "message"], "{error}");
        let code = error["code"].as_i64().expect("a code is an integer");
        assert!((-32099..=-32001).contains(&code) || (-32700..=-32600).contains(&code), "{error}");
        Self::read(Binding::JsonRpc, code, error, "data")
    }

    /// The `error` of an HTTP+JSON answer.
    pub(crate) fn of_status(status: u16, error: &Value) -> Self {
        assert!(status >= 400, "{status}: {error}");
        assert_eq!(error["code"], status, "the code is the status: {error}");
        assert!(error["status"].is_string(), "{error}");
        Self::read(Binding::HttpJson, i64::from(status), error, "details")
    }

    fn read(binding: Binding, code: i64, error: &Value, details: &str) -> Self {
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        let details = error[details].as_array().expect("details are an array").clone();
        assert!(details.iter().all(|detail| detail["@type"].is_string()), "{error}");
        let kind = "type.googleapis.com/google.rpc.ErrorInfo";
        let info = details.iter().find(|detail| detail["@type"] == kind).expect("an ErrorInfo");
        assert_eq!(info["domain"], "a2a-protocol.org", "{error}");
        let facts = info["metadata"].as_object().into_iter().flatten();
        assert!(facts.into_iter().all(|(_, fact)| fact.is_string()), "facts are texts: {error}");
        let reason = info["reason"].as_str().expect("a reason").to_owned();
        Self { binding, code, reason, details }
    }

    /// It is this error and no other.
    pub(crate) fn expect(&self, fault: &Fault) {
        let code = match self.binding {
            Binding::JsonRpc => fault.code,
            Binding::HttpJson => fault.status,
        };
        assert!(self.reason == fault.reason && self.code == code, "{self:?} is not {fault:?}");
    }

    /// The field that is wrong.
    pub(crate) fn field(&self) -> Option<&str> {
        self.details.iter().find_map(|detail| detail["fieldViolations"][0]["field"].as_str())
    }
}

#[test]
fn a_task_that_does_not_exist_is_not_found() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let missing = json!({"id": "tck-nonexistent-5eed"});
        for operation in ["GetTask", "CancelTask", "SubscribeToTask"] {
            client.refusal(operation, &missing).expect(&TASK_NOT_FOUND);
        }
        let lost = json!({"message": with(message("tck-complete-task"), "taskId", "tck-nonexistent-5eed")});
        for operation in ["SendMessage", "SendStreamingMessage"] {
            client.refusal(operation, &lost).expect(&TASK_NOT_FOUND);
        }
    }
}

#[test]
fn a_task_that_has_ended_takes_nothing_more() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for end in ["tck-complete-task", "tck-reject-task", "tck-task-failure"] {
            let task = client.task(&message(end));
            let more = json!({"message": with(message("tck-terminal"), "taskId", id(&task))});
            for operation in ["SendMessage", "SendStreamingMessage"] {
                client.refusal(operation, &more).expect(&UNSUPPORTED_OPERATION);
            }
            client.refusal("SubscribeToTask", &json!({"id": id(&task)})).expect(&UNSUPPORTED_OPERATION);
            client.refusal("CancelTask", &json!({"id": id(&task)})).expect(&TASK_NOT_CANCELABLE);
            assert_eq!(client.get(id(&task)), task, "{:?}: it has not changed", client.binding);
        }
    }
}

#[test]
fn what_is_not_switched_on_is_refused() {
    let server = Server::start(Pass::None);
    for client in server.clients() {
        let waiting = client.waiting();
        let send = json!({"message": message("tck-stream-001")});
        client.refusal("SendStreamingMessage", &send).expect(&UNSUPPORTED_OPERATION);
        client.refusal("SubscribeToTask", &json!({"id": id(&waiting)})).expect(&UNSUPPORTED_OPERATION);
        client.refusal("GetExtendedAgentCard", &json!({})).expect(&UNSUPPORTED_OPERATION);
    }
}

#[test]
fn other_media_types_than_json_are_refused_unread() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let client = client.with("Content-Type", "text/plain");
        let path = if client.binding == Binding::JsonRpc { "" } else { "/message:send" };
        let response = client.raw("POST", path, "{'message': 'this is not JSON'}");
        assert_eq!(response.status, 415);
        let body = response.json();
        assert!(body["error"].to_string().contains("CONTENT_TYPE_NOT_SUPPORTED"), "{body}");
    }
}

#[test]
fn parts_of_a_media_type_that_the_card_does_not_name_are_refused() {
    let server = Server::start(Pass::All);
    let part = json!({"raw": "dGNr", "mediaType": "application/x-unsupported-tck-type"});
    for client in server.clients() {
        let message = with(message("tck-send-003"), "parts", json!([part]));
        client.refusal("SendMessage", &json!({"message": message})).expect(&CONTENT_TYPE_NOT_SUPPORTED);
        let named = json!([{"raw": "dGNr", "mediaType": "text/plain"}, {"data": {"a": 1}}]);
        client.task(&with(message, "parts", named));
    }
}
