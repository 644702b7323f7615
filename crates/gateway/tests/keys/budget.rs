//! Budgets and what was spent, looked at and changed beside a gateway that runs.

use std::time::Duration;

use chancery_sdk::{Client, ClientError, ErrorCode};
use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;

use super::gateway::Gateway;

const TWO_A_DAY: &str = "[budget.caller]\nmax_tasks_per_day = 2\n\
    [[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = { per_call = 0.01 }\n";

const ANONYMOUS: [&str; 2] = ["--caller", "anonymous"];

async fn send(gateway: &Gateway) -> Result<(), ClientError> {
    let client = Client::builder().retries(0).connect(gateway.agent("echo")).await?;
    client.send("hello").await.map(drop)
}

async fn is_refused(gateway: &Gateway) -> bool {
    match send(gateway).await {
        Ok(()) => false,
        Err(error) if error.code() == Some(ErrorCode::ResourceExhausted) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until a call is let through.
async fn until_let_through(gateway: &Gateway) {
    while is_refused(gateway).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How the limit on calls in a day stands: the limit, what was charged, what is left.
fn standing(gateway: &Gateway) -> (u64, u64, u64) {
    let mut arguments = vec!["budget", "show", "-o", "json"];
    arguments.extend(ANONYMOUS);
    let said: Value = serde_json::from_str(gateway.run(&arguments).trim()).unwrap();
    assert_eq!((&said["metric"], &said["window"]), (&"tasks".into(), &"day".into()));
    let number = |name: &str| said[name].as_u64().unwrap();
    (number("limit"), number("charged"), number("remaining"))
}

#[tokio::test]
async fn a_budget_is_topped_up_while_it_runs_and_stays_so() {
    let mut gateway = Gateway::start(TWO_A_DAY);
    for _ in 0..2 {
        send(&gateway).await.unwrap();
    }
    assert!(is_refused(&gateway).await);
    assert_eq!(standing(&gateway), (2, 2, 0));

    gateway.run(&["budget", "top-up", "--caller", "anonymous", "--per", "day", "--tasks", "3"]);
    until_let_through(&gateway).await;
    assert_eq!(standing(&gateway), (5, 3, 2));

    gateway.kill_and_restart();
    assert_eq!(standing(&gateway), (5, 3, 2));
    for _ in 0..2 {
        send(&gateway).await.unwrap();
    }
    assert!(is_refused(&gateway).await);
}

#[tokio::test]
async fn a_budget_is_reset_while_it_runs_and_stays_so() {
    let mut gateway = Gateway::start(TWO_A_DAY);
    for _ in 0..2 {
        send(&gateway).await.unwrap();
    }
    assert!(is_refused(&gateway).await);

    gateway.run(&["budget", "reset", "--caller", "anonymous"]);
    until_let_through(&gateway).await;
    assert_eq!(standing(&gateway), (2, 1, 1));

    gateway.kill_and_restart();
    assert_eq!(standing(&gateway), (2, 1, 1));
    send(&gateway).await.unwrap();
    assert!(is_refused(&gateway).await);
    gateway.kill_and_restart();
    assert!(is_refused(&gateway).await);
}

#[tokio::test]
async fn what_is_wanted_before_it_starts_is_heeded_when_it_does() {
    let top_up: &[&str] = &["budget", "top-up", "--caller", "anonymous", "--per", "day", "--tasks", "1"];
    let gateway = Gateway::start_after(TWO_A_DAY, &[top_up]);
    for _ in 0..3 {
        send(&gateway).await.unwrap();
    }
    assert!(is_refused(&gateway).await);
}

#[tokio::test]
async fn what_is_not_limited_is_neither_topped_up_nor_reset() {
    let gateway = Gateway::start(TWO_A_DAY);
    let cases: [(&[&str], &str); 5] = [
        (&["top-up", "--global", "--per", "day", "--tasks", "1"], "nothing limits all calls"),
        (&["top-up", "--caller", "a", "--per", "hour", "--tasks", "1"], "no limit on calls per hour"),
        (&["top-up", "--caller", "a", "--per", "day", "--usd", "1"], "no limit on USD per day"),
        (&["top-up", "--caller", "a", "--per", "day"], "how much?"),
        (&["reset"], "whose budget?"),
    ];
    for (arguments, complaint) in cases {
        let said = gateway.fail(&[&["budget"], arguments].concat());
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn what_was_spent_is_exported_while_it_runs() {
    let gateway = Gateway::start(TWO_A_DAY);
    for _ in 0..2 {
        send(&gateway).await.unwrap();
    }
    let exported = gateway.run(&["spend", "export"]);
    let mut rows = csv::Reader::from_reader(exported.as_bytes());
    let heads = rows.headers().unwrap().clone();
    let column =
        |row: &csv::StringRecord, name| row[heads.iter().position(|head| head == name).unwrap()].to_owned();
    let rows: Vec<_> = rows.records().map(|row| row.unwrap()).collect();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((&*column(row, "caller"), &*column(row, "agent")), ("anonymous", "echo"));
        assert_eq!(column(row, "charged_usd"), "0.010000");
        assert_eq!(column(row, "state"), "TASK_STATE_COMPLETED");
    }
    assert_eq!(gateway.run(&["spend", "export", "--agent", "other"]).lines().count(), 1);
    assert_eq!(gateway.run(&["spend", "export", "--since", "2100-01-01T00:00:00Z"]).lines().count(), 1);
    let sums = gateway.run(&["spend", "export", "--sums"]);
    let mut rows = csv::Reader::from_reader(sums.as_bytes());
    let charged = rows.headers().unwrap().iter().position(|head| head == "charged_usd").unwrap();
    let charged = rows.records().map(|row| row.unwrap()[charged].parse::<f64>().unwrap());
    assert!((charged.sum::<f64>() - 0.02).abs() < 1e-9, "{sums}");

    let roots = gateway.run(&["spend", "roots", "-o", "json"]);
    let root: Value = serde_json::from_str(roots.lines().next().unwrap()).unwrap();
    assert_eq!(root["charged"]["microUsd"], 10_000);
    let tree = gateway.run(&["trace", "show", root["root"].as_str().unwrap()]);
    assert!(
        tree.starts_with("1 calls, depth 0, 0.010000 USD\nanonymous -> echo  TASK_STATE_COMPLETED"),
        "{tree}"
    );
    assert!(gateway.fail(&["trace", "show", "nothing"]).contains("no call of `nothing`"));
    assert!(gateway.run(&["trace", "chains"]).starts_with("echo  2 calls  half within"));
}

#[tokio::test]
async fn calls_that_were_answered_without_a_task_are_recorded_before_it_goes() {
    const CALLS: usize = 100;
    let mut gateway = Gateway::start("[[agent]]\nname = \"conformance\"\nkind = \"builtin\"\n");
    let client = Client::connect(gateway.agent("conformance")).await.unwrap();
    let sends = stream::iter((0..CALLS).map(|_| client.send("tck-message-response")));
    let answers: Vec<_> = sends.buffer_unordered(8).collect().await;
    for answer in answers {
        assert_eq!(answer.unwrap().text(), "Direct message response");
    }
    gateway.terminate();
    assert_eq!(gateway.run(&["spend", "export"]).lines().count(), 1 + CALLS);
}
