//! Cards: signed by the gateway, and believed by it only if they are signed by whom they should be.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_protocol::Timestamp;
use chancery_protocol::signing::{CardPolicy, CardRefusal, Form, JwkSet, TrustedKeys, Verified, verify_card};
use chancery_sdk::{Client, ErrorCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::gateway::{ECHO, Gateway, get};

const V1: &str = "A2A-Version: 1.0\r\n";

async fn card(gateway: &Gateway, headers: &str) -> String {
    get(&format!("{}/.well-known/agent-card.json", gateway.agent("echo")), headers).await
}

async fn keys(gateway: &Gateway) -> JwkSet {
    serde_json::from_str(&get(&format!("{}/.well-known/jwks.json", gateway.url), "").await).unwrap()
}

fn verify(card: &str, set: &JwkSet) -> Result<Verified, CardRefusal> {
    let mut trusted = TrustedKeys::default();
    trusted.trust_set(set, None);
    let strict = CardPolicy { forms: vec![Form::Spec], ..CardPolicy::default() };
    verify_card(card, &trusted, &strict, Timestamp::now())
}

fn kids(card: &str) -> Vec<String> {
    let card: Value = serde_json::from_str(card).unwrap();
    let signatures = card["signatures"].as_array().cloned().unwrap_or_default();
    let headers = signatures.iter().map(|signature| {
        let protected = signature["protected"].as_str().unwrap();
        let header = chancery_protocol::signing::jws::decode(protected).unwrap();
        serde_json::from_slice::<Value>(&header).unwrap()["kid"].as_str().unwrap().to_owned()
    });
    headers.collect()
}

#[tokio::test]
async fn every_card_is_signed_with_both_keys_that_are_published() {
    let mut gateway = Gateway::start_after(ECHO, &[&["key", "create", "--caller", "alice"]]);
    let published = keys(&gateway).await;
    let algorithms: Vec<_> = published.keys.iter().filter_map(|key| key.alg.as_deref()).collect();
    assert_eq!(algorithms, ["EdDSA", "ES256"]);
    for headers in [V1, ""] {
        let card = card(&gateway, headers).await;
        for key in &published.keys {
            let one = JwkSet { keys: vec![key.clone()] };
            assert_eq!(verify(&card, &one).unwrap().kid, key.kid.clone().unwrap(), "{headers:?}");
        }
        let forged = card.replace("127.0.0.1", "127.0.0.2");
        assert!(matches!(verify(&forged, &published), Err(CardRefusal::Altered { .. })), "{headers:?}");
        assert!(!card.contains("evil.example"), "{headers:?}: it says what the request said");
    }
    let file = gateway.data().join("signing-keys.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");

    gateway.kill_and_restart();
    assert_eq!(keys(&gateway).await, published);
}

#[tokio::test]
async fn keys_change_while_it_runs_and_what_they_signed_stays_good() {
    let gateway = Gateway::start(ECHO);
    let before = card(&gateway, V1).await;
    gateway.run(&["key", "rotate"]);
    let after = loop {
        let now = card(&gateway, V1).await;
        if kids(&now) != kids(&before) {
            break now;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    // Who has the keys from before alone can verify what is served now, and who has the new ones alone, too.
    let published = keys(&gateway).await;
    assert_eq!(published.keys.len(), 4);
    for key in &published.keys {
        let one = JwkSet { keys: vec![key.clone()] };
        assert_eq!(verify(&after, &one).unwrap().kid, key.kid.clone().unwrap());
    }
    assert!(verify(&before, &published).is_ok() && verify(&after, &published).is_ok());
    assert!(gateway.run(&["key", "signing"]).contains("signed before, and signs"));

    // Without an overlap, nothing counts any more of what was signed.
    gateway.run(&["key", "rotate", "--overlap-hours", "0"]);
    let published = loop {
        let now = keys(&gateway).await;
        if now.keys[0] != published.keys[0] {
            break now;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(verify(&after, &published).is_err());
}

/// The JSON as it came, without its signatures: all that somebody has who knows nothing of what a card may say.
fn verify_as_served(card: &str, set: &JwkSet) -> Result<Verified, CardRefusal> {
    let mut trusted = TrustedKeys::default();
    trusted.trust_set(set, None);
    let plain = CardPolicy { forms: vec![Form::AsReceived], ..CardPolicy::default() };
    // A signature says which form it is over; whoever does not look at that takes what fits.
    verify_card(card, &trusted, &plain, Timestamp::now())
}

#[tokio::test]
async fn a_card_that_is_fetched_plainly_is_signed_as_it_is_served() {
    let gateway = Gateway::start_after(ECHO, &[&["key", "create", "--caller", "alice"]]);
    let published = keys(&gateway).await;
    let fetched = card(&gateway, "").await;
    assert!(
        fetched.contains("\"protocolVersion\":\"0.3.0\""),
        "it has what older readers look for: {fetched}"
    );
    for key in &published.keys {
        let one = JwkSet { keys: vec![key.clone()] };
        assert_eq!(verify_as_served(&fetched, &one).unwrap().kid, key.kid.clone().unwrap());
    }
    // What older readers look for is covered, too.
    let forged = fetched.replacen("\"preferredTransport\":\"JSONRPC\"", "\"preferredTransport\":\"GRPC\"", 1);
    assert_ne!(forged, fetched);
    assert!(matches!(verify_as_served(&forged, &published), Err(CardRefusal::Altered { .. })));
}

#[tokio::test]
async fn cards_are_not_signed_where_it_is_said_so() {
    let gateway = Gateway::start(&format!("[cards]\nsign = false\n{ECHO}"));
    assert!(kids(&card(&gateway, V1).await).is_empty());
    assert!(!gateway.data().join("signing-keys.json").exists());
}

/// A gateway in front of an agent elsewhere whose card must be signed with certain keys.
fn relaying(url: &str, trusted: &str) -> Gateway {
    Gateway::start(&format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\nsignature = \"require\"\ntrusted_keys = {{ {trusted} }}\n"
    ))
}

fn agent_id(gateway: &Gateway) -> String {
    let said = gateway.run(&["key", "signing"]);
    said.lines().next().unwrap().strip_prefix("agent id  ").unwrap().to_owned()
}

async fn refusal(gateway: &Gateway) -> String {
    let client = Client::builder().retries(0).connect(gateway.agent("far")).await.unwrap();
    let error = client.send("hello").await.expect_err("its card is not trusted");
    assert_eq!(error.code(), Some(ErrorCode::InvalidAgentResponse), "{error}");
    error.to_string()
}

#[tokio::test]
async fn an_agent_elsewhere_is_called_if_its_card_is_signed_by_whom_it_should_be() {
    let upstream = Gateway::start(ECHO);
    let file = upstream.data().join("published.json");
    std::fs::write(&file, serde_json::to_string(&keys(&upstream).await).unwrap()).unwrap();
    let key = serde_json::to_value(&keys(&upstream).await.keys[1]).unwrap();
    let jwk = format!(
        "jwks = [{{ kty = {}, crv = {}, x = {}, y = {} }}]",
        key["kty"], key["crv"], key["x"], key["y"]
    );
    let id = format!("agent_ids = [\"{}\"]", agent_id(&upstream));
    for trusted in [id, format!("files = [\"{}\"]", file.display()), jwk] {
        let gateway = relaying(&upstream.agent("echo"), &trusted);
        let client = Client::connect(gateway.agent("far")).await.unwrap();
        assert_eq!(client.send("hello").await.unwrap().text(), "hello", "{trusted}");
        let card = get(&format!("{}/.well-known/agent-card.json", gateway.agent("far")), V1).await;
        assert!(card.contains("\"trust_tier\":\"verified\""), "{trusted}: {card}");
        assert!(card.contains("\"upstream_key\":"), "{trusted}: {card}");
        assert!(verify(&card, &keys(&gateway).await).is_ok(), "it is signed anew");
    }
}

// The gateway asks for the card while this thread waits for it to have started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_elsewhere_whose_card_was_changed_on_the_way_is_not_called() {
    let upstream = Gateway::start(ECHO);
    let id = agent_id(&upstream);
    let changed = card(&upstream, V1).await.replace("\"echo\"", "\"ehco\"");
    let url = answering(changed).await;
    let gateway = relaying(&url, &format!("agent_ids = [\"{id}\"]"));
    let said = refusal(&gateway).await;
    assert!(said.contains("is not what was signed with the key"), "{said}");
    let card = get(&format!("{}/.well-known/agent-card.json", gateway.agent("far")), V1).await;
    assert!(card.contains("untrusted: the card is not what was signed"), "{card}");

    let stranger = relaying(&upstream.agent("echo"), &format!("agent_ids = [\"{}\"]", "0".repeat(64)));
    let said = refusal(&stranger).await;
    assert!(said.contains("signed with a key that is not trusted"), "{said}");
}

#[tokio::test]
async fn a_card_without_a_signature_is_good_enough_only_where_none_is_required() {
    let upstream = Gateway::start(&format!("[cards]\nsign = false\n{ECHO}"));
    let trusted = format!("agent_ids = [\"{}\"]", "0".repeat(64));
    let said = refusal(&relaying(&upstream.agent("echo"), &trusted)).await;
    assert!(said.contains("the card is not signed"), "{said}");
    let lenient = Gateway::start(&format!(
        "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{}\"\nsignature = \"verify-if-present\"\ntrusted_keys = {{ {trusted} }}\n",
        upstream.agent("echo")
    ));
    let client = Client::connect(lenient.agent("far")).await.unwrap();
    assert_eq!(client.send("hello").await.unwrap().text(), "hello");
}

// The gateway asks for the card while this thread waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_elsewhere_whose_card_changes_to_one_that_nobody_signed_is_called_no_more() {
    let upstream = Gateway::start(ECHO);
    let good = card(&upstream, V1).await;
    let shown = Arc::new(Mutex::new(good.clone()));
    let url = showing(shown.clone()).await;
    let gateway = Gateway::start(&format!(
        "[outbound]\nallow_egress = [\"127.0.0.0/8\"]\n[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\n\
         health = {{ interval_ms = 100 }}\nsignature = \"require\"\ntrusted_keys = {{ agent_ids = [\"{}\"] }}\n",
        agent_id(&upstream)
    ));
    let client = Client::builder().retries(0).connect(gateway.agent("far")).await.unwrap();
    assert_eq!(client.send("hello").await.unwrap().text(), "hello");
    // It may be kept for an hour, and is not.
    *shown.lock().unwrap() = good.replace("\"echo\"", "\"ehco\"");
    let error = loop {
        match client.send("hello").await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Some(ErrorCode::InvalidAgentResponse), "{error}");
    assert!(error.to_string().contains("is not what was signed with the key"), "{error}");
    *shown.lock().unwrap() = good;
    while client.send("hello").await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Answers every request with the same card.
async fn answering(card: String) -> String {
    showing(Arc::new(Mutex::new(card))).await
}

/// Answers every request with the card as it is then.
async fn showing(card: Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let card = card.lock().unwrap().clone();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=3600\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{card}", card.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}
