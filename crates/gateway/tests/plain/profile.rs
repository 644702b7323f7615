//! What is at which path: cards, health, schemas.

use serde_json::Value;

use crate::gateway::Gateway;
use crate::http::get;
use crate::{ECHO, STREAM};

const LIMITED: &str =
    "limits = { max_input_tokens = 100, max_payload_bytes = 5000 }\nprice = { per_call = 0.02 }\n";

fn limits(card: &Value) -> &Value {
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let found = extensions.iter().find(|known| known["uri"] == "urn:chancery:ext:limits:v1");
    &found.expect("the card says what the agent takes")["params"]
}

#[tokio::test]
async fn the_cards_of_the_fleet_and_of_agents_are_plain_and_say_what_is_taken() {
    let gateway = Gateway::start(&format!("{ECHO}{LIMITED}{STREAM}"));
    let fleet = get(&format!("{}/card", gateway.url()), &[]).await;
    assert_eq!(fleet.status, 200, "{fleet:?}");
    assert!(fleet.json()["protocolVersion"].is_null(), "a card of v1.0: {fleet:?}");
    let card = get(&format!("{}/card", gateway.agent("echo")), &[]).await.json();
    assert_eq!(card["name"], "echo");
    let said = limits(&card);
    assert_eq!(said["maxInputTokens"], 100);
    assert_eq!(said["maxPayloadBytes"], 5000);
    assert_eq!(said["minimumCostUsd"], "0.02");
    let known =
        get(&format!("{}/.well-known/agent-card.json", gateway.agent("echo")), &[("a2a-version", "1.0")])
            .await;
    assert_eq!(*limits(&known.json()), *said, "the same on every card");
    let other = get(&format!("{}/card", gateway.agent("stream")), &[]).await.json();
    assert_eq!(limits(&other)["maxPayloadBytes"], 1 << 20);
    let version = card["version"].as_str().expect("a version");
    assert_eq!(version.split('.').count(), 3, "{version}");
}

#[tokio::test]
async fn health_is_for_anybody_at_the_root_and_of_an_agent_for_who_may_call_it() {
    let gateway = Gateway::start_with_key(&format!("{ECHO}{STREAM}exposed = false\n"), "alice");
    let health = get(&format!("{}/healthz", gateway.url()), &[("x-request-id", "h1")]).await;
    assert_eq!((health.status, &health.json()["status"]), (200, &"ok".into()));
    assert_eq!(health.headers["x-request-id"], "h1");
    assert_eq!(get(&format!("{}/healthz", gateway.agent("echo")), &[]).await.status, 401);
    let bearer = format!("Bearer {}", gateway.key.as_deref().expect("a key"));
    let alice = [("authorization", bearer.as_str())];
    let health = get(&format!("{}/healthz", gateway.agent("echo")), &alice).await;
    assert_eq!((health.status, &health.json()["status"]), (200, &"ok".into()));
    let nowhere = get(&format!("{}/healthz", gateway.agent("nobody")), &alice).await;
    for path in ["healthz", "card"] {
        let internal = get(&format!("{}/{path}", gateway.agent("stream")), &alice).await;
        assert_eq!(internal.looks(), nowhere.looks(), "what is internal is not there");
    }
    gateway.run(&["admin", "contain", "echo", "--reason", "it lies"]);
    let health = get(&format!("{}/healthz", gateway.agent("echo")), &alice).await;
    assert_eq!(health.status, 503);
    assert!(health.text.contains("it lies"), "{health:?}");
}

#[tokio::test]
async fn an_agent_that_cannot_be_reached_is_unavailable() {
    let gateway = Gateway::start("[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n");
    let url = format!("{}/healthz", gateway.agent("far"));
    while get(&url, &[]).await.status != 503 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(get(&url, &[]).await.json()["status"], "unavailable");
}

#[tokio::test]
async fn every_body_has_a_schema_that_is_published() {
    let gateway = Gateway::start(ECHO);
    let list = get(&format!("{}/schemas", gateway.url()), &[]).await.json();
    let schemas = list["schemas"].as_object().expect("schemas");
    let names: Vec<_> = schemas.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "error",
            "health",
            "invoke-event",
            "invoke-request",
            "invoke-response",
            "negotiate-request",
            "negotiate-response"
        ]
    );
    for url in schemas.values() {
        let schema = get(url.as_str().expect("a URL"), &[]).await;
        assert_eq!(schema.headers["content-type"], "application/schema+json");
        assert_eq!(schema.json()["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
    assert_eq!(get(&format!("{}/schemas/other", gateway.url()), &[]).await.status, 404);
}

#[tokio::test]
async fn probes_are_beside_the_agents_where_the_operator_wants_them() {
    let gateway = Gateway::start(ECHO);
    assert_eq!(get(&format!("{}/readyz", gateway.url()), &[]).await.status, 404);
    let gateway = Gateway::start_with_key(&format!("[server]\nprobes = true\n{ECHO}"), "alice");
    let ready = get(&format!("{}/readyz", gateway.url()), &[]).await;
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.json(),
        serde_json::json!({"ready": true, "parts": {"store": "ok", "disk": "ok", "server": "ok"}})
    );
    assert_eq!(get(&format!("{}/livez", gateway.url()), &[]).await.text, "ok\n");
}
