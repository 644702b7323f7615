//! `chancery serve` as a process: every gate refuses, on every wire, everything that it is for; keys come and go while it
//! runs; what was spent is known after it was killed.

mod admin;
mod check;
mod disk;
mod envelope;
mod explain;
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
#[path = "../fleet/http.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod http;
mod observe;
mod pool;
mod queue;
mod refusals;
mod wire;

use std::time::Duration;

use chancery_sdk::protocol::SendMessageResponse;
use chancery_sdk::{ClientError, ErrorCode};
use gateway::{Gateway, chancery};
use wire::WIRES;

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

/// Whether a gate has refused, in words that name it.
fn refused(outcome: Result<SendMessageResponse, ClientError>, code: ErrorCode, gate: &str, reason: &str) {
    let error = outcome.expect_err("it was let through");
    let text = error.to_string();
    assert_eq!(error.code(), Some(code), "{text}");
    assert!(text.contains(&format!("`{gate}`")) && text.contains(reason), "{text}");
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_and_says_why() {
    let config =
        "[policy.default]\nmax_duration_ms = 200\n[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let gateway = Gateway::start(config);
    let client = WIRES[0].connect(&gateway, "stream").await;
    let sent = client.send("stream 1000 1000").await.expect("it is let through");
    let task = sent.task().expect("it has a task");
    assert_eq!(task.status.state.as_str(), "TASK_STATE_FAILED");
    let said = task.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default();
    assert!(said.starts_with("PolicyTimeout"), "{said}");
}

#[tokio::test]
async fn keys_let_in_and_are_taken_back_while_it_runs() {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    let key = gateway.key.clone().expect("one was made");
    let wire = &WIRES[0];
    let nobody = wire.connect(&gateway, "echo").await;
    let error = nobody.send("hello").await.expect_err("nobody is let in without a key");
    assert_eq!(error.code(), Some(ErrorCode::Unauthenticated));
    let alice = wire.connect_with(&gateway, "echo", Some(&key)).await;
    let task = alice.send("hello").await.expect("alice has a key").task().expect("a task").id.clone();
    let bobs = gateway.run(&["key", "create", "--caller", "bob"]).trim().to_owned();
    let bob = wire.connect_with(&gateway, "echo", Some(&bobs)).await;
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
async fn an_agent_that_calls_by_its_own_key_says_for_whom_or_has_an_allowance() {
    let allowance = "[budget.unattributed]\nmax_tasks_per_day = 1\n";
    for is_allowed in [false, true] {
        let caller = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
        let config = format!("{}{ECHO}{caller}", if is_allowed { allowance } else { "" });
        let gateway = Gateway::start_with_agent_key(&config, "stream");
        let client = WIRES[0].connect_with(&gateway, "echo", gateway.key.as_deref()).await;
        let (is_let, told) = gateway.explain(&["--caller", "stream", "--as-agent", "--agent", "echo"]);
        assert_eq!(is_let, is_allowed, "{told}");
        if is_allowed {
            assert!(told.contains("identity: passes") && told.contains("Unattributed"), "{told}");
            client.send("hello").await.expect("there is room for one");
            refused(client.send("hello").await, ErrorCode::ResourceExhausted, "budget", "BUDGET_EXCEEDED");
        } else {
            assert!(told.contains("identity: refuses: LINEAGE_REQUIRED"), "{told}");
            assert!(told.contains("hint: pass on the header `Chancery-Lineage`"), "{told}");
            refused(client.send("hello").await, ErrorCode::LineageRefused, "lineage", "LINEAGE_REQUIRED");
        }
    }
}

#[tokio::test]
async fn what_was_spent_is_known_after_a_kill_and_to_explain() {
    let price = "price = { per_call = 0.40 }\n";
    let mut gateway = Gateway::start(&format!("[budget.caller]\nmax_usd_per_day = 1.0\n{ECHO}{price}"));
    let client = WIRES[0].connect(&gateway, "echo").await;
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
    let client = WIRES[0].connect(&gateway, "echo").await;
    refused(client.send("hello").await, ErrorCode::ResourceExhausted, "budget", "BUDGET_EXCEEDED");
    let (_, told) = gateway.explain(&["--caller", "anonymous", "--agent", "echo"]);
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
    let client = WIRES[1].connect(&gateway, "far").await;
    for _ in 0..2 {
        assert_eq!(client.send("hello").await.expect("it is let through").text(), "hello");
    }
    refused(client.send("hello").await, ErrorCode::ResourceExhausted, "budget", "BUDGET_EXCEEDED");
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
    let client = WIRES[0].connect(&gateway, "pool").await;
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
