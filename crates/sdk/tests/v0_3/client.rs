//! Our client against our server, over both bindings of v0.3: what is said and heard is what v1.0 would say and hear.

use chancery_sdk as sdk;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{
    GetTaskRequest, ListTasksRequest, ProtocolBinding, SendMessageConfiguration, SendMessageRequest,
    StreamResponse, TaskPushNotificationConfig, Version,
};
use chancery_sdk::{Call, CallContext, Endpoint, ErrorCode, Message, Principal, TaskState};

use crate::agents::{every_part, obedient};
use crate::support::{Site, serve_with};

const BINDINGS: [ProtocolBinding; 2] = [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson];

async fn site() -> Site {
    serve_with(|server| server.agent(obedient().push_notifications(true)).egress(Egress::unrestricted()))
        .await
}

async fn client(site: &Site, binding: ProtocolBinding) -> sdk::Client {
    let builder = sdk::Client::builder().prefer([binding]).version(Version::V0_3);
    builder.connect(format!("http://{}", site.address)).await.unwrap()
}

fn start(text: &str) -> SendMessageRequest {
    let configuration = SendMessageConfiguration { return_immediately: true, ..Default::default() };
    SendMessageRequest { configuration: Some(configuration), ..text.into() }
}

#[tokio::test]
async fn every_operation_works_over_both_bindings() {
    let site = site().await;
    for binding in BINDINGS {
        let client = client(&site, binding).await;
        assert_eq!(client.send("hello").await.unwrap().text(), "hello");
        assert_eq!(client.send("direct").await.unwrap().text(), "straight");
        let task = client.send("parts").await.unwrap().task().unwrap().clone();
        assert_eq!(task.artifacts[0].parts, every_part());
        let asked = client.send("ask").await.unwrap().task().unwrap().clone();
        assert_eq!(asked.status.state, TaskState::InputRequired);
        let done = client.send(Message::user("this").in_task(asked.id.clone())).await.unwrap();
        assert_eq!((&done.task().unwrap().id, done.text()), (&asked.id, "this".to_owned()));
        let begun = client.send(start("wait")).await.unwrap().task().unwrap().clone();
        assert!(!begun.status.state.is_terminal());
        assert_eq!(client.get(begun.id.clone()).await.unwrap().id, begun.id);
        let listed = client.list(ListTasksRequest::default()).await.unwrap();
        assert!(listed.tasks.iter().any(|task| task.id == begun.id));
        let canceled = client.cancel(begun.id.clone()).await.unwrap();
        assert_eq!(canceled.status.state, TaskState::Canceled);
        let missing = client.get("nobody's").await.unwrap_err();
        assert_eq!(missing.code(), Some(ErrorCode::TaskNotFound));
        let late = client.cancel(done.task().unwrap().id.clone()).await.unwrap_err();
        assert_eq!(late.code(), Some(ErrorCode::TaskNotCancelable));
        configurations(&client).await;
    }
}

async fn configurations(client: &sdk::Client) {
    let begun = client.send(start("wait")).await.unwrap().task().unwrap().id.clone();
    let context = || CallContext::new(Principal::anonymous(), "tester".into());
    let config = TaskPushNotificationConfig {
        tenant: String::new(),
        id: Some("c".into()),
        task_id: Some(begun.clone()),
        url: "http://127.0.0.1:9/x".to_owned(),
        token: "t".to_owned(),
        authentication: None,
    };
    let call = Call { request: config.clone(), context: context() };
    assert_eq!(client.create_push_config(call).await.unwrap(), config);
    let named = sdk::protocol::PushNotificationConfigRequest {
        tenant: String::new(),
        task_id: begun.clone(),
        id: "c".into(),
    };
    let call = Call { request: named.clone(), context: context() };
    assert_eq!(client.get_push_config(call).await.unwrap(), config);
    let list = || sdk::protocol::ListTaskPushNotificationConfigsRequest {
        tenant: String::new(),
        task_id: begun.clone(),
        page_size: 0,
        page_token: String::new(),
    };
    let call = Call { request: list(), context: context() };
    assert_eq!(client.list_push_configs(call).await.unwrap().configs, [config]);
    client.delete_push_config(Call { request: named, context: context() }).await.unwrap();
    let call = Call { request: list(), context: context() };
    assert_eq!(client.list_push_configs(call).await.unwrap().configs, []);
}

#[tokio::test]
async fn no_history_is_none_on_every_binding() {
    let site = site().await;
    for binding in [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc] {
        let client = client(&site, binding).await;
        let asked = |history_length| {
            let configuration = SendMessageConfiguration { history_length, ..Default::default() };
            SendMessageRequest { configuration: Some(configuration), ..SendMessageRequest::from("hello") }
        };
        let sent = client.send(asked(Some(0))).await.unwrap().task().unwrap().clone();
        assert_eq!(sent.history, []);
        for (history_length, shown) in [(None, 1), (Some(0), 0), (Some(1), 1)] {
            let request = GetTaskRequest { tenant: String::new(), id: sent.id.clone(), history_length };
            assert_eq!(client.get_with(request).await.unwrap().history.len(), shown);
        }
    }
}

#[tokio::test]
async fn streams_end_where_they_should() {
    let site = site().await;
    for binding in BINDINGS {
        let client = client(&site, binding).await;
        for (text, last) in [("chunks", TaskState::Completed), ("ask", TaskState::InputRequired)] {
            let mut events = client.stream(text).await.unwrap();
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                seen.push(event.unwrap().payload().unwrap());
            }
            assert!(matches!(&seen[0], StreamResponse::Task(_)), "{seen:?}");
            let Some(StreamResponse::StatusUpdate(update)) = seen.last() else { panic!("{seen:?}") };
            assert_eq!(update.status.state, last);
        }
        // One that has ended has only itself to show.
        let ended = client.send("hello").await.unwrap().task().unwrap().id.clone();
        let mut events = client.subscribe(ended.clone()).await.unwrap();
        let StreamResponse::Task(task) = events.next().await.unwrap().unwrap().payload().unwrap() else {
            panic!()
        };
        assert_eq!((task.id, task.status.state), (ended, TaskState::Completed));
        assert!(events.next().await.is_none());
    }
}

#[tokio::test]
async fn a_client_speaks_the_newest_unless_told_otherwise() {
    let site = site().await;
    let url = format!("http://{}", site.address);
    let card = sdk::Client::connect(&url).await.unwrap().card().await.unwrap();
    let interfaces = card.supported_interfaces.iter();
    let mut versions: Vec<_> = interfaces.map(|interface| interface.protocol_version.as_str()).collect();
    versions.dedup();
    assert_eq!(versions[..2], ["1.0", "0.3"]);
    let refused =
        sdk::Client::builder().version(Version { major: 9, minor: 0 }).connect(&url).await.unwrap_err();
    assert!(refused.to_string().contains("not the version that was asked for"), "{refused}");
}
