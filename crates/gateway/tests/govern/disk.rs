//! What goes wrong with the disk is said: while it is full, and when a log comes back damaged.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::ECHO;
use super::gateway::Gateway;
use super::http::get;
use super::wire::WIRES;

/// A small file system of its own; gone when dropped.
struct Small(tempfile::TempDir);

impl Small {
    /// None if this machine does not let us make one.
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(place.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(place))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.0.path()).status();
    }
}

async fn ready(gateway: &Gateway) -> (u16, Value) {
    let answer = get(&format!("{}/readyz", gateway.url()), &[]).await;
    (answer.status, answer.json())
}

async fn until_ready(gateway: &Gateway, is_ready: bool) -> Value {
    let waiting = async {
        loop {
            let (status, report) = ready(gateway).await;
            if (status == 200) == is_ready {
                return report;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it is noticed")
}

#[tokio::test]
async fn a_full_disk_is_noticed_by_probes_and_so_is_room() {
    let Some(small) = Small::mount() else {
        println!("skipped: a small file system cannot be mounted here, which takes root");
        return;
    };
    let data = small.path().join("data");
    let gateway =
        Gateway::start(&format!("[server]\nprobes = true\n[store]\ndata = \"{}\"\n{ECHO}", data.display()));
    assert_eq!(ready(&gateway).await.0, 200);
    let filler = small.path().join("filler");
    let full = std::fs::write(&filler, vec![1; 16 << 20]).expect_err("there is an end");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    let report = until_ready(&gateway, false).await;
    let said = report["parts"]["disk"].as_str().expect("it says what is wrong");
    assert!(said.contains("No space left") && !said.contains('/'), "{report}");
    std::fs::remove_file(&filler).expect("it is there");
    until_ready(&gateway, true).await;
    let client = WIRES[0].connect(&gateway, "echo").await;
    assert_eq!(client.send("hello").await.expect("it works").text(), "hello");
}

#[tokio::test]
async fn a_damaged_log_is_told_when_the_gateway_starts() {
    let mut gateway = Gateway::start(ECHO);
    let client = WIRES[0].connect(&gateway, "echo").await;
    for _ in 0..5 {
        client.send("hello").await.expect("it is answered");
    }
    let log = |folder: &Path| folder.join("chancery-data/chancery.db-wal");
    gateway.kill_and_restart_after(|folder| {
        assert!(log(folder).metadata().expect("there is a log").len() > 4096);
    });
    assert!(!gateway.log().contains("damaged"), "nothing is wrong with it: {}", gateway.log());
    let client = WIRES[0].connect(&gateway, "echo").await;
    for _ in 0..5 {
        client.send("hello").await.expect("it is answered");
    }
    gateway.kill_and_restart_after(|folder| {
        let mut bytes = std::fs::read(log(folder)).expect("there is a log");
        bytes[32 + 24 + 200] ^= 0x40;
        std::fs::write(log(folder), bytes).expect("it is written");
    });
    let told = gateway.log();
    assert!(told.contains("the write-ahead log is damaged: what was committed last is lost"), "{told}");
}
