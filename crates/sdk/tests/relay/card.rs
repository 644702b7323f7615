//! The card of a relay: that of the agent behind it, as it is now, or one that says that there is none yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chancery_sdk::{Client as Caller, PROVENANCE_EXTENSION, Relay};
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::*;

const SOON: Duration = Duration::from_millis(20);

async fn card_of(site: &Site) -> (Value, String) {
    let answer = site.rest().fetch(Method::GET, "/.well-known/agent-card.json", String::new()).await;
    (answer.json(), answer.header("etag").to_owned())
}

fn provenance(card: &Value) -> &Value {
    let marks = card["capabilities"]["extensions"].as_array().expect("extensions");
    &marks.iter().find(|known| known["uri"] == PROVENANCE_EXTENSION).expect("a mark")["params"]
}

#[tokio::test]
async fn a_relay_starts_before_its_agent_and_serves_it_once_it_is_there() {
    // An address at which nobody is yet.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Caller::builder().retries(0).connect_later(format!("http://{address}")).unwrap();
    let relay = Relay::of_absent(client, "relayed").await.card_checks(SOON);
    let site = serve_with(|server| server.relay_at("", relay)).await;
    let (card, first_tag) = card_of(&site).await;
    assert_eq!(card["name"], "relayed");
    let known = json!({"kind": "a2a", "trust_tier": "trusted"});
    let mut absent = known.clone();
    absent["upstream_card_fetch_error"] = json!("unreachable");
    assert_eq!(provenance(&card), &absent);
    site.jsonrpc().send(message("hello")).await.refused(chancery_sdk::ErrorCode::Unavailable);
    // It comes.
    let server = chancery_sdk::Server::builder().agent(echo()).bind(address).await.unwrap();
    tokio::spawn(server.run());
    until("the agent's own card", || async { card_of(&site).await.0["name"] == "tester" }).await;
    let (card, tag) = card_of(&site).await;
    assert_ne!(tag, first_tag);
    let mut found = provenance(&card).clone();
    let digest = found.as_object_mut().unwrap().remove("upstream_digest").unwrap();
    assert!(digest.as_str().unwrap().starts_with("sha-256:"), "{digest}");
    assert_eq!(found, known);
    let sent = site.jsonrpc().say("hello").await;
    assert_eq!(text(&sent["artifacts"][0]), "hello");
}

#[tokio::test]
async fn an_agent_without_a_good_card_is_served_by_one_that_says_so() {
    let peer = Peer::start(|_, _| Reply::json(200, &json!({"name": 7}))).await;
    let client = Caller::builder().connect_later(&peer.url).unwrap();
    let relay = Relay::of_absent(client, "relayed").await;
    let site = serve_with(|server| server.relay_at("", relay)).await;
    let (card, _) = card_of(&site).await;
    assert_eq!(provenance(&card)["upstream_card_fetch_error"], "the answer is no card of A2A");
    assert!(Caller::builder().connect_later("nonsense").is_err());
}

#[tokio::test]
async fn a_card_that_changes_is_asked_for_again_and_shown() {
    let edition = Arc::new(AtomicUsize::new(1));
    let now = edition.clone();
    let peer = Peer::start(move |_, heard| {
        let edition = now.load(Ordering::SeqCst);
        let tag = format!("\"{edition}\"");
        let headers = |tag: &str| {
            vec![
                ("etag", tag.to_owned()),
                ("cache-control", "max-age=0".to_owned()),
                ("content-type", "application/json".to_owned()),
            ]
        };
        if heard.header("if-none-match") == Some(&tag) {
            return Reply::Whole(304, headers(&tag), String::new());
        }
        let url = format!("http://{}", heard.header("host").unwrap());
        let mut card = card(&url, "JSONRPC", false);
        card["description"] = json!(format!("edition {edition}"));
        card["skills"] = json!([{"id": "s", "name": "S", "description": "d", "tags": []}]);
        Reply::Whole(200, headers(&tag), card.to_string())
    })
    .await;
    let client = Caller::connect(&peer.url).await.unwrap();
    let relay = Relay::new(client, "relayed").await.unwrap().card_checks(SOON);
    let site = serve_with(|server| server.relay_at("", relay)).await;
    let (card, first_tag) = card_of(&site).await;
    assert_eq!(card["description"], "edition 1");
    // What has not changed is not shown as new.
    let asked = peer.heard().len();
    until("two more looks at the card", || async { peer.heard().len() > asked + 1 }).await;
    assert_eq!(card_of(&site).await, (card, first_tag.clone()));
    assert!(peer.heard().last().unwrap().header("if-none-match").is_some());
    edition.store(2, Ordering::SeqCst);
    until("the next edition", || async { card_of(&site).await.0["description"] == "edition 2" }).await;
    assert_ne!(card_of(&site).await.1, first_tag);
}
