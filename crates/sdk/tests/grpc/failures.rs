//! What is refused, and how it is said.

use chancery_sdk::protocol::AgentExtension;
use chancery_sdk::{AgentSpec, ErrorCode, ServerLimits};
use serde_json::json;

use crate::caller::{Caller, framed};
use crate::support::*;

#[tokio::test]
async fn failures_have_details() {
    let site = serve(echo().push_notifications(false)).await;
    let caller = Caller::new(&site);
    let missing = caller.call("GetTask", json!({"id": "nobody"})).await;
    assert_eq!(missing.refused(ErrorCode::TaskNotFound)[0]["metadata"]["taskId"], "nobody");
    assert!(missing.only_head);
    let task = caller.say("x").await;
    let over = caller.call("CancelTask", json!({"id": task["id"]})).await;
    over.refused(ErrorCode::TaskNotCancelable);
    let push = json!({"taskId": task["id"], "url": "https://a.example"});
    let push = caller.call("CreateTaskPushNotificationConfig", push).await;
    push.refused(ErrorCode::PushNotificationNotSupported);
    let card = caller.call("GetExtendedAgentCard", json!({})).await;
    card.refused(ErrorCode::UnsupportedOperation);
}

#[tokio::test]
async fn a_wrong_field_is_named_by_its_path() {
    let site = serve(echo()).await;
    let caller = Caller::new(&site);
    let part = |part: serde_json::Value| {
        let mut message = message("x");
        message["parts"] = json!([{"text": "x"}, part]);
        json!({"message": message})
    };
    let cases = [
        ("SendMessage", json!({}), "message"),
        ("SendMessage", json!({"message": {}}), "message.messageId"),
        ("SendMessage", json!({"message": {"messageId": "m"}}), "message.role"),
        ("SendMessage", json!({"message": {"messageId": "m", "role": "ROLE_USER"}}), "message.parts"),
        ("SendMessage", part(json!({})), "message.parts[1]"),
        ("SendMessage", part(json!({"url": "nowhere"})), "message.parts[1].url"),
        ("GetTask", json!({}), "id"),
        ("GetTask", json!({"id": "t", "historyLength": -1}), "historyLength"),
        ("ListTasks", json!({"pageSize": 0}), "pageSize"),
        ("ListTasks", json!({"status": 77}), "status"),
        ("SubscribeToTask", json!({}), "id"),
    ];
    for (method, request, field) in cases {
        let answer = caller.call(method, request.clone()).await;
        let details = answer.refused(ErrorCode::InvalidParams);
        assert_eq!(details[1]["fieldViolations"][0]["field"], field, "{method} {request}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused() {
    let site = serve(echo()).await;
    let caller = Caller::new(&site);
    for body in [framed(b"\x0a\x05abc"), framed(b"\x12\x02\xff\xff")] {
        caller.post("GetTask", body).await.refused(ErrorCode::ParseError);
    }
    for body in [vec![], b"\0\0\0".to_vec(), [framed(b""), framed(b"")].concat(), b"\0\0\0\0\x09x".to_vec()] {
        caller.post("GetTask", body).await.refused(ErrorCode::InvalidRequest);
    }
    let mut compressed = framed(b"");
    compressed[0] = 1;
    assert_eq!(caller.post("GetTask", compressed).await.code(), 12);
}

#[tokio::test]
async fn what_is_not_served_is_unimplemented() {
    let site = serve(echo()).await;
    let caller = Caller::new(&site);
    for path in ["/lf.a2a.v1.A2AService/Nothing", "/lf.a2a.v2.A2AService/GetTask", "/x", "/", "/a/b/c"] {
        let answer = caller.post_to(path, framed(b"")).await;
        answer.refused(ErrorCode::MethodNotFound);
        assert_eq!((answer.code(), answer.only_head), (12, true), "{path}");
    }
    let json = caller.with("content-type", "application/grpc+json");
    json.call("GetTask", json!({"id": "t"})).await.refused(ErrorCode::MethodNotFound);
}

#[tokio::test]
async fn the_version_is_asked_for() {
    let site = serve(echo()).await;
    let caller = Caller::new(&site);
    let request = json!({"message": message("x")});
    let none = caller.clone().without("a2a-version").call("SendMessage", request.clone()).await;
    let details = none.refused(ErrorCode::VersionNotSupported);
    let supported = details[0]["metadata"]["supportedVersions"].as_str().expect("versions");
    assert!(supported.split(',').any(|version| version == "1.0"), "{supported}");
    for version in ["0.3", "", "9.9"] {
        let answer = caller.clone().with("a2a-version", version).call("SendMessage", request.clone()).await;
        answer.refused(ErrorCode::VersionNotSupported);
    }
    caller.with("a2a-version", "1.0.1").call("SendMessage", request.clone()).await.one();
    let lenient = serve_with(|server| server.agent(echo()).lenient_version(true)).await;
    Caller::new(&lenient).without("a2a-version").call("SendMessage", request).await.one();
}

#[tokio::test]
async fn extensions_are_activated_and_echoed() {
    let mut needed = AgentExtension::new("urn:needed");
    needed.required = true;
    let site = serve(echo().extension(needed)).await;
    let caller = Caller::new(&site);
    let request = json!({"message": message("x")});
    let without = caller.call("SendMessage", request.clone()).await;
    without.refused(ErrorCode::ExtensionSupportRequired);
    let with = caller.with("a2a-extensions", "urn:needed, urn:other").call("SendMessage", request).await;
    with.one();
    assert_eq!(with.head["a2a-extensions"], "urn:needed");
}

#[tokio::test]
async fn a_tenant_names_the_agent() {
    let named = |name: &str| {
        AgentSpec::new(
            name,
            script(|turn: chancery_sdk::Turn| async move { Ok(chancery_sdk::Outcome::text(turn.text())) }),
        )
    };
    let site = serve_with(|server| server.fleet_agent(named("one")).fleet_agent(named("two"))).await;
    let caller = Caller::new(&site);
    let send = |tenant: &str| caller.call("SendMessage", json!({"tenant": tenant, "message": message("x")}));
    let task = send("one").await.one()["task"].clone();
    let of = |tenant: &str| caller.call("GetTask", json!({"tenant": tenant, "id": task["id"]}));
    of("one").await.one();
    of("two").await.refused(ErrorCode::TaskNotFound);
    for tenant in ["", "three"] {
        let details = send(tenant).await.refused(ErrorCode::InvalidParams);
        assert_eq!(details[1]["fieldViolations"][0]["field"], "tenant");
    }
    let rooted = serve_with(|server| server.agent(named("root")).fleet_agent(named("two"))).await;
    let caller = Caller::new(&rooted);
    for (tenant, code) in [("", 0), ("root", 0), ("two", 0), ("three", 3)] {
        let sent = caller.call("SendMessage", json!({"tenant": tenant, "message": message("x")})).await;
        assert_eq!(sent.code(), code, "{tenant}");
    }
}

#[tokio::test]
async fn callers_are_authenticated() {
    let site = serve(echo()).await;
    let unknown = Caller::new(&site).with("authorization", "Basic x");
    let answer = unknown.call("GetTask", json!({"id": "t"})).await;
    answer.refused(ErrorCode::Unauthenticated);
    assert_eq!((answer.code(), &answer.head["www-authenticate"]), (16, &"Bearer".parse().unwrap()));
}

#[tokio::test]
async fn messages_are_bounded() {
    let limits = ServerLimits { body_bytes: 1000, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(echo()).limits(limits)).await;
    let caller = Caller::new(&site);
    let sized = |bytes: usize| {
        let mut said = message("");
        said["messageId"] = json!("m");
        let bare = caller.encode("SendMessage", &json!({"message": said})).len();
        // Two bytes each for the lengths that grow beyond 127.
        said["parts"] = json!([{"text": "x".repeat(bytes - bare - 3)}]);
        let request = caller.encode("SendMessage", &json!({"message": said}));
        assert_eq!(request.len(), bytes);
        framed(&request)
    };
    caller.post("SendMessage", sized(1000)).await.one();
    let large = caller.post("SendMessage", sized(1001)).await;
    large.refused(ErrorCode::ResourceExhausted);
    assert_eq!(large.code(), 8);
}

#[tokio::test]
async fn a_repeated_send_joins_the_first() {
    let site = serve(echo()).await;
    let caller = Caller::new(&site).with("idempotency-key", "k1");
    let request = json!({"message": message("x")});
    let first = caller.call("SendMessage", request.clone()).await.one();
    let second = caller.call("SendMessage", request).await.one();
    assert_eq!(first["task"]["id"], second["task"]["id"]);
}
