//! An agent that wants a credential gets the one that the operator gave for it, as it stands now, and its refusal is said as such.

use crate::agents::{Hostile, SPOKEN};
use crate::caller::Caller;
use crate::gateway::{Gateway, folder};
use crate::{http, judge};

/// gRPC is locked by no flag.
fn over_http() -> impl Iterator<Item = crate::agents::Spoken> {
    SPOKEN.into_iter().filter(|spoken| spoken.binding != "grpc")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_from_a_file_is_sent_as_it_stands_now() {
    let hostile = Hostile::start().await;
    let credential = "health = { interval_ms = 100 }\n\
        credential = { scheme = \"bearer\", secret_file = \"token\" }";
    let folder = folder(&hostile.sections("far", "locked", credential));
    std::fs::write(folder.path().join("token"), "one\n").unwrap();
    let for_all = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(folder.path().join("token"), for_all).unwrap();
    let gateway = Gateway::in_folder(folder, None);
    let mut wrong = Vec::new();
    // Others can read the file: it is used, and said.
    assert!(gateway.log().contains("others than its owner can read token"), "{}", gateway.log());
    hostile.lock("one").await;
    for spoken in over_http() {
        let sent = Caller::new(&gateway, spoken.name("far")).send("echo first").await;
        if sent.state() != "TASK_STATE_COMPLETED" {
            wrong.push(format!("{}: {sent:?}", spoken.name("far")));
        }
    }
    hostile.lock("two").await;
    for spoken in over_http() {
        let sent = Caller::new(&gateway, spoken.name("far")).send("echo second").await;
        if sent.status == 401 || !sent.says("refuses this server's credential") {
            wrong.push(format!("{} with an old token: {sent:?}", spoken.name("far")));
        }
    }
    let catalogue = || async { http::get(&format!("{}/agents/", gateway.url()), &[]).await.text };
    let is_said = |text: &str| over_http().count() == text.matches("HTTP 401").count();
    while !is_said(&catalogue().await) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for spoken in over_http() {
        let refused = format!("agent {} refuses this server's credential (HTTP 401)", spoken.name("far"));
        assert_eq!(gateway.log().matches(&refused).count(), 1, "{}", gateway.log());
    }
    gateway.write("token", "two\n");
    while catalogue().await.contains("HTTP 401") {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for spoken in over_http() {
        let sent = Caller::new(&gateway, spoken.name("far")).send("echo third").await;
        if sent.state() != "TASK_STATE_COMPLETED" {
            wrong.push(format!("{} with a new token: {sent:?}", spoken.name("far")));
        }
    }
    assert_eq!(hostile.of(SPOKEN[0]).count("second"), 0, "what is locked does not work");
    judge(&wrong);
}
