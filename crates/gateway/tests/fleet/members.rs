//! What members are told, how they are, and what only they can reach.

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::protocol::{Principal, SecurityScheme};
use chancery_sdk::testing::{Spawn, Spawned};
use chancery_sdk::{Agent, AgentSpec, Client, Failure, Outcome, Turn};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::gateway::Gateway;
use crate::http::{get, post};

const V1: (&str, &str) = ("a2a-version", "1.0");

/// Works until it is let go.
struct Patient(Arc<Semaphore>);

impl Agent for Patient {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        turn.working("waiting").await?;
        self.0.acquire().await.expect("it is never closed").forget();
        Ok(Outcome::text("done"))
    }
}

type Heads = Arc<Mutex<Vec<http::HeaderMap>>>;

/// Such an agent, and the heads of what it is asked.
async fn overheard(go: &Arc<Semaphore>) -> (Spawned, Heads) {
    let heads = Heads::default();
    let heard = heads.clone();
    let server = Spawn::new(AgentSpec::new("far", Patient(go.clone()))).server(move |server| {
        server.security_scheme("any", SecurityScheme::bearer()).authenticate(move |head| {
            heard.lock().push(head.headers.clone());
            Ok(Principal::anonymous())
        })
    });
    (server.spawn().await.expect("it is served"), heads)
}

fn config(url: &str, more: &str) -> String {
    format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\n{more}\n\
         [[agent]]\nname = \"ask\"\nkind = \"builtin\"\nexposed = false\n"
    )
}

fn lineage(heads: &Heads) -> Option<String> {
    heads.lock().iter().find_map(|head| Some(head.get("chancery-lineage")?.to_str().ok()?.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_reaches_an_internal_agent_with_the_token_of_its_call() {
    let go = Arc::new(Semaphore::new(0));
    let (far, heads) = overheard(&go).await;
    let gateway = Gateway::start(&config(far.url(), ""));
    let client = Client::connect(gateway.agent("far")).await.expect("it is there");
    let _working = client.stream("hello").await.expect("it works");
    let token = lineage(&heads).expect("it is told on whose behalf it works");
    let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    let url = format!("{}/message:send", gateway.agent("ask"));
    assert_eq!(post(&url, &[V1], &body).await.status, 404);
    let reached = post(&url, &[V1, ("chancery-lineage", &token)], &body).await;
    assert_eq!(reached.status, 200, "{reached:?}");
    // The token is of no use once the call has ended.
    go.add_permits(10);
    let ended = async {
        while post(&url, &[V1, ("chancery-lineage", &token)], &body).await.status != 404 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_nobody_trusts_is_told_nothing_of_the_caller() {
    let go = Arc::new(Semaphore::new(10));
    for (more, is_told) in [("", true), ("trust = \"untrusted\"", false)] {
        let (far, heads) = overheard(&go).await;
        let gateway = Gateway::start_with_key(&config(far.url(), more), "alice");
        let key = gateway.key.clone().expect("a key");
        let client = Client::builder().bearer(&key).connect(gateway.agent("far")).await.expect("it is there");
        client.send("hello").await.expect("it answers");
        assert_eq!(lineage(&heads).is_some(), is_told, "{more}");
        let heads = heads.lock();
        assert!(!heads.is_empty());
        assert_eq!(heads.iter().any(|head| head.contains_key("traceparent")), is_told, "{more}");
        for head in heads.iter() {
            let told = format!("{head:?}");
            assert!(!told.contains(&key) && !told.contains("alice"), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalogue_says_how_members_elsewhere_are() {
    let go = Arc::new(Semaphore::new(10));
    let (far, _) = overheard(&go).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let dead = format!("[[agent]]\nname = \"dead\"\nkind = \"a2a\"\nurl = \"http://{gone}\"\n");
    let gateway = Gateway::start(&format!("{}{dead}", config(far.url(), "")));
    let catalogue = format!("{}/agents/", gateway.url());
    let known = async {
        loop {
            let agents = get(&catalogue, &[]).await.json()["agents"].clone();
            if agents[0]["health"]["status"] == "unhealthy" && agents[1]["health"]["status"] == "healthy" {
                return agents;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let agents = tokio::time::timeout(Duration::from_secs(60), known).await.expect("it is found out");
    assert_eq!((&agents[0]["name"], &agents[1]["name"]), (&json!("dead"), &json!("far")));
    assert!(agents[0]["health"]["reason"].is_string() && agents[0]["health"]["since"].is_string());
    let listed = get(&format!("{catalogue}?health=unhealthy"), &[]).await.json();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(1));
}
