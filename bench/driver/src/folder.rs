//! A folder for the data of one server, on the disk that the servers are built on, gone when it is dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;

#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

// === impl Folder ===

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bench-data-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::current_exe()?.with_file_name(name);
        std::fs::create_dir(&path).with_context(|| format!("could not make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_what_is_in_it() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_owned();
        std::fs::write(path.join("tasks.db"), "rows").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
