//! A disk that is full, broken or read-only: new work is refused and says why, reads go on, nothing that was
//! shown is lost, and it all goes on by itself once the disk does.

use std::path::{Path, PathBuf};
use std::process::Command;

use chancery_protocol::TaskState;
use chancery_store::{Store, StoreError};

use crate::folder::*;
use crate::support::*;

/// A small file system in memory, unless this machine does not let us have one.
pub(crate) struct Disk(PathBuf);

impl Disk {
    #[allow(clippy::print_stderr, reason = "whoever runs it is told what was not tested")]
    pub(crate) fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            other => {
                eprintln!("skipped: no file system can be mounted here: {other:?}");
                None
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

/// Writes until there is no more room. Gives the last event's number and the refusal.
async fn fill(store: &Store) -> (u64, StoreError) {
    let text = "x".repeat(16 << 10);
    let mut number = 1;
    for _ in 0..10_000 {
        match draft("t").chunk("a", &text).commit(store, &scope()).await {
            Ok(appended) => number = appended.number,
            Err(error) => return (number, error),
        }
    }
    panic!("there is always more room");
}

/// What a store that cannot write still does, and that it does no more than it says.
async fn reads_go_on(store: &Store, number: u64) {
    for _ in 0..3 {
        let error = draft("t").chunk("a", &"x".repeat(64 << 10)).refused(store).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        let error =
            create("new", TaskState::Working, 0).chunk("a", &"x".repeat(64 << 10)).refused(store).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    assert!(is_gone(store, "new").await);
    let found = snapshot(store, "t").await;
    assert_eq!(found.number, number);
    assert_eq!(value(&found.task).artifacts[0].parts.len() as u64, number - 1);
    assert_eq!(read(store, "t", number - 1, 10).await.len(), 1);
    assert_eq!(read(store, "t", 0, usize::MAX).await.len() as u64, number);
    assert_eq!(store.list(&scope(), &query(10)).await.unwrap().total, 1);
}

#[tokio::test]
async fn a_full_disk_refuses_work_until_there_is_room() {
    let folder = Folder::new("full");
    let Some(disk) = Disk::mount(&folder.path("disk"), "16m") else { return };
    std::fs::write(disk.path("ballast"), vec![0; 11 << 20]).unwrap();
    let store = open(&disk.path("a.db"));
    create("t", TaskState::Working, 0).done(&store).await;
    let (number, error) = fill(&store).await;
    assert!(error.to_string().contains("free some space"), "{error}");
    reads_go_on(&store, number).await;

    std::fs::remove_file(disk.path("ballast")).unwrap();
    let appended = draft("t").chunk("a", "there is room again").done(&store).await;
    assert_eq!(appended.number, number + 1);
    draft("t").status(TaskState::Completed, 1).done(&store).await;
    is_sound(&store).await;
    let before = picture(&store, "t").await;
    drop(store);
    assert_eq!(picture(&open(&disk.path("a.db")), "t").await, before);
}

#[tokio::test]
async fn a_read_only_disk_is_refused_at_once() {
    let folder = Folder::new("read-only");
    let Some(disk) = Disk::mount(&folder.path("disk"), "8m") else { return };
    let path = disk.path("a.db");
    let store = open(&path);
    create("t", TaskState::Working, 0).done(&store).await;
    drop(store);
    let remount = |how: &str| {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&disk.0).status();
        assert!(done.unwrap().success(), "{how}");
    };
    remount("ro");
    let text = refusal(try_open(&path));
    assert!(text.contains("writable"), "{text}");
    remount("rw");
    assert_eq!(snapshot(&open(&path), "t").await.number, 1);
}

/// Set in the process that the next test runs itself in.
const CHILD: &str = "CHANCERY_TEST_FILE_SIZE";

/// Files may not grow beyond a limit, which is an error of the write itself. The limit is that of a process, so
/// the test runs in one of its own; the limit is lifted there from outside.
#[tokio::test]
async fn an_input_output_error_refuses_work_until_it_is_gone() {
    if std::env::var_os(CHILD).is_none() {
        let name = "failures::an_input_output_error_refuses_work_until_it_is_gone";
        let run = "trap '' XFSZ; ulimit -S -f 4096; exec \"$0\" --exact \"$1\" --nocapture";
        let mut shell = Command::new("sh");
        let executable = std::env::current_exe().unwrap();
        let output = shell.args(["-c", run]).arg(executable).arg(name).env(CHILD, "1").output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.contains("1 passed"), "{told}\n{complained}");
        return;
    }
    let folder = Folder::new("file-size");
    let path = folder.path("a.db");
    let store = open(&path);
    create("t", TaskState::Working, 0).done(&store).await;
    let (number, error) = fill(&store).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(number > 10, "{number} events are too few to tell");
    reads_go_on(&store, number).await;

    let id = std::process::id().to_string();
    let lifted = Command::new("prlimit").args(["--fsize=unlimited:", "--pid", &id]).status();
    assert!(lifted.unwrap().success());
    let appended = draft("t").chunk("a", "it works again").done(&store).await;
    assert_eq!(appended.number, number + 1);
    is_sound(&store).await;
    let before = picture(&store, "t").await;
    drop(store);
    assert_eq!(picture(&open(&path), "t").await, before);
}
