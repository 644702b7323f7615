//! A thousand agents, two hundred of them files: all listed, and exchanged under traffic without a call that fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_sdk::testing::spawn;
use chancery_sdk::{AgentSpec, Client, Message, agent_fn};
use serde_json::Value;
use tempfile::TempDir;

use crate::gateway::Gateway;
use crate::http::get;

/// How often to look whether something has come to be: for a minute, where nothing else goes on.
const LOOKS: usize = 600;
/// How often the fleet is exchanged.
const ROUNDS: usize = 2;
const FILES: usize = 200;
const FLEET: &str = "urn:chancery:ext:fleet:v1";

/// Of each five sections two are agents elsewhere, two inboxes and one a model; some of them have other prices in every round.
fn config(upstream: &str, folder: &Path, round: usize) -> String {
    let mut text = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n".to_owned();
    for number in 0..799 {
        let kind = match number % 5 {
            0 | 1 => format!("kind = \"a2a\"\nurl = {upstream:?}"),
            2 | 3 => "kind = \"inbox\"".to_owned(),
            _ => {
                "kind = \"model\"\nmodel = { url = \"http://127.0.0.1:9/v1\", model = \"small\" }".to_owned()
            }
        };
        let price = if number % 10 == 0 { round } else { 0 };
        text += &format!("[[agent]]\nname = \"a{number}\"\n{kind}\nprice = {{ per_call = 0.{price}1 }}\n");
    }
    text + &format!(
        "[[markdown]]\nfolder = {folder:?}\nmodel = {{ url = \"http://127.0.0.1:9/v1\", model = \"m\" }}\n"
    )
}

fn describe(folder: &Path, round: usize) {
    for number in 0..FILES {
        let version = if number % 10 == 0 { round } else { 0 };
        let (draft, file) = (folder.join("draft"), folder.join(format!("f{number}.md")));
        let text = format!(
            "---\ndescription: File {number}\nlabels: {{round: \"{version}\"}}\n---\nBe {version}.\n"
        );
        std::fs::write(&draft, text).expect("it is written");
        std::fs::rename(draft, file).expect("it takes its place");
    }
}

/// The names in the catalogue, page by page.
async fn names(gateway: &Gateway) -> BTreeSet<String> {
    let (mut names, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = get(&format!("{}/agents/?limit=70&cursor={cursor}", gateway.url()), &[]).await.json();
        let agents = page["agents"].as_array().expect("agents");
        assert!(agents.len() <= 70);
        names.extend(agents.iter().map(|agent| agent["name"].as_str().expect("a name").to_owned()));
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) => cursor = next.to_owned(),
            None => return names,
        }
    }
}

/// Calls an agent again and again; in between looks at cards and at the catalogue. Gives how often.
async fn traffic(
    gateway: Arc<Gateway>,
    name: &'static str,
    said: &'static str,
    over: Arc<AtomicBool>,
) -> usize {
    let client = Client::builder().retries(0).connect(gateway.agent(name)).await.expect("it is there");
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) {
        assert_eq!(client.send("hello").await.unwrap_or_else(|error| panic!("{name}: {error}")).text(), said);
        let number = calls % FILES;
        for path in [format!("f{number}/.well-known/agent-card.json"), format!("?limit=10&cursor=f{number}")]
        {
            assert_eq!(get(&format!("{}/agents/{path}", gateway.url()), &[]).await.status, 200, "{path}");
        }
        calls += 1;
    }
    calls
}

async fn version(gateway: &Gateway, name: &str) -> Value {
    let url = format!("{}/.well-known/agent-card.json", gateway.agent(name));
    get(&url, &[("a2a-version", "1.0")]).await.json()["version"].clone()
}

/// What the gateway takes a call of `a0` to cost.
fn price(gateway: &Gateway) -> String {
    let config: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "config"])).expect("JSON");
    let agents = config["agent"].as_array().expect("agents");
    let changed = agents.iter().find(|agent| agent["name"] == "a0").expect("it is there");
    changed["price"]["per_call"].to_string().trim_matches('"').to_owned()
}

async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    for _ in 0..LOOKS {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not come to be");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_agents_are_listed_and_exchanged_under_traffic_and_no_call_fails() {
    let far = agent_fn(|_: Message| async move { "far".to_owned() });
    let upstream = spawn(AgentSpec::new("far", far)).await;
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    describe(folder.path(), 0);
    let gateway = Arc::new(Gateway::start(&config(upstream.url(), folder.path(), 0)));
    let all = names(&gateway).await;
    assert_eq!(all.len(), 1000);
    let card =
        get(&format!("{}/.well-known/agent-card.json", gateway.url()), &[("a2a-version", "1.0")]).await;
    let extensions = card.json()["capabilities"]["extensions"].clone();
    let fleet = extensions.as_array().expect("extensions").iter().find(|known| known["uri"] == FLEET);
    let members = &fleet.expect("the fleet's")["params"]["members"];
    assert_eq!(members.as_array().map(Vec::len), Some(1000));
    let over = Arc::new(AtomicBool::new(false));
    let callers = [("echo", "hello"), ("a0", "far"), ("a1", "far")]
        .map(|(name, said)| tokio::spawn(traffic(gateway.clone(), name, said, over.clone())));
    for round in 1..=ROUNDS {
        let (touched, left) = (version(&gateway, "f0").await, version(&gateway, "f1").await);
        describe(folder.path(), round);
        gateway.configure(&config(upstream.url(), folder.path(), round));
        until(async || price(&gateway) == format!("0.{round}1")).await;
        until(async || version(&gateway, "f0").await != touched).await;
        assert_eq!(version(&gateway, "f1").await, left, "what is not touched stays as it is");
        assert_eq!(names(&gateway).await, all);
    }
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.expect("no call fails") > 0);
    }
    gateway.configure("[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n");
    until(async || names(&gateway).await.len() == 1).await;
    assert_eq!(get(&gateway.agent("f0"), &[]).await.status, 404);
}
