//! gRPC of v0.3, `a2a.v1.A2AService`: by a caller that is not ours, and by our own client.

use chancery_sdk::protocol::{ProtocolBinding, StreamResponse, Version};
use chancery_sdk::{AgentSpec, Artifact, Client, ErrorCode, Outcome, Part, TaskState, Turn};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::support::*;

const OLD: &str = "a2a.v1.A2AService";

fn caller(site: &Site) -> Caller {
    Caller::new(site).without("a2a-version").of(OLD)
}

fn said(text: &str) -> Value {
    json!({"messageId": "m", "role": "ROLE_USER", "content": [{"text": text}]})
}

/// Waits unless it is told not to, as callers of JSON-RPC do.
fn blocking(message: &Value) -> Value {
    json!({"message": message, "configuration": {"blocking": true}})
}

fn worker() -> AgentSpec {
    agent(|turn: Turn| async move {
        match &*turn.text() {
            "wait" => {
                turn.working("going on").await?;
                std::future::pending().await
            }
            "ask" => Ok(turn.ask("what?")),
            "parts" => Ok(Outcome::artifact(Artifact::new("all", turn.message().parts.clone()))),
            text => Ok(Outcome::text(text)),
        }
    })
    .input_modes(["*/*"])
}

#[tokio::test]
async fn every_method_answers() {
    let site = serve(worker()).await;
    let caller = caller(&site);
    let sent = caller.call("SendMessage", blocking(&said("hello"))).await.one();
    let task = &sent["task"];
    assert_eq!(task["status"]["state"], COMPLETED);
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello");
    let name = format!("tasks/{}", id(task));
    let got = caller.call("GetTask", json!({"name": name, "historyLength": 1})).await.one();
    assert_eq!(got["history"][0]["content"][0]["text"], "hello");

    // Who does not say so does not wait.
    let waiting = caller.call("SendMessage", json!({"message": said("wait")})).await.one()["task"].clone();
    let waiting = format!("tasks/{}", id(&waiting));
    let mut events = caller.stream("TaskSubscription", json!({"name": waiting})).await;
    assert!(events.one().await["task"].is_object());
    let canceled = caller.call("CancelTask", json!({"name": waiting})).await.one();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELLED");
    let rest = events.all().await;
    assert_eq!(rest.messages.last().expect("an event")["statusUpdate"]["final"], true);

    // What has ended is told once more.
    let ended = caller.call("TaskSubscription", json!({"name": name})).await.one();
    assert_eq!(ended["task"]["status"]["state"], COMPLETED);
    let card = caller.call("GetAgentCard", json!({})).await.one();
    assert_eq!((&card["name"], &card["protocolVersion"]), (&json!("tester"), &json!("0.3.0")));
    let transports: Vec<_> = card["additionalInterfaces"].as_array().expect("interfaces").iter().collect();
    assert_eq!(transports.last().expect("one")["transport"], "GRPC");
    assert_eq!(card["security"][0]["schemes"], json!({"bearer": {}}));
}

#[tokio::test]
async fn configurations_are_named_by_a_path() {
    let site = serve(worker()).await;
    let caller = caller(&site);
    let sent = caller.call("SendMessage", blocking(&said("hello"))).await.one();
    let parent = format!("tasks/{}", id(&sent["task"]));
    let inner = json!({"url": "https://93.184.215.14/hook", "token": "t",
        "authentication": {"schemes": ["Bearer"], "credentials": "secret"}});
    let request = json!({"parent": parent, "configId": "c", "config": {"pushNotificationConfig": inner}});
    let made = caller.call("CreateTaskPushNotificationConfig", request).await.one();
    let name = format!("{parent}/pushNotificationConfigs/c");
    assert_eq!(made["name"], name.as_str());
    for named in [&name, &parent] {
        let got = caller.call("GetTaskPushNotificationConfig", json!({"name": named})).await.one();
        assert_eq!(got, made);
    }
    let list = caller.call("ListTaskPushNotificationConfig", json!({"parent": parent})).await.one();
    assert_eq!(list["configs"], json!([made]));
    caller.call("DeleteTaskPushNotificationConfig", json!({"name": name})).await.one();
    let missing = caller.call("GetTaskPushNotificationConfig", json!({"name": name})).await;
    missing.refused(ErrorCode::TaskNotFound);
}

#[tokio::test]
async fn bytes_of_files_come_back_as_they_were_sent_once_or_twice_encoded() {
    let site = serve(worker()).await;
    let caller = caller(&site);
    // As bytes: the file itself, and base64 of it. prost-reflect writes bytes as base64 once more.
    for given in ["AAEC/w==", "QUFFQy93PT0="] {
        let file = json!({"fileWithBytes": given, "mimeType": "application/octet-stream", "name": "a.bin"});
        let parts = json!([{"text": "parts"}, {"file": file}, {"data": {"data": {"a": [1.5]}}}]);
        let mut message = said("");
        message["content"] = parts;
        let sent = caller.call("SendMessage", blocking(&message)).await.one();
        let parts = &sent["task"]["artifacts"][0]["parts"];
        assert_eq!(parts[1]["file"]["fileWithBytes"], given);
        assert_eq!(
            (&parts[1]["file"]["name"], &parts[2]["data"]["data"]),
            (&json!("a.bin"), &json!({"a": [1.5]}))
        );
        let newer = site.jsonrpc().get(&id(&sent["task"])).await;
        assert_eq!(newer["artifacts"][0]["parts"][1]["raw"], "AAEC/w==");
    }
}

#[tokio::test]
async fn failures_have_the_codes_of_that_time() {
    let site = serve(worker().push_notifications(false)).await;
    let caller = caller(&site);
    caller.call("GetTask", json!({"name": "tasks/nobody"})).await.refused(ErrorCode::TaskNotFound);
    let unnamed = caller.call("GetTask", json!({})).await;
    assert_eq!(unnamed.refused(ErrorCode::InvalidParams)[1]["fieldViolations"][0]["field"], "name");
    let push = caller.call("ListTaskPushNotificationConfig", json!({"parent": "tasks/t"})).await;
    assert_eq!((push.code(), push.only_head), (12, true));
    let newer = caller.clone().with("a2a-version", "1.0").call("GetTask", json!({"name": "tasks/t"})).await;
    newer.refused(ErrorCode::MethodNotFound);
    let off = serve_with(|server| server.agent(worker()).without_version(Version::V0_3)).await;
    let refused =
        Caller::new(&off).without("a2a-version").of(OLD).call("GetTask", json!({"name": "tasks/t"})).await;
    assert_eq!((refused.code(), &refused.details()[0]["reason"]), (12, &json!("VERSION_NOT_SUPPORTED")));
}

#[tokio::test]
async fn our_client_speaks_it_too() {
    let site = serve(worker()).await;
    let url = format!("http://{}", site.address);
    let builder = Client::builder().prefer([ProtocolBinding::Grpc]).version(Version::V0_3);
    let client = builder.connect(url).await.expect("an agent");
    let sent = client.send("hello").await.expect("an answer");
    assert_eq!(sent.text(), "hello");
    let task = client.get(sent.task().expect("a task").id.clone()).await.expect("the task");
    assert_eq!(task.status.state, TaskState::Completed);
    let file = Part::raw(vec![0, 1, 2, 255]).named("a.bin").with_media_type("application/octet-stream");
    let message =
        chancery_sdk::Message::new(chancery_sdk::Role::User, vec![Part::text("parts"), file.clone()]);
    let sent = client.send(message).await.expect("an answer");
    assert_eq!(sent.task().expect("a task").artifacts[0].parts[1], file);

    let mut events = client.stream("wait").await.expect("a stream");
    let mut states = Vec::new();
    while let Some(event) = events.next().await {
        match event.expect("no error").payload().expect("an event") {
            StreamResponse::Task(task) => states.push(task.status.state),
            StreamResponse::StatusUpdate(update) => {
                states.push(update.status.state);
                if update.status.state == TaskState::Working {
                    client.cancel(update.task_id).await.expect("canceled");
                }
            }
            _ => {}
        }
    }
    assert_eq!(states.last(), Some(&TaskState::Canceled), "{states:?}");
    let unknown = client.get("nobody").await.expect_err("no such task");
    assert_eq!(unknown.code(), Some(ErrorCode::TaskNotFound));
}

#[tokio::test]
async fn the_host_names_the_agent_where_no_tenant_can() {
    let named = |name: &str| {
        let own = name.to_owned();
        let run = move |_: chancery_sdk::Turn| {
            let own = own.clone();
            async move { Ok(chancery_sdk::Outcome::text(own)) }
        };
        AgentSpec::new(name, script(run))
    };
    let site = serve_with(|server| {
        server.fleet_agent(named("one")).fleet_agent(named("two")).hosts(["one.elsewhere.example"])
    })
    .await;
    for name in ["one", "two"] {
        let caller = caller(&site).under(&format!("{name}.127.0.0.1:{}", site.address.port()));
        let answer = caller.call("SendMessage", blocking(&said("hello"))).await.one();
        assert!(answer.to_string().contains(name), "{answer}");
    }
    for (host, told) in
        [("three.127.0.0.1", "not called"), ("one.elsewhere.example", "tenant"), ("127.0.0.1", "tenant")]
    {
        let caller = caller(&site).under(&format!("{host}:{}", site.address.port()));
        let answer = caller.call("SendMessage", blocking(&said("hello"))).await;
        assert!(answer.text().contains(told), "{host}: {}", answer.text());
    }
}
