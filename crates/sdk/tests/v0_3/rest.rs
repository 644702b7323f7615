//! HTTP+JSON below `/v1`, in ProtoJSON of the proto of that time.

use chancery_sdk::egress::Egress;
use http::Method;
use serde_json::{Value, json};

use crate::agents::obedient;
use crate::support::{Answer, Client, Site, serve, serve_with};

fn old(site: &Site) -> Client {
    site.rest().without("a2a-version")
}

fn message(text: &str) -> Value {
    json!({"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": text}]})
}

async fn post(client: &Client, path: &str, body: &Value) -> Answer {
    client.fetch(Method::POST, path, body.to_string()).await
}

async fn get(client: &Client, path: &str) -> Answer {
    client.fetch(Method::GET, path, String::new()).await
}

/// Sends a message and waits for what comes of it.
async fn send(client: &Client, message: Value) -> Value {
    let body = json!({"message": message, "configuration": {"blocking": true}});
    post(client, "/v1/message:send", &body).await.result()["task"].clone()
}

#[tokio::test]
async fn a_message_is_answered_in_the_words_of_the_proto() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let task = send(&client, message("hello")).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(task.get("kind").is_none());
    assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "hello"}]));
    let said = &task["history"][0];
    assert_eq!((&said["role"], &said["content"]), (&json!("ROLE_USER"), &json!([{"text": "hello"}])));
    let direct = post(&client, "/v1/message:send", &json!({"message": message("direct")})).await.result();
    assert_eq!(direct["message"]["content"], json!([{"text": "straight"}]));
    // Who does not say whether to wait does not.
    let started = post(&client, "/v1/message:send", &json!({"message": message("wait")})).await.result();
    assert!(started["task"]["id"].is_string());
}

#[tokio::test]
async fn what_peers_really_post_is_understood() {
    let site = serve(obedient()).await;
    let client = old(&site);
    for message in [
        json!({"message_id": "m", "role": "ROLE_USER", "content": [{"text": "a"}]}),
        json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}),
        json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "a"}]}),
        json!({"messageId": "m", "role": 1, "content": [{"text": "a"}]}),
    ] {
        for name in ["message", "request"] {
            let body = json!({name: message, "configuration": {"blocking": true, "history_length": 0}});
            let task = post(&client, "/v1/message:send", &body).await.result()["task"].clone();
            assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "a"}]), "{body}");
            // No length is none that was asked for.
            assert_eq!(task["history"].as_array().unwrap().len(), 1);
        }
    }
}

#[tokio::test]
async fn bytes_are_written_as_the_caller_reads_them() {
    let site = serve(obedient()).await;
    let task = send(&old(&site), message("parts")).await;
    assert_eq!(
        task["artifacts"][0]["parts"],
        json!([
            {"text": "hi"},
            {"file": {"fileWithBytes": "QVA5aFltTT0=", "mimeType": "application/octet-stream", "name": "a.bin"}},
            {"file": {"fileWithUri": "https://a.example/x", "mimeType": "image/png"}},
            {"data": {"data": {"b": 1.50, "a": 12_345_678_901_234_567_890_u64}}},
            {"data": {"data": {"value": [1, 2]}}, "metadata": {"data_part_compat": true}},
        ])
    );
    let bytes = |task: &Value| task["artifacts"][0]["parts"][1]["file"]["fileWithBytes"].clone();
    // Who sends a file gets one back as it was sent.
    for (sent, got) in [("AP9hYmM=", "AP9hYmM="), ("QVA5aFltTT0=", "QVA5aFltTT0=")] {
        let mut with_file = message("parts");
        let file = json!({"file": {"fileWithBytes": sent, "mimeType": "application/octet-stream"}});
        with_file["content"].as_array_mut().unwrap().push(file);
        assert_eq!(bytes(&send(&old(&site), with_file).await), got);
    }
    // Who sends none is known by what it is written in.
    let node = old(&site).with("user-agent", "node");
    let task = send(&node, message("parts")).await;
    assert_eq!(bytes(&task), "AP9hYmM=");
    let looked = get(&node, &format!("/v1/tasks/{}", task["id"].as_str().unwrap())).await.result();
    assert_eq!(bytes(&looked), "AP9hYmM=");
    let site = serve_with(|server| server.agent(obedient()).v0_3_base64_once()).await;
    let task = send(&old(&site), message("parts")).await;
    assert_eq!(task["artifacts"][0]["parts"][1]["file"]["fileWithBytes"], "AP9hYmM=");
}

#[tokio::test]
async fn tasks_are_looked_at_listed_and_canceled() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let started = post(&client, "/v1/message:send", &json!({"message": message("wait")})).await.result();
    let id = started["task"]["id"].as_str().unwrap();
    for (query, shown) in [("", 1), ("?historyLength=0", 0), ("?historyLength=1", 1)] {
        let task = get(&client, &format!("/v1/tasks/{id}{query}")).await.result();
        assert_eq!(task["history"].as_array().map_or(0, Vec::len), shown, "{query}");
    }
    let listed = get(&client, "/v1/tasks?status=TASK_STATE_WORKING").await.result();
    assert_eq!(listed["totalSize"], 1);
    let canceled =
        post(&client, &format!("/v1/tasks/{id}:cancel"), &json!({"name": format!("tasks/{id}")})).await;
    assert_eq!(canceled.result()["status"]["state"], "TASK_STATE_CANCELLED");
    let listed = get(&client, "/v1/tasks?status=TASK_STATE_CANCELLED").await.result();
    assert_eq!(listed["totalSize"], 1);
    let ended = send(&client, message("hello")).await["id"].as_str().unwrap().to_owned();
    let refused = client.fetch(Method::POST, &format!("/v1/tasks/{ended}:cancel"), String::new()).await;
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!(-32002)));
}

#[tokio::test]
async fn errors_have_a_code_at_the_top() {
    let site = serve(obedient().push_notifications(false)).await;
    let client = old(&site);
    let missing = get(&client, "/v1/tasks/x").await;
    assert_eq!(
        (missing.status, &missing.json()["code"], &missing.json()["message"]),
        (404, &json!(-32001), &json!("Task not found"))
    );
    let empty = post(&client, "/v1/message:send", &json!({})).await;
    assert_eq!((empty.status, &empty.json()["code"]), (400, &json!(-32602)));
    let push = get(&client, "/v1/tasks/x/pushNotificationConfigs").await;
    assert_eq!((push.status, &push.json()["code"]), (501, &json!(-32003)));
    let nothing = get(&client, "/v1/nothing").await;
    assert_eq!((nothing.status, &nothing.json()["code"]), (404, &json!(-32601)));
    let verb = get(&client, "/v1/message:send").await;
    assert_eq!((verb.status, verb.header("allow")), (405, "POST"));
}

#[tokio::test]
async fn streams_carry_the_wrapped_event() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let body = json!({"message": message("chunks")}).to_string();
    let mut events = client.open_at(Method::POST, "/v1/message:stream", body).await;
    let all = events.rest().await;
    let kinds: Vec<_> = all.iter().map(|event| event.kind()).collect();
    assert_eq!(kinds, ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]);
    let last = all[4].payload()["statusUpdate"].clone();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("TASK_STATE_COMPLETED"), &json!(true)));
    let id = last["taskId"].as_str().unwrap().to_owned();
    for verb in [Method::GET, Method::POST] {
        let mut ended = client.open_at(verb, &format!("/v1/tasks/{id}:subscribe"), String::new()).await;
        assert_eq!(ended.one().await.payload()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(ended.next().await, None);
    }
}

#[tokio::test]
async fn configurations_are_named_by_their_path() {
    let site =
        serve_with(|server| server.agent(obedient().push_notifications(true)).egress(Egress::unrestricted()))
            .await;
    let client = old(&site);
    let started = post(&client, "/v1/message:send", &json!({"message": message("wait")})).await.result();
    let id = started["task"]["id"].as_str().unwrap();
    let path = format!("/v1/tasks/{id}/pushNotificationConfigs");
    let receiver = |id: &str| json!({"id": id, "url": "http://127.0.0.1:9/x", "token": "t"});
    let named = |config: &str| {
        let name = format!("tasks/{id}/pushNotificationConfigs/{config}");
        json!({"name": name, "pushNotificationConfig": receiver(config)})
    };
    let bodies = [
        ("a", named("a")),
        ("b", json!({"parent": format!("tasks/{id}"), "configId": "b", "config": named("b")})),
        ("c", receiver("c")),
    ];
    for (config, body) in bodies {
        assert_eq!(post(&client, &path, &body).await.result(), named(config));
        assert_eq!(get(&client, &format!("{path}/{config}")).await.result(), named(config));
    }
    assert_eq!(get(&client, &path).await.result(), json!({"configs": [named("a"), named("b"), named("c")]}));
    let elsewhere =
        json!({"name": "tasks/other/pushNotificationConfigs/d", "pushNotificationConfig": receiver("d")});
    assert_eq!(post(&client, &path, &elsewhere).await.status, 400);
    let deleted = client.fetch(Method::DELETE, &format!("{path}/a"), String::new()).await;
    assert_eq!(deleted.result(), json!({}));
    assert_eq!(get(&client, &format!("{path}/a")).await.status, 404);
}
