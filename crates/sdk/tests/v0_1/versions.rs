//! Which version a call speaks, where two have the same words for it.

use chancery_sdk::protocol::Version;
use http::Method;
use serde_json::json;

use crate::agents::*;
use crate::support::{serve, serve_with};

#[tokio::test]
async fn the_version_that_began_a_task_is_the_one_that_it_is_told_in() {
    let site = serve(obedient()).await;
    let client = old(&site);
    send(&client, "mine", "ask").await;
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "ask"}]});
    let later = client.call("message/send", json!({"message": message})).await.result();
    let task = client.call("tasks/get", json!({"id": later["id"]})).await.result();
    assert_eq!((&task["kind"], task.get("sessionId")), (&json!("task"), None));
    let task = get(&client, "mine").await;
    assert_eq!((task.get("kind"), task.get("contextId")), (None, None));
    let mut stream = client.open("tasks/resubscribe", json!({"id": later["id"]})).await;
    assert_eq!(stream.one().await.payload()["kind"], "task");
    let mut stream = client.open("tasks/resubscribe", json!({"id": "mine"})).await;
    assert_eq!(stream.one().await.payload()["id"], "mine");
    let canceled = client.call("tasks/cancel", json!({"id": later["id"]})).await.result();
    assert_eq!(canceled["kind"], "task");
    let canceled = client.call("tasks/cancel", json!({"id": "mine"})).await.result();
    assert_eq!((&canceled["id"], canceled.get("kind")), (&json!("mine"), None));
    // Nobody's task: the code is the same in both.
    assert_eq!(code(&client.call("tasks/get", json!({"id": "nobody's"})).await), -32001);
}

#[tokio::test]
async fn who_says_the_version_is_taken_at_their_word() {
    let site = serve(obedient()).await;
    let client = site.jsonrpc().with("a2a-version", "0.1");
    send(&client, "mine", "hello").await;
    assert_eq!(get(&client, "mine").await["id"], "mine");
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]});
    let later = old(&site).call("message/send", json!({"message": message})).await.result();
    assert_eq!(code(&client.call("tasks/get", json!({"id": later["id"]})).await), -32001);
    let newest = site.jsonrpc();
    assert_eq!(code(&newest.call("tasks/send", say("mine", "hello")).await), -32601);
}

#[tokio::test]
async fn a_version_that_is_switched_off_says_so_in_its_own_words() {
    let site = serve_with(|server| server.agent(obedient()).without_version(Version::V0_1)).await;
    let client = old(&site);
    let refused = client.call("tasks/send", say("mine", "hello")).await;
    assert_eq!((refused.status, code(&refused)), (200, -32004));
    assert_eq!(refused.json()["error"]["data"][0]["reason"], "VERSION_NOT_SUPPORTED");
    assert_eq!(code(&client.call("tasks/get", json!({"id": "mine"})).await), -32001);
    // Without the version after it, the words that both have are its own.
    let site = serve_with(|server| server.agent(obedient()).without_version(Version::V0_3)).await;
    let client = old(&site);
    send(&client, "mine", "hello").await;
    assert_eq!(get(&client, "mine").await["id"], "mine");
    assert_eq!(code(&client.call("tasks/get", json!({"id": "nobody's"})).await), -32001);
}

#[tokio::test]
async fn the_card_has_what_readers_of_that_time_want() {
    let card = |site: crate::support::Site| async move {
        let path = "/.well-known/agent.json";
        let card = site.rest().without("a2a-version").fetch(Method::GET, path, String::new()).await.json();
        (card, format!("http://{}", site.address))
    };
    let (all, url) = card(serve(obedient()).await).await;
    assert_eq!((&all["url"], &all["protocolVersion"]), (&json!(url), &json!("0.3.0")));
    assert_eq!(all["authentication"], json!({"schemes": ["Bearer"]}));
    let without = |versions: &'static [Version]| {
        serve_with(move |server| {
            versions.iter().fold(server.agent(obedient()), |server, version| server.without_version(*version))
        })
    };
    let (none, _) = card(without(&[Version::V0_1]).await).await;
    assert_eq!(none.get("authentication"), None);
    for newer in [&[Version::V0_3][..], &[Version::V0_3, Version::V1_0]] {
        let (alone, url) = card(without(newer).await).await;
        assert_eq!((&alone["url"], alone.get("protocolVersion")), (&json!(url), None));
        assert_eq!(alone.get("preferredTransport"), None);
        assert!(alone["authentication"].is_object() && alone["skills"].is_array());
    }
}
