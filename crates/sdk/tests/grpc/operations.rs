//! All eleven operations, by a caller that is not ours.

use chancery_sdk::{AgentCard, AgentSpec, Artifact, Outcome, Principal, Turn};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::support::*;

fn worker() -> AgentSpec {
    agent(|turn: Turn| async move {
        match &*turn.text() {
            "wait" => std::future::pending().await,
            "ask" => Ok(turn.ask("what?")),
            text => Ok(Outcome::text(format!("{text} for {}", turn.principal().id))),
        }
    })
    .push_notifications(true)
}

#[tokio::test]
async fn tasks_are_sent_looked_at_listed_and_stopped() {
    let site = serve(worker()).await;
    let ann = Caller::new(&site).by("r", "ann");
    let task = ann.say("hello").await;
    assert_eq!(task["status"]["state"], COMPLETED);
    assert_eq!(text(&task["artifacts"][0]), "hello for ann");
    let id = id(&task);
    assert_eq!(ann.call("GetTask", json!({"id": id})).await.one(), task);
    let short = ann.call("GetTask", json!({"id": id, "historyLength": 0})).await.one();
    assert!(short.get("history").is_none());

    let waiting = ann.start("wait").await;
    let canceled = ann.call("CancelTask", json!({"id": waiting["id"], "metadata": {"why": 7}})).await.one();
    assert_eq!(canceled["status"]["state"], CANCELED);

    let page = ann.call("ListTasks", json!({"pageSize": 1, "includeArtifacts": true})).await.one();
    assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(2), &json!(1)));
    let token = page["nextPageToken"].as_str().expect("a token");
    let page = ann.call("ListTasks", json!({"pageSize": 1, "pageToken": token})).await.one();
    assert_eq!((&page["tasks"][0]["id"], page.get("nextPageToken")), (&json!(id), None));
    let completed = ann.call("ListTasks", json!({"status": COMPLETED})).await.one();
    assert_eq!(completed["tasks"].as_array().map(Vec::len), Some(1));
    let other = Caller::new(&site).by("r", "bob").call("ListTasks", json!({})).await.one();
    assert_eq!(other.get("tasks"), None);
}

#[tokio::test]
async fn a_conversation_goes_on() {
    let site = serve(worker()).await;
    let caller = Caller::new(&site);
    let task = caller.say("ask").await;
    assert_eq!(task["status"]["state"], INPUT_REQUIRED);
    let answer = json!({"message": follow_up(&id(&task), "that")});
    let task = caller.call("SendMessage", answer).await.one()["task"].clone();
    assert_eq!(task["status"]["state"], COMPLETED);
    assert_eq!(task["history"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn a_direct_answer_is_a_message() {
    let spec = AgentSpec::new("tester", script(|_| async { Ok(Outcome::reply("hi")) }).direct());
    let site = serve(spec).await;
    let sent = Caller::new(&site).call("SendMessage", json!({"message": message("x")})).await.one();
    assert_eq!((text(&sent["message"]), &sent["message"]["role"]), ("hi", &json!("ROLE_AGENT")));
}

#[tokio::test]
async fn every_kind_of_content_passes() {
    let spec = agent(|turn: Turn| async move {
        let parts = turn.message().parts.clone();
        Ok(Outcome::artifact(Artifact::new("all", parts)))
    })
    .input_modes(["*/*"]);
    let site = serve(spec).await;
    let data = json!({"a": [1.0, "\u{e9}", null, true, {"b": {}}], "": -0.5});
    let parts = json!([
        {"text": "plain", "metadata": {"m": [7.0]}},
        {"raw": "AAEC/w==", "filename": "a.bin", "mediaType": "application/octet-stream"},
        {"url": "https://a.example/x", "mediaType": "text/plain"},
        {"data": data},
        {"data": null},
        {"text": ""},
    ]);
    let mut said = message("");
    said["parts"] = parts.clone();
    said["metadata"] = json!({"urn:x": {"deep": [[]]}});
    let task = Caller::new(&site).call("SendMessage", json!({"message": said})).await.one()["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"], parts);
    assert_eq!(task["history"][0]["metadata"], said["metadata"]);
    // Whole numbers are whole ones to those who ask another way.
    let seen = site.jsonrpc().get(&id(&task)).await;
    assert_eq!(seen["artifacts"][0]["parts"][0]["metadata"], json!({"m": [7]}));
}

#[tokio::test]
async fn notifications_are_registered_and_forgotten() {
    let site = serve(worker()).await;
    let caller = Caller::new(&site);
    let task = id(&caller.say("hello").await);
    let config = json!({"taskId": task, "url": "https://93.184.215.14/hook", "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "secret"}});
    let made = caller.call("CreateTaskPushNotificationConfig", config).await.one();
    let named = json!({"taskId": task, "id": made["id"]});
    let got = caller.call("GetTaskPushNotificationConfig", named.clone()).await.one();
    assert_eq!(got, made);
    let list = caller.call("ListTaskPushNotificationConfigs", json!({"taskId": task})).await.one();
    assert_eq!(list["configs"], json!([made]));
    let gone = caller.call("DeleteTaskPushNotificationConfig", named.clone()).await.one();
    assert_eq!(gone, json!({}));
    let missing = caller.call("GetTaskPushNotificationConfig", named).await;
    missing.refused(chancery_sdk::ErrorCode::TaskNotFound);
}

#[tokio::test]
async fn the_extended_card_is_told() {
    let more = |_: &Principal, mut card: AgentCard| {
        card.documentation_url = Some("https://docs.example".to_owned());
        card
    };
    let site = serve(worker().extended_card(more)).await;
    let card = Caller::new(&site).call("GetExtendedAgentCard", json!({})).await.one();
    assert_eq!(card["documentationUrl"], "https://docs.example");
    assert_eq!(card["capabilities"]["extendedAgentCard"], true);
    let bindings: Vec<&Value> =
        card["supportedInterfaces"].as_array().unwrap().iter().map(|one| &one["protocolBinding"]).collect();
    assert_eq!(bindings[..3], ["JSONRPC", "HTTP+JSON", "GRPC"]);
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
}
