//! Finding an agent: its card and the cache, its interfaces, and who gets the credentials.

mod support;

use std::error::Error as StdError;
use std::sync::Arc;

use chancery_sdk as sdk;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{Operation, ProtocolBinding};
use chancery_sdk::{ClientError, Credentials, Interceptor};
use http::request::Parts;
use http::response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::*;

fn done(heard: &Heard) -> Reply {
    heard.result(&json!({"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}))
}

/// The card of the very peer that is asked.
fn own_card(heard: &Heard) -> Value {
    card(&format!("http://{}", heard.header("host").expect("a host")), "JSONRPC", false)
}

/// A peer whose card comes with these headers; it knows `"v1"`.
async fn caching(headers: &'static [(&'static str, &'static str)]) -> Peer {
    Peer::start(move |_, heard| {
        if !heard.is_card() {
            return done(heard);
        }
        let mut with = vec![("etag", "\"v1\"".to_owned())];
        with.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        match heard.header("if-none-match") {
            Some("\"v1\"") => Reply::Whole(304, with, String::new()),
            _ => Reply::Whole(200, with, own_card(heard).to_string()),
        }
    })
    .await
}

fn cards(peer: &Peer) -> Vec<Heard> {
    peer.heard().into_iter().filter(Heard::is_card).collect()
}

#[tokio::test]
async fn a_fresh_card_is_not_asked_for_again() {
    for headers in [&[("cache-control", "max-age=300")][..], &[]] {
        let peer = caching(headers).await;
        let client = sdk::Client::connect(&peer.url).await.expect("a peer");
        for _ in 0..3 {
            client.card().await.expect("a card");
            client.get("t").await.expect("a task");
        }
        assert_eq!(cards(&peer).len(), 1);
        assert_eq!(cards(&peer)[0].header("a2a-version"), Some("1.0"));
        // Unless it is asked for.
        assert_eq!(client.refresh_card().await.expect("a card").name, "peer");
        let asked = &cards(&peer)[1];
        assert_eq!(
            (asked.header("if-none-match"), asked.header("cache-control")),
            (Some("\"v1\""), Some("no-cache"))
        );
    }
}

#[tokio::test]
async fn a_stale_card_is_confirmed_and_what_may_not_be_kept_is_asked_for_anew() {
    for (headers, condition) in [
        (&[("cache-control", "max-age=0")][..], Some("\"v1\"")),
        (&[("cache-control", "no-cache, max-age=60")][..], Some("\"v1\"")),
        (&[("cache-control", "max-age=60"), ("age", "61")][..], Some("\"v1\"")),
        (&[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")][..], Some("\"v1\"")),
        (&[("cache-control", "no-store")][..], None),
    ] {
        let peer = caching(headers).await;
        let client = sdk::Client::connect(&peer.url).await.expect("a peer");
        assert_eq!(client.card().await.expect("a card").name, "peer");
        assert_eq!(client.card().await.expect("a card").name, "peer");
        let conditions: Vec<_> =
            cards(&peer).iter().map(|asked| asked.header("if-none-match").map(str::to_owned)).collect();
        let condition = condition.map(str::to_owned);
        assert_eq!(conditions, [None, condition.clone(), condition], "{headers:?}");
        // Calls do not ask for it each time.
        client.get("t").await.expect("a task");
        assert_eq!(cards(&peer).len(), 3);
    }
}

#[tokio::test]
async fn a_card_that_changed_is_followed() {
    let new_home = Peer::start(|_, heard| done(heard)).await;
    let url = new_home.url.clone();
    let old_home = Peer::start(move |at, heard| match (heard.is_card(), at) {
        (true, 0) => Reply::json(200, &own_card(heard)),
        (true, _) => Reply::json(200, &card(&url, "JSONRPC", false)),
        _ => done(heard),
    })
    .await;
    let client =
        sdk::Client::builder().egress(Egress::unrestricted()).connect(&old_home.url).await.expect("a peer");
    client.get("t").await.expect("a task");
    client.refresh_card().await.expect("the new card");
    client.get("t").await.expect("a task");
    assert_eq!((old_home.calls().len(), new_home.calls().len()), (1, 1));
}

#[tokio::test]
async fn a_stale_card_is_used_only_if_the_user_says_so() {
    for (allowed, control) in
        [(true, "max-age=0"), (false, "max-age=0"), (true, "max-age=0, must-revalidate"), (true, "no-store")]
    {
        let peer = Peer::start(move |at, heard| match at {
            0 => Reply::Whole(200, vec![("cache-control", control.to_owned())], own_card(heard).to_string()),
            _ => Reply::Raw(Vec::new()),
        })
        .await;
        let client = sdk::Client::builder()
            .retries(0)
            .stale_card_on_error(allowed)
            .connect(&peer.url)
            .await
            .expect("a peer");
        let kept = client.card().await;
        assert_eq!(kept.is_ok(), allowed && control == "max-age=0", "{control}");
        assert!(client.refresh_card().await.is_err());
    }
}

#[tokio::test]
async fn the_card_may_be_named_itself_and_may_be_below_a_path() {
    for (below, expected) in [
        ("", "GET /.well-known/agent-card.json"),
        ("/", "GET /.well-known/agent-card.json"),
        ("/agents/a/", "GET /agents/a/.well-known/agent-card.json"),
        ("/cards/agent-card.json", "GET /cards/agent-card.json"),
    ] {
        let peer = Peer::start(|_, heard| Reply::json(200, &own_card(heard))).await;
        sdk::Client::connect(format!("{}{below}", peer.url)).await.expect("a card");
        assert_eq!(peer.heard()[0].line(), expected);
    }
    let site = serve_with(|server| server.fleet_agent(echo())).await;
    let client =
        sdk::Client::connect(format!("http://localhost:{}/agents/tester", site.address.port())).await;
    assert_eq!(client.expect("the agent").send("hello").await.expect("an answer").text(), "hello");
}

#[tokio::test]
async fn a_card_that_is_none_is_refused() {
    type Script = fn(&Heard) -> Reply;
    let scripts: [(Script, &str); 5] = [
        (|_| Reply::json(200, &json!({"name": "x", "version": "1"})), "no card of A2A"),
        (|_| Reply::Whole(200, Vec::new(), "<html>".to_owned()), "no card of A2A"),
        (|_| Reply::Whole(304, Vec::new(), String::new()), "HTTP status 304"),
        (|_| Reply::Whole(200, Vec::new(), " ".repeat(70_000)), "larger than the 65536 bytes"),
        (
            |_| Reply::json(200, &card("https://a.example", "urn:semaphore", false)),
            "it offers urn:semaphore 1.0 at https://a.example",
        ),
    ];
    for (script, expected) in scripts {
        let peer = Peer::start(move |_, heard| script(heard)).await;
        let refused =
            sdk::Client::builder().max_card_bytes(65536).connect(&peer.url).await.expect_err(expected);
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

/// A guide whose card leads to somebody else.
async fn leads_to(url: &str) -> Peer {
    let url = url.to_owned();
    Peer::start(move |_, _| Reply::json(200, &card(&url, "JSONRPC", false))).await
}

#[tokio::test]
async fn where_a_card_leads_is_not_gone_blindly() {
    let victim = Peer::start(|_, heard| done(heard)).await;
    let guide = leads_to(&victim.url).await;
    let refused = sdk::Client::builder().bearer("secret").connect(&guide.url).await.expect_err("not there");
    assert!(matches!(&refused, ClientError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("127.0.0.1 is reserved"), "{refused}");
    assert!(victim.heard().is_empty());
}

#[tokio::test]
async fn credentials_go_where_the_user_said_and_nowhere_else() {
    let elsewhere = Peer::start(|_, heard| done(heard)).await;
    let port = elsewhere.url.rsplit(':').next().expect("a port").to_owned();
    for (allowed, expected) in [
        (None, None),
        (Some("127.0.0.1".to_owned()), Some("Bearer secret")),
        (Some(format!("127.0.0.1:{port}")), Some("Bearer secret")),
        (Some("127.0.0.1:1".to_owned()), None),
    ] {
        let guide = leads_to(&elsewhere.url).await;
        let mut builder =
            sdk::Client::builder().egress(Egress::unrestricted()).bearer("secret").api_key("X-Key", "k");
        if let Some(host) = &allowed {
            builder = builder.allow_credentials_to(host);
        }
        let client = builder.connect(&guide.url).await.expect("a card");
        client.get("t").await.expect("a task");
        assert_eq!(guide.heard()[0].header("authorization"), Some("Bearer secret"));
        let calls = elsewhere.calls();
        let call = calls.last().expect("a call");
        assert_eq!(call.header("authorization"), expected, "{allowed:?}");
        assert_eq!(call.header("x-key"), expected.map(|_| "k"));
        let shown = format!("{client:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
    let basic = Credentials::basic("me", "hush").expect("credentials");
    let peer = Peer::start(
        |_, heard| if heard.is_card() { Reply::json(200, &own_card(heard)) } else { done(heard) },
    )
    .await;
    let client = sdk::Client::builder().credentials(basic).connect(&peer.url).await.expect("a peer");
    client.get("t").await.expect("a task");
    assert_eq!(peer.calls()[0].header("authorization"), Some("Basic bWU6aHVzaA=="));
    let wrong =
        sdk::Client::builder().bearer("a\nb").api_key("x y", "k").extension("a,b").connect(&peer.url).await;
    let wrong = wrong.expect_err("three mistakes").to_string();
    assert!(wrong.contains("authorization") && wrong.contains("`x y`") && wrong.contains("`a,b`"), "{wrong}");
}

/// Notes what passes by.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Interceptor for Notes {
    fn before(
        &self,
        operation: Option<Operation>,
        head: &mut Parts,
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        self.0.lock().push(format!("{} {}", operation.map_or("card", Operation::method), head.method));
        head.headers.insert("x-noted", "yes".parse()?);
        if operation == Some(Operation::CancelTask) {
            return Err("not today".into());
        }
        if operation == Some(Operation::ListTasks) {
            head.uri = "http://b.example/".parse()?;
        }
        Ok(())
    }

    fn after(&self, operation: Option<Operation>, head: &response::Parts) {
        self.0.lock().push(format!(
            "{} {}",
            operation.map_or("card", Operation::method),
            head.status.as_u16()
        ));
    }
}

#[tokio::test]
async fn interceptors_see_and_may_stop_everything() {
    let peer = Peer::start(
        |_, heard| if heard.is_card() { Reply::json(200, &own_card(heard)) } else { done(heard) },
    )
    .await;
    let notes = Notes::default();
    let client = sdk::Client::builder().interceptor(notes.clone()).connect(&peer.url).await.expect("a peer");
    client.get("t").await.expect("a task");
    let stopped = client.cancel("t").await.expect_err("stopped");
    assert!(matches!(&stopped, ClientError::Intercepted(why) if why.to_string() == "not today"), "{stopped}");
    let led_astray = client.list(Default::default()).await.expect_err("stopped");
    assert!(matches!(led_astray, ClientError::Intercepted(_)), "{led_astray}");
    assert_eq!(
        *notes.0.lock(),
        ["card GET", "card 200", "GetTask POST", "GetTask 200", "CancelTask POST", "ListTasks POST"]
    );
    assert!(peer.heard().iter().all(|heard| heard.header("x-noted") == Some("yes")));
    assert_eq!(peer.heard().len(), 2);
}

#[tokio::test]
async fn the_user_chooses_before_the_card_does() {
    let site = serve(echo()).await;
    let url = format!("http://{}", site.address);
    for (preferred, verb) in [
        (vec![], "POST"),
        (
            vec!["https://a.example/semaphore".into(), ProtocolBinding::HttpJson, ProtocolBinding::JsonRpc],
            "GET",
        ),
    ] {
        let notes = Notes::default();
        let client = sdk::Client::builder()
            .prefer(preferred)
            .interceptor(notes.clone())
            .connect(&url)
            .await
            .expect("a peer");
        assert!(client.get("t").await.is_err());
        assert_eq!(notes.0.lock()[2], format!("GetTask {verb}"));
    }
}
