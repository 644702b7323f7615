//! `testing::spawn`: an agent on a free port, its clock, and how it stops.
#![cfg(feature = "testing")]

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::protocol::{SecurityScheme, Timestamp};
use chancery_sdk::store::{Retention, Store, StoreLimits};
use chancery_sdk::testing::{Clock, Spawn, spawn};
use chancery_sdk::{
    Agent, AgentSpec, Client, Error, ErrorCode, Failure, Message, Outcome, Principal, ServeError, Turn,
    agent_fn,
};
use http::request::Parts;
use tokio::sync::Semaphore;

fn echo() -> AgentSpec {
    AgentSpec::new("echo", agent_fn(|message: Message| async move { message.text().into_owned() }))
}

#[tokio::test]
async fn an_agent_answers_on_a_port_of_its_own() {
    let (one, other) = (spawn(echo()).await, spawn(echo()).await);
    assert_ne!(one.address(), other.address());
    assert!(one.address().ip().is_loopback() && one.url().ends_with(&one.address().to_string()));
    let client = one.client().await.expect("a client");
    let answer = client.send("hello").await.expect("an answer");
    assert_eq!(answer.text(), "hello");
    let id = answer.task().expect("a task").id.clone();
    assert_eq!(client.get(id.clone()).await.expect("the task").id, id);
    let elsewhere = other.client().await.expect("a client").get(id).await.expect_err("another store");
    assert_eq!(elsewhere.code(), Some(ErrorCode::TaskNotFound));
}

#[tokio::test]
async fn a_stopped_agent_is_gone() {
    let agent = spawn(echo()).await;
    let (url, client) = (agent.url().to_owned(), agent.client().await.expect("a client"));
    drop(client);
    agent.stop().await;
    assert!(Client::connect(&url).await.expect_err("nobody").was_never_sent());
}

/// Waits until it is let go.
struct Patient(Arc<Semaphore>, Arc<Semaphore>);

impl Agent for Patient {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        self.0.add_permits(1);
        let _leave = self.1.acquire().await;
        Ok(Outcome::text(turn.text()))
    }
}

#[tokio::test]
async fn open_calls_finish_when_an_agent_is_dropped() {
    let (begun, leave) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let agent = spawn(AgentSpec::new("patient", Patient(begun.clone(), leave.clone()))).await;
    let client = agent.client().await.expect("a client");
    let call = tokio::spawn(async move { client.send("still here").await });
    let _begun = begun.acquire().await.expect("it has begun");
    drop(agent);
    leave.add_permits(1);
    let answer = call.await.expect("no panic").expect("an answer");
    assert_eq!(answer.text(), "still here");
}

#[tokio::test]
async fn a_task_expires_when_the_clock_says_so() {
    let clock = Clock::manual(Timestamp::now());
    let retention = Retention { tasks: Duration::from_secs(3600), ..Retention::default() };
    let limits = StoreLimits { retention, ..StoreLimits::default() };
    let agent = Spawn::new(echo()).clock(clock.clone()).store_limits(limits).spawn().await.expect("a server");
    let client = agent.client().await.expect("a client");
    let id = client.send("x").await.expect("an answer").task().expect("a task").id.clone();
    clock.advance(Duration::from_secs(3000));
    agent.sweep().await;
    client.get(id.clone()).await.expect("not yet");
    clock.advance(Duration::from_secs(1000));
    agent.sweep().await;
    assert_eq!(client.get(id).await.expect_err("gone").code(), Some(ErrorCode::TaskNotFound));
}

#[tokio::test]
async fn a_store_outlives_its_server() {
    let store = Arc::new(Store::memory());
    let first = Spawn::new(echo()).store(store.clone()).spawn().await.expect("a server");
    let id = first.client().await.expect("a client").send("x").await.expect("an answer");
    let id = id.task().expect("a task").id.clone();
    first.stop().await;
    let second = Spawn::new(echo()).store(store.clone()).spawn().await.expect("a server");
    assert!(Arc::ptr_eq(second.store(), &store));
    assert_eq!(second.client().await.expect("a client").get(id.clone()).await.expect("the task").id, id);
}

#[tokio::test]
async fn the_server_can_be_changed() {
    let authenticate = |head: &Parts| -> Result<Principal, Error> {
        let known = head.headers.get("authorization").is_some_and(|value| value == "Bearer s3cret");
        if known { Ok(Principal::new("team", "ada")) } else { Err(ErrorCode::Unauthenticated.into()) }
    };
    let agent = Spawn::new(echo())
        .server(|server| server.security_scheme("bearer", SecurityScheme::bearer()))
        .server(move |server| server.authenticate(authenticate))
        .spawn()
        .await
        .expect("a server");
    let refused = agent.client().await.expect("the card is public").send("x").await.expect_err("who?");
    assert_eq!(refused.code(), Some(ErrorCode::Unauthenticated));
    let ada = Client::builder().bearer("s3cret").connect(agent.url()).await.expect("a client");
    ada.send("x").await.expect("an answer");
}

#[tokio::test]
async fn what_cannot_be_served_is_said() {
    let both = Spawn::new(echo()).store(Arc::new(Store::memory())).clock(Clock::system()).spawn().await;
    assert!(matches!(&both, Err(ServeError::Build(error)) if error.problems.len() == 1), "{both:?}");
    let name = AgentSpec::new("No Name", agent_fn(|_: Message| async { "x" }));
    assert!(Spawn::new(name).spawn().await.is_err());
}
