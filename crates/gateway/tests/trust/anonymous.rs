//! Anonymous access exists where the configuration says so, and nowhere else.

use std::process::Output;

use tempfile::TempDir;

use crate::gateway::{Gateway, chancery, folder};
use crate::http::{get, post};
use crate::{ECHO, V1, message, refused};

/// What `chancery serve` says that is not to start.
fn serve(folder: &TempDir, listen: &str) -> Output {
    let mut command = chancery(folder.path());
    command.args(["serve", "--listen", listen]);
    refused(command)
}

#[test]
fn a_gateway_that_nobody_could_call_does_not_start_and_says_how_it_would() {
    let listens = ["127.0.0.1:0", "unix:c.sock"];
    for listen in listens {
        let config = format!("[server]\npublic_url = \"https://x.example\"\n{ECHO}");
        let ran = serve(&folder(&config), listen);
        let said = String::from_utf8(ran.stderr).expect("it prints text");
        assert_eq!(ran.status.code(), Some(64), "{listen}: {said}");
        assert!(said.contains("`chancery key create --data chancery-data --caller NAME`"), "{said}");
        assert!(said.contains("`anonymous = true` under `[server]`"), "{said}");
    }
}

#[test]
fn a_lost_key_file_opens_nothing() {
    let folder = folder(ECHO);
    let made = chancery(folder.path()).args(["key", "create", "--caller", "alice"]).output();
    assert!(made.expect("it runs").status.success());
    std::fs::remove_file(folder.path().join("chancery-data/keys.json")).expect("it is there");
    let ran = serve(&folder, "127.0.0.1:0");
    let said = String::from_utf8(ran.stderr).expect("it prints text");
    assert_eq!(ran.status.code(), Some(64), "{said}");
    assert!(said.contains("`server.anonymous`"), "{said}");
}

#[tokio::test]
async fn a_first_key_closes_nothing_that_was_opened_by_word() {
    let mut gateway = Gateway::start(ECHO);
    for round in 0..2 {
        let url = format!("{}/message:send", gateway.agent("echo"));
        let key = gateway.run(&["key", "create", "--caller", "alice"]);
        let by_key = post(&url, &[V1, ("x-api-key", key.trim())], &message("hello")).await;
        assert_eq!(by_key.status, 200, "{by_key:?}");
        assert_eq!(post(&url, &[V1], &message("hello")).await.status, 200, "round {round}");
        assert_eq!(post(&url, &[V1, ("x-api-key", "chk_none")], &message("hello")).await.status, 401);
        gateway.kill_and_restart();
    }
}

#[tokio::test]
async fn anonymous_callers_are_one_owner() {
    let gateway = Gateway::start(&format!("[server]\ntrusted_proxies = [\"127.0.0.1\"]\n{ECHO}"));
    let from = |address: &'static str| ("x-forwarded-for", address);
    let sent =
        post(&format!("{}/message:send", gateway.agent("echo")), &[V1, from("192.0.2.1")], &message("hello"))
            .await;
    let id = sent.json()["task"]["id"].as_str().expect("it is a task").to_owned();
    let seen = get(&format!("{}/tasks/{id}", gateway.agent("echo")), &[V1, from("192.0.2.2")]).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    assert_eq!(seen.json()["id"], *id);
}

#[tokio::test]
async fn one_address_cannot_use_up_what_anonymous_callers_share() {
    let config = format!(
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[rate]\nanonymous = {{ per_second = 1, burst = 1 }}\n{ECHO}"
    );
    let gateway = Gateway::start(&config);
    let url = format!("{}/tasks/none", gateway.agent("echo"));
    let ask = async |address: &str| get(&url, &[V1, ("x-forwarded-for", address)]).await;
    let flood: Vec<_> = futures_util::future::join_all((0..20).map(|_| ask("192.0.2.1"))).await;
    let refused: Vec<_> = flood.iter().filter(|answer| answer.status == 429).collect();
    assert!(!refused.is_empty(), "{flood:?}");
    assert!(refused[0].text.contains("anonymous callers at 192.0.2.1"), "{:?}", refused[0]);
    assert_eq!(ask("192.0.2.2").await.status, 404, "another address has its own");
}

#[tokio::test]
async fn callers_with_a_key_are_not_counted_as_anonymous() {
    let config = format!("[rate]\nanonymous = {{ per_second = 1, burst = 1 }}\n{ECHO}");
    let gateway = Gateway::start(&config);
    let key = gateway.run(&["key", "create", "--caller", "alice"]);
    let url = format!("{}/tasks/none", gateway.agent("echo"));
    for _ in 0..10 {
        assert_eq!(get(&url, &[V1, ("x-api-key", key.trim())]).await.status, 404);
    }
}
