//! What was charged, added up: reading it, and what keeps the record of calls in bounds.

use std::sync::Arc;

use chancery_protocol::{HopId, Timestamp};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::calls::read_groups;
use super::load::unreadable;
use super::surplus;
use super::writer::{EDGE_STEP, EdgeStep, SUM_COLUMNS, Upkeep, read_sum};
use crate::edge::Realms;
use crate::error::StoreError;
use crate::spend::{SPANS, Spend, SpendPage, SpendPlace};

/// How many edges to remove are looked for at a time.
const SOUGHT: usize = 4_096;

impl SqliteStore {
    pub(crate) async fn spend(
        &self,
        realms: &Realms,
        since: Timestamp,
        after: Option<SpendPlace>,
        limit: usize,
    ) -> Result<SpendPage, StoreError> {
        let realms = realms.clone();
        let read = move |connection: &Connection| page(connection, &realms, since, after, limit);
        self.readers.read("read what was spent", read).await
    }

    pub(super) async fn sweep_edges(&self, now: Timestamp) -> Result<(), StoreError> {
        while self.upkeep(Upkeep::Edges(EdgeStep::FoldSums(now))).await? > 0 {}
        while self.upkeep(Upkeep::Edges(EdgeStep::Forget(now))).await? > 0 {}
        let retention = self.limits.retention;
        let edges = move |reader: &Connection| surplus::edges(reader, &retention);
        for some in self.readers.read("look for too many calls", edges).await?.chunks(EDGE_STEP) {
            self.upkeep(Upkeep::Edges(EdgeStep::ForgetThese(some.to_vec()))).await?;
        }
        Ok(())
    }

    /// Removes all edges of a caller. They are gone from sight at once, since the caller's name is what goes first;
    /// if this is cut short, the next time removes what is left.
    pub(super) async fn delete_edges(&self, realm: &str, caller: &str) -> Result<(), StoreError> {
        let (realm, caller) = (realm.to_owned(), caller.to_owned());
        self.upkeep(Upkeep::Edges(EdgeStep::Unname { realm, caller })).await?;
        let mut after = HopId::from_bytes([0; 16]);
        loop {
            let read = move |connection: &Connection| nameless(connection, after);
            let hops = self.readers.read("look for somebody's calls", read).await?;
            let Some(last) = hops.last() else { return Ok(()) };
            after = *last;
            for some in hops.chunks(EDGE_STEP) {
                self.upkeep(Upkeep::Edges(EdgeStep::Remove(some.to_vec()))).await?;
            }
        }
    }
}

/// The first few edges after one whose callers have no name any more.
fn nameless(connection: &Connection, after: HopId) -> rusqlite::Result<Vec<HopId>> {
    let sql = "SELECT hop FROM edges WHERE hop > ?1 AND (SELECT count(*) FROM parties WHERE caller IS NULL) > 0 \
               AND party IN (SELECT party FROM parties WHERE caller IS NULL) ORDER BY hop LIMIT ?2";
    let mut select = connection.prepare_cached(sql)?;
    let hops =
        select.query_map(params![after.as_bytes(), SOUGHT], |row| row.get(0).map(HopId::from_bytes))?;
    hops.collect()
}

fn page(
    connection: &Connection,
    realms: &Realms,
    since: Timestamp,
    after: Option<SpendPlace>,
    limit: usize,
) -> rusqlite::Result<SpendPage> {
    let mut result = SpendPage::default();
    let mut last = after;
    for span in SPANS {
        let first = SpendPlace::last_by(span, since);
        if after.is_some_and(|after| after.span > span) {
            continue;
        }
        let first = after.map_or(first, |after| after.max(first));
        let sql = format!(
            "SELECT {SUM_COLUMNS}, realm, caller, agent, member_of FROM spend LEFT JOIN parties USING (party) \
             WHERE span = ?1 AND (at, party) > (?2, ?3) AND (?4 IS NULL OR realm = ?4) \
             ORDER BY at, party LIMIT ?5"
        );
        let realm = match realms {
            Realms::One(realm) => Some(&**realm),
            Realms::All => None,
        };
        let wanted = limit - result.sums.len() + 1;
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query(params![span, first.at, first.party, realm, wanted])?;
        while let Some(row) = rows.next()? {
            if result.sums.len() >= limit {
                result.next = last;
                return Ok(result);
            }
            let (place, sum) = read_sum(row)?;
            let realm: Option<Arc<str>> = row.get(9)?;
            let realm = realm.ok_or_else(|| unreadable("the party of a sum is not there"))?;
            let groups = read_groups(row.get_ref(12)?)?;
            result.sums.push(Spend::new(place, (realm, row.get(10)?, row.get(11)?), groups, sum));
            last = Some(place);
        }
    }
    Ok(result)
}
