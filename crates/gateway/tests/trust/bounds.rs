//! What one source may have of a gateway, and what floods leave to those who look after it.

use std::process::Command;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::gateway::{Gateway, folder};
use crate::http::{get, post};
use crate::{ECHO, V1, message, started};

#[tokio::test]
async fn wrong_credentials_leave_a_trace_and_close_the_door_to_where_they_come_from() {
    let config = format!(
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[server.limits]\nwrong_credentials_per_minute = 5\n{ECHO}"
    );
    let gateway = Gateway::start_with_key(&config, "alice");
    let key = gateway.key.clone().expect("there is a key");
    let url = format!("{}/message:send", gateway.agent("echo"));
    let ask = async |key: &str, from: &str| {
        post(&url, &[V1, ("x-api-key", key), ("x-forwarded-for", from)], &message("hello")).await
    };
    for number in 0..5 {
        assert_eq!(ask(&format!("chk_{number}"), "192.0.2.1").await.status, 401);
    }
    for key in ["chk_more", &key] {
        let refused = ask(key, "192.0.2.1").await;
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(refused.text.contains("5 within a minute"), "{refused:?}");
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    }
    assert_eq!(ask(&key, "192.0.2.2").await.status, 200, "nobody else is kept out");
    let metrics = gateway.run(&["admin", "metrics"]);
    assert!(
        metrics.lines().any(|line| line == r#"chancery_refused_credentials_total{reason="key_unknown"} 5"#),
        "{metrics}"
    );
    assert!(metrics.lines().any(|line| line == "chancery_refused_connections_total 0"), "{metrics}");
    let log = gateway.log();
    assert!(log.contains("5 wrong credentials came from 192.0.2.1 within a minute"), "{log}");
}

/// Starts a gateway that may have so many files open, and says where it and its admin interface are.
fn with_open_files(soft: u32, hard: u32) -> (crate::Running, String, tempfile::TempDir) {
    let folder = folder(&format!("[server]\nanonymous = true\nprobes = true\n{ECHO}"));
    let mut command = Command::new("sh");
    command.current_dir(folder.path()).env_clear();
    let limited = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" serve --listen 127.0.0.1:0");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_chancery")]);
    let (running, url) = started(command);
    (running, url, folder)
}

fn admin_url(folder: &tempfile::TempDir) -> String {
    let file = std::fs::read_to_string(folder.path().join("chancery-data/admin.json")).expect("it is there");
    let file: serde_json::Value = serde_json::from_str(&file).expect("it is JSON");
    file["url"].as_str().expect("it has a URL").to_owned()
}

#[tokio::test]
async fn a_flood_of_connections_leaves_files_to_the_admin_interface_and_its_probes() {
    let (_running, url, folder) = with_open_files(64, 128);
    let place = url.trim_start_matches("http://").to_owned();
    let mut flood = Vec::new();
    for _ in 0..120 {
        // Those that find no place wait in the kernel.
        flood.push(TcpStream::connect(&place).await.expect("the kernel takes it"));
    }
    let ready = format!("{}/readyz", admin_url(&folder));
    for _ in 0..20 {
        let probe = tokio::time::timeout(Duration::from_secs(60), get(&ready, &[])).await;
        assert_eq!(probe.expect("it answers").status, 200);
    }
    // Who comes after the flood is served.
    drop(flood);
    let answer = get(&format!("{url}/livez"), &[]).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_at_the_start() {
    let (running, _, _folder) = with_open_files(64, 256);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.0.id())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("it is there");
    let numbers: Vec<_> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["256", "256"]);
}

#[tokio::test]
async fn a_source_with_too_many_connections_is_told_of_in_the_metrics() {
    let gateway = Gateway::start(&format!("[server.limits]\nconnections_per_source = 2\n{ECHO}"));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(TcpStream::connect(gateway.place()).await.expect("a connection"));
    }
    let mut refused = TcpStream::connect(gateway.place()).await.expect("the kernel takes it");
    let mut nothing = Vec::new();
    let _ = refused.read_to_end(&mut nothing).await;
    assert!(nothing.is_empty());
    let metrics = gateway.run(&["admin", "metrics"]);
    assert!(metrics.lines().any(|line| line == "chancery_refused_connections_total 1"), "{metrics}");
    assert!(gateway.log().contains("which is as many as one source may"), "{}", gateway.log());
}
