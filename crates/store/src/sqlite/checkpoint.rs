//! Checkpoints: what the write-ahead log holds goes into the database, on a thread of its own.
//!
//! While commits keep coming, the log is never wholly copied and so never begins anew by itself. When it has
//! grown too long, the writer is held for a moment, the little that is left is copied, and the log begins anew, in the
//! same place: to write over what is there costs the file system less than to make room again.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

/// How far the writer has come, for the checkpoints.
#[derive(Debug, Default)]
pub(super) struct Pace {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    wrote: bool,
    closed: bool,
}

/// How long commits gather before they are copied.
const INTERVAL: Duration = Duration::from_millis(200);
/// How many pages the log may have before it begins anew: 64 MiB.
const MOST_PAGES: i64 = 16_384;
/// Reads are short, so a moment later there may be none.
const ATTEMPTS: usize = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

impl Pace {
    /// Something has been committed.
    pub(super) fn wrote(&self) {
        let mut state = self.state.lock();
        if !state.wrote {
            state.wrote = true;
            drop(state);
            self.wake.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits until something has been written, and a little longer. Says whether to go on.
    fn next(&self) -> bool {
        let mut state = self.state.lock();
        while !state.wrote && !state.closed {
            self.wake.wait(&mut state);
        }
        if !state.closed {
            self.wake.wait_for(&mut state, INTERVAL);
        }
        state.wrote = false;
        !state.closed
    }
}

/// Works until the pace is closed, then leaves nothing in the log.
pub(super) fn run(connection: &Connection, pace: &Pace, gate: &Mutex<()>) {
    while pace.next() {
        match checkpoint(connection, "PASSIVE") {
            Ok(log) if log.pages > MOST_PAGES => begin_anew(connection, gate),
            Ok(_) => {}
            Err(error) => tracing::warn!(cause = %error, "cannot checkpoint the store yet"),
        }
    }
    let _held = gate.lock();
    if let Err(error) = checkpoint(connection, "TRUNCATE") {
        tracing::warn!(cause = %error, "cannot empty the write-ahead log of the store");
    }
}

/// Has the next commit begin the log anew, unless somebody still reads from it: then the writer does not wait, and it is
/// tried again.
fn begin_anew(connection: &Connection, gate: &Mutex<()>) {
    // Once more, so that there is less left to do while the writer waits.
    let again = checkpoint(connection, "PASSIVE");
    let _held = gate.lock();
    let rest = again.and_then(|_| checkpoint(connection, "PASSIVE"));
    let outcome = rest.and_then(|log| {
        for _ in 0..ATTEMPTS {
            if log.copied < log.pages || !checkpoint(connection, "RESTART")?.is_busy {
                break;
            }
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        tracing::warn!(cause = %error, "cannot begin the write-ahead log of the store anew yet");
    }
}

/// How the log stands after a checkpoint.
struct Log {
    is_busy: bool,
    pages: i64,
    copied: i64,
}

fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Log> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(Log { is_busy: row.get(0)?, pages: row.get(1)?, copied: row.get(2)? })
    })
}
