//! Sending, looking, canceling, and who is told of it.

use chancery_sdk::egress::Egress;
use serde_json::{Value, json};

use crate::agents::*;
use crate::support::{Peer, Reply, serve, serve_with, until};

#[tokio::test]
async fn a_message_begins_the_task_that_it_names() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let mut params = say("mine", "hello");
    params["sessionId"] = json!("s-1");
    let task = client.call("tasks/send", params).await.result();
    assert_eq!((&task["id"], &task["sessionId"]), (&json!("mine"), &json!("s-1")));
    assert_eq!(task["status"]["state"], "completed");
    assert!(task["status"]["timestamp"].is_string());
    assert_eq!(task["artifacts"], json!([{"parts": [{"type": "text", "text": "hello"}], "index": 0}]));
    let keys: Vec<_> = task.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["artifacts", "id", "sessionId", "status"], "nothing of other versions");
    // Who names no session gets one.
    let other = send(&client, "other", "hello").await;
    assert!(!other["sessionId"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn every_part_has_its_type() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let task = send(&client, "mine", "parts").await;
    assert_eq!(task["artifacts"][0]["parts"], every_old_part());
    let params = json!({"id": "all", "message": {"role": "user", "parts": every_old_part(), "metadata": {"a": 1}}, "historyLength": 9});
    let task = client.call("tasks/send", params).await.result();
    assert_eq!(task["history"], json!([{"role": "user", "parts": every_old_part(), "metadata": {"a": 1}}]));
}

#[tokio::test]
async fn history_is_told_to_those_who_ask() {
    let site = serve(obedient()).await;
    let client = old(&site);
    send(&client, "mine", "ask").await;
    let done = send(&client, "mine", "this one").await;
    assert!(done.get("history").is_none(), "{done}");
    let told = |length: Value| {
        let client = &client;
        async move {
            let task =
                client.call("tasks/get", json!({"id": "mine", "historyLength": length})).await.result();
            task["history"].as_array().map_or(0, Vec::len)
        }
    };
    for (length, count) in [(Value::Null, 0), (json!(0), 0), (json!(1), 1), (json!(2), 2), (json!(99), 3)] {
        assert_eq!(told(length.clone()).await, count, "{length}");
    }
    assert_eq!(code(&client.call("tasks/get", json!({"id": "mine", "historyLength": -1})).await), -32602);
    let mut params = say("more", "hello");
    params["historyLength"] = json!(-1);
    assert_eq!(code(&client.call("tasks/send", params).await), -32602);
}

#[tokio::test]
async fn a_question_is_answered_under_the_same_name() {
    let (spec, turns) = counted();
    let site = serve(spec).await;
    let client = old(&site);
    let asked = send(&client, "mine", "ask").await;
    assert_eq!(asked["status"]["state"], "input-required");
    assert_eq!(
        asked["status"]["message"],
        json!({"role": "agent", "parts": [{"type": "text", "text": "which one?"}]})
    );
    // The same words again are an answer, too.
    let again = send(&client, "mine", "ask").await;
    assert_eq!((&again["status"]["state"], turns.get()), (&json!("input-required"), 2));
    let done = send(&client, "mine", "this one").await;
    assert_eq!((&done["status"]["state"], &done["sessionId"]), (&json!("completed"), &asked["sessionId"]));
    let mut elsewhere = say("mine", "this one");
    elsewhere["sessionId"] = json!("another");
    assert_eq!(code(&client.call("tasks/send", elsewhere).await), -32602);
    // A task that has ended takes no more.
    let refused = client.call("tasks/send", say("mine", "and this")).await;
    assert_eq!(code(&refused), -32009);
    assert_eq!(refused.json()["error"]["data"][0]["metadata"]["taskId"], "mine");
    assert_eq!(turns.get(), 3);
}

#[tokio::test]
async fn a_direct_answer_is_a_completed_task() {
    let site = serve(obedient()).await;
    let task = send(&old(&site), "mine", "direct").await;
    assert_eq!((&task["id"], &task["status"]["state"]), (&json!("mine"), &json!("completed")));
    let said = &task["status"]["message"]["parts"][0]["text"];
    let made = &task["artifacts"][0]["parts"][0]["text"];
    assert!(said == "straight" || made == "straight", "{task}");
}

#[tokio::test]
async fn states_without_a_name_say_what_they_are() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let refused = send(&client, "1", "refuse").await;
    assert_eq!(refused["status"]["state"], "failed");
    assert_eq!(refused["status"]["message"]["metadata"]["task_state"], "TASK_STATE_REJECTED");
    assert_eq!(refused["status"]["message"]["parts"][0]["text"], "not today");
    let login = send(&client, "2", "login").await;
    assert_eq!(login["status"]["state"], "input-required");
    assert_eq!(login["status"]["message"]["metadata"]["task_state"], "TASK_STATE_AUTH_REQUIRED");
}

#[tokio::test]
async fn a_task_is_canceled_by_its_name() {
    let site = serve(obedient()).await;
    let client = old(&site);
    let mut events = client.open("tasks/sendSubscribe", say("mine", "wait")).await;
    events.through(|event| event.payload()["status"]["state"] == "working").await;
    assert_eq!(get(&client, "mine").await["status"]["state"], "working");
    for _ in 0..2 {
        let canceled = client.call("tasks/cancel", json!({"id": "mine"})).await.result();
        assert_eq!((&canceled["id"], &canceled["status"]["state"]), (&json!("mine"), &json!("canceled")));
    }
    send(&client, "done", "hello").await;
    assert_eq!(code(&client.call("tasks/cancel", json!({"id": "done"})).await), -32002);
}

#[tokio::test]
async fn a_task_has_one_receiver_of_notifications() {
    let spec = obedient().push_notifications(true);
    let site = serve_with(|server| server.agent(spec).egress(Egress::unrestricted())).await;
    let client = old(&site);
    let receiver = |path: &str| {
        json!({"url": format!("http://127.0.0.1:9/{path}"), "token": "t",
            "authentication": {"schemes": ["Bearer"], "credentials": "s"}})
    };
    let mut events = client.open("tasks/sendSubscribe", say("mine", "wait")).await;
    events.through(|event| event.payload()["status"]["state"] == "working").await;
    assert_eq!(code(&client.call("tasks/pushNotification/get", json!({"id": "mine"})).await), -32001);
    for path in ["a", "b"] {
        let set = json!({"id": "mine", "pushNotificationConfig": receiver(path)});
        assert_eq!(client.call("tasks/pushNotification/set", set.clone()).await.result(), set);
        assert_eq!(client.call("tasks/pushNotification/get", json!({"id": "mine"})).await.result(), set);
    }
    let set = json!({"id": "nobody's", "pushNotificationConfig": receiver("a")});
    assert_eq!(code(&client.call("tasks/pushNotification/set", set).await), -32001);
    // One may come with the message, too.
    let mut params = say("other", "ask");
    params["pushNotification"] = receiver("c");
    client.call("tasks/send", params).await.result();
    let found = client.call("tasks/pushNotification/get", json!({"id": "other"})).await.result();
    assert_eq!(found, json!({"id": "other", "pushNotificationConfig": receiver("c")}));
}

#[tokio::test]
async fn a_receiver_hears_of_the_task_by_its_name() {
    let receiver = Peer::start(|_, _| Reply::Whole(204, Vec::new(), String::new())).await;
    let spec = obedient().push_notifications(true);
    let site = serve_with(|server| server.agent(spec).egress(Egress::unrestricted())).await;
    let mut params = say("mine", "hello");
    params["pushNotification"] = json!({"url": receiver.url, "token": "t"});
    old(&site).call("tasks/send", params).await.result();
    until("a notification", || async { !receiver.heard().is_empty() }).await;
    let heard = receiver.heard();
    let told = heard.last().unwrap();
    assert_eq!((told.header("x-a2a-notification-token"), told.header("a2a-version")), (Some("t"), None));
    let task = told.json();
    assert_eq!((&task["id"], &task["status"]["state"]), (&json!("mine"), &json!("completed")));
    assert_eq!(task["artifacts"][0], json!({"parts": [{"type": "text", "text": "hello"}], "index": 0}));
}

#[tokio::test]
async fn mistakes_have_the_codes_of_that_time() {
    let spec = obedient().streaming(false).push_notifications(false).input_modes(["text/plain"]);
    let site = serve(spec).await;
    let client = old(&site);
    for (method, params, wanted) in [
        ("tasks/send", json!({}), -32602),
        ("tasks/send", json!({"id": "1"}), -32602),
        ("tasks/send", say("", "hi"), -32602),
        ("tasks/send", say(&"x".repeat(300), "hi"), -32602),
        (
            "tasks/send",
            json!({"id": "1", "message": {"role": "agent", "parts": [{"type": "text", "text": "x"}]}}),
            -32602,
        ),
        ("tasks/send", json!({"id": "1", "message": {"role": "user", "parts": []}}), -32602),
        ("tasks/send", json!({"id": "1", "message": {"role": "user", "parts": [{"type": "text"}]}}), -32602),
        (
            "tasks/send",
            json!({"id": "1", "message": {"role": "user", "parts": [{"type": "file", "file": {"bytes": "AA==", "mimeType": "image/png"}}]}}),
            -32005,
        ),
        ("tasks/sendSubscribe", say("1", "hi"), -32006),
        (
            "tasks/pushNotification/set",
            json!({"id": "1", "pushNotificationConfig": {"url": "https://a.example"}}),
            -32003,
        ),
        ("tasks/pushNotification/get", json!({"id": "1"}), -32003),
        ("tasks/nothing", json!({"id": "1"}), -32601),
    ] {
        assert_eq!(code(&client.call(method, params.clone()).await), wanted, "{method} {params}");
    }
    let unknown = client.with("authorization", "Basic x").call("tasks/send", say("1", "hi")).await;
    assert_eq!(unknown.status, 401);
}
