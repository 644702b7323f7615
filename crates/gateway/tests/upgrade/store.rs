//! The store of version 11, rebuilt from its rows.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

const ROWS: &str = include_str!("../fixtures/store-v11/chancery.sql");
const DAYBOOK: &[u8] = include_bytes!("../fixtures/store-v11/chancery.db.daybook");

/// Where the receiver of notifications was.
const RECEIVER: &str = "http://127.0.0.1:7104";

const DAY: i64 = 24 * 60 * 60;

/// Where a line of the daybook has its checksum, what that is of, and the time in it.
const SUM: std::ops::Range<usize> = 4..8;
const SUMMED: usize = 8;
const MILLIS: std::ops::Range<usize> = 32..40;

/// Puts the store into a folder as it was, but for its dates and the place of the receiver: what is older than a day is not
/// kept.
pub(crate) fn rebuild(folder: &Path, receiver: &str) {
    let path = folder.join("chancery.db");
    let store = Connection::open(&path).expect("a database");
    store.execute_batch(ROWS).expect("the rows are good");
    let newest = "SELECT value / 1000 FROM facts WHERE name = 'clock'";
    let newest: i64 = store.query_row(newest, [], |row| row.get(0)).expect("it has a clock");
    let later = now() - newest;
    let days = later.div_euclid(1000).div_euclid(DAY) * DAY;
    for sql in [
        format!("UPDATE tasks SET millis = millis + {later}"),
        format!("UPDATE tasks SET ended = ended + {later} WHERE ended > 0"),
        format!("UPDATE admissions SET used = used + {later}"),
        format!("UPDATE facts SET value = value + {later} * 1000 WHERE name = 'clock'"),
        format!("UPDATE spend SET at = at + {days}"),
        format!(
            "UPDATE pushes SET config = CAST(replace(CAST(config AS TEXT), '{RECEIVER}', '{receiver}') AS BLOB)"
        ),
    ] {
        assert!(store.execute(&sql, []).expect("it can be changed") > 0, "{sql}");
    }
    store.close().expect("it is written");
    std::fs::write(folder.join("chancery.db.daybook"), daybook(later)).expect("it is written");
}

/// The one line of the daybook.
fn daybook(later: i64) -> Vec<u8> {
    let mut line = DAYBOOK.to_vec();
    let millis = i64::from_le_bytes(line[MILLIS].try_into().expect("eight bytes"));
    line[MILLIS].copy_from_slice(&(millis + later).to_le_bytes());
    let sum = crc32fast::hash(&line[SUMMED..]);
    line[SUM].copy_from_slice(&sum.to_le_bytes());
    line
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(now.as_millis()).expect("it is early enough")
}
