//! How much a program gets, and who pays for it.

use std::time::Duration;

use chancery_sdk::TaskState;

use crate::setting::{Gateway, Setting};
use crate::{DISK_KIB, MEMORY_MIB, PROCESSES, agent, ask, isolation, said, status, tried};

#[tokio::test]
async fn memory_processes_and_files_end_at_their_limits() {
    for setting in Setting::all() {
        let gateway = Gateway::start(setting, &agent("shut", ""));
        let client = gateway.client("shut").await;
        let found = tried(&client, ["allocate 1024", "forks 200", "one_file 20000", "limit_of core"]).await;
        let got =
            |line: &str| found[line].parse::<u64>().unwrap_or_else(|_| panic!("{setting:?}: {found:?}"));
        assert!(got("allocate 1024") <= MEMORY_MIB, "{setting:?}: {found:?}");
        assert!(got("one_file 20000") <= DISK_KIB, "{setting:?}: {found:?}");
        assert_eq!(got("limit_of core"), 0);
        // Where all of a user's processes count, some may have ended since they were counted.
        let most = if setting == Setting::User || setting == Setting::Root { PROCESSES } else { 150 };
        assert!(got("forks 200") <= most, "{setting:?}: {found:?}");
    }
}

#[tokio::test]
async fn many_files_and_files_without_names_end_at_the_limit_too() {
    for setting in Setting::all() {
        let gateway = Gateway::start(setting, &agent("shut", "max_duration_ms = 600000"));
        let client = gateway.client("shut").await;
        let in_memory = isolation(&client).await["limits"]["disk"] == "tmpfs";
        assert_eq!(in_memory, setting.has_namespaces(), "{setting:?}");
        for line in ["many_files 200000", "nameless_files 60000"] {
            let task = ask(&client, &format!("{line}\n")).await;
            if in_memory {
                let (_, got) = said(&task)
                    .trim()
                    .split_once('=')
                    .map(|(_, got)| ((), got.to_owned()))
                    .expect("it says so");
                assert!(got.parse::<u64>().expect("a number") <= DISK_KIB, "{setting:?}: {line}: {got}");
            } else {
                assert_eq!(task.status.state, TaskState::Failed, "{setting:?}: {line}: {}", said(&task));
                assert!(status(&task).contains("that it may keep"), "{setting:?}: {line}: {}", status(&task));
            }
        }
        if in_memory {
            let found = tried(&client, ["many_names 20000"]).await;
            assert!(found["many_names 20000"].parse::<u64>().expect("a number") <= DISK_KIB / 4, "{found:?}");
        }
    }
}

/// Turns that wrote too much leave nothing behind where the directory is one of the machine.
#[tokio::test]
async fn nothing_is_left_of_what_was_written() {
    let gateway = Gateway::start(Setting::UserWithoutUsers, &agent("shut", ""));
    let client = gateway.client("shut").await;
    let found = tried(&client, ["make_folder deep", "open_write deep/file", "directory_is"]).await;
    let place = std::path::PathBuf::from(&found["directory_is"]);
    assert!(place.is_absolute(), "{found:?}");
    while place.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
