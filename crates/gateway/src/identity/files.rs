//! Files that only their owner may read, written as a whole or not at all, and looked at while a gateway runs.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use nix::fcntl::OFlag;

/// How often it is looked whether a file has changed.
const LOOK: Duration = Duration::from_secs(1);
/// How long a file of the data directory may be.
const LARGEST: u64 = 64 << 20;

/// Makes the directory of everything that is kept, which only its owner may enter. One that is there is made so.
pub(crate) fn make_private(directory: &Path) -> anyhow::Result<()> {
    let make = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mode = fs::metadata(directory)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(directory = %directory.display(), mode = format!("{mode:o}"), "others could enter the data directory; now only its owner can");
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
        }
        Ok::<(), std::io::Error>(())
    };
    make().with_context(|| {
        format!("cannot make the data directory {} one that only its owner may enter", directory.display())
    })
}

/// Makes a directory that may hold what is not the gateway's, too; private if it is not there.
pub(crate) fn make_parent(directory: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot make the directory {}", directory.display()))
}

/// Reads a file of the data directory; none if it is not there. What only leads to one is not followed: whoever could put it there
/// would choose what is believed.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    Ok(read_with_mode(path)?.map(|(bytes, _)| bytes))
}

/// Reads a file that holds a secret, unless others could have read it too; none if it is not there.
pub(crate) fn read_secret(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let Some((bytes, mode)) = read_with_mode(path)? else { return Ok(None) };
    if mode & 0o077 != 0 {
        let path = path.display();
        bail!("{path} can be read by others (mode {mode:o}); run `chmod 600 {path}`");
    }
    Ok(Some(bytes))
}

fn read_with_mode(path: &Path) -> anyhow::Result<Option<(Vec<u8>, u32)>> {
    let read = || {
        let file = open_regular(path, OFlag::O_NOFOLLOW)?;
        let mode = file.metadata()?.permissions().mode() & 0o777;
        Ok::<_, io::Error>((bounded(file, LARGEST)?, mode))
    };
    match read() {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if is_link(&error) => {
            bail!("{} is a symbolic link; put the file itself there", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The mode of a file that others than its owner can read; none if they cannot, or if it is not there.
pub(crate) fn mode_for_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o044 != 0).then_some(mode)
}

/// Reads a file that somebody else may have put there, of at most so many bytes. What only leads to one is not followed.
pub(crate) fn read_foreign(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let opened = open_regular(path, OFlag::O_NOFOLLOW);
    let file = opened.map_err(|error| match is_link(&error) {
        true => io::Error::other("it is a symbolic link; put the file itself there"),
        false => error,
    })?;
    bounded(file, most)
}

/// Reads a file of at most so many bytes that is named by its path, which may lead elsewhere.
pub(crate) fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded(open_regular(path, OFlag::empty())?, most)
}

/// The same, as text.
pub(crate) fn read_named_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_named(path, most)?).map_err(|_| io::Error::other("it is no text in UTF-8"))
}

/// Opens a file, and nothing else: a pipe would be waited for, and a device has no end.
fn open_regular(path: &Path, more: OFlag) -> io::Result<fs::File> {
    let flags = (OFlag::O_NONBLOCK | more).bits();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// All of a file, however it grows meanwhile, unless that is too much.
fn bounded(file: fs::File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32)
}

/// Writes a file that only its owner can read, as a whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    let write = || {
        // One that was left, or put there by somebody else, is not written to.
        if let Err(error) = fs::remove_file(&draft)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
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
