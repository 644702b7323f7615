//! A client of both bindings. It takes nothing for granted: the envelope of every answer and the shape of
//! every error and event is checked as it is read.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::errors::Refusal;
use crate::http::{self, Frames, Response};
use crate::schema;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    JsonRpc,
    HttpJson,
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) binding: Binding,
    address: SocketAddr,
    base: String,
    headers: Vec<(&'static str, String)>,
}

/// The events of a stream, out of their envelopes.
#[derive(Debug)]
pub(crate) struct Events {
    binding: Binding,
    frames: Frames,
}

/// What a JSON-RPC request is known by.
const ID: u64 = 7;

impl Binding {
    pub(crate) const ALL: [Self; 2] = [Self::JsonRpc, Self::HttpJson];

    /// What a card calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

/// A message whose id begins as given. The rest of the id is always the same: an id says nothing about
/// whether a message has been sent before.
pub(crate) fn message(prefix: &str) -> Value {
    json!({"messageId": format!("{prefix}-5eed"), "role": "ROLE_USER", "parts": [{"text": "Hello"}]})
}

/// A message that says a text.
pub(crate) fn saying(text: &str) -> Value {
    json!({"messageId": "m-5eed", "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// Adds a member to an object.
pub(crate) fn with(mut object: Value, key: &str, value: impl Into<Value>) -> Value {
    object[key] = value.into();
    object
}

pub(crate) fn id(task: &Value) -> &str {
    task["id"].as_str().expect("a task has an id")
}

pub(crate) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a task has a state")
}

// === impl Client ===

impl Client {
    pub(crate) fn new(binding: Binding, address: SocketAddr, base: &str) -> Self {
        let headers =
            vec![("A2A-Version", "1.0".to_owned()), ("Content-Type", "application/json".to_owned())];
        Self { binding, address, base: base.to_owned(), headers }
    }

    /// Sends a header, or another value of one.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.without(name);
        client.headers.push((name, value.to_owned()));
        client
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(known, _)| *known != name);
        client
    }

    /// Sends a request as it is written, to a path below the interface's URL.
    pub(crate) fn raw(&self, verb: &str, path: &str, body: impl AsRef<[u8]>) -> Response {
        http::exchange(self.address, verb, &format!("{}{path}", self.base), &self.headers, body.as_ref())
    }

    /// Calls an operation by its name, with the parameters that JSON-RPC has, and reads the head.
    pub(crate) fn ask(&self, operation: &str, params: &Value) -> Response {
        match self.binding {
            Binding::JsonRpc => {
                let call = json!({"jsonrpc": "2.0", "id": ID, "method": operation, "params": params});
                self.raw("POST", "", call.to_string())
            }
            Binding::HttpJson => {
                let (verb, path, body) = request_line(operation, params);
                self.raw(verb, &path, body)
            }
        }
    }

    /// Calls an operation and reads its result.
    pub(crate) fn try_call(&self, operation: &str, params: &Value) -> Result<Value, Refusal> {
        let response = self.ask(operation, params);
        let status = response.status;
        assert_eq!(response.media_type(), "application/json", "{:?} {operation}", self.binding);
        self.read(status, response.json())
    }

    pub(crate) fn call(&self, operation: &str, params: &Value) -> Value {
        let answer = self.try_call(operation, params);
        answer.unwrap_or_else(|refusal| panic!("{:?} {operation}: {refusal:?}", self.binding))
    }

    pub(crate) fn refusal(&self, operation: &str, params: &Value) -> Refusal {
        match self.try_call(operation, params) {
            Ok(result) => panic!("{:?} {operation}: is not refused: {result}", self.binding),
            Err(refusal) => refusal,
        }
    }

    /// The result or the error in an answer.
    pub(crate) fn read(&self, status: u16, body: Value) -> Result<Value, Refusal> {
        match self.binding {
            Binding::JsonRpc => open_envelope(body, &json!(ID)),
            Binding::HttpJson if status == 200 => Ok(body),
            Binding::HttpJson => Err(Refusal::of_status(status, &body["error"])),
        }
    }

    /// Sends a message and reads the reply.
    pub(crate) fn send(&self, message: &Value) -> Value {
        self.call("SendMessage", &json!({"message": message}))
    }

    /// Sends a message that a task comes of.
    pub(crate) fn task(&self, message: &Value) -> Value {
        let mut reply = self.send(message);
        assert!(reply["task"].is_object(), "{:?}: no task: {reply}", self.binding);
        reply["task"].take()
    }

    /// Sends a message and does not wait for what comes of it.
    pub(crate) fn start(&self, message: &Value) -> Value {
        let configuration = json!({"returnImmediately": true});
        self.call("SendMessage", &json!({"message": message, "configuration": configuration}))["task"].take()
    }

    /// A task that has ended.
    pub(crate) fn completed(&self) -> Value {
        let task = self.task(&message("tck-complete-task"));
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{:?}", self.binding);
        task
    }

    /// A task that waits for more input.
    pub(crate) fn waiting(&self) -> Value {
        let task = self.task(&message("tck-input-required"));
        assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{:?}", self.binding);
        task
    }

    pub(crate) fn get(&self, id: &str) -> Value {
        self.call("GetTask", &json!({"id": id}))
    }

    /// Asks for a task until it is in a state.
    pub(crate) fn wait_for(&self, id: &str, wanted: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let task = self.get(id);
            if state(&task) == wanted {
                return task;
            }
            assert!(Instant::now() < deadline, "{:?}: waiting for {wanted}: {task}", self.binding);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Calls an operation that answers with a stream.
    pub(crate) fn open(&self, operation: &str, params: &Value) -> Events {
        let response = self.with("Accept", "text/event-stream").ask(operation, params);
        assert_eq!(response.media_type(), "text/event-stream", "{:?} {operation}", self.binding);
        assert_eq!(response.status, 200);
        Events { binding: self.binding, frames: response.frames() }
    }

    pub(crate) fn stream(&self, message: &Value) -> Events {
        self.open("SendStreamingMessage", &json!({"message": message}))
    }

    pub(crate) fn subscribe(&self, id: &str) -> Events {
        self.open("SubscribeToTask", &json!({"id": id}))
    }
}

/// Where HTTP+JSON has what JSON-RPC has in its parameters.
fn request_line(operation: &str, params: &Value) -> (&'static str, String, String) {
    let mut rest = params.as_object().expect("parameters").clone();
    let mut take = |key: &str| rest.remove(key).map_or(String::new(), |value| value.as_str().unwrap().into());
    let configs = "/pushNotificationConfigs";
    match operation {
        "SendMessage" => ("POST", "/message:send".into(), params.to_string()),
        "SendStreamingMessage" => ("POST", "/message:stream".into(), params.to_string()),
        "GetTask" => ("GET", format!("/tasks/{}{}", take("id"), query(&rest)), String::new()),
        "ListTasks" => ("GET", format!("/tasks{}", query(&rest)), String::new()),
        "CancelTask" => ("POST", format!("/tasks/{}:cancel", take("id")), String::new()),
        "SubscribeToTask" => ("POST", format!("/tasks/{}:subscribe", take("id")), String::new()),
        "CreateTaskPushNotificationConfig" => {
            ("POST", format!("/tasks/{}{configs}", take("taskId")), Value::Object(rest).to_string())
        }
        "ListTaskPushNotificationConfigs" => {
            ("GET", format!("/tasks/{}{configs}", take("taskId")), String::new())
        }
        "GetTaskPushNotificationConfig" => {
            ("GET", format!("/tasks/{}{configs}/{}", take("taskId"), take("id")), String::new())
        }
        "DeleteTaskPushNotificationConfig" => {
            ("DELETE", format!("/tasks/{}{configs}/{}", take("taskId"), take("id")), String::new())
        }
        "GetExtendedAgentCard" => ("GET", "/extendedAgentCard".into(), String::new()),
        unknown => panic!("no operation: {unknown}"),
    }
}

/// Values are written as they are, so they must not need to be encoded.
fn query(params: &Map<String, Value>) -> String {
    let pairs = params.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:=&".contains(c);
    assert!(query.chars().all(plain), "not to be written as it is: {query}");
    if query.is_empty() { query } else { format!("?{query}") }
}

/// The result or the error of a JSON-RPC answer, which must be one of them and nothing else.
pub(crate) fn open_envelope(mut envelope: Value, id: &Value) -> Result<Value, Refusal> {
    let mut members: Vec<_> = envelope.as_object().expect("an object").keys().map(String::as_str).collect();
    members.sort_unstable();
    assert!(members == ["id", "jsonrpc", "result"] || members == ["error", "id", "jsonrpc"], "{envelope}");
    assert_eq!(envelope["jsonrpc"], "2.0");
    assert_eq!(envelope["id"], *id, "an answer has the id of its request");
    match envelope.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(Refusal::of_code(&envelope["error"])),
    }
}

// === impl Events ===

impl Iterator for Events {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let frame = self.frames.next()?;
        let event = match self.binding {
            Binding::JsonRpc => open_envelope(frame, &json!(ID)).expect("an event"),
            Binding::HttpJson => frame,
        };
        schema::check(&schema::STREAM_RESPONSE, &event);
        Some(event)
    }
}
