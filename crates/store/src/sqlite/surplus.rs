//! Which idempotency keys and records of calls are too many: the oldest of those who have most. Looked for by a reader, so that no
//! commit waits for it.

use chancery_protocol::HopId;
use rusqlite::{Connection, params};

use super::counted::Owner;
use super::load::unreadable;
use super::place;
use super::writer::kept;
use crate::fair;
use crate::limits::Retention;

/// No more than this are looked for at a time; what is left is found the next time.
const MOST: usize = 262_144;

/// Whoever counts the records of calls reads all of them. Where they are many, that is only done once there are so many more than
/// there may be: a part of this size.
const SPARE: usize = 32;

/// The positions of the keys that are too many.
pub(super) fn keys(connection: &Connection, retention: &Retention) -> rusqlite::Result<Vec<i64>> {
    let (all, each) = (retention.max_admissions, retention.max_admissions_per_owner);
    // At most so many: a key that was released leaves a gap.
    let sql = "SELECT coalesce((SELECT max(position) FROM admissions) - (SELECT min(position) FROM admissions) + 1, 0)";
    let there: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    if usize::try_from(there).unwrap_or_default() <= all.min(each) {
        return Ok(Vec::new());
    }
    let sql = "SELECT realm, owner, sum(keys) FROM (SELECT scope, count(*) AS keys FROM admissions GROUP BY scope) \
               JOIN scopes USING (scope) GROUP BY realm, owner";
    let oldest = "SELECT position FROM admissions NOT INDEXED WHERE scope IN \
                  (SELECT scope FROM scopes WHERE realm = ? AND owner = ?) ORDER BY position LIMIT ?";
    let mut found = Vec::new();
    for ((realm, owner), gives) in fair::surplus(sizes(connection, sql)?, all, each) {
        let mut select = connection.prepare_cached(oldest)?;
        let limit = place::rows(gives.min(MOST - found.len()));
        let positions = select.query_map(params![realm, owner, limit], |row| row.get(0))?;
        found.extend(positions.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    Ok(found)
}

/// The records of calls that are too many.
pub(super) fn edges(connection: &Connection, retention: &Retention) -> rusqlite::Result<Vec<HopId>> {
    let (all, each) = (retention.max_edges, retention.max_edges_per_owner);
    let there = usize::try_from(kept(connection)?).unwrap_or_default();
    let most = all.min(each);
    if there <= most + most / SPARE {
        return Ok(Vec::new());
    }
    let sql = "SELECT realm, caller, sum(calls) FROM \
               (SELECT party, count(*) AS calls FROM edges WHERE settled IS NOT NULL GROUP BY party) \
               JOIN parties USING (party) WHERE caller IS NOT NULL GROUP BY realm, caller";
    let oldest = "SELECT hop FROM edges WHERE settled IS NOT NULL AND party IN \
                  (SELECT party FROM parties WHERE realm = ? AND caller = ?) ORDER BY hop LIMIT ?";
    let mut found = Vec::new();
    for ((realm, caller), gives) in fair::surplus(sizes(connection, sql)?, all, each) {
        let mut select = connection.prepare_cached(oldest)?;
        let mut rows = select.query(params![realm, caller, place::rows(gives.min(MOST - found.len()))])?;
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(0)?.as_blob()?.try_into();
            found
                .push(HopId::from_bytes(bytes.map_err(|_| unreadable("the id of a call has not 16 bytes"))?));
        }
    }
    Ok(found)
}

/// How much each owner has, as a statement says.
pub(super) fn sizes(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<(Owner, usize)>> {
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map([], |row| {
        let size: i64 = row.get(2)?;
        Ok(((row.get(0)?, row.get(1)?), usize::try_from(size).unwrap_or_default()))
    })?;
    rows.collect()
}
