//! A server on a free port, agents made of closures, and a client for both bindings.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its own part of this")]

mod client;
mod peer;
mod sse;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chancery_sdk::protocol::SecurityScheme;
use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{
    Agent, AgentCard, AgentSpec, Call, CallContext, Error, ErrorCode, Failure, Message, Outcome, Principal,
    Runtime, Server, ServerBuilder, Service, TaskId, Turn, WhileRunning,
};
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use client::{Answer, Client, Refusal, Wire, raw};
pub use peer::{Heard, Peer, Reply, card, proxy, sse};
pub use sse::{Events, SseEvent};

/// Both bindings, for tests that must hold on each.
pub const WIRES: [Wire; 2] = [Wire::JsonRpc, Wire::Rest];

pub const COMPLETED: &str = "TASK_STATE_COMPLETED";
pub const FAILED: &str = "TASK_STATE_FAILED";
pub const CANCELED: &str = "TASK_STATE_CANCELED";
pub const WORKING: &str = "TASK_STATE_WORKING";
pub const INPUT_REQUIRED: &str = "TASK_STATE_INPUT_REQUIRED";
pub const AUTH_REQUIRED: &str = "TASK_STATE_AUTH_REQUIRED";

/// A hang, said as a failure. Nothing that passes comes near it.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} hangs"),
    }
}

/// Waits for something that will be so soon.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    within(what, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A server that runs until the test ends.
pub struct Site {
    pub address: SocketAddr,
    pub store: Arc<Store>,
    pub service: Option<Service>,
}

impl Site {
    pub fn client(&self, wire: Wire) -> Client {
        Client::new(self.address, wire)
    }

    pub async fn stop_task(
        &self,
        agent: &str,
        owner: &Principal,
        task: &TaskId,
        why: &str,
    ) -> Result<bool, Error> {
        self.service.as_ref().expect("a service").stop_task(agent, owner, task, why).await
    }

    pub fn jsonrpc(&self) -> Client {
        self.client(Wire::JsonRpc)
    }

    pub fn rest(&self) -> Client {
        self.client(Wire::Rest)
    }
}

/// Serves one agent at the root.
pub async fn serve(spec: AgentSpec) -> Site {
    serve_with(|server| server.agent(spec)).await
}

/// Serves whatever the builder is made into. Callers are who their `Authorization` header says.
pub async fn serve_with(build: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Site {
    serve_on(StoreLimits::default(), build).await
}

/// The same, with limits of the store's own.
pub async fn serve_on(limits: StoreLimits, build: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Site {
    let store = Arc::new(Store::open("memory:", limits).expect("the memory store opens"));
    let server = build(
        Server::builder()
            .store(store.clone())
            .authenticate(authenticate)
            .security_scheme("bearer", SecurityScheme::bearer()),
    )
    .bind("127.0.0.1:0")
    .await
    .expect("the server binds");
    let address = server.local_addr().expect("the server has an address");
    let service = server.service().clone();
    tokio::spawn(server.run_until(std::future::pending()));
    Site { address, store, service: Some(service) }
}

/// `Authorization: Bearer realm/owner`; without one, everyone is anonymous.
fn authenticate(head: &Parts) -> Result<Principal, Error> {
    let Some(value) = head.headers.get("authorization") else { return Ok(Principal::anonymous()) };
    let known = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")?.rsplit_once('/'));
    let (realm, owner) = known.ok_or_else(|| Error::new(ErrorCode::Unauthenticated))?;
    Ok(Principal { realm: realm.into(), id: owner.into() })
}

/// An agent without a server, for tests that must see a call in the middle.
pub fn runtime(spec: AgentSpec) -> Runtime {
    Runtime::new(spec, Arc::new(AgentCard::new("tester", "Tests", "1")), Arc::new(Store::memory()))
}

/// A call of somebody in realm `r`.
pub fn call<R: DeserializeOwned>(owner: &str, request: &Value) -> Call<R> {
    let context = CallContext::new(Principal { realm: "r".into(), id: owner.into() }, "tester".into());
    Call { request: serde_json::from_str(&request.to_string()).expect("a request"), context }
}

/// An agent made of a closure that takes the whole turn.
pub struct Script<F> {
    run: F,
    opens_task: bool,
    while_running: WhileRunning,
}

pub fn script<F, Fut>(run: F) -> Script<F>
where
    F: Fn(Turn) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Failure>> + Send + 'static,
{
    Script { run, opens_task: true, while_running: WhileRunning::Queue(1) }
}

impl<F> Script<F> {
    /// Opens a task only when it emits something.
    pub fn direct(mut self) -> Self {
        self.opens_task = false;
        self
    }

    pub fn while_running(mut self, policy: WhileRunning) -> Self {
        self.while_running = policy;
        self
    }
}

impl<F, Fut> Agent for Script<F>
where
    F: Fn(Turn) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Failure>> + Send + 'static,
{
    fn run(&self, turn: Turn) -> impl Future<Output = Result<Outcome, Failure>> + Send {
        (self.run)(turn)
    }

    fn opens_task(&self, _: &Message) -> bool {
        self.opens_task
    }

    fn while_running(&self) -> WhileRunning {
        self.while_running
    }
}

/// A spec of a closure.
pub fn agent<F, Fut>(run: F) -> AgentSpec
where
    F: Fn(Turn) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Failure>> + Send + 'static,
{
    AgentSpec::new("tester", script(run))
}

/// Says what it is told.
pub fn echo() -> AgentSpec {
    agent(|turn: Turn| async move { Ok(Outcome::text(turn.text())) })
}

/// Works until it is stopped.
pub fn sleeper() -> AgentSpec {
    agent(|turn: Turn| async move {
        turn.working("going on").await?;
        std::future::pending().await
    })
}

/// Counts something that agents and tests share.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Counts when it is dropped.
pub struct OnDrop(pub Counter);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// A user message of one text, with an id of its own.
pub fn message(text: &str) -> Value {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let id = format!("m-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// The same, for a task.
pub fn follow_up(task: &str, text: &str) -> Value {
    let mut message = message(text);
    message["taskId"] = json!(task);
    message
}

pub fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_else(|| panic!("no state in {task}"))
}

pub fn id(task: &Value) -> String {
    task["id"].as_str().unwrap_or_else(|| panic!("no id in {task}")).to_owned()
}

/// The text of the first part of a message or an artifact.
pub fn text(said: &Value) -> &str {
    said["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {said}"))
}
