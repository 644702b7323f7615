//! An agent elsewhere that has tasks from before: it goes on with them when it is told to, and remembers all that it hears.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) const WORKING: &str = "TASK_STATE_WORKING";
pub(crate) const ASKS: &str = "TASK_STATE_INPUT_REQUIRED";
pub(crate) const AUTHORIZES: &str = "TASK_STATE_AUTH_REQUIRED";
pub(crate) const COMPLETED: &str = "TASK_STATE_COMPLETED";
pub(crate) const CANCELED: &str = "TASK_STATE_CANCELED";

/// The answer after which it asks again.
pub(crate) const NOT_YET: &str = "not yet";

/// Serves until the test ends.
pub(crate) struct Agent {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    tasks: Mutex<BTreeMap<String, Known>>,
    heard: Mutex<Vec<Heard>>,
    /// Changes with every event.
    told: watch::Sender<usize>,
}

/// A task as it stands, and what has happened to it since this agent began.
struct Known {
    task: Value,
    events: Vec<Value>,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) method: String,
    /// The task that it names.
    pub(crate) task: Option<String>,
    pub(crate) message: Value,
}

// === impl Agent ===

impl Agent {
    /// One that has these tasks: their ids, contexts, and states.
    pub(crate) async fn with(tasks: &[(&str, &str, &str)]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let known =
            |&(id, context, state): &(&str, &str, &str)| (id.to_owned(), Known::new(id, context, state));
        let shared = Arc::new(Shared {
            url: url.clone(),
            tasks: Mutex::new(tasks.iter().map(known).collect()),
            heard: Mutex::default(),
            told: watch::Sender::new(0),
        });
        let paths = Router::new().route("/", get(card).post(answer));
        let paths = paths.route("/.well-known/agent-card.json", get(card)).with_state(shared.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(paths.clone());
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, shared }
    }

    /// Has a task come to another state, and says so.
    pub(crate) fn comes_to(&self, task: &str, state: &str) {
        self.shared.happens(task, |known| known.comes_to(state));
    }

    /// Has a task finished, with what was missing.
    pub(crate) fn finishes(&self, task: &str) {
        self.shared.happens(task, |known| known.adds("the rest"));
        self.comes_to(task, COMPLETED);
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().expect("no panic").clone()
    }

    /// The messages that it was sent.
    pub(crate) fn messages(&self) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| heard.message.is_object()).collect()
    }

    /// Whether it was asked about a task, in this way.
    pub(crate) fn was_asked(&self, method: &str, task: &str) -> bool {
        self.heard().iter().any(|heard| heard.method == method && heard.task.as_deref() == Some(task))
    }
}

// === impl Known ===

impl Known {
    /// As it was when the old store was left.
    fn new(id: &str, context: &str, state: &str) -> Self {
        let mut task = json!({ "id": id, "contextId": context, "status": { "state": state }, "history": [] });
        let said = |kind: &str, text: &str| json!({ "messageId": format!("{kind}-{id}"), "role": "ROLE_AGENT", "parts": [{ "text": text }] });
        match state {
            ASKS => task["status"]["message"] = said("ask", "Which one?"),
            AUTHORIZES => task["status"]["message"] = said("auth", "Log in there"),
            _ => task["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "half of it, " }] }]),
        }
        Self { task, events: Vec::new() }
    }

    fn comes_to(&mut self, state: &str) {
        let status = json!({ "state": state });
        self.task["status"] = status.clone();
        let (id, context) = (&self.task["id"], &self.task["contextId"]);
        let update = json!({ "statusUpdate": { "taskId": id, "contextId": context, "status": status } });
        self.events.push(update);
    }

    fn adds(&mut self, text: &str) {
        let part = json!({ "text": text });
        if !self.task["artifacts"].is_array() {
            self.task["artifacts"] = json!([{ "artifactId": "a", "parts": [] }]);
        }
        let parts = self.task["artifacts"][0]["parts"].as_array_mut().expect("it has parts");
        let append = !parts.is_empty();
        parts.push(part.clone());
        let (id, context) = (&self.task["id"], &self.task["contextId"]);
        let artifact = json!({ "artifactId": "a", "parts": [part] });
        let update = json!({ "taskId": id, "contextId": context, "artifact": artifact, "append": append, "lastChunk": true });
        self.events.push(json!({ "artifactUpdate": update }));
    }

    fn is_over(&self) -> bool {
        [COMPLETED, CANCELED].iter().any(|state| self.task["status"]["state"] == *state)
    }
}

// === impl Shared ===

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.tasks.lock().expect("no panic")
    }

    fn cancel(&self, task: &str) {
        if self.tasks().contains_key(task) {
            self.happens(task, |known| known.comes_to(CANCELED));
        }
    }

    fn happens(&self, task: &str, what: impl FnOnce(&mut Known)) {
        what(self.tasks().get_mut(task).expect("it has the task"));
        self.told.send_modify(|count| *count += 1);
    }

    /// Works on a message at once: its task, or why it is not taken.
    fn take(&self, message: &Value) -> Result<String, &'static str> {
        let text = message["parts"][0]["text"].as_str().unwrap_or_default();
        let id = match message["taskId"].as_str() {
            None => {
                let id = format!("new-{}", self.tasks().len());
                let context = message["contextId"].as_str().unwrap_or("c-new");
                let mut known = Known::new(&id, context, WORKING);
                known.task["artifacts"] = Value::Null;
                self.tasks().insert(id.clone(), known);
                id
            }
            Some(id) => id.to_owned(),
        };
        let mut tasks = self.tasks();
        let Some(known) = tasks.get_mut(&id) else { return Err("no such task") };
        if !message["contextId"].is_null() && message["contextId"] != known.task["contextId"] {
            return Err("the task is of another context");
        }
        known.task["history"].as_array_mut().expect("a list").push(message.clone());
        known.comes_to(WORKING);
        if text == NOT_YET {
            known.comes_to(ASKS);
            return Ok(id);
        }
        known.adds(text);
        known.comes_to(COMPLETED);
        Ok(id)
    }

    /// The events of a task from the one at `from` on, after the task as it stands.
    fn events(
        self: Arc<Self>,
        id: String,
        task: Value,
        from: usize,
    ) -> impl futures_util::Stream<Item = Value> {
        let told = self.told.subscribe();
        let rest = stream::unfold((self, told, from), move |(shared, mut told, at)| {
            let id = id.clone();
            async move {
                loop {
                    let (next, is_over) = {
                        let tasks = shared.tasks();
                        let known = &tasks[&id];
                        (known.events.get(at).cloned(), known.is_over())
                    };
                    match next {
                        Some(event) => return Some((event, (shared, told, at + 1))),
                        None if is_over => return None,
                        None => told.changed().await.ok()?,
                    }
                }
            }
        });
        stream::once(async move { json!({ "task": task }) }).chain(rest)
    }
}

async fn card(State(shared): State<Arc<Shared>>) -> Response {
    axum::Json(json!({
        "name": "one from before", "description": "Goes on with what it has", "version": "1.0.0",
        "supportedInterfaces": [{ "url": shared.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "act", "name": "Act", "description": "Acts", "tags": ["test"] }],
    }))
    .into_response()
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let call: Value = serde_json::from_slice(&body).expect("it is JSON");
    let (method, params) = (call["method"].as_str().expect("a method").to_owned(), &call["params"]);
    let message = params["message"].clone();
    let named = if message.is_object() { &message["taskId"] } else { &params["id"] };
    let task = named.as_str().map(str::to_owned);
    let heard = Heard { method: method.clone(), task: task.clone(), message: message.clone() };
    shared.heard.lock().expect("no panic").push(heard);
    let taken = match &*method {
        "SendMessage" | "SendStreamingMessage" => shared.take(&message),
        "GetTask" | "SubscribeToTask" => task.ok_or("no task is named"),
        "CancelTask" => task.ok_or("no task is named").inspect(|task| shared.cancel(task)),
        _ => Err("it is not to be asked that"),
    };
    let found = taken.and_then(|id| {
        let tasks = shared.tasks();
        let known = tasks.get(&id).ok_or("no such task")?;
        Ok((id, known.task.clone(), known.events.len()))
    });
    let envelope = move |result: Value| json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
    match (&*method, found) {
        (_, Err(why)) => {
            let error = json!({ "code": -32602, "message": why });
            axum::Json(json!({ "jsonrpc": "2.0", "id": null, "error": error })).into_response()
        }
        ("GetTask" | "CancelTask", Ok((_, task, _))) => axum::Json(envelope(task)).into_response(),
        ("SendMessage", Ok((_, task, _))) => axum::Json(envelope(json!({ "task": task }))).into_response(),
        (_, Ok((id, task, from))) => {
            let events = shared.events(id, task, from);
            let frames =
                events.map(move |event| Ok::<_, Infallible>(format!("data: {}\n\n", envelope(event))));
            ([("content-type", "text/event-stream")], Body::from_stream(frames)).into_response()
        }
    }
}
