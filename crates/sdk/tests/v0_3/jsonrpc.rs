//! JSON-RPC: `message/send` and its like, with `kind`.

use chancery_sdk::AgentExtension;
use chancery_sdk::egress::Egress;
use serde_json::{Value, json};

use crate::agents::*;
use crate::support::{Client, Site, serve, serve_with, within};

fn old(site: &Site) -> Client {
    site.jsonrpc().without("a2a-version")
}

async fn send(client: &Client, message: Value) -> Value {
    client.call("message/send", json!({"message": message})).await.result()
}

fn code(answer: &crate::support::Answer) -> i64 {
    answer.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer:?}"))
}

#[tokio::test]
async fn a_message_is_answered_with_a_bare_task_or_message() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let task = send(&client, message("hello")).await;
    assert_eq!((&task["kind"], &task["status"]["state"]), (&json!("task"), &json!("completed")));
    assert!(
        task["id"].is_string() && task["contextId"].is_string() && task["status"]["timestamp"].is_string()
    );
    assert_eq!(task["artifacts"][0]["parts"], json!([{"kind": "text", "text": "hello"}]));
    let said = &task["history"][0];
    assert_eq!(
        (&said["kind"], &said["role"], &said["messageId"]),
        (&json!("message"), &json!("user"), &json!("m-1"))
    );
    let direct = send(&client, message("direct")).await;
    assert_eq!((&direct["kind"], &direct["role"]), (&json!("message"), &json!("agent")));
    assert_eq!(direct["parts"], json!([{"kind": "text", "text": "straight"}]));
}

#[tokio::test]
async fn every_part_has_its_kind() {
    let site = serve(obedient()).await;
    let task = send(&old(&site), message("parts")).await;
    assert_eq!(
        task["artifacts"][0]["parts"],
        json!([
            {"kind": "text", "text": "hi"},
            {"kind": "file", "file": {"bytes": "AP9hYmM=", "mimeType": "application/octet-stream", "name": "a.bin"}},
            {"kind": "file", "file": {"uri": "https://a.example/x", "mimeType": "image/png"}},
            {"kind": "data", "data": {"b": 1.50, "a": 12_345_678_901_234_567_890_u64}},
            {"kind": "data", "data": {"value": [1, 2]}, "metadata": {"data_part_compat": true}},
        ])
    );
}

#[tokio::test]
async fn who_does_not_say_whether_to_wait_waits() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let params =
        |blocking: bool| json!({"message": message("wait"), "configuration": {"blocking": blocking}});
    let task = client.call("message/send", params(false)).await.result();
    assert!(["submitted", "working"].contains(&task["status"]["state"].as_str().unwrap()), "{task}");
    let asked = client
        .call(
            "message/send",
            json!({"message": message("ask"), "configuration": {"acceptedOutputModes": []}}),
        )
        .await
        .result();
    assert_eq!(asked["status"]["state"], "input-required");
    assert_eq!(asked["status"]["message"]["kind"], "message");
    let done = send(&client, follow_up(asked["id"].as_str().unwrap(), "this one")).await;
    assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")));
}

#[tokio::test]
async fn tasks_are_looked_at_listed_and_canceled() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let start = json!({"message": message("wait"), "configuration": {"blocking": false}});
    let id = client.call("message/send", start).await.result()["id"].clone();
    let task = client.call("tasks/get", json!({"id": id})).await.result();
    assert_eq!((&task["kind"], task["history"].as_array().unwrap().len()), (&json!("task"), 1));
    let bare = client.call("tasks/get", json!({"id": id, "historyLength": 0})).await.result();
    assert!(bare.get("history").is_none(), "{bare}");
    let listed = client.call("tasks/list", json!({"status": "working"})).await.result();
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["kind"]), (&json!(1), &json!("task")));
    let canceled = client.call("tasks/cancel", json!({"id": id})).await.result();
    assert_eq!(canceled["status"]["state"], "canceled");
    let ended = send(&client, message("hello")).await["id"].clone();
    assert_eq!(code(&client.call("tasks/cancel", json!({"id": ended})).await), -32002);
    assert_eq!(code(&client.call("tasks/get", json!({"id": "nobody's"})).await), -32001);
    assert_eq!(code(&client.call("tasks/list", json!({"status": "soon"})).await), -32602);
    assert_eq!(code(&client.call("message/send", json!({})).await), -32602);
    assert_eq!(code(&client.call("message/nothing", json!({})).await), -32601);
}

#[tokio::test]
async fn streams_say_which_event_is_the_last() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let mut events = client.open("message/stream", json!({"message": message("chunks")})).await;
    let all: Vec<_> = events.rest().await.iter().map(|event| event.payload()).collect();
    let kinds: Vec<_> = all.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["task", "status-update", "artifact-update", "artifact-update", "status-update"]);
    assert_eq!((&all[1]["status"]["state"], &all[1]["final"]), (&json!("working"), &json!(false)));
    assert_eq!((&all[3]["append"], &all[3]["lastChunk"]), (&json!(true), &json!(true)));
    assert_eq!((&all[4]["status"]["state"], &all[4]["final"]), (&json!("completed"), &json!(true)));
    // A question is the last event of its stream, too.
    let mut events = client.open("message/stream", json!({"message": message("ask")})).await;
    let all: Vec<_> = events.rest().await.iter().map(|event| event.payload()).collect();
    let last = all.last().unwrap();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("input-required"), &json!(true)));
    let mut events = client.open("message/stream", json!({"message": message("direct")})).await;
    assert_eq!(events.one().await.payload()["kind"], "message");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_task_is_watched_again() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let mut events = client.open("message/stream", json!({"message": message("wait")})).await;
    let working = events.through(|event| event.payload()["status"]["state"] == "working").await;
    let last = working.last().unwrap().payload();
    assert_eq!((&last["kind"], &last["final"]), (&json!("status-update"), &json!(false)));
    let id = last["taskId"].clone();
    for method in ["tasks/resubscribe", "tasks/subscribe"] {
        let mut again = client.open(method, json!({"id": id})).await;
        assert_eq!(again.one().await.payload()["status"]["state"], "working");
    }
    let mut again = client.open("tasks/resubscribe", json!({"id": id})).await;
    client.call("tasks/cancel", json!({"id": id})).await.result();
    for stream in [&mut events, &mut again] {
        let last = stream.rest().await.last().unwrap().payload();
        assert_eq!((&last["status"]["state"], &last["final"]), (&json!("canceled"), &json!(true)));
    }
    // What there is to see of a task that has ended is the task.
    let mut ended = client.open("tasks/resubscribe", json!({"id": id})).await;
    let task = ended.one().await.payload();
    assert_eq!((&task["kind"], &task["status"]["state"]), (&json!("task"), &json!("canceled")));
    assert_eq!(ended.next().await, None);
    let unknown = client.try_open("tasks/resubscribe", r#"{"id":"x"}"#).await.err().unwrap();
    assert_eq!(code(&unknown), -32001);
}

#[tokio::test]
async fn configurations_are_nested_listed_bare_and_deleted_to_null() {
    let site =
        serve_with(|server| server.agent(obedient().push_notifications(true)).egress(Egress::unrestricted()))
            .await;
    let client = old(&site);
    let start = json!({"message": message("wait"), "configuration": {"blocking": false}});
    let id = client.call("message/send", start).await.result()["id"].clone();
    assert_eq!(code(&client.call("tasks/pushNotificationConfig/get", json!({"id": id})).await), -32001);
    let receiver = json!({"id": "c", "url": "http://127.0.0.1:9/x", "token": "t",
        "authentication": {"schemes": ["Bearer"], "credentials": "s"}});
    let set = json!({"taskId": id, "pushNotificationConfig": receiver});
    assert_eq!(client.call("tasks/pushNotificationConfig/set", set.clone()).await.result(), set);
    for params in [json!({"id": id}), json!({"id": id, "pushNotificationConfigId": "c"})] {
        assert_eq!(client.call("tasks/pushNotificationConfig/get", params).await.result(), set);
    }
    assert_eq!(
        client.call("tasks/pushNotificationConfig/list", json!({"id": id})).await.result(),
        json!([set])
    );
    let delete = json!({"id": id, "pushNotificationConfigId": "c"});
    let deleted = client.call("tasks/pushNotificationConfig/delete", delete).await;
    assert!(deleted.body.ends_with(r#""result":null}"#), "{deleted:?}");
    assert_eq!(client.call("tasks/pushNotificationConfig/list", json!({"id": id})).await.result(), json!([]));
}

#[tokio::test]
async fn extensions_travel_in_the_older_header() {
    let uri = "urn:test:ext";
    let site =
        serve_with(|server| server.agent(obedient().extension(AgentExtension::new(uri).required()))).await;
    let without = old(&site).call("message/send", json!({"message": message("hi")})).await;
    // The code for this is newer than the version.
    assert_eq!(code(&without), -32600);
    let with = old(&site).with("x-a2a-extensions", uri);
    let answer = within("an answer", with.call("message/send", json!({"message": message("hi")}))).await;
    assert_eq!(answer.result()["status"]["state"], "completed");
    assert_eq!((answer.header("x-a2a-extensions"), answer.header("a2a-extensions")), (uri, ""));
}
