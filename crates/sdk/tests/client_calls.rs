//! The client against a real server: every operation, by every binding.

mod support;

use std::time::{Duration, Instant};

use chancery_sdk as sdk;
use chancery_sdk::protocol::{
    AuthenticationInfo, GetExtendedAgentCardRequest, ListTaskPushNotificationConfigsRequest,
    ListTasksRequest, ProtocolBinding, PushNotificationConfigRequest, SendMessageConfiguration,
    SendMessageRequest, SendMessageResponse, StreamResponse, TaskPushNotificationConfig,
};
use chancery_sdk::{
    AgentCard, AgentSpec, Call, CallContext, ClientError, Endpoint, ErrorCode, Failure, Message, Outcome,
    Principal, TaskState, Turn,
};
use serde_json::json;
use support::*;

const BINDINGS: [ProtocolBinding; 3] =
    [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc];

/// A client by one binding, in the name of Ann.
async fn connect(site: &Site, binding: ProtocolBinding) -> sdk::Client {
    let url = format!("http://{}", site.address);
    let client = sdk::Client::builder().prefer([binding]).bearer("r/ann").connect(url).await;
    client.expect("the server is there")
}

fn at_once(text: &str) -> SendMessageRequest {
    let mut request = SendMessageRequest::from(text);
    request.configuration = Some(SendMessageConfiguration { return_immediately: true, ..Default::default() });
    request
}

fn context() -> Box<CallContext> {
    CallContext::new(Principal::anonymous(), "".into())
}

#[tokio::test]
async fn every_operation_on_tasks_is_there_by_every_binding() {
    let site = serve(agent(|turn: Turn| async move {
        match &*turn.text() {
            "wait" => std::future::pending().await,
            "ask" => Ok(turn.ask("what?")),
            text => Ok(Outcome::text(format!("{text} for {}", turn.principal().id))),
        }
    }))
    .await;
    for binding in BINDINGS {
        let client = connect(&site, binding).await;
        let sent = client.send("hello").await.expect("an answer");
        assert_eq!(sent.text(), "hello for ann");
        let task = sent.task().expect("a task").clone();
        assert_eq!(client.get(task.id.clone()).await.expect("the task"), task);

        let waiting = client.send(at_once("wait")).await.expect("an answer");
        let waiting = waiting.task().expect("a task");
        assert!(!waiting.status.state.is_terminal());
        let canceled = client.cancel(waiting.id.clone()).await.expect("a canceled task");
        assert_eq!(canceled.status.state, TaskState::Canceled);

        let asked = client.send("ask").await.expect("a question");
        assert_eq!(
            (asked.text().as_str(), asked.task().unwrap().status.state),
            ("what?", TaskState::InputRequired)
        );
        let answer = Message::user("that").in_task(asked.task().unwrap().id.clone());
        assert_eq!(client.send(answer).await.expect("an answer").text(), "that for ann");

        let filter = ListTasksRequest {
            status: TaskState::Completed,
            page_size: Some(1),
            include_artifacts: Some(true),
            context_id: task.context_id.clone(),
            ..Default::default()
        };
        let page = client.list(filter.clone()).await.expect("a page");
        assert_eq!((page.total_size, page.page_size, page.tasks), (1, 1, vec![task.clone()]));
        let all =
            client.list(ListTasksRequest { page_size: Some(1), ..Default::default() }).await.expect("a page");
        assert!(!all.next_page_token.is_empty());
        let next =
            ListTasksRequest { page_size: Some(1), page_token: all.next_page_token, ..Default::default() };
        assert_ne!(client.list(next).await.expect("a page").tasks[0].id, all.tasks[0].id);

        let unknown = client.get("no/such task").await.expect_err("no task");
        assert_eq!(unknown.code(), Some(ErrorCode::TaskNotFound));
        let ClientError::Peer(error) = unknown else { panic!("{unknown}") };
        assert_eq!(error.fact("taskId"), Some("no/such task"));
        let over = client.cancel(task.id).await.expect_err("it is over");
        assert_eq!(over.code(), Some(ErrorCode::TaskNotCancelable));
    }
}

#[tokio::test]
async fn a_direct_answer_is_a_message() {
    let spec = script(|turn: Turn| async move { Ok(Outcome::reply(turn.text())) }).direct();
    let site = serve(AgentSpec::new("direct", spec)).await;
    for binding in BINDINGS {
        // So that a send can be repeated it has a key, with which the answer is kept.
        let client = connect(&site, binding.clone()).await;
        let sent = client.send("hello").await.expect("an answer");
        assert_eq!((sent.text().as_str(), sent.task().is_some()), ("hello", false));

        let url = format!("http://{}", site.address);
        let builder = sdk::Client::builder().prefer([binding]).retries(0).stream_resumes(0);
        let client = builder.connect(url).await.expect("the server is there");
        let sent = client.send("hello".to_owned()).await.expect("an answer");
        assert!(
            matches!(&sent, SendMessageResponse::Message(message) if message.text() == "hello"),
            "{sent:?}"
        );
        let mut events = client.stream("hello").await.expect("a stream");
        let event = events.next().await.expect("an event").expect("no error");
        assert!(matches!(event.payload().unwrap(), StreamResponse::Message(_)));
        assert!(events.next().await.is_none());
    }
}

#[tokio::test]
async fn a_remote_agent_is_an_endpoint_like_any_other() {
    let more = |_: &Principal, card: AgentCard| AgentCard { description: "more".to_owned(), ..card };
    let site = serve(echo().extended_card(more)).await;
    for binding in BINDINGS {
        let client = connect(&site, binding).await;
        let request = Box::new(SendMessageRequest::from("hello"));
        let sent = client.send_message(Call { request, context: context() }).await.expect("an answer");
        let SendMessageResponse::Task(view) = sent else { panic!("no task") };
        assert_eq!(view.task.state(), TaskState::Completed);

        let request = GetExtendedAgentCardRequest::default();
        let card = client.extended_card(Call { request, context: context() }).await.expect("a card");
        assert_eq!(card.description, "more");

        let request = PushNotificationConfigRequest {
            tenant: String::new(),
            task_id: view.task.id().clone(),
            id: "c".into(),
        };
        let refused = client.get_push_config(Call { request, context: context() }).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::TaskNotFound, "no such configuration");
    }
}

#[tokio::test]
async fn push_configurations_come_and_go() {
    let config = json!({"id": "c 1", "taskId": "t", "url": "https://a.example", "token": "x"});
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let answer = config.clone();
        let peer = Peer::agent(binding, false, move |at, heard| {
            let result = match at {
                0 | 1 => answer.clone(),
                2 => json!({"configs": [answer], "nextPageToken": "n"}),
                _ => json!({}),
            };
            if binding == "JSONRPC" { heard.result(&result) } else { Reply::json(200, &result) }
        })
        .await;
        let client = sdk::Client::connect(&peer.url).await.expect("a peer");
        let request = TaskPushNotificationConfig {
            tenant: "ignored".to_owned(),
            id: Some("c 1".into()),
            task_id: Some("t".into()),
            url: "https://a.example".to_owned(),
            token: "x".to_owned(),
            authentication: Some(AuthenticationInfo {
                scheme: "Bearer".to_owned(),
                credentials: "y".to_owned(),
            }),
        };
        let made = client.create_push_config(Call { request, context: context() }).await.expect("made");
        assert_eq!(made.url, "https://a.example");
        let named =
            || PushNotificationConfigRequest { tenant: String::new(), task_id: "t".into(), id: "c 1".into() };
        let found =
            client.get_push_config(Call { request: named(), context: context() }).await.expect("found");
        assert_eq!(found, made);
        let request = ListTaskPushNotificationConfigsRequest {
            tenant: String::new(),
            task_id: "t".into(),
            page_size: 7,
            page_token: "p q".to_owned(),
        };
        let page = client.list_push_configs(Call { request, context: context() }).await.expect("a page");
        assert_eq!((page.configs, page.next_page_token.as_str()), (vec![made], "n"));
        client.delete_push_config(Call { request: named(), context: context() }).await.expect("deleted");

        let calls = peer.calls();
        if binding == "HTTP+JSON" {
            let lines: Vec<_> = calls.iter().map(Heard::line).collect();
            assert_eq!(
                lines,
                [
                    "POST /tasks/t/pushNotificationConfigs",
                    "GET /tasks/t/pushNotificationConfigs/c%201",
                    "GET /tasks/t/pushNotificationConfigs?pageSize=7&pageToken=p%20q",
                    "DELETE /tasks/t/pushNotificationConfigs/c%201",
                ]
            );
            assert_eq!(calls[0].header("content-type"), Some("application/a2a+json"));
        }
        assert!(
            calls
                .iter()
                .all(|call| call.header("a2a-version") == Some("1.0") && !call.body.contains("ignored"))
        );
    }
}

#[tokio::test]
async fn the_tenant_of_the_interface_is_sent_and_no_other() {
    for binding in [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson] {
        let peer = Peer::start(|_, heard| {
            let host = heard.header("host").expect("a host");
            if heard.is_card() {
                let url = format!("http://{host}/api/");
                let mut card =
                    card(&url, if heard.line().contains("rest") { "HTTP+JSON" } else { "JSONRPC" }, false);
                card["supportedInterfaces"][0]["tenant"] = json!("a b");
                return Reply::json(200, &card);
            }
            let task = json!({"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}});
            if heard.line().starts_with("GET") { Reply::json(200, &task) } else { heard.result(&task) }
        })
        .await;
        let name = if binding == ProtocolBinding::HttpJson { "rest" } else { "rpc" };
        let client = sdk::Client::connect(format!("{}/{name}/", peer.url)).await.expect("a peer");
        client.get("t").await.expect("a task");
        let heard = peer.heard();
        assert_eq!(heard[0].line(), format!("GET /{name}/.well-known/agent-card.json"));
        if binding == ProtocolBinding::HttpJson {
            assert_eq!(heard[1].line(), "GET /api/a%20b/tasks/t");
        } else {
            assert_eq!(heard[1].line(), "POST /api/");
            assert_eq!(heard[1].json()["params"], json!({"tenant": "a b", "id": "t"}));
        }
    }
}

#[tokio::test]
async fn what_a_call_says_of_itself_goes_along() {
    let peer = Peer::agent("JSONRPC", false, |_, heard| {
        heard.result(&json!({"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}))
    })
    .await;
    let client = sdk::Client::builder().extension("urn:a").connect(&peer.url).await.expect("a peer");
    let mut context = context();
    context.extensions = vec!["urn:b".to_owned()];
    context.idempotency_key = Some("k".to_owned());
    context.traceparent = Some("00-1-2-01".to_owned());
    let request = Box::new(SendMessageRequest::from("x"));
    client.send_message(Call { request, context }).await.expect("an answer");
    client.send("y").await.expect("an answer");
    let calls = peer.calls();
    let header = |name| calls[0].header(name);
    assert_eq!(header("a2a-extensions"), Some("urn:a, urn:b"));
    assert_eq!((header("idempotency-key"), header("traceparent")), (Some("k"), Some("00-1-2-01")));
    assert_eq!(calls[1].header("a2a-extensions"), Some("urn:a"));
    // This peer does not say that it honours keys, so it gets none that nobody asked for.
    assert_eq!(calls[1].header("idempotency-key"), None);
}

#[tokio::test]
async fn a_send_waits_until_its_deadline_and_a_read_does_not() {
    let peer = Peer::agent("JSONRPC", false, |_, _| Reply::Hang(Vec::new())).await;
    let client = sdk::Client::builder()
        .request_timeout(Duration::from_secs(1))
        .connect(&peer.url)
        .await
        .expect("a peer");
    let mut context = context();
    context.deadline = Some(Instant::now() + Duration::from_millis(2500));
    let started = Instant::now();
    let request = Box::new(SendMessageRequest::from("x"));
    let late = client.send_message(Call { request, context: context.clone() }).await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::Unavailable);
    assert!(started.elapsed() >= Duration::from_millis(2000));
    let late = client.get("t").await.expect_err("no answer");
    assert!(
        matches!(late, ClientError::TimedOut { what: "GetTask", after } if after == Duration::from_secs(1))
    );
}

#[tokio::test]
async fn a_turn_asks_an_agent_elsewhere() {
    let other = serve(agent(|turn: Turn| async move {
        match &*turn.text() {
            "fail" => Err(Failure::public("no")),
            text => Ok(Outcome::text(text.to_uppercase())),
        }
    }))
    .await;
    for binding in BINDINGS {
        let client = connect(&other, binding).await;
        let site = serve(agent(move |turn: Turn| {
            let client = client.clone();
            async move {
                let answer = turn.call(&client, Message::user(turn.text())).await?;
                Ok(Outcome::text(answer.text()))
            }
        }))
        .await;
        let task = site.rest().say("hello").await;
        assert_eq!(text(&task["artifacts"][0]), "HELLO");
        assert_eq!(text(&site.rest().say("fail").await["artifacts"][0]), "no");
    }
}

#[tokio::test]
async fn a_card_that_keeps_its_version_to_itself_is_one_of_either() {
    let silent = |heard: &sdk::testing::Heard| {
        let mut card = heard.card(&ProtocolBinding::JsonRpc);
        card["supportedInterfaces"][0].as_object_mut().expect("an interface").remove("protocolVersion");
        // What readers of v0.3 look for is no word about the list.
        card["protocolVersion"] = json!("0.3");
        sdk::testing::Reply::json(&card)
    };
    for (speaks, asked) in [
        ("SendMessage", vec!["SendMessage"; 2]),
        ("message/send", vec!["SendMessage", "message/send", "message/send"]),
    ] {
        let peer = sdk::testing::Peer::script().card_with(silent).answer_with(move |heard| {
            let method = heard.json()["method"].clone();
            let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]});
            match () {
                () if method != speaks => heard.error(ErrorCode::MethodNotFound),
                () if speaks == "SendMessage" => heard.result(&json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}})),
                () => heard.result(&message),
            }
        });
        let peer = peer.start().expect("a port");
        let client = sdk::Client::connect(peer.url()).await.expect("a card");
        for _ in 0..2 {
            assert_eq!(client.send("hello").await.expect("an answer").text(), "hi");
        }
        let methods: Vec<_> = peer.calls().iter().map(|heard| heard.json()["method"].clone()).collect();
        assert_eq!(methods, asked);
    }
}
