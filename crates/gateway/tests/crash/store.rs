//! `chancery store`: beside a server that is busy, on a copy, and on a file that has been damaged.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::load;
use crate::server::Home;
use crate::wire::{Binding, Call};

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// Puts a backup where the data of another home is.
fn restore(from: &Home, copy: &str) -> Home {
    let home = Home::new(&[]);
    let restored = home.store(&["restore", from.path(copy).to_str().unwrap()]);
    assert!(restored.status.success(), "{}", said(&restored));
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_a_whole_store() {
    let home = Home::new(&[]);
    let server = home.start();
    let progress = Arc::new(AtomicUsize::new(0));
    let mut callers = load::begin(server.address, 0, 60, &progress);
    while progress.load(Ordering::Relaxed) < 120 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let copy = home.path("copy.db");
    let backup = home.store(&["backup", copy.to_str().unwrap()]);
    assert!(backup.status.success(), "{}", said(&backup));
    let before = progress.load(Ordering::Relaxed);
    let whole = home.check();
    while progress.load(Ordering::Relaxed) == before {
        // The server goes on, with the store looked at from elsewhere.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    callers.abort_all();
    while callers.join_next().await.is_some() {}

    let again = home.store(&["backup", copy.to_str().unwrap()]);
    assert!(!again.status.success(), "a backup is not written over: {}", said(&again));

    let restored = restore(&home, "copy.db");
    let copied = restored.check();
    assert!(copied > 0 && copied <= whole, "{copied} of {whole}");
    let server = restored.start();
    let page = Call::list("stream", &json!({"pageSize": 1})).result(server.address).await.unwrap();
    assert!(page["totalSize"].as_u64().unwrap() > 0);
    let send = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "stream 3 0"}]}});
    let reply = Call::send(Binding::HttpJson, "stream", &send).result(server.address).await.unwrap();
    assert_eq!(reply["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    restored.is_calm();
    home.is_calm();
}

#[tokio::test]
async fn a_second_process_is_refused_and_disturbs_nothing() {
    let home = Home::new(&[]);
    let server = home.start();
    for arguments in [&["delete-owner", "anonymous"][..], &["delete-owner", "nobody"]] {
        let output = home.store(arguments);
        assert!(!output.status.success());
        assert!(said(&output).contains("another process has it open"), "{}", said(&output));
    }
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_chancery"))
        .args(["demo", "--listen", "127.0.0.1:0", "--data"])
        .arg(home.path("data"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(said(&second).contains("another process has it open"), "{}", said(&second));
    let send = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    Call::send(Binding::HttpJson, "echo", &send).result(server.address).await.unwrap();
    assert_eq!(home.check(), 1);
}

#[tokio::test]
async fn an_owner_s_tasks_are_deleted_and_nobody_else_s() {
    let home = Home::new(&[]);
    let server = home.start();
    let send = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    for agent in ["echo", "ask", "stream"] {
        Call::send(Binding::HttpJson, agent, &send).result(server.address).await.unwrap();
    }
    server.kill();
    for (arguments, told) in [
        (&["delete-owner", "nobody"][..], "deleted 0 tasks"),
        (&["delete-owner", "anonymous", "--realm", "elsewhere"], "deleted 0 tasks"),
        (&["delete-owner", "anonymous"], "deleted 3 tasks"),
        (&["delete-owner", "anonymous"], "deleted 0 tasks"),
    ] {
        let output = home.store(arguments);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), told, "{arguments:?}");
    }
    assert_eq!(home.check(), 0);
    let server = home.start();
    for agent in ["echo", "ask", "stream"] {
        let page = Call::list(agent, &json!({})).result(server.address).await.unwrap();
        assert_eq!(page["totalSize"], 0, "{agent}");
    }
}

#[tokio::test]
async fn a_changed_byte_is_found() {
    let home = Home::new(&[]);
    let server = home.start();
    for number in 0..40 {
        let text = format!("a text to be kept, number {number}");
        let send = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}});
        Call::send(Binding::HttpJson, "echo", &send).result(server.address).await.unwrap();
    }
    let copy = home.path("copy.db");
    let backup = home.store(&["backup", copy.to_str().unwrap()]);
    assert!(backup.status.success(), "{}", said(&backup));
    let restored = restore(&home, "copy.db");
    let file = restored.path("data/chancery.db");
    let bytes = std::fs::read(&file).unwrap();
    for number in [10, 25, 39] {
        // It may be there several times, and once of these where nobody looks any more.
        let needle = format!("a text to be kept, number {number}").into_bytes();
        let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&needle)).collect();
        assert!(!places.is_empty(), "{number} is not there");
        let mut damaged = bytes.clone();
        for at in places {
            damaged[at + 2] ^= 1;
        }
        std::fs::write(&file, damaged).unwrap();
        let output = restored.store(&["check"]);
        assert!(!output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("the store is damaged"), "{}", said(&output));
        assert_eq!(said(&output).matches("cannot be read").count(), 1, "one task: {}", said(&output));
    }
}
