//! What commands do beside a gateway: written to a file in the data directory before it is done, from where the gateway that
//! runs, or the next one, takes it into the audit log. A command cannot write to a store that a gateway has open.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use chancery_store::AuditRecord;
use nix::unistd::{Uid, User};

use crate::identity::files;

const FILE: &str = "audit-pending.jsonl";
const LOCK: &str = "audit-pending.lock";

/// What commands have done that is not in the log yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) records: Vec<AuditRecord>,
    /// How many bytes of the file say that.
    length: usize,
}

/// An act of whoever runs this command.
pub(crate) fn act(action: &str) -> AuditRecord {
    let user = User::from_uid(Uid::current()).ok().flatten();
    let name = user.map_or_else(|| Uid::current().to_string(), |user| user.name);
    let mut record = AuditRecord::new("act", action);
    record.principal = Some(format!("user:{name}"));
    record.source = Some("command".to_owned());
    record
}

/// Does something that is to be on record. What cannot be written down is not done; what fails is written down as that.
pub(crate) fn recorded<T>(
    data: &Path,
    record: &AuditRecord,
    act: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    write(data, record)?;
    act().inspect_err(|_| {
        let failed = AuditRecord { at: chancery_protocol::Timestamp::now(), ..record.clone() };
        let _ = write(data, &failed.detail("outcome", "failed"));
    })
}

/// Leaves something for the log.
pub(crate) fn write(data: &Path, record: &AuditRecord) -> anyhow::Result<()> {
    let write = || {
        files::make_private(data)?;
        let _alone = lock(data)?;
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(data.join(FILE))?;
        file.write_all(&line)?;
        Ok::<_, anyhow::Error>(file.sync_all()?)
    };
    write().context("it cannot be written down for the audit log, so it is not done")
}

fn lock(data: &Path) -> anyhow::Result<File> {
    let lock = File::create(data.join(LOCK)).context("cannot make a lock file")?;
    lock.lock().context("cannot lock what waits for the audit log")?;
    Ok(lock)
}

// === impl Pending ===

impl Pending {
    /// What waits in a data directory.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        if !data.join(FILE).exists() {
            return Ok(Self::default());
        }
        let _alone = lock(data)?;
        let bytes = files::read(&data.join(FILE))?.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        // One that was cut short by the end of its process says at least that there was something.
        let damaged = || AuditRecord::new("act", "audit.damaged").target(FILE);
        let records = lines.map(|line| serde_json::from_slice(line).unwrap_or_else(|_| damaged()));
        Ok(Self { records: records.collect(), length: bytes.len() })
    }

    /// It is in the log now.
    pub(super) fn remove(self, data: &Path) -> anyhow::Result<()> {
        let _alone = lock(data)?;
        let path = data.join(FILE);
        let bytes = files::read(&path)?.unwrap_or_default();
        let left = bytes.get(self.length..).unwrap_or_default();
        if !left.is_empty() {
            return files::write_private(&path, left);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context("cannot remove what was taken")
            }
            _ => Ok(()),
        }
    }
}
