//! What a caller is shown of itself: its own limits, what is left of them, and its own open tasks.

use chancery_sdk::Client;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::{get, post};
use crate::provenance::{card, extension};

const V1: (&str, &str) = ("a2a-version", "1.0");
const LIMITS: &str = "urn:chancery:ext:limits:v1";
const USAGE: &str = "urn:chancery:ext:usage:v1";

const CONFIG: &str = r#"
[budget.caller]
max_tasks_per_day = 5
max_usd_per_day = 1.5

[rate]
caller = { per_second = 100, burst = 50 }

[policy.alice]
callers = ["alice"]
allowed_skills = ["echo"]
max_concurrency = 3
max_duration_ms = 90000

[[agent]]
name = "echo"
kind = "builtin"
price = { per_call = 0.25 }

[[agent]]
name = "ask"
kind = "builtin"
price = { per_call = 0 }
"#;

fn made(gateway: &Gateway, caller: &str) -> String {
    gateway.run(&["key", "create", "--caller", caller]).trim().to_owned()
}

/// The extended card of an agent, by every way to ask for it; all say the same but for the rate.
async fn extended(gateway: &Gateway, agent: &str, key: &str) -> Value {
    let bearer = format!("Bearer {key}");
    let headers = [V1, ("authorization", bearer.as_str())];
    let plain = get(&format!("{}/a2a/{agent}/card", gateway.url()), &headers[1..]).await;
    assert_eq!(plain.status, 200, "{plain:?}");
    let rest = get(&format!("{}/extendedAgentCard", gateway.agent(agent)), &headers).await;
    for shown in [&plain, &rest] {
        let varies: Vec<_> =
            shown.headers.get_all("vary").iter().filter_map(|value| value.to_str().ok()).collect();
        let varies = varies.join(", ").to_lowercase();
        assert!(varies.contains("authorization") && varies.contains("x-api-key"), "{varies}");
    }
    let rest = rest.json();
    let call = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
    let rpc = post(&format!("{}/", gateway.agent(agent)), &headers, &call("GetExtendedAgentCard")).await;
    let old = post(
        &format!("{}/", gateway.agent(agent)),
        &headers[1..],
        &call("agent/getAuthenticatedExtendedCard"),
    )
    .await;
    let mut card = plain.json();
    for other in [rest, rpc.json()["result"].clone(), old.json()["result"].clone()] {
        assert_eq!(extension(&other, USAGE), extension(&card, USAGE), "{other}");
        assert_eq!(extension(&other, LIMITS)["concurrency"], extension(&card, LIMITS)["concurrency"]);
    }
    assert!(card["signatures"].is_array(), "it is signed");
    card["signatures"].take();
    card
}

fn tasks_left(card: &Value) -> (u64, u64) {
    let budget = extension(card, USAGE)["budget"].as_array().expect("windows").clone();
    let tasks = budget.iter().find(|window| window["metric"] == "tasks").expect("tasks are limited");
    (tasks["charged"].as_u64().expect("a number"), tasks["remaining"].as_u64().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_shown_its_own_limits_and_what_is_left() {
    let gateway = Gateway::start_with_key(CONFIG, "alice");
    let alice = gateway.key.clone().expect("a key");
    assert_eq!(card(&gateway, "echo").await["capabilities"]["extendedAgentCard"], json!(true));
    let before = extended(&gateway, "echo", &alice).await;
    assert_eq!(tasks_left(&before), (0, 5));
    let limits = extension(&before, LIMITS);
    assert_eq!(limits["allowed_skills"], json!(["echo"]));
    assert_eq!(limits["concurrency"], json!({"max": 3, "open": 0}));
    assert_eq!((&limits["max_duration_ms"], &limits["caller"]), (&json!(90000), &json!("alice")));
    assert_eq!(limits["rate"]["limit"], 50);
    assert!(limits["rate"]["remaining"].as_u64().is_some_and(|left| left < 50), "{limits}");
    let client = Client::builder().bearer(&alice).connect(gateway.agent("echo")).await.expect("it is there");
    client.send("hello").await.expect("it answers");
    let by = format!("Bearer {alice}");
    let listed = get(&format!("{}/tasks", gateway.agent("echo")), &[V1, ("authorization", &by)]).await;
    let listed_v0_3 = get(&format!("{}/v1/tasks", gateway.agent("echo")), &[("authorization", &by)]).await;
    let id = listed.json()["tasks"][0]["id"].as_str().expect("an id").to_owned();
    let one = get(&format!("{}/tasks/{id}", gateway.agent("echo")), &[V1, ("authorization", &by)]).await;
    let one_v0_3 = get(&format!("{}/v1/tasks/{id}", gateway.agent("echo")), &[("authorization", &by)]).await;
    for shown in [listed, one, one_v0_3] {
        assert_eq!(
            (shown.status, &shown.headers["cache-control"]),
            (200, &"no-store".parse().expect("a value"))
        );
    }
    assert!(
        listed_v0_3.status != 200 || listed_v0_3.headers["cache-control"] == "no-store",
        "{listed_v0_3:?}"
    );
    let after = extended(&gateway, "echo", &alice).await;
    assert_eq!(tasks_left(&after), (1, 4));
    let budget = &extension(&after, USAGE)["budget"];
    let usd = budget.as_array().expect("windows").iter().find(|window| window["cap"] == 1_500_000);
    assert_eq!(usd.expect("money is limited")["remaining"], 1_250_000, "{budget}");
    // Another caller has limits of its own, and what it may not use it is not shown.
    let bob = made(&gateway, "bob");
    let others = loop {
        let bearer = format!("Bearer {bob}");
        let answer = get(&format!("{}/a2a/echo/card", gateway.url()), &[("authorization", &bearer)]).await;
        if answer.status == 200 {
            break answer.json();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(tasks_left(&others), (0, 5));
    assert_eq!(extension(&others, LIMITS)["concurrency"]["max"], 16);
    let asks = extended(&gateway, "ask", &alice).await;
    assert_eq!(asks["skills"], json!([]), "{asks}");
    assert_eq!(get(&format!("{}/a2a/echo/card", gateway.url()), &[]).await.status, 401);
    // The fleet's own, too.
    let bearer = format!("Bearer {alice}");
    let fleet = get(&format!("{}/extendedAgentCard", gateway.url()), &[V1, ("authorization", &bearer)]).await;
    assert_eq!(tasks_left(&fleet.json()), (1, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_tasks_are_shown_to_nobody_else() {
    let gateway = Gateway::start_with_key("[[agent]]\nname = \"ask\"\nkind = \"builtin\"\n", "alice");
    let alice = gateway.key.clone().expect("a key");
    let bob = made(&gateway, "bob");
    let client = Client::builder().bearer(&alice).connect(gateway.agent("ask")).await.expect("it is there");
    client.send("hello").await.expect("it asks");
    let active = async |key: &str| {
        let url = format!("{}/_active", gateway.agent("ask"));
        get(&url, &[("authorization", &format!("Bearer {key}"))]).await
    };
    assert_eq!(active(&alice).await.json()["totalSize"], 1);
    while active(&bob).await.status == 401 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(active(&bob).await.json(), json!({"tasks": [], "totalSize": 0}));
    assert_eq!(get(&format!("{}/_active", gateway.agent("ask")), &[]).await.status, 401);
}
