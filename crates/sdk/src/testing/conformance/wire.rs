//! One interface of the agent under test. The envelope of every answer and the shape of every error is checked as it is
//! read.

use std::sync::Arc;

use chancery_protocol::{ErrorCode, Operation, OperationRow, VERSION_HEADER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use super::http::{Answer, Http, excerpt};
use super::report::{Stop, ensure, failed, skipped};
use super::shape;

/// What a JSON-RPC request is known by.
const ID: u64 = 7;
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// The bindings that are spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    JsonRpc,
    HttpJson,
}

/// An interface of the agent.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) binding: Binding,
    pub(super) url: String,
    pub(super) tenant: String,
    pub(super) http: Arc<Http>,
    pub(super) headers: HeaderMap,
    /// What another caller sends, if there is one.
    pub(super) other: Option<HeaderMap>,
    pub(super) card: Arc<Value>,
    /// What is said to the agent.
    pub(super) message: Value,
    pub(super) sample: Arc<OnceCell<Result<Value, Stop>>>,
}

/// An error, its shape already checked.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    binding: Binding,
    /// The code of JSON-RPC, or the status of HTTP.
    code: i64,
    reason: Option<String>,
    pub(super) error: Value,
}

/// The events of a stream, out of their envelopes.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) list: Vec<Value>,
    /// Whether the agent has ended it.
    pub(super) ended: bool,
}

/// What an operation answers.
pub(super) type Reply = Result<Result<Value, Refusal>, Stop>;

// === impl Wire ===

impl Wire {
    /// Sends another value of a header, or none.
    pub(super) fn with(&self, name: &'static str, value: Option<&str>) -> Self {
        let mut wire = self.clone();
        wire.headers.remove(name);
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            wire.headers.insert(HeaderName::from_static(name), value);
        }
        wire
    }

    pub(super) fn version(&self, version: Option<&str>) -> Self {
        self.with(VERSION_HEADER, version)
    }

    /// Whether the card declares a capability.
    pub(super) fn can(&self, capability: &str) -> bool {
        self.card["capabilities"][capability] == true
    }

    /// Calls an operation with the parameters that JSON-RPC has.
    pub(super) async fn call(&self, operation: Operation, params: Value) -> Reply {
        let answer = self.ask(operation, params).await?;
        self.open(&answer)
    }

    /// Calls an operation that must work.
    pub(super) async fn result(&self, operation: Operation, params: Value) -> Result<Value, Stop> {
        match self.call(operation, params).await? {
            Ok(result) => Ok(result),
            Err(refusal) => failed(format!("{} is refused: {refusal}", operation.method())),
        }
    }

    /// Calls an operation that must be refused.
    pub(super) async fn refusal(&self, operation: Operation, params: Value) -> Result<Refusal, Stop> {
        match self.call(operation, params).await? {
            Ok(result) => {
                let result = excerpt(&result.to_string());
                failed(format!("{} is not refused: {result}", operation.method()))
            }
            Err(refusal) => Ok(refusal),
        }
    }

    async fn ask(&self, operation: Operation, params: Value) -> Result<Answer, Stop> {
        let mut last = None;
        for (verb, url, body) in self.requests(operation, params) {
            let answer = self.http.fetch(&verb, &url, &self.headers, body).await?;
            let unknown = matches!(answer.status(), 404 | 405) && !is_not_found(&answer);
            last = Some(answer);
            if !unknown {
                break;
            }
        }
        last.ok_or_else(|| Stop::Failed("the operation has no path".to_owned()))
    }

    /// How to ask: there are two verbs for subscribing, and any agent may know only one.
    fn requests(&self, operation: Operation, mut params: Value) -> Vec<(Method, String, String)> {
        if self.binding == Binding::JsonRpc {
            if !self.tenant.is_empty() {
                params["tenant"] = json!(self.tenant);
            }
            let call = json!({"jsonrpc": "2.0", "id": ID, "method": operation.method(), "params": params});
            return vec![(Method::POST, self.url.clone(), call.to_string())];
        }
        let params = params.as_object().cloned().unwrap_or_default();
        operation.rows().map(|row| self.request_line(row, params.clone())).collect()
    }

    fn request_line(&self, row: &OperationRow, mut params: Map<String, Value>) -> (Method, String, String) {
        let mut url = self.url.trim_end_matches('/').to_owned();
        if !self.tenant.is_empty() {
            url = format!("{url}/{}", encoded(&self.tenant));
        }
        let mut take =
            |key: &str| params.remove(key).map(|value| encoded(&plain(&value))).unwrap_or_default();
        if row.path.contains("{task}") {
            let task = take("taskId");
            let config = if row.path.contains("{id}") { take("id") } else { String::new() };
            row.write_path(&mut url, [&task, &config]);
        } else if row.path.contains('{') {
            row.write_path(&mut url, [&take("id"), ""]);
        } else {
            url.push_str(row.path);
        }
        if row.verb == Method::POST {
            return (row.verb.clone(), url, Value::Object(params).to_string());
        }
        for (index, (name, value)) in params.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(&format!("{name}={}", encoded(&plain(value))));
        }
        (row.verb.clone(), url, String::new())
    }

    /// Posts a body as it is, to where messages are sent to.
    pub(super) async fn post(&self, body: &str) -> Result<Answer, Stop> {
        let url = match self.binding {
            Binding::JsonRpc => self.url.clone(),
            Binding::HttpJson => self
                .requests(Operation::SendMessage, json!({}))
                .pop()
                .map_or(String::new(), |(_, url, _)| url),
        };
        self.http.fetch(&Method::POST, &url, &self.headers, body.to_owned()).await
    }

    /// The result or the error in an answer.
    pub(super) fn open(&self, answer: &Answer) -> Reply {
        if !answer.is_json() {
            return failed(format!(
                "the content type is `{}`: {}",
                answer.header("content-type").unwrap_or_default(),
                answer.excerpt()
            ));
        }
        let body = answer.json()?;
        match self.binding {
            Binding::JsonRpc => open_envelope(body, &json!(ID)),
            Binding::HttpJson if answer.head.status.is_success() => Ok(Ok(body)),
            Binding::HttpJson => Ok(Err(Refusal::of_status(answer.status(), &body)?)),
        }
    }

    /// Calls an operation that answers with a stream, and reads it until it ends or somebody has to speak.
    pub(super) async fn stream(
        &self,
        operation: Operation,
        params: Value,
    ) -> Result<Result<Events, Refusal>, Stop> {
        let wire = self.with("accept", Some("text/event-stream"));
        for (verb, url, body) in wire.requests(operation, params) {
            let (head, body) = wire.http.open(&verb, &url, &wire.headers, body).await?;
            let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) && head.status.is_success() {
                let frames = wire.http.frames(body, |frame| {
                    frame.contains("TASK_STATE_INPUT_REQUIRED") || frame.contains("TASK_STATE_AUTH_REQUIRED")
                });
                let frames = frames.await?;
                let list: Result<_, _> = frames.data.iter().map(|data| wire.event(data)).collect();
                return Ok(Ok(Events { list: list?, ended: frames.ended }));
            }
            let answer = wire.http.read(head, body).await?;
            if matches!(answer.status(), 404 | 405) && !is_not_found(&answer) && verb == Method::GET {
                continue;
            }
            return match wire.open(&answer)? {
                Err(refusal) => Ok(Err(refusal)),
                Ok(_) => failed(format!("the answer is no stream: {}", answer.excerpt())),
            };
        }
        failed("nothing answers at the path of the operation")
    }

    fn event(&self, data: &str) -> Result<Value, Stop> {
        let Ok(frame) = serde_json::from_str(data) else {
            return failed(format!("an event is no JSON: {}", excerpt(data)));
        };
        let event = match self.binding {
            Binding::HttpJson => frame,
            Binding::JsonRpc => match open_envelope(frame, &json!(ID))? {
                Ok(event) => event,
                Err(refusal) => return failed(format!("the stream reports an error: {refusal}")),
            },
        };
        match shape::STREAM_RESPONSE.problem(&event) {
            None => Ok(event),
            Some(problem) => failed(format!("an event is none: {problem}: {}", excerpt(&event.to_string()))),
        }
    }

    /// Sends a message and waits for what comes of it.
    pub(super) async fn send(&self, message: Value) -> Result<Value, Stop> {
        let reply = self.result(Operation::SendMessage, json!({"message": message})).await?;
        match shape::SEND_MESSAGE_RESPONSE.problem(&reply) {
            None => Ok(reply),
            Some(problem) => failed(format!("{problem}: {}", excerpt(&reply.to_string()))),
        }
    }

    /// A task of the agent's, made once for all checks.
    pub(super) async fn task(&self) -> Result<Value, Stop> {
        let sample = self.sample.get_or_init(|| async { self.send(self.message.clone()).await }).await;
        match sample {
            Ok(reply) if reply["task"].is_object() => Ok(reply["task"].clone()),
            Ok(_) => skipped("the agent answers with messages and makes no tasks"),
            // That check fails by itself.
            Err(Stop::Failed(_)) => skipped("no task came of a message"),
            Err(stop) => Err(stop.clone()),
        }
    }

    /// The same, once it is over.
    pub(super) async fn ended_task(&self) -> Result<Value, Stop> {
        let task = self.task().await?;
        let task = self.result(Operation::GetTask, json!({"id": task["id"]})).await?;
        if is_over(&task) {
            Ok(task)
        } else {
            skipped(format!("no task has ended; this one is {}", state(&task)))
        }
    }
}

/// Whether it is the agent that does not find a task, and not the server that does not find a path.
fn is_not_found(answer: &Answer) -> bool {
    let body = String::from_utf8_lossy(&answer.body);
    body.contains(ErrorCode::TaskNotFound.row().reason) || body.contains("\"jsonrpc\"")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(super) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

pub(super) fn is_over(task: &Value) -> bool {
    const ENDS: [&str; 4] =
        ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"];
    ENDS.contains(&state(task))
}

pub(super) fn is_waiting(task: &Value) -> bool {
    ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"].contains(&state(task))
}

/// The result or the error of a JSON-RPC answer, which must be one of them.
pub(super) fn open_envelope(mut envelope: Value, id: &Value) -> Reply {
    let shown = excerpt(&envelope.to_string());
    ensure(envelope["jsonrpc"] == "2.0", || format!("`jsonrpc` is not \"2.0\": {shown}"))?;
    ensure(envelope["id"] == *id, || format!("`id` is not that of the call, {id}: {shown}"))?;
    let (result, error) = (envelope.get("result").is_some(), envelope.get("error").is_some());
    ensure(result != error, || format!("there is not exactly one of `result` and `error`: {shown}"))?;
    if result { Ok(Ok(envelope["result"].take())) } else { Ok(Err(Refusal::of_code(&envelope["error"])?)) }
}

// === impl Refusal ===

impl Refusal {
    /// The `error` of a JSON-RPC answer.
    fn of_code(error: &Value) -> Result<Self, Stop> {
        let Some(code) = error["code"].as_i64() else {
            return failed(format!("the code of an error is no integer: {error}"));
        };
        Self::read(Binding::JsonRpc, code, error, "data")
    }

    /// The body of an HTTP+JSON answer that is none.
    fn of_status(status: u16, body: &Value) -> Result<Self, Stop> {
        let error = &body["error"];
        ensure(error.is_object(), || format!("{status} without an `error`: {}", excerpt(&body.to_string())))?;
        ensure(error["code"] == status, || format!("the code is not the status, {status}: {error}"))?;
        Self::read(Binding::HttpJson, i64::from(status), error, "details")
    }

    fn read(binding: Binding, code: i64, error: &Value, details: &str) -> Result<Self, Stop> {
        ensure(error["message"].is_string(), || format!("an error has no message: {error}"))?;
        let none = Vec::new();
        let details = match &error[details] {
            Value::Null => &none,
            Value::Array(details) => details,
            other => return failed(format!("`{details}` of an error is no array: {other}")),
        };
        let typed = details.iter().all(|detail| detail["@type"].is_string());
        ensure(typed, || format!("a detail of an error has no `@type`: {error}"))?;
        let info = details.iter().find(|detail| detail["@type"] == ERROR_INFO);
        let reason = info.and_then(|info| info["reason"].as_str()).map(str::to_owned);
        Ok(Self { binding, code, reason, error: error.clone() })
    }

    /// It is this error. Versions 1.0.0 and 1.0.1 of the protocol have other statuses for some; what counts is the
    /// reason.
    pub(super) fn expect(&self, code: ErrorCode) -> Result<(), Stop> {
        let row = code.row();
        let is_protocol = (-32099..=-32001).contains(&row.jsonrpc);
        let same = match self.binding {
            Binding::JsonRpc => self.code == i64::from(row.jsonrpc),
            Binding::HttpJson if is_protocol => self.reason.as_deref() == Some(row.reason),
            Binding::HttpJson => self.code == i64::from(row.http.as_u16()),
        };
        let wanted = match self.binding {
            Binding::JsonRpc => format!("{} ({})", row.reason, row.jsonrpc),
            Binding::HttpJson => format!("{} ({})", row.reason, row.http.as_u16()),
        };
        ensure(same, || format!("refused, but not as {wanted}: {self}"))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&excerpt(&self.error.to_string()))
    }
}
