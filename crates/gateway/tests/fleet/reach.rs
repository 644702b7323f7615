//! Agents elsewhere that cannot be reached, or that answer what no agent would: who is refused at once, who is tried again, and what
//! is shown of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use bytes::Bytes;
use chancery_sdk::Client;
use http::{Method, Response};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::gateway::Gateway;
use crate::http::{get, post};
use crate::reload::until;

/// An agent that answers messages, and shows its card, with the statuses that it is told.
struct Fickle {
    url: String,
    /// The status of its card; 200 with something else in its place if it is 299.
    card: Arc<AtomicU16>,
    calls: Arc<AtomicU16>,
    called: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Fickle {
    async fn start(at: &str) -> Self {
        let listener = TcpListener::bind(at).await.expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        let (card, calls, called) =
            (Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
        let state = (card.clone(), calls.clone(), called.clone(), format!("http://{place}"));
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (card, calls, called, url) = state.clone();
                let answer = hyper::service::service_fn(move |request: http::Request<_>| {
                    let is_call = request.method() == Method::POST;
                    let status = if is_call { &calls } else { &card }.load(Ordering::SeqCst);
                    called.fetch_add(usize::from(is_call), Ordering::SeqCst);
                    let text = match (is_call, status) {
                        (true, 200) => answer_of(),
                        (false, 200) => card_of(&url),
                        _ => "not what you think".to_owned(),
                    };
                    let status = if status == 299 { 200 } else { status };
                    let response =
                        Response::builder().status(status).header("content-type", "application/json");
                    async move {
                        Ok::<_, Infallible>(response.body(Full::new(Bytes::from(text))).expect("a response"))
                    }
                });
                connections.spawn(async move {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .keep_alive(false)
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
            }
        });
        Self { url: format!("http://{place}"), card, calls, called, serving }
    }

    fn place(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }
}

impl Drop for Fickle {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn card_of(url: &str) -> String {
    json!({
        "name": "fickle", "description": "", "version": "1", "capabilities": {},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
        "supportedInterfaces": [{"url": format!("{url}/"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}],
    })
    .to_string()
}

fn answer_of() -> String {
    let message = json!({"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]});
    json!({"message": message}).to_string()
}

fn config(url: &str, interval_ms: u64, cooldown_ms: u64) -> String {
    format!(
        "[routing]\nbreaker_failures = 2\nbreaker_cooldown_ms = {cooldown_ms}\n[[agent]]\nname = \"far\"\nkind = \"a2a\"\n\
         url = \"{url}\"\nhealth = {{ interval_ms = {interval_ms} }}\n"
    )
}

const HOUR: u64 = 3_600_000;

/// What comes of a message: the status, the reason, when to come back.
async fn send(gateway: &Gateway) -> (u16, String, String) {
    let message = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    let url = format!("{}/message:send", gateway.agent("far"));
    let answer = post(&url, &[("a2a-version", "1.0")], &message).await;
    let told = answer.json();
    let reason = told["error"]["details"][0]["reason"].as_str().unwrap_or_default().to_owned();
    let retry = answer.headers.get("retry-after").map(|value| value.to_str().expect("text").to_owned());
    (answer.status, reason, retry.unwrap_or_default())
}

async fn agent(gateway: &Gateway) -> Value {
    let agents: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "agents"])).expect("JSON");
    agents["agents"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_cannot_be_reached_gets_one_call_now_and_then_until_it_is_back() {
    let there = Fickle::start("127.0.0.1:0").await;
    let (place, url) = (there.place(), there.url.clone());
    let gateway = Gateway::start(&config(&url, HOUR, 1_000));
    assert_eq!(send(&gateway).await.0, 200);
    drop(there);
    for _ in 0..2 {
        let (status, reason, _) = send(&gateway).await;
        assert_eq!((status, &*reason), (503, "UNAVAILABLE"));
    }
    let (status, reason, retry) = send(&gateway).await;
    assert_eq!((status, &*reason, &*retry), (503, "AGENT_UNREACHABLE", "1"));
    assert_eq!(agent(&gateway).await["reach"]["standing"], "out");
    assert!(gateway.run(&["admin", "agents"]).contains("out"), "people see it as well");
    let back = Fickle::start(&place).await;
    until("it is tried and found", async || send(&gateway).await.0 == 200).await;
    assert_eq!(back.called.load(Ordering::SeqCst), 1);
    assert_eq!(send(&gateway).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_that_find_nobody_take_an_agent_out_before_any_call_does() {
    let there = Fickle::start("127.0.0.1:0").await;
    let gateway = Gateway::start(&config(&there.url, 100, HOUR));
    assert_eq!(send(&gateway).await.0, 200);
    drop(there);
    until("it is out", async || agent(&gateway).await["reach"]["standing"] == "out").await;
    assert_eq!(send(&gateway).await.1, "AGENT_UNREACHABLE");
    assert_eq!(agent(&gateway).await["health"]["status"], "unhealthy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_with_500_take_an_agent_out() {
    let there = Fickle::start("127.0.0.1:0").await;
    let gateway = Gateway::start(&config(&there.url, HOUR, HOUR));
    assert_eq!(send(&gateway).await.0, 200);
    there.calls.store(500, Ordering::SeqCst);
    for _ in 0..2 {
        assert_ne!(send(&gateway).await.0, 200);
    }
    assert_eq!(there.called.load(Ordering::SeqCst), 3);
    assert_eq!(send(&gateway).await.1, "AGENT_UNREACHABLE");
    assert_eq!(there.called.load(Ordering::SeqCst), 3, "it is not asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_card_alone_makes_nobody_ill() {
    let there = Fickle::start("127.0.0.1:0").await;
    let gateway = Gateway::start(&config(&there.url, 100, HOUR));
    let health = async || {
        let agents = get(&format!("{}/agents/", gateway.url()), &[]).await.json();
        agents["agents"][0]["health"].clone()
    };
    until("it is well", async || health().await["status"] == "healthy").await;
    for status in [299, 404] {
        there.card.store(status, Ordering::SeqCst);
        until("it is told of its card", async || !health().await["reason"].is_null()).await;
        let health = health().await;
        assert_eq!(health["status"], "healthy", "{health}");
        let reason = health["reason"].as_str().expect("a reason");
        assert!(reason.starts_with("its card cannot be read"), "{reason}");
        assert_eq!(send(&gateway).await.0, 200);
        there.card.store(200, Ordering::SeqCst);
        until("it is good again", async || self::agent(&gateway).await["health"]["reason"].is_null()).await;
    }
    // One that cannot be asked is.
    there.card.store(500, Ordering::SeqCst);
    until("it is ill", async || health().await["status"] == "unhealthy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_member_of_a_pool_is_asked_how_it_is() {
    let (one, two) = (Fickle::start("127.0.0.1:0").await, Fickle::start("127.0.0.1:0").await);
    let gateway = Gateway::start(&format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nhealth = {{ interval_ms = 100 }}\n\
         members = [{{ name = \"one\", url = \"{}\" }}, {{ name = \"two\", url = \"{}\" }}]\n",
        one.url, two.url
    ));
    let members = async || {
        let agent = agent(&gateway).await;
        let status = |place: usize| agent["members"][place]["health"]["status"].clone();
        (agent["health"]["status"].clone(), status(0), status(1))
    };
    until("all are well", async || members().await == ("healthy".into(), "healthy".into(), "healthy".into()))
        .await;
    drop(two);
    until("one is not", async || {
        let agent = agent(&gateway).await;
        let ill = |name: &str| {
            let all = agent["members"].as_array().expect("members").clone();
            let member = all.into_iter().find(|member| member["name"] == name).expect("it is listed");
            member["health"]["status"] == "unhealthy"
        };
        !ill("one") && ill("two") && agent["health"]["status"] == "healthy"
    })
    .await;
    let client = Client::builder().retries(0).connect(gateway.agent("far")).await.expect("it has a card");
    assert_eq!(client.send("hello").await.expect("the other answers").text(), "hello");
    let told = gateway.run(&["admin", "agents"]);
    assert!(told.lines().any(|line| line.contains("two") && line.contains("unhealthy")), "{told}");
    drop(one);
    until("nobody is", async || agent(&gateway).await["health"]["status"] == "unhealthy").await;
}
