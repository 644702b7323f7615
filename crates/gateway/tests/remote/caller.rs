//! A client of the gateway, in JSON-RPC of v1.0.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::call::{Binding, Call, Frame};
use crate::gateway::Gateway;

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    address: SocketAddr,
    pub(crate) agent: String,
    key: Option<String>,
    headers: Vec<(&'static str, String)>,
}

/// What was answered.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// How much of an answer is shown where one is complained of.
const SHOWN: usize = 600;

/// A stream that is read.
pub(crate) struct Reading {
    seen: Arc<AtomicUsize>,
    frames: JoinHandle<(Vec<Frame>, anyhow::Result<()>)>,
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(gateway: &Gateway, agent: impl Into<String>) -> Self {
        let address = gateway.place().parse().expect("an address");
        Self { address, agent: agent.into(), key: None, headers: Vec::new() }
    }

    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Asks, and waits for as long as there is patience. What is not answered by then has no status.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Reply {
        let answered = tokio::time::timeout(crate::PATIENCE, self.try_ask(method, params)).await;
        let why = match answered {
            Ok(Ok(reply)) => return reply,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "there is no answer".to_owned(),
        };
        Reply { status: 0, body: json!({"broken": why}) }
    }

    /// Fails if the gateway goes meanwhile.
    pub(crate) async fn try_ask(&self, method: &str, params: &Value) -> anyhow::Result<Reply> {
        let (status, body) =
            self.dressed(Call::ask(&self.agent, method, params)).answer(self.address).await?;
        Ok(Reply { status, body })
    }

    pub(crate) async fn send(&self, text: &str) -> Reply {
        self.ask("SendMessage", &message(text)).await
    }

    /// A send that nobody may live to hear the end of.
    pub(crate) fn send_beside(&self, text: &str) -> JoinHandle<anyhow::Result<Reply>> {
        let (caller, params) = (self.clone(), message(text));
        tokio::spawn(async move { caller.try_ask("SendMessage", &params).await })
    }

    /// Sends without waiting for what comes of it.
    pub(crate) async fn start(&self, text: &str) -> Reply {
        let mut params = message(text);
        params["configuration"] = json!({"returnImmediately": true});
        self.ask("SendMessage", &params).await
    }

    pub(crate) async fn get(&self, task: &str) -> Reply {
        self.ask("GetTask", &json!({"id": task})).await
    }

    /// Waits until a task is over or waits for its caller, and gives it.
    pub(crate) async fn ended(&self, task: &str) -> Reply {
        let ended = tokio::time::timeout(crate::PATIENCE, async {
            loop {
                let reply = self.get(task).await;
                if !["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&reply.state()) {
                    return reply;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        });
        ended.await.unwrap_or_else(|_| panic!("{}: the task {task} never ends", self.agent))
    }

    pub(crate) fn stream(&self, text: &str) -> Reading {
        let call = self.dressed(Call::stream(Binding::JsonRpc, &self.agent, &message(text)));
        let (address, seen) = (self.address, Arc::new(AtomicUsize::new(0)));
        let progress = seen.clone();
        let frames = tokio::spawn(async move {
            let mut frames = Vec::new();
            let came = call.frames(address, &mut frames, &progress).await;
            (frames, came)
        });
        Reading { seen, frames }
    }

    fn dressed(&self, call: Call) -> Call {
        let call = match &self.key {
            Some(key) => call.with("Authorization", format!("Bearer {key}")),
            None => call,
        };
        self.headers.iter().fold(call, |call, (name, value)| call.with(name, value.clone()))
    }
}

/// The parameters of a message with an id of its own.
pub(crate) fn message(text: &str) -> Value {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = format!("m-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]}})
}

// === impl Reply ===

impl Reply {
    /// The task, whether it came from a send or a get.
    pub(crate) fn task(&self) -> &Value {
        let result = &self.body["result"];
        if result["task"].is_null() { result } else { &result["task"] }
    }

    pub(crate) fn id(&self) -> &str {
        self.task()["id"].as_str().unwrap_or_else(|| panic!("no task: {self:?}"))
    }

    pub(crate) fn state(&self) -> &str {
        self.task()["status"]["state"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.says("BUDGET_EXCEEDED")
    }

    pub(crate) fn says(&self, what: &str) -> bool {
        self.body.to_string().contains(what)
    }

    /// What it comes to, apart from the number of the request.
    pub(crate) fn outcome(&self) -> String {
        format!("{} {}{}", self.status, self.body["result"], self.body["error"])
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body: String = self.body.to_string().chars().take(SHOWN).collect();
        write!(f, "{} {body}", self.status)
    }
}

// === impl Reading ===

impl Reading {
    /// How many events have come.
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    /// All that was told, to the end; or why there was none.
    pub(crate) async fn end(self) -> Result<String, String> {
        let read = tokio::time::timeout(crate::PATIENCE, self.frames).await;
        let (frames, came) = read.map_err(|_| "the stream never ends".to_owned())?.expect("it is read");
        let text: Vec<_> =
            frames.iter().map(|frame| String::from_utf8_lossy(&frame.data).into_owned()).collect();
        came.map(|()| text.join("\n")).map_err(|error| format!("{}{error}", text.join("\n")))
    }
}
