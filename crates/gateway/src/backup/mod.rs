//! Everything that is kept, in one file: the tasks as of a moment, the keys and secrets, who is contained, how budgets were adjusted. It
//! is a tar archive with these names, sealed with a passphrase if there is one; whoever has it unsealed is the gateway.
//!
//! | name | holds |
//! |---|---|
//! | `manifest.json` | what it is, of which version, when it was made, and every member with its size and SHA-256 |
//! | `store.db` | the tasks; none if they were kept in memory |
//! | `data/…` | the files of the data directory, but for what is true of one process alone |

mod seal;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use chancery_protocol::Timestamp;
use chancery_store::Store;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use crate::identity::files;

const MANIFEST: &str = "manifest.json";
const STORE: &str = "store.db";
const DATA: &str = "data/";
/// The files of the data directory that outlast a process.
const KEPT: [&str; 7] = [
    "secret",
    "keys.json",
    "key-uses.json",
    "signing-keys.json",
    "contained.json",
    "adjustments.json",
    "adjusted.json",
];
const FORMAT: u32 = 2;
/// What is read of a file of the data directory.
const LARGEST: u64 = 256 << 20;
const SHORTEST_PASSPHRASE: usize = 8;

/// What a backup is.
#[derive(Deserialize, Serialize)]
struct Manifest {
    format: u32,
    version: String,
    made: Timestamp,
    /// All that comes after it, by name.
    #[serde(default)]
    members: BTreeMap<String, Member>,
}

/// By what it is known whether a member is there as a whole.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Member {
    size: u64,
    sha256: String,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The URL of the store.
    pub(crate) url: String,
    pub(crate) data: PathBuf,
}

/// What was put back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restored {
    /// How many tasks; none if they were kept in memory.
    pub(crate) tasks: Option<u64>,
    pub(crate) files: usize,
}

/// Reads a passphrase, which is not to stand on a command line.
pub(crate) fn passphrase(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    ensure!(
        text.len() >= SHORTEST_PASSPHRASE,
        "the passphrase in {} is shorter than {SHORTEST_PASSPHRASE} bytes; anybody could guess it",
        file.display()
    );
    Ok(text.to_owned())
}

impl Place {
    /// Writes everything to a file where there is nothing yet, also while a gateway runs. Says how many files of the data directory
    /// there are.
    pub(crate) fn back_up(&self, to: &Path, passphrase: Option<&str>) -> anyhow::Result<usize> {
        let opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        let file =
            opened.with_context(|| format!("cannot make {}; is there something already?", to.display()))?;
        let written = self.write(to, &file, passphrase);
        if written.is_err() {
            // Half a backup is none.
            let _ = fs::remove_file(to);
        }
        written
    }

    fn write(&self, to: &Path, file: &File, passphrase: Option<&str>) -> anyhow::Result<usize> {
        let beside = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = tempfile::tempdir_in(beside).context("cannot make a temporary directory")?;
        let copy = folder.path().join(STORE);
        if self.url.starts_with("sqlite:") {
            Store::backup_of(&self.url, &copy)?;
        }
        let out = BufWriter::new(file);
        let (mut out, files) = match passphrase {
            None => self.archive(out, &copy)?,
            Some(passphrase) => {
                let (sealed, files) = self.archive(seal::Sealing::begin(out, passphrase)?, &copy)?;
                (sealed.finish()?, files)
            }
        };
        out.flush()?;
        file.sync_all()?;
        Ok(files)
    }

    fn archive<W: Write>(&self, out: W, copy: &Path) -> anyhow::Result<(W, usize)> {
        let mut archive = Builder::new(out);
        let mut members = BTreeMap::new();
        // They may change while this runs: what is described is what is written.
        let mut kept = Vec::new();
        for name in KEPT {
            if let Some(bytes) = files::read(&self.data.join(name))? {
                let name = format!("{DATA}{name}");
                members.insert(name.clone(), Member::copied(&*bytes, io::sink())?);
                kept.push((name, bytes));
            }
        }
        if copy.exists() {
            members.insert(STORE.to_owned(), Member::copied(File::open(copy)?, io::sink())?);
        }
        let has_store = members.contains_key(STORE);
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made: Timestamp::now(),
            members,
        };
        let manifest = serde_json::to_vec(&manifest)?;
        append(&mut archive, MANIFEST, manifest.len() as u64, &*manifest)?;
        if has_store {
            let store = File::open(copy)?;
            append(&mut archive, STORE, store.metadata()?.len(), store)?;
        }
        for (name, bytes) in &kept {
            append(&mut archive, name, bytes.len() as u64, &**bytes)?;
        }
        Ok((archive.into_inner()?, kept.len()))
    }

    /// Puts everything back where nothing is: all of it, or nothing.
    pub(crate) fn restore(&self, from: &Path, passphrase: Option<&str>) -> anyhow::Result<Restored> {
        let store = self.store()?;
        files::make_private(&self.data)?;
        let targets = KEPT.iter().map(|name| self.data.join(name)).chain(store.clone());
        for target in targets {
            if target.symlink_metadata().is_ok() {
                bail!(
                    "there is {} already; restore into a directory that is empty, or move it away",
                    target.display()
                );
            }
        }
        let file = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
        let mut file = BufReader::new(file);
        // Where everything is written first must be on the same file system as what it becomes.
        let folder = tempfile::tempdir_in(&self.data).context("cannot make a temporary directory")?;
        match (seal::is_sealed(&mut file)?, passphrase) {
            (false, None) => unpack(file, folder.path()),
            (false, Some(_)) => bail!(
                "{} is not sealed, so no passphrase shows who made it; restore a sealed backup, or this one without \
                 `--passphrase-file` and CHANCERY_BACKUP_PASSPHRASE_FILE",
                from.display()
            ),
            (true, Some(passphrase)) => unpack(seal::Opening::begin(file, passphrase)?, folder.path()),
            (true, None) => {
                bail!("{} is sealed; give its passphrase with `--passphrase-file`", from.display())
            }
        }
        .with_context(|| format!("{} cannot be restored", from.display()))?;
        let copy = folder.path().join(STORE);
        let tasks = match (&store, copy.exists()) {
            (Some(path), true) => {
                let found = Store::check_of(&format!("sqlite:{}", copy.display()))?;
                ensure!(
                    found.problems.is_empty(),
                    "the store in it is damaged: {}",
                    found.problems.join("; ")
                );
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                parent.map(files::make_parent).transpose()?;
                put(&copy, path)?;
                Some(found.tasks)
            }
            (None, true) => bail!("it has tasks, and `{}` keeps none", self.url),
            (_, false) => None,
        };
        let mut count = 0;
        for name in KEPT {
            let found = folder.path().join(name);
            if found.exists() {
                put(&found, &self.data.join(name))?;
                count += 1;
            }
        }
        Ok(Restored { tasks, files: count })
    }

    /// The file of the store, if it has one.
    fn store(&self) -> anyhow::Result<Option<PathBuf>> {
        match self.url.strip_prefix("sqlite:") {
            Some(rest) => Ok(Some(PathBuf::from(rest.split('?').next().unwrap_or(rest)))),
            None if self.url.starts_with("memory:") => Ok(None),
            None => bail!("`{}` is no store that there is", self.url),
        }
    }
}

fn append<W: Write>(archive: &mut Builder<W>, name: &str, size: u64, bytes: impl Read) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o600);
    header.set_entry_type(EntryType::Regular);
    archive.append_data(&mut header, name, bytes)
}

/// Writes what the manifest lists into a folder, if all of it is there and nothing else.
fn unpack(mut from: impl Read, folder: &Path) -> anyhow::Result<()> {
    let mut archive = Archive::new(&mut from);
    let mut listed: Option<BTreeMap<String, Member>> = None;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().ok().and_then(|path| path.to_str().map(str::to_owned));
        let path = path.context("a name in it is no text")?;
        ensure!(entry.header().entry_type() == EntryType::Regular, "{path:?} in it is no file");
        let Some(missing) = &mut listed else {
            ensure!(path == MANIFEST, "it is no backup of a gateway: it does not begin with `{MANIFEST}`");
            listed = Some(listed_in(entry)?);
            continue;
        };
        let (name, most) = match path.strip_prefix(DATA) {
            _ if path == STORE => (STORE, u64::MAX),
            Some(name) if KEPT.contains(&name) => (name, LARGEST),
            _ => bail!("{path:?} in it is not known to this version"),
        };
        let wanted = missing.remove(&path);
        let wanted =
            wanted.with_context(|| format!("its manifest does not list `{path}`, or it is there twice"))?;
        ensure!(entry.size() <= most, "`{path}` in it is too large");
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name))?;
        let found = Member::copied(&mut entry, &mut file)?;
        ensure!(found == wanted, "`{path}` in it is not what its manifest says: it was cut or changed");
        file.sync_all()?;
    }
    let missing = listed.context("it is no backup of a gateway: it is empty")?;
    let names: Vec<_> = missing.into_keys().collect();
    ensure!(names.is_empty(), "it is not whole: {} is missing", names.join(", "));
    // What comes behind says whether all of it was there.
    io::copy(&mut from, &mut io::sink())?;
    Ok(())
}

/// What a manifest lists.
fn listed_in(entry: impl Read) -> anyhow::Result<BTreeMap<String, Member>> {
    let manifest: Manifest = serde_json::from_reader(entry.take(1 << 16))
        .map_err(|error| anyhow!("its manifest cannot be read: it is wrong at line {}", error.line()))?;
    let format = manifest.format;
    ensure!(format == FORMAT, "it is of format {format}, and this version reads {FORMAT}");
    Ok(manifest.members)
}

/// What is wrong with an archive. The reader of archives would say so with the bytes that it has found, which may be a secret.
fn damaged(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::Other => anyhow!("it is no tar archive, or a header in it is damaged"),
        _ => error.into(),
    }
}

impl Member {
    /// Copies a member and says what it is.
    fn copied(mut from: impl Read, to: impl Write) -> io::Result<Self> {
        let mut hashed = Hashed { to, hash: Sha256::new() };
        let size = io::copy(&mut from, &mut hashed)?;
        let sha256 = hashed.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { size, sha256 })
    }
}

/// Hashes what is written through it.
struct Hashed<W> {
    to: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn put(found: &Path, target: &Path) -> anyhow::Result<()> {
    fs::set_permissions(found, fs::Permissions::from_mode(0o600))?;
    fs::rename(found, target)
        .or_else(|_| fs::copy(found, target).map(drop))
        .with_context(|| format!("cannot write {}", target.display()))
}
