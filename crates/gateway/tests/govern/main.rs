//! `chancery serve` as a process: every gate refuses, on every wire; keys come and go while it runs; what was spent is
//! known after it was killed.

mod admin;
mod gateway;

use std::time::Duration;

use chancery_sdk::protocol::{ProtocolBinding, SendMessageResponse, Version};
use chancery_sdk::{Client, ClientError, ErrorCode, Message};
use gateway::{Gateway, chancery};

/// Every way to speak to an agent of a fleet. Over gRPC, v0.3 has no name for one.
const WIRES: [(Version, ProtocolBinding); 6] = [
    (Version::V1_0, ProtocolBinding::JsonRpc),
    (Version::V1_0, ProtocolBinding::HttpJson),
    (Version::V1_0, ProtocolBinding::Grpc),
    (Version::V0_3, ProtocolBinding::JsonRpc),
    (Version::V0_3, ProtocolBinding::HttpJson),
    (Version::V0_1, ProtocolBinding::JsonRpc),
];

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

async fn connect(url: &str, wire: &(Version, ProtocolBinding), key: Option<&str>) -> Client {
    let builder = Client::builder().version(wire.0).only([wire.1.clone()]).retries(0);
    let builder = match key {
        Some(key) => builder.bearer(key),
        None => builder,
    };
    builder.connect(url).await.unwrap_or_else(|error| panic!("{wire:?}: {error}"))
}

/// Whether a gate has refused, in words that name it.
fn refused(
    wire: &(Version, ProtocolBinding),
    outcome: Result<SendMessageResponse, ClientError>,
    code: ErrorCode,
    gate: &str,
    reason: &str,
) {
    let error = outcome.err().unwrap_or_else(|| panic!("{wire:?}: it was let through"));
    let text = error.to_string();
    assert_eq!(error.code(), Some(code), "{wire:?}: {text}");
    assert!(text.contains(&format!("`{gate}`")) && text.contains(reason), "{wire:?}: {text}");
}

#[tokio::test]
async fn the_budget_refuses_on_every_wire() {
    let gateway = Gateway::start(&format!("[budget.caller]\nmax_tasks_per_minute = 0\n{ECHO}"));
    for wire in &WIRES {
        let client = connect(&gateway.agent("echo"), wire, None).await;
        refused(wire, client.send("hello").await, ErrorCode::ResourceExhausted, "budget", "BUDGET_EXCEEDED");
    }
}

#[tokio::test]
async fn policy_refuses_on_every_wire() {
    let gateway = Gateway::start(&format!("[policy.default]\nallowed_skills = [\"rag.query\"]\n{ECHO}"));
    for wire in &WIRES {
        let client = connect(&gateway.agent("echo"), wire, None).await;
        refused(wire, client.send("hello").await, ErrorCode::PermissionDenied, "policy", "SKILL_NOT_ALLOWED");
    }
}

#[tokio::test]
async fn identity_refuses_on_every_wire_and_every_operation() {
    let gateway = Gateway::start(&format!("[identity]\nallow = [\"caller:alice\"]\n{ECHO}"));
    for wire in &WIRES {
        let client = connect(&gateway.agent("echo"), wire, None).await;
        refused(
            wire,
            client.send("hello").await,
            ErrorCode::PermissionDenied,
            "identity",
            "CALLER_NOT_ALLOWED",
        );
        // Nobody who may not come in learns whether there is such a task.
        let error = client.get("no-such-task").await.expect_err("it may not");
        assert_eq!(error.code(), Some(ErrorCode::PermissionDenied), "{wire:?}: {error}");
        let error = client.cancel("no-such-task").await.expect_err("it may not");
        assert_eq!(error.code(), Some(ErrorCode::PermissionDenied), "{wire:?}: {error}");
    }
}

#[tokio::test]
async fn a_made_up_lineage_is_refused_on_every_wire() {
    let gateway = Gateway::start(ECHO);
    for wire in &WIRES {
        let client = connect(&gateway.agent("echo"), wire, None).await;
        let metadata = r#"{"urn:chancery:ext:lineage:v1":{"token":"made.up.token"}}"#;
        let mut message = Message::user("hello");
        message.metadata =
            Some(chancery_sdk::protocol::JsonObject::parse(metadata).expect("it is an object"));
        refused(wire, client.send(message).await, ErrorCode::LineageRefused, "lineage", "LINEAGE_INVALID");
        assert_eq!(
            client.send("hello").await.unwrap_or_else(|error| panic!("{wire:?}: {error}")).text(),
            "hello"
        );
    }
}

#[tokio::test]
async fn who_asks_too_often_is_refused_on_every_wire() {
    for wire in &WIRES {
        let gateway = Gateway::start(&format!("[rate]\ncaller = {{ per_second = 1, burst = 1 }}\n{ECHO}"));
        let client = connect(&gateway.agent("echo"), wire, None).await;
        let mut last = client.send("hello").await;
        for _ in 0..20 {
            if last.is_err() {
                break;
            }
            last = client.send("hello").await;
        }
        refused(wire, last, ErrorCode::ResourceExhausted, "rate", "RATE_LIMITED");
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_and_says_why() {
    let config =
        "[policy.default]\nmax_duration_ms = 200\n[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let gateway = Gateway::start(config);
    let client = connect(&gateway.agent("stream"), &WIRES[0], None).await;
    let sent = client.send("stream 1000 1000").await.expect("it is let through");
    let task = sent.task().expect("it has a task");
    assert_eq!(task.status.state.as_str(), "TASK_STATE_FAILED");
    let said = task.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default();
    assert!(said.starts_with("PolicyTimeout"), "{said}");
}

#[tokio::test]
async fn keys_let_in_and_are_taken_back_while_it_runs() {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    let (url, key) = (gateway.agent("echo"), gateway.key.clone().expect("one was made"));
    let wire = &WIRES[0];
    let error =
        connect(&url, wire, None).await.send("hello").await.expect_err("nobody is let in without a key");
    assert_eq!(error.code(), Some(ErrorCode::Unauthenticated));
    let alice = connect(&url, wire, Some(&key)).await;
    let task = alice.send("hello").await.expect("alice has a key").task().expect("a task").id.clone();
    let bobs = gateway.run(&["key", "create", "--caller", "bob"]).trim().to_owned();
    let bob = connect(&url, wire, Some(&bobs)).await;
    let mut sent = bob.send("hello").await;
    while sent.as_ref().is_err_and(|error| error.code() == Some(ErrorCode::Unauthenticated)) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        sent = bob.send("hello").await;
    }
    sent.expect("bob has a key by now");
    let error = bob.get(task.clone()).await.expect_err("it is not his");
    assert_eq!(error.code(), Some(ErrorCode::TaskNotFound));
    let listed = gateway.run(&["key", "list"]);
    assert!(!listed.contains(&key) && listed.contains("default/bob"), "{listed}");
    let id = listed.lines().find(|line| line.contains("/alice")).and_then(|line| line.split(' ').next());
    gateway.run(&["key", "revoke", id.expect("alice is listed")]);
    while alice.get(task.clone()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let error = alice.get(task).await.expect_err("the key was taken back");
    assert_eq!(error.code(), Some(ErrorCode::Unauthenticated));
}

#[tokio::test]
async fn what_was_spent_is_known_after_a_kill_and_to_explain() {
    let price = "price = { per_call = 0.40 }\n";
    let mut gateway = Gateway::start(&format!("[budget.caller]\nmax_usd_per_day = 1.0\n{ECHO}{price}"));
    let client = connect(&gateway.agent("echo"), &WIRES[0], None).await;
    for left in ["600000", "200000"] {
        let sent = client.send("hello").await.expect("there is money");
        let said =
            sent.task().and_then(|task| task.metadata.as_ref()).expect("it says what it cost").as_str();
        assert!(
            said.contains("\"costMicroUsd\":400000")
                && said.contains(&format!("\"remainingMicroUsd\":{left}")),
            "{said}"
        );
    }
    gateway.kill_and_restart();
    let client = connect(&gateway.agent("echo"), &WIRES[0], None).await;
    refused(&WIRES[0], client.send("hello").await, ErrorCode::ResourceExhausted, "budget", "BUDGET_EXCEEDED");
    let told = gateway.run(&["explain", "--caller", "anonymous", "--agent", "echo"]);
    assert!(
        told.contains("budget: refuses: BUDGET_EXCEEDED")
            && told.contains("0.200000 USD of 1.000000 USD left"),
        "{told}"
    );
    let told = gateway.run(&[
        "explain",
        "--caller",
        "anonymous",
        "--agent",
        "echo",
        "--op",
        "GetTask",
        "-o",
        "json",
    ]);
    assert!(told.contains("\"admitted\":true"), "{told}");
}

#[tokio::test]
async fn an_agent_elsewhere_is_governed_like_one_here() {
    let upstream = Gateway::start(ECHO);
    let url = upstream.agent("echo");
    let config = format!(
        "[budget.caller]\nmax_tasks_per_minute = 2\n[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\n"
    );
    let gateway = Gateway::start(&config);
    let client = connect(&gateway.agent("far"), &WIRES[1], None).await;
    for _ in 0..2 {
        assert_eq!(client.send("hello").await.expect("it is let through").text(), "hello");
    }
    refused(&WIRES[1], client.send("hello").await, ErrorCode::ResourceExhausted, "budget", "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn a_pool_goes_on_without_the_member_that_is_gone() {
    let (one, two) = (Gateway::start(ECHO), Gateway::start(ECHO));
    let members = format!(
        "members = [{{ name = \"one\", url = \"{}\" }}, {{ name = \"two\", url = \"{}\" }}]\n",
        one.agent("echo"),
        two.agent("echo")
    );
    let config = format!(
        "[routing]\ndefault_selector = \"round_robin\"\nbreaker_failures = 1\n[[agent]]\nname = \"pool\"\nkind = \"a2a\"\n{members}"
    );
    let gateway = Gateway::start(&config);
    let client = connect(&gateway.agent("pool"), &WIRES[0], None).await;
    for _ in 0..4 {
        assert_eq!(client.send("hello").await.expect("both are there").text(), "hello");
    }
    drop(one);
    let mut failures = 0;
    for _ in 0..10 {
        match client.send("hello").await {
            Ok(sent) => assert_eq!(sent.text(), "hello"),
            Err(error) => {
                assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error}");
                failures += 1;
            }
        }
    }
    assert!(failures <= 2, "{failures} of 10 calls failed although one member is there");
}

#[test]
fn a_bad_configuration_is_told_with_its_places_and_ends_with_64() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chancery.toml");
    std::fs::write(&file, "[recursion]\nmax_cal_depth = 8\n").expect("it is written");
    for command in [&["check"][..], &["serve"], &["effective-config"]] {
        let ran = chancery(folder.path()).args(command).output().expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(64), "{told}");
        assert!(told.contains("chancery.toml:2:1: `recursion.max_cal_depth`: there is no such key; did you mean `max_call_depth`?"), "{told}");
    }
}

#[test]
fn an_address_that_others_reach_needs_keys_or_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("chancery.toml"),
        format!("[server]\nlisten = \"0.0.0.0:0\"\npublic_url = \"http://x.example\"\n{ECHO}"),
    )
    .expect("it is written");
    let ran = chancery(folder.path()).arg("serve").output().expect("it runs");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && told.contains("chancery key create"), "{told}");
}
