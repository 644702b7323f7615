//! What a program leaves behind ends with it, with its task, and with a gateway that is killed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_sdk::protocol::StreamResponse;
use chancery_sdk::{Client, TaskState};
use tempfile::TempDir;

use crate::setting::{Gateway, Setting};
use crate::{agent, ask, said, status};

/// A gateway whose agent can write to a folder, and a file in that.
fn gateway(setting: Setting) -> (Gateway, TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let beat = folder.path().join("beat");
    let more = format!("write = [{:?}]", folder.path());
    (Gateway::start(setting, &agent("shut", &more)), folder, beat)
}

/// Starts somebody who leaves group and session, and then waits, if it is to.
async fn begin(client: &Client, lines: &str, beat: &Path) -> chancery_sdk::protocol::TaskId {
    let mut events = client.stream(lines).await.expect("a stream");
    let first = events.next().await.expect("there is one").expect("an event");
    let StreamResponse::Task(task) = first.payload().expect("it can be read") else { panic!("no task") };
    while !beat.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    task.id.clone()
}

/// Waits until nobody writes a file any more.
async fn still(path: &Path, setting: Setting) {
    let read = || std::fs::read(path).expect("it can be read");
    let (mut last, mut unchanged) = (read(), 0);
    while unchanged < 10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = read();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    assert_ne!(last, b"5999", "{setting:?}: it ended by itself");
}

#[tokio::test]
async fn who_leaves_its_session_ends_with_the_program() {
    for setting in Setting::all() {
        let (gateway, _folder, beat) = gateway(setting);
        let task = ask(&gateway.client("shut").await, &format!("outlive {}\n", beat.display())).await;
        assert_eq!(task.status.state, TaskState::Completed, "{setting:?}: {}", status(&task));
        assert!(said(&task).contains("=left"), "{setting:?}: {}", said(&task));
        still(&beat, setting).await;
    }
}

#[tokio::test]
async fn who_leaves_its_session_ends_with_the_task() {
    for setting in Setting::all() {
        let (gateway, _folder, beat) = gateway(setting);
        let client = gateway.client("shut").await;
        let id = begin(&client, &format!("outlive {}\nwait_here\n", beat.display()), &beat).await;
        let task = client.cancel(id).await.expect("it is canceled");
        assert_eq!(task.status.state, TaskState::Canceled, "{setting:?}");
        still(&beat, setting).await;
    }
}

#[tokio::test]
async fn who_leaves_its_session_ends_with_a_gateway_that_is_killed() {
    for setting in Setting::all() {
        let (mut gateway, _folder, beat) = gateway(setting);
        let client = gateway.client("shut").await;
        begin(&client, &format!("outlive {}\nwait_here\n", beat.display()), &beat).await;
        gateway.kill();
        still(&beat, setting).await;
    }
}
