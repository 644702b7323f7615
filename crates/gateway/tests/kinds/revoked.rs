//! A key that is taken back: what was asked for with it ends, however long it would have gone on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::gateway::{Gateway, Keys};
use crate::http::{self, Answer};

const CONFIG: &str = "[[agent]]\nname = \"it\"\nkind = \"inbox\"\n\
    [[agent]]\nname = \"sleeper\"\nkind = \"command\"\n[agent.command]\nrun = [\"/bin/sh\", \"-c\", \"sleep 600\"]\n";

const PATIENCE: Duration = Duration::from_secs(60);

/// A stream that is read to its end.
fn stream(gateway: &Gateway, key: &str, path: &str, body: Option<Value>) -> JoinHandle<Answer> {
    let (url, key) = (format!("{}{path}", gateway.url()), format!("Bearer {key}"));
    tokio::spawn(async move {
        let headers = [("authorization", &*key), ("a2a-version", "1.0"), ("x-request-id", &*url)];
        match body {
            Some(body) => http::post(&url, &headers, &body).await,
            None => http::get(&url, &headers).await,
        }
    })
}

async fn tasks(gateway: &Gateway, key: &str) -> Vec<Value> {
    let headers = [("authorization", &*format!("Bearer {key}")), ("a2a-version", "1.0")];
    let listed = http::get(&format!("{}/agents/sleeper/tasks", gateway.url()), &headers).await;
    listed.json()["tasks"].as_array().cloned().unwrap_or_default()
}

fn message(id: &str) -> Value {
    json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "go"}]}})
}

fn rpc(method: &str, params: &Value) -> Option<Value> {
    Some(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

#[tokio::test]
async fn revoking_a_key_ends_its_streams_and_inbox_readers_and_nobody_elses() {
    let keys = [
        Keys { caller: "alice", agent: None },
        Keys { caller: "bob", agent: None },
        Keys { caller: "worker", agent: Some("it") },
    ];
    let gateway = Gateway::start_with_keys(CONFIG, &keys);
    let [alice, bob, worker] = &gateway.keys[..] else { panic!("three keys") };
    let open = |key: &str| {
        let plain = json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": "go"}});
        vec![
            stream(&gateway, key, "/agents/sleeper/", rpc("SendStreamingMessage", &message("rpc"))),
            stream(&gateway, key, "/agents/sleeper/message:stream", Some(message("rest"))),
            stream(&gateway, key, "/agents/sleeper/invoke/stream", Some(plain)),
        ]
    };
    let mut of_alice = open(alice);
    let of_bob = open(bob);
    let inbox = stream(&gateway, worker, "/agents/it/inbox/stream", None);
    let begun = tokio::time::timeout(PATIENCE, async {
        while tasks(&gateway, alice).await.len() < 3 || tasks(&gateway, bob).await.len() < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    begun.await.expect("all are at work");
    let id = tasks(&gateway, alice).await[0]["id"].clone();
    of_alice.push(stream(&gateway, alice, "/agents/sleeper/", rpc("SubscribeToTask", &json!({"id": id}))));
    let of_key = |key: &str| key.split('_').nth(1).expect("an id").to_owned();
    gateway.run(&["key", "revoke", &of_key(alice)]);
    gateway.run(&["key", "revoke", &of_key(worker)]);
    for stream in of_alice {
        let answer =
            tokio::time::timeout(PATIENCE, stream).await.expect("the stream ends").expect("it is read");
        let said = answer.text;
        assert!(said.contains("taken back") || said.contains("revoked"), "{said}");
    }
    let inbox =
        tokio::time::timeout(PATIENCE, inbox).await.expect("the inbox is closed").expect("it is read");
    assert!(inbox.status == 200 || inbox.status == 401, "{inbox:?}");
    assert!(of_bob.iter().all(|stream| !stream.is_finished()), "bob's go on");
    of_bob.into_iter().for_each(|stream| stream.abort());
}
