//! The card: one for callers of v1.0, one that everybody can read.

use chancery_sdk::protocol::{SecurityScheme, Version};
use chancery_sdk::{AgentCard, AgentSkill};
use http::Method;
use serde_json::{Value, json};

use crate::agents::obedient;
use crate::support::{Answer, Client, Site, serve_with};

const NEW: &str = "/.well-known/agent-card.json";
const OLD: &str = "/.well-known/agent.json";

async fn site() -> Site {
    serve_with(|server| {
        let skill = AgentSkill::new("s", "S", "does S").tag("t");
        let spec = obedient().skill(skill).extended_card(|_, mut card| {
            card.description = "for you".to_owned();
            card
        });
        server.agent(spec).security_scheme("key", SecurityScheme::api_key_header("X-Key"))
    })
    .await
}

async fn get(client: &Client, path: &str) -> Answer {
    client.fetch(Method::GET, path, String::new()).await
}

#[tokio::test]
async fn who_says_nothing_gets_a_card_that_everybody_can_read() {
    let site = site().await;
    let url = format!("http://{}", site.address);
    let (new, old) = (site.rest(), site.rest().without("a2a-version"));
    for path in [NEW, OLD] {
        let pure = get(&new, path).await;
        let union = get(&old, path).await;
        assert_eq!((pure.header("vary"), union.header("vary")), ("A2A-Version", "A2A-Version"));
        assert_ne!(pure.header("etag"), union.header("etag"));
        let (pure, union) = (pure.json(), union.json());
        for key in ["protocolVersion", "url", "preferredTransport", "additionalInterfaces", "security"] {
            assert!(pure.get(key).is_none() && union.get(key).is_some(), "{key}");
        }
        // What readers of v1.0 see is the same in both.
        let read = |json: &Value| serde_json::from_value::<AgentCard>(json.clone()).unwrap();
        assert_eq!(read(&pure), read(&union));
        assert_eq!((&union["protocolVersion"], &union["url"]), (&json!("0.3.0"), &json!(url)));
        assert_eq!(union["preferredTransport"], "JSONRPC");
        let grpc = url.trim_start_matches("http://");
        assert_eq!(
            union["additionalInterfaces"],
            json!([
                {"url": url, "transport": "JSONRPC"},
                {"url": url, "transport": "HTTP+JSON"},
                {"url": grpc, "transport": "GRPC"}
            ])
        );
        assert_eq!(union["security"], json!([{"bearer": []}, {"key": []}]));
        assert_eq!(
            union["securitySchemes"]["key"],
            json!({"type": "apiKey", "in": "header", "name": "X-Key",
                "apiKeySecurityScheme": {"location": "header", "name": "X-Key"}})
        );
        assert_eq!(union["supportsAuthenticatedExtendedCard"], true);
    }
    let known = get(&old, NEW).await.header("etag").to_owned();
    assert_eq!(get(&old.clone().with("if-none-match", &known), NEW).await.status, 304);
    assert_eq!(get(&new.clone().with("if-none-match", &known), NEW).await.status, 200);
}

#[tokio::test]
async fn the_extended_card_is_where_each_version_has_it() {
    let site = site().await;
    let old = site.rest().without("a2a-version");
    for path in ["/v1/card", "/agent/authenticatedExtendedCard"] {
        let answer = get(&old, path).await;
        assert_eq!(answer.json()["description"], "for you", "{answer:?}");
        assert_eq!(
            (answer.json()["protocolVersion"].as_str(), answer.header("vary")),
            (Some("0.3.0"), "Authorization, X-API-Key")
        );
    }
    let jsonrpc = site.jsonrpc().without("a2a-version");
    let card = jsonrpc.call("agent/getAuthenticatedExtendedCard", json!({})).await.result();
    assert_eq!((&card["description"], &card["protocolVersion"]), (&json!("for you"), &json!("0.3.0")));
    // What some fleets ask for is the card that anybody may see.
    let public = jsonrpc.call("agent/card", json!({})).await.result();
    assert_eq!(public, get(&old, NEW).await.json());
    let plain = serve_with(|server| server.agent(obedient())).await;
    let none =
        plain.jsonrpc().without("a2a-version").call("agent/getAuthenticatedExtendedCard", json!({})).await;
    assert_eq!(none.json()["error"]["code"], -32007);
}

#[tokio::test]
async fn a_version_that_is_switched_off_is_not_in_the_card() {
    let is_in = |card: &Value, version: &str| {
        let mut interfaces = card["supportedInterfaces"].as_array().unwrap().iter();
        interfaces.any(|interface| interface["protocolVersion"] == version)
    };
    let site = serve_with(|server| server.agent(obedient()).without_version(Version::V0_3)).await;
    let card = get(&site.rest(), NEW).await.json();
    assert!(is_in(&card, "1.0") && !is_in(&card, "0.3"), "{card}");
    let site = serve_with(|server| server.agent(obedient()).without_version(Version::V1_0)).await;
    let card = get(&site.rest(), NEW).await.json();
    assert!(is_in(&card, "0.3") && !is_in(&card, "1.0"), "{card}");
    let refused = site.jsonrpc().call("GetTask", json!({"id": "x"})).await;
    assert_eq!(refused.json()["error"]["code"], -32009);
}
