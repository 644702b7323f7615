//! API keys in the data directory: their records, written by `chancery key` and followed while a gateway runs, and when each
//! was last used, written by the gateway.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use chancery_control::identity::{KeyRecord, KeyRing, ServerSecret};
use chancery_protocol::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::files;

const SECRET: &str = "secret";
const KEYS: &str = "keys.json";
const USES: &str = "key-uses.json";

/// How often the file is looked at without anybody asking for it.
const LOOK: Duration = Duration::from_millis(250);
/// How often the last uses are written.
const WRITE_USES: Duration = Duration::from_secs(10);

/// The records of API keys, in their file.
pub(crate) struct KeyFile {
    path: PathBuf,
    pub(crate) secret: ServerSecret,
    pub(crate) records: Vec<KeyRecord>,
}

/// When each key was last used, by its id.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct KeyUses(BTreeMap<String, Timestamp>);

/// The keys of a gateway that runs: changed with their file, at once if somebody shows a key that is not known yet.
pub(crate) struct LiveKeys {
    pub(super) ring: Arc<KeyRing>,
    data: PathBuf,
    read: Mutex<Option<Version>>,
    written: Mutex<KeyUses>,
    /// Is told whenever there are others.
    pub(super) changed: watch::Sender<()>,
}

/// Tells one state of a file from another. Each is written under another name and put in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    modified: SystemTime,
    file: u64,
    length: u64,
}

// === impl KeyFile ===

impl KeyFile {
    /// Reads the keys of a data directory; makes its secret if there is none.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        files::make_private(data)?;
        let path = data.join(KEYS);
        let records = read_records(&path)?;
        Ok(Self { secret: secret(&data.join(SECRET))?, path, records })
    }

    /// Writes the records, as a whole or not at all; not at all if a gateway would not take them.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        KeyRing::new(&self.secret).replace(&self.records)?;
        files::write_private(&self.path, serde_json::to_string_pretty(&self.records)?.as_bytes())
    }
}

/// The keys that have been made. Nothing is made for it.
pub(crate) fn key_records(data: &Path) -> anyhow::Result<Vec<KeyRecord>> {
    read_records(&data.join(KEYS))
}

fn read_records(path: &Path) -> anyhow::Result<Vec<KeyRecord>> {
    match files::read(path)? {
        Some(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display())),
        None => Ok(Vec::new()),
    }
}

fn secret(path: &Path) -> anyhow::Result<ServerSecret> {
    let Some(text) = files::read_secret(path)? else {
        let made = ServerSecret::generate()?;
        files::write_private(path, made.to_text().as_bytes())?;
        return Ok(made);
    };
    let text = std::str::from_utf8(&text).unwrap_or_default();
    ServerSecret::from_text(text.trim()).with_context(|| format!("{} is no secret", path.display()))
}

// === impl KeyUses ===

impl KeyUses {
    /// What the gateway of a data directory has written; nothing if none ever ran.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(USES);
        let Some(text) = files::read(&path)? else { return Ok(Self::default()) };
        let uses = serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
        Ok(Self(uses))
    }

    /// When a key was last used, if it ever was.
    pub(crate) fn of(&self, id: &str) -> Option<Timestamp> {
        self.0.get(id).copied()
    }
}

// === impl LiveKeys ===

impl LiveKeys {
    /// The keys of a data directory, and the secret that goes with them.
    pub(super) fn open(data: &Path) -> anyhow::Result<(Arc<Self>, ServerSecret)> {
        let read = Version::of(&data.join(KEYS));
        let file = KeyFile::open(data)?;
        let ring = Arc::new(KeyRing::new(&file.secret));
        ring.replace(&file.records)?;
        let written = KeyUses::read(data).unwrap_or_else(|error| {
            tracing::warn!("when keys were last used is not known: {error:#}");
            KeyUses::default()
        });
        let keys = Self {
            ring,
            data: data.to_owned(),
            read: Mutex::new(read),
            written: Mutex::new(written),
            changed: watch::Sender::new(()),
        };
        Ok((Arc::new(keys), file.secret))
    }

    /// Reads the records again if their file has changed. What cannot be read leaves things as they are.
    pub(super) fn refresh(&self) {
        let path = self.data.join(KEYS);
        let mut read = self.read.lock();
        let found = Version::of(&path);
        if *read == found {
            return;
        }
        *read = found;
        match read_records(&path).and_then(|records| Ok(self.ring.replace(&records)?)) {
            Ok(()) => {
                tracing::info!(file = %path.display(), "the API keys have changed");
                self.changed.send_replace(());
            }
            Err(error) => {
                tracing::error!(file = %path.display(), "the API keys from before stay in force: {error:#}");
            }
        }
    }

    /// Follows the file, and writes down which keys are used, until the process ends.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut until_uses = WRITE_USES;
        loop {
            tokio::time::sleep(LOOK).await;
            self.refresh();
            until_uses = until_uses.saturating_sub(LOOK);
            if until_uses.is_zero() {
                until_uses = WRITE_USES;
                self.write_uses();
            }
        }
    }

    /// Writes down when each key was last used, if any was since the last time.
    pub(crate) fn write_uses(&self) {
        let mut written = self.written.lock();
        let mut uses = written.clone();
        for (id, used) in self.ring.last_used() {
            uses.0.insert(id.into(), Timestamp::from_millis(i64::try_from(used.0).unwrap_or(i64::MAX)));
        }
        if uses == *written {
            return;
        }
        let text = serde_json::to_string_pretty(&uses.0).unwrap_or_default();
        match files::write_private(&self.data.join(USES), text.as_bytes()) {
            Ok(()) => *written = uses,
            Err(error) => tracing::warn!("when keys were last used is not written down: {error:#}"),
        }
    }
}

impl Version {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { modified: found.modified().ok()?, file: found.ino(), length: found.len() })
    }
}
