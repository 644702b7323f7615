//! One process at a time: a lock on a file beside the database, held as long as the store is open.
//!
//! The lock belongs to the process and goes with it, however it ends, so nothing is left to clean up. The file
//! stays: to remove it would let two processes lock two files of the same name.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Takes the lock, or says who to look for.
pub(super) fn take(path: &Path) -> Result<File, StoreError> {
    let beside = beside(path, ".lock");
    let refuse = |why: String, hint| StoreError::Unavailable {
        what: format!("open the store {}", path.display()),
        why,
        hint,
    };
    let file = private(&beside).map_err(|error| {
        let why = format!("the lock file {} cannot be written: {error}", beside.display());
        refuse(why, "name a file in a directory that exists and is writable")
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refuse(
            format!("another process has it open and holds {}", beside.display()),
            "end that process, or name another file",
        )),
        Err(TryLockError::Error(error)) => Err(refuse(
            format!("{} cannot be locked: {error}", beside.display()),
            "name a file on a file system with locks",
        )),
    }
}

/// Opens a file, or makes one that is for its owner alone: tasks are private, and there are secrets among them.
pub(super) fn private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The path with something after its last name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
