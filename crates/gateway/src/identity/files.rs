//! Files that only their owner may read, written as a whole or not at all, and looked at while a gateway runs.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};

/// How often it is looked whether a file has changed.
const LOOK: Duration = Duration::from_secs(1);

/// Reads a file; none if it is not there.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Reads a file that holds a secret, unless others could have read it too; none if it is not there.
pub(super) fn read_secret(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.display();
        bail!("{path} can be read by others (mode {mode:o}); run `chmod 600 {path}`");
    }
    Ok(Some(bytes))
}

/// Writes a file that only its owner can read, as a whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Has a file read again whenever it has changed. What cannot be read leaves things as they are.
pub(crate) async fn watch(path: PathBuf, mut take: impl FnMut() -> anyhow::Result<()>) {
    let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let mut seen: Option<SystemTime> = changed(&path);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = changed(&path);
        if now == seen {
            continue;
        }
        seen = now;
        match take() {
            Ok(()) => tracing::info!(file = %path.display(), "what has changed counts from now on"),
            Err(error) => {
                tracing::error!(file = %path.display(), error = format!("{error:#}"), "what was before counts on");
            }
        }
    }
}
