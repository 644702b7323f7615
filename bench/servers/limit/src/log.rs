//! The log of `limit+log`: the least that outlives the process. Each entry is one write to the end of a file.
//!
//! With `--log-sync` an entry counts once it is on the disk. A thread sees to that, for all the entries that have
//! come meanwhile at once.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc;

use anyhow::Context as _;
use tokio::sync::oneshot;

pub(crate) struct Log {
    file: File,
    sync: Option<mpsc::Sender<oneshot::Sender<()>>>,
}

// === impl Log ===

impl Log {
    pub(crate) fn open(path: &str, sync: bool) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("could not open {path}"))?;
        let sync = sync.then(|| start_syncing(file.try_clone()?)).transpose()?;
        Ok(Self { file, sync })
    }

    /// Appends one line. What it gives back, if anything, says when the line is on the disk.
    pub(crate) fn append(&self, entry: &[u8]) -> anyhow::Result<Option<oneshot::Receiver<()>>> {
        // One write, so that lines of several connections do not mix.
        let mut line = Vec::with_capacity(entry.len() + 1);
        line.extend_from_slice(entry);
        line.push(b'\n');
        (&self.file).write_all(&line)?;
        let Some(sync) = &self.sync else { return Ok(None) };
        let (done, synced) = oneshot::channel();
        sync.send(done).ok().context("the thread that syncs is gone")?;
        Ok(Some(synced))
    }
}

fn start_syncing(file: File) -> std::io::Result<mpsc::Sender<oneshot::Sender<()>>> {
    let (sync, wanted) = mpsc::channel::<oneshot::Sender<()>>();
    std::thread::Builder::new().name("log-sync".to_owned()).spawn(move || {
        while let Ok(first) = wanted.recv() {
            let group: Vec<_> = std::iter::once(first).chain(wanted.try_iter()).collect();
            // Whoever waits hears of a failure by its sender being dropped.
            if file.sync_data().is_ok() {
                for done in group {
                    let _ = done.send(());
                }
            }
        }
    })?;
    Ok(sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn appends_lines_and_says_when_they_are_on_the_disk() {
        let path = std::env::temp_dir().join(format!("bench-limit-{}.log", std::process::id()));
        let log = Log::open(path.to_str().unwrap(), true).unwrap();
        for entry in ["one", "two"] {
            log.append(entry.as_bytes()).unwrap().unwrap().await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::remove_file(path).unwrap();
    }
}
