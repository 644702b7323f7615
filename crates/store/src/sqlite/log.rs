//! The write-ahead log as an earlier process left it. SQLite takes what it can read of it and says nothing about the rest; whoever
//! starts a server wants to know.
//!
//! A log is a head and frames of a page each. The check sums run on from frame to frame, and each frame bears the two numbers of its
//! head: what comes from before the log was begun anew bears others.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

const HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;
/// What a log begins with; the last bit says in which order the check sums take bytes.
const MAGIC: u32 = 0x377f_0682;
const PAGES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// What cannot be read of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// Its head: none of it is read.
    Head,
    /// A frame: neither it nor any that comes after it is read.
    Frame {
        /// How many come before it.
        whole: u64,
        /// How many there are with it, of this log.
        lost: u64,
    },
}

/// Says so if there is a log for a database that cannot be read to its end.
pub(super) fn warn_of_damage(database: &Path) {
    let mut path = OsString::from(database);
    path.push("-wal");
    let path = Path::new(&path);
    match File::open(path).and_then(|file| damage(BufReader::with_capacity(1 << 16, file))) {
        Ok(None) => {}
        Ok(Some(damage)) => {
            tracing::error!(log = %path.display(), ?damage, "the write-ahead log is damaged: what was committed last is lost; `chancery store check` reads what is left, a backup has the rest");
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::error!(log = %path.display(), %error, "the write-ahead log cannot be read"),
    }
}

fn damage(mut log: impl Read) -> io::Result<Option<Damage>> {
    let mut head = [0; HEAD_BYTES];
    match filled(&mut log, &mut head)? {
        0 => return Ok(None),
        HEAD_BYTES => {}
        // It was being begun.
        _ => return Ok(None),
    }
    let magic = word(&head, 0);
    let is_big = magic & 1 == 1;
    let page = word(&head, 8) as usize;
    let mut sum = checked((0, 0), &head[..24], is_big);
    if magic & !1 != MAGIC || !PAGES.contains(&page) || sum != (word(&head, 24), word(&head, 28)) {
        return Ok(Some(Damage::Head));
    }
    let salts = (word(&head, 16), word(&head, 20));
    let mut frame = vec![0; FRAME_HEAD_BYTES + page];
    let (mut whole, mut lost) = (0, 0);
    // One that is not all there was being written.
    while filled(&mut log, &mut frame)? == frame.len() {
        if (word(&frame, 8), word(&frame, 12)) != salts {
            if lost == 0 {
                break;
            }
            continue;
        }
        let next = checked(checked(sum, &frame[..8], is_big), &frame[FRAME_HEAD_BYTES..], is_big);
        if lost == 0 && next == (word(&frame, 16), word(&frame, 20)) {
            (sum, whole) = (next, whole + 1);
        } else {
            lost += 1;
        }
    }
    Ok((lost > 0).then_some(Damage::Frame { whole, lost }))
}

/// Reads until a buffer is full or there is no more.
fn filled(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match from.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn checked((mut one, mut two): (u32, u32), bytes: &[u8], is_big: bool) -> (u32, u32) {
    let number = |bytes: &[u8]| match is_big {
        true => word(bytes, 0),
        false => word(bytes, 0).swap_bytes(),
    };
    for pair in bytes.chunks_exact(8) {
        one = one.wrapping_add(number(&pair[..4])).wrapping_add(two);
        two = two.wrapping_add(number(&pair[4..])).wrapping_add(one);
    }
    (one, two)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of a database to which something was written, while it is open.
    fn log() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let database = rusqlite::Connection::open(&path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
        database
            .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);")
            .unwrap();
        std::fs::read(folder.path().join("x.db-wal")).unwrap()
    }

    #[test]
    fn a_log_that_was_cut_while_it_was_written_is_no_damage() {
        let log = log();
        assert!(log.len() > 2 * 4096);
        for length in [0, 10, HEAD_BYTES, log.len() - 4096, log.len() - 1, log.len()] {
            assert_eq!(damage(&log[..length]).unwrap(), None, "{length}");
        }
        // What is left of an earlier log is none, either.
        let mut older = log;
        let at = older.len() - 4096 - FRAME_HEAD_BYTES;
        older[at + 8..at + 16].fill(7);
        assert_eq!(damage(&*older).unwrap(), None);
    }

    #[test]
    fn a_byte_that_is_another_is_told_with_what_it_costs() {
        let log = log();
        let frames = ((log.len() - HEAD_BYTES) / (4096 + FRAME_HEAD_BYTES)) as u64;
        let with = |at: usize| {
            let mut log = log.clone();
            log[at] ^= 1;
            damage(&*log).unwrap()
        };
        assert_eq!(with(3), Some(Damage::Head));
        assert_eq!(with(17), Some(Damage::Head));
        assert_eq!(with(HEAD_BYTES + 100), Some(Damage::Frame { whole: 0, lost: frames }));
        assert_eq!(with(log.len() - 1), Some(Damage::Frame { whole: frames - 1, lost: 1 }));
    }
}
