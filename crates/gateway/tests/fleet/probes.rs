//! How it is found out whether agents elsewhere are well, who gets the messages of several that are, and how long anybody is
//! waited for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chancery_sdk::testing::{Spawned, spawn};
use chancery_sdk::{AgentSkill, AgentSpec, Client, Message, agent_fn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::gateway::Gateway;
use crate::http::get;
use crate::provenance::for_skill;
use crate::reload::until;

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

fn elsewhere(name: &str, url: &str, more: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}\"\n{more}\n")
}

/// What is wrong with an agent, as the operator reads it.
fn whole_reason(gateway: &Gateway, name: &str) -> Value {
    let told: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "agents"])).expect("JSON");
    let agents = told["agents"].as_array().expect("agents");
    agents.iter().find(|agent| agent["name"] == name).expect("it is listed")["health"]["reason"].clone()
}

/// How each agent is, by the catalogue.
async fn health(gateway: &Gateway) -> HashMap<String, Value> {
    let agents = get(&format!("{}/agents/", gateway.url()), &[]).await.json()["agents"].clone();
    let agents = agents.as_array().expect("agents").iter();
    agents
        .map(|agent| (agent["name"].as_str().expect("a name").to_owned(), agent["health"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_asked_for_and_its_status_compared() {
    let there = Gateway::start(ECHO);
    let probe = |name: &str, how: &str| {
        elsewhere(name, &there.agent("echo"), &format!("health = {{ interval_ms = 100, {how} }}"))
    };
    let config = probe("well", "path = \"/agents/\"")
        + &probe("ill", "path = \"/no-such-path\"")
        + &probe("odd", "path = \"/no-such-path\", status = 404")
        + &probe("slow", "path = \"/agents/\", timeout_ms = 1");
    let gateway = Gateway::start(&config);
    let expected = [("well", "healthy"), ("ill", "unhealthy"), ("odd", "healthy")];
    until("what is expected", async || {
        let health = health(&gateway).await;
        expected.iter().all(|(name, status)| health[*name]["status"] == *status)
    })
    .await;
    let reason = health(&gateway).await["ill"]["reason"].clone();
    assert_eq!(reason, "its probe is not answered as it should be");
    assert_eq!(whole_reason(&gateway, "ill"), "/no-such-path was answered with 404, not 200");
    // The same is known to who looks after the gateway, and counted.
    let agents: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "agents"])).expect("JSON");
    let ill = agents["agents"].as_array().expect("agents").iter().find(|agent| agent["name"] == "ill");
    assert_eq!(ill.expect("it is listed")["health"]["status"], "unhealthy");
    let metrics = gateway.run(&["admin", "metrics"]);
    assert!(metrics.contains("chancery_agent_up{agent=\"ill\"} 0"), "{metrics}");
    assert!(metrics.contains("chancery_agent_up{agent=\"well\"} 1"), "{metrics}");
    drop(there);
    until("nobody is well", async || health(&gateway).await["well"]["status"] == "unhealthy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_not_waited_for_longer_than_the_operator_says() {
    // Takes connections, and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", listener.local_addr().expect("an address"));
    let outbound = "[outbound]\nread_timeout_ms = 300\n";
    let gateway = Gateway::start(&format!("{outbound}{}", elsewhere("silent", &silent, "")));
    let client = Client::builder().retries(0).connect(gateway.agent("silent")).await.expect("it is listed");
    let error = client.send("hello").await.expect_err("nobody answers");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    let waited = whole_reason(&gateway, "silent");
    assert!(waited.is_null() || waited.to_string().contains("300 ms"), "{waited}");
    drop(listener);
}

#[tokio::test]
async fn the_times_and_limits_are_those_that_are_documented() {
    let gateway = Gateway::start(ECHO);
    let config: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "config"])).expect("JSON");
    let expected = json!({"connect_timeout_ms": 5_000, "read_timeout_ms": 30_000, "max_calls": 1024, "max_streams": 4096});
    assert_eq!(config["outbound"], expected);
}

/// An agent that has a skill that others have too, counts who has asked it, and answers when it is let.
async fn able(name: &'static str, go: Arc<Semaphore>, asked: Arc<AtomicUsize>) -> Spawned {
    let agent = agent_fn(move |_: Message| {
        let (go, asked) = (go.clone(), asked.clone());
        async move {
            asked.fetch_add(1, Ordering::Relaxed);
            go.acquire().await.expect("it is never closed").forget();
            name.to_owned()
        }
    });
    spawn(AgentSpec::new(name, agent).skill(AgentSkill::new("work", "Work", "Works"))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_that_have_a_skill_the_one_that_is_busy_gets_less() {
    let (stuck, free) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(1000)));
    let waiting = Arc::new(AtomicUsize::new(0));
    let one = able("stuck", stuck.clone(), waiting.clone()).await;
    let other = able("free", free, Arc::default()).await;
    let gateway = Gateway::start(&(elsewhere("stuck", one.url(), "") + &elsewhere("free", other.url(), "")));
    let fleet = Client::builder().retries(0).connect(gateway.url()).await.expect("it has a card");
    let answered = Arc::new(AtomicUsize::new(0));
    let mut calls = Vec::new();
    for sent in 1..=40 {
        let (fleet, count) = (fleet.clone(), answered.clone());
        calls.push(tokio::spawn(async move {
            let text = fleet.send(for_skill("go", "work")).await.expect("it answers").text();
            count.fetch_add(1, Ordering::Relaxed);
            text
        }));
        // The next one comes when this one has been answered or waits.
        let settled = || answered.load(Ordering::Relaxed) + waiting.load(Ordering::Relaxed);
        until("the call has come to somebody", async || settled() >= sent).await;
    }
    stuck.add_permits(1000);
    let mut said: HashMap<String, usize> = HashMap::new();
    for call in calls {
        *said.entry(call.await.expect("it ends")).or_default() += 1;
    }
    let (stuck, free) = (said.get("stuck").copied().unwrap_or_default(), said["free"]);
    assert!(stuck >= 1, "both are tried: {said:?}");
    assert!(free >= 30, "who is stuck gets little more: {said:?}");
}
