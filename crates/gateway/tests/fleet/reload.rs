//! Another configuration is put in force while calls are open: whole, or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_sdk::protocol::StreamResponse;
use chancery_sdk::testing::{Spawned, spawn};
use chancery_sdk::{AgentSkill, AgentSpec, Client, ErrorCode, Message, Outcome, TaskState, Turn, agent_fn};
use serde_json::Value;

use crate::gateway::Gateway;
use crate::http::get;

/// A hang, said as a failure. Nothing that passes comes near it.
const LONGEST: Duration = Duration::from_secs(60);

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";
const STREAM: &str = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";

fn elsewhere(name: &str, url: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}\"\n")
}

/// An agent that says which one it is.
async fn saying(text: &'static str) -> Spawned {
    let agent = agent_fn(move |_: Message| async move { text.to_owned() });
    spawn(AgentSpec::new("far", agent).skill(AgentSkill::new("far", "Far", "Is far away"))).await
}

/// The names in the catalogue, over all its pages.
async fn names(gateway: &Gateway) -> BTreeSet<String> {
    let (mut names, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = get(&format!("{}/agents/?limit=100&cursor={cursor}", gateway.url()), &[]).await.json();
        let agents = page["agents"].as_array().expect("agents");
        names.extend(agents.iter().map(|agent| agent["name"].as_str().expect("a name").to_owned()));
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) => cursor = next.to_owned(),
            None => return names,
        }
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(LONGEST, waiting).await.is_err() {
        panic!("{what}: it does not come to be");
    }
}

pub(crate) async fn until_named(gateway: &Gateway, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(|name| (*name).to_owned()).collect();
    until("the members", async || names(gateway).await == expected).await;
}

async fn say(client: &Client, text: &str) -> String {
    client.send(text).await.unwrap_or_else(|error| panic!("{text}: {error}")).text()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_come_change_and_go_under_traffic_and_no_call_fails() {
    let (old, new) = (saying("old").await, saying("new").await);
    let gateway = Gateway::start(&format!("{ECHO}{}", elsewhere("far", old.url())));
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for name in ["echo", "far"] {
        let client = Client::builder().retries(0).connect(gateway.agent(name)).await.expect("it is there");
        let over = over.clone();
        callers.push(tokio::spawn(async move {
            let mut heard = Vec::new();
            while !over.load(Ordering::Relaxed) {
                heard.push(say(&client, "hello").await);
            }
            heard
        }));
    }
    for round in 0..3 {
        let url = if round % 2 == 0 { new.url() } else { old.url() };
        gateway.configure(&format!("{ECHO}{}{STREAM}", elsewhere("far", url)));
        until_named(&gateway, &["echo", "far", "stream"]).await;
        let stream = Client::connect(gateway.agent("stream")).await.expect("it is there");
        stream.send("hello").await.expect("it answers");
        gateway.configure(&format!("{ECHO}{}", elsewhere("far", url)));
        gateway.hang_up();
        until_named(&gateway, &["echo", "far"]).await;
        assert_eq!(get(&gateway.agent("stream"), &[]).await.status, 404);
    }
    over.store(true, Ordering::Relaxed);
    let mut heard = Vec::new();
    for caller in callers {
        heard.push(caller.await.expect("no call fails"));
    }
    assert!(heard[0].iter().all(|said| said == "hello"));
    assert!(heard[1].iter().any(|said| said == "old") && heard[1].iter().any(|said| said == "new"));
}

#[tokio::test]
async fn what_is_wrong_changes_nothing() {
    let gateway = Gateway::start(ECHO);
    let client = Client::connect(gateway.agent("echo")).await.expect("it is there");
    let other_store = format!("[store]\nurl = \"memory:\"\n{ECHO}{STREAM}");
    let other_cards = format!("[cards]\nsign = false\n{ECHO}{STREAM}");
    for wrong in ["[[agent]\n", "", &format!("{ECHO}{ECHO}"), &other_store, &other_cards] {
        gateway.configure(wrong);
        gateway.hang_up();
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!(say(&client, "hello").await, "hello", "{wrong}");
        assert_eq!(names(&gateway).await.len(), 1, "{wrong}");
    }
    gateway.configure(&format!("{ECHO}{STREAM}"));
    until_named(&gateway, &["echo", "stream"]).await;
}

#[tokio::test]
async fn what_was_spent_counts_on_under_other_limits() {
    let limited = |tasks: u32| format!("[budget.caller]\nmax_tasks_per_day = {tasks}\n{ECHO}");
    let gateway = Gateway::start(&limited(2));
    let client = Client::builder().retries(0).connect(gateway.agent("echo")).await.expect("it is there");
    let refused = async |client: &Client| {
        let error = client.send("hello").await.expect_err("nothing is left");
        assert_eq!(error.code(), Some(ErrorCode::ResourceExhausted), "{error}");
    };
    say(&client, "one").await;
    say(&client, "two").await;
    refused(&client).await;
    gateway.configure(&format!("{}{STREAM}", limited(3)));
    until_named(&gateway, &["echo", "stream"]).await;
    say(&client, "three").await;
    refused(&client).await;
    gateway.configure(&limited(1));
    until_named(&gateway, &["echo"]).await;
    refused(&client).await;
    // Nobody has counted what was spent by the hour, so that cannot be limited from one moment to the next.
    gateway.configure(&format!("[budget.caller]\nmax_tasks_per_hour = 100\n{ECHO}{STREAM}"));
    gateway.hang_up();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(names(&gateway).await.len(), 1);
    refused(&client).await;
}

#[tokio::test]
async fn other_policies_and_rules_hold_from_then_on() {
    let gateway = Gateway::start(&format!("{ECHO}{STREAM}"));
    let client = Client::builder().retries(0).connect(gateway.agent("echo")).await.expect("it is there");
    say(&client, "hello").await;
    gateway.configure(&format!("[policy.default]\nallowed_skills = [\"stream\"]\n{ECHO}{STREAM}"));
    until("the policy", async || client.send("hello").await.is_err()).await;
    let error = client.send("hello").await.expect_err("it is refused");
    assert!(error.to_string().contains("SKILL_NOT_ALLOWED"), "{error}");
    gateway.configure(&format!("{ECHO}{STREAM}"));
    until("the policy", async || client.send("hello").await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_while_its_agent_is_exchanged() {
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = go.clone();
    struct Patient(Arc<tokio::sync::Semaphore>);
    impl chancery_sdk::Agent for Patient {
        async fn run(&self, turn: Turn) -> Result<Outcome, chancery_sdk::Failure> {
            turn.working("waiting").await?;
            self.0.acquire().await.expect("it is never closed").forget();
            Ok(Outcome::text("the old one"))
        }
    }
    let old = spawn(AgentSpec::new("far", Patient(waiting))).await;
    let newcomer = agent_fn(|_: Message| async move { "the new one".to_owned() });
    let new = spawn(AgentSpec::new("newcomer", newcomer)).await;
    let gateway = Gateway::start(&elsewhere("far", old.url()));
    let client = Client::connect(gateway.agent("far")).await.expect("it is there");
    let mut events = client.stream("hello").await.expect("it streams");
    let first = events.next().await.expect("an event").expect("a good one");
    let StreamResponse::Task(begun) = first.payload().expect("it can be read") else { panic!("{first:?}") };
    let task = begun.id.clone();
    gateway.configure(&elsewhere("far", new.url()));
    let catalogue = format!("{}/agents/", gateway.url());
    until("the newcomer", async || get(&catalogue, &[]).await.json()["agents"][0]["title"] == "newcomer")
        .await;
    assert_eq!(say(&client, "hello").await, "the new one");
    go.add_permits(1);
    while let Some(event) = events.next().await {
        event.expect("the stream is not cut");
    }
    let ended = client.get(task).await.expect("it is kept");
    assert_eq!(ended.status.state, TaskState::Completed);
    let said = serde_json::to_string(&ended.artifacts).expect("it can be written");
    assert!(said.contains("the old one"), "{said}");
}
