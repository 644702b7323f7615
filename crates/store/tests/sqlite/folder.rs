//! A folder for one test, and stores in it.

use std::path::{Path, PathBuf};

use chancery_protocol::TaskState;
use chancery_store::{Store, StoreError, StoreLimits};

use crate::support::{Draft, at, create};

/// Gone when the test is.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sqlite-{test}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Copies a database as a process that is killed now would leave it.
    pub(crate) fn copy_as_killed(&self, from: &str, to: &str) {
        for suffix in ["-wal", ""] {
            let from = self.path(&format!("{from}{suffix}"));
            std::fs::copy(from, self.path(&format!("{to}{suffix}"))).unwrap();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn try_open(path: &Path) -> Result<Store, StoreError> {
    Store::open(&format!("sqlite:{}", path.display()), StoreLimits::default())
}

pub(crate) fn open(path: &Path) -> Store {
    open_with(path, StoreLimits::default())
}

/// A process that another test is just starting holds all our locks until it runs its own program: then it is tried
/// again.
pub(crate) fn open_with(path: &Path, limits: StoreLimits) -> Store {
    let url = format!("sqlite:{}", path.display());
    for _ in 0..5_000 {
        match Store::open(&url, limits) {
            Err(error) if error.to_string().contains("another process") => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            outcome => return outcome.unwrap(),
        }
    }
    panic!("{url} is never free");
}

/// A task that begins and ends now.
pub(crate) fn life_now(store: &Store, id: &str) -> Draft {
    let now = millis_now(store);
    create(id, TaskState::Working, now).status(TaskState::Completed, now)
}

/// The time, as the drafts have it.
pub(crate) fn millis_now(store: &Store) -> i64 {
    store.now().as_millis() - at(0).as_millis()
}

/// The text of the refusal to do something now.
pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Unavailable { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

/// Nothing is wrong with what is kept.
pub(crate) async fn is_sound(store: &Store) {
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}
