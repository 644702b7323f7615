//! The record of admitted calls. What is charged is added up over the transaction and written once for each caller,
//! agent and second; so the sums cost a batch next to nothing when many share a transaction.

use std::collections::HashMap;

use chancery_protocol::{Amount, HopId, Timestamp};
use foldhash::fast::RandomState;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Desk;
use crate::edge::first_younger_than;
use crate::limits::Retention;
use crate::spend::{DAY, Fold, SpendParty, SpendPlace, Sum, ago};
use crate::sqlite::edge::EdgeRow;

/// What the writer knows of edges.
#[derive(Debug)]
pub(super) struct Tally {
    /// What this transaction has charged.
    sums: HashMap<SpendPlace, Sum, RandomState>,
    parties: HashMap<SpendParty, i64, RandomState>,
    /// How many settled edges are kept.
    kept: i64,
    /// The same, if the transaction commits.
    kept_then: i64,
}

/// A small step of housekeeping.
#[derive(Debug)]
pub(in crate::sqlite) enum EdgeStep {
    /// Forgets edges that are too old at a time.
    Forget(Timestamp),
    /// Forgets these, if they are settled.
    ForgetThese(Vec<HopId>),
    /// Makes longer spans of sums that are old enough at a time, and forgets those that are too old.
    FoldSums(Timestamp),
    /// Forgets the name of a caller. From then on nobody is shown its edges.
    Unname { realm: String, caller: String },
    /// Removes edges of callers without a name.
    Remove(Vec<HopId>),
}

/// How many rows one step takes.
pub(in crate::sqlite) const STEP: usize = 128;
/// More parties than this are looked up again.
const MOST_PARTIES: usize = 65_536;

impl Tally {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let kept = kept(connection)?;
        Ok(Self { sums: HashMap::default(), parties: HashMap::default(), kept, kept_then: kept })
    }

    /// Writes what was charged. Among the last things before a commit.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for (place, sum) in self.sums.drain() {
            add_sum(connection, place, sum)?;
        }
        Ok(())
    }

    pub(super) fn settle(&mut self) {
        self.kept = self.kept_then;
    }

    /// Parties may be among what is undone.
    pub(super) fn roll_back(&mut self) {
        self.sums.clear();
        self.parties.clear();
        self.kept_then = self.kept;
    }

    fn party(&mut self, connection: &Connection, wanted: &SpendParty) -> rusqlite::Result<i64> {
        if let Some(party) = self.parties.get(wanted) {
            return Ok(*party);
        }
        if self.parties.len() >= MOST_PARTIES {
            self.parties.clear();
        }
        let SpendParty { names, groups } = wanted;
        let groups = serde_json::to_string(groups).unwrap_or_else(|_| "[]".to_owned());
        let values = [&*names.realm, &*names.owner, &*names.agent, &groups];
        let sql = "SELECT party FROM parties WHERE realm = ? AND caller = ? AND agent = ? AND member_of = ?";
        let known = connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
        let party = match known {
            Some(party) => party,
            None => {
                let sql = "INSERT INTO parties (realm, caller, agent, member_of) VALUES (?, ?, ?, ?) RETURNING party";
                connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?
            }
        };
        self.parties.insert(wanted.clone(), party);
        Ok(party)
    }
}

impl Desk {
    pub(super) fn put_edge(&mut self, row: &EdgeRow) -> rusqlite::Result<()> {
        let party = self.tally.party(&self.connection, &row.party)?;
        let payer = row.payer.as_ref().map(|payer| self.tally.party(&self.connection, payer)).transpose()?;
        let is_put = row.put(&self.connection, party, payer)?;
        if let Some(settled) = row.edge.settled.filter(|_| is_put) {
            let place = SpendPlace::of(settled.at, payer.unwrap_or(party));
            self.tally.sums.entry(place).or_default().add(Sum::of_one(&settled));
            self.tally.kept_then += 1;
        }
        Ok(())
    }

    /// Does one step. Says how much it did: nothing means that nothing is left.
    pub(super) fn keep_up_edges(&mut self, step: &EdgeStep) -> rusqlite::Result<usize> {
        let retention = self.limits.retention;
        match step {
            EdgeStep::Forget(now) => self.forget_edges(*now, &retention),
            EdgeStep::ForgetThese(hops) => self.forget_these(hops),
            EdgeStep::FoldSums(now) => {
                for fold in Fold::due(*now) {
                    let folded = fold_sums(&self.connection, fold)?;
                    if folded > 0 {
                        return Ok(folded);
                    }
                }
                forget_sums(&self.connection, SpendPlace::last_by(DAY, ago(*now, retention.spend)))
            }
            EdgeStep::Unname { realm, caller } => {
                let sql = "UPDATE parties SET caller = NULL WHERE realm = ? AND caller = ?";
                let is_theirs =
                    |party: &SpendParty| *party.names.realm == **realm && *party.names.owner == **caller;
                self.tally.parties.retain(|party, _| !is_theirs(party));
                self.connection.prepare_cached(sql)?.execute([realm, caller])
            }
            EdgeStep::Remove(hops) => self.remove_edges(hops),
        }
    }

    fn forget_edges(&mut self, now: Timestamp, retention: &Retention) -> rusqlite::Result<usize> {
        let end = first_younger_than(retention.edges, now);
        let last: Option<Vec<u8>> = {
            let sql = "SELECT hop FROM edges WHERE settled IS NOT NULL AND hop < ? ORDER BY hop LIMIT ?";
            let mut select = self.connection.prepare_cached(sql)?;
            let hops = select.query_map(params![end.as_bytes(), STEP], |row| row.get(0))?;
            hops.last().transpose()?
        };
        let Some(last) = last else { return Ok(0) };
        let sql = "DELETE FROM edges WHERE hop <= ? AND settled IS NOT NULL";
        let removed = self.connection.prepare_cached(sql)?.execute([last])?;
        self.removed(removed)?;
        Ok(removed)
    }

    fn forget_these(&mut self, hops: &[HopId]) -> rusqlite::Result<usize> {
        let removed = {
            let sql = "DELETE FROM edges WHERE hop = ? AND settled IS NOT NULL";
            let mut delete = self.connection.prepare_cached(sql)?;
            hops.iter().map(|hop| delete.execute([hop.as_bytes()])).sum::<rusqlite::Result<usize>>()?
        };
        self.removed(removed)?;
        Ok(removed)
    }

    fn remove_edges(&mut self, hops: &[HopId]) -> rusqlite::Result<usize> {
        let sql = "DELETE FROM edges WHERE hop = ? AND party IN (SELECT party FROM parties WHERE caller IS NULL) \
                   RETURNING settled IS NOT NULL";
        let (mut removed, mut settled) = (0, 0);
        {
            let mut delete = self.connection.prepare_cached(sql)?;
            for hop in hops {
                let was_settled: Option<bool> =
                    delete.query_row([hop.as_bytes()], |row| row.get(0)).optional()?;
                removed += usize::from(was_settled.is_some());
                settled += usize::from(was_settled == Some(true));
            }
        }
        self.removed(settled)?;
        Ok(removed)
    }

    /// So many settled edges are no more, though the sums still count them.
    fn removed(&mut self, edges: usize) -> rusqlite::Result<()> {
        let edges = i64::try_from(edges).unwrap_or(i64::MAX);
        self.tally.kept_then -= edges;
        add_removed(&self.connection, edges)
    }
}

/// How many settled edges are kept, by what is counted.
pub(in crate::sqlite) fn kept(connection: &Connection) -> rusqlite::Result<i64> {
    let sql =
        "SELECT coalesce((SELECT sum(calls) FROM spend), 0) - value FROM facts WHERE name = 'edges_removed'";
    connection.query_row(sql, [], |row| row.get(0))
}

fn add_removed(connection: &Connection, edges: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE facts SET value = value + ? WHERE name = 'edges_removed'";
    connection.prepare_cached(sql)?.execute([edges])?;
    Ok(())
}

fn add_sum(connection: &Connection, place: SpendPlace, sum: Sum) -> rusqlite::Result<()> {
    // Too much for an integer would become a float, which is more than the most there is.
    let sql = "INSERT INTO spend VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET \
               micro_usd = min(micro_usd + excluded.micro_usd, 9223372036854775807), \
               tokens = min(tokens + excluded.tokens, 9223372036854775807), \
               tasks = min(tasks + excluded.tasks, 9223372036854775807), calls = calls + excluded.calls, \
               overrun_micro_usd = min(overrun_micro_usd + excluded.overrun_micro_usd, 9223372036854775807), \
               overrun_tokens = min(overrun_tokens + excluded.overrun_tokens, 9223372036854775807)";
    let Amount { micro_usd, tokens, tasks } = sum.charged;
    let SpendPlace { span, at, party } = place;
    let over = sum.overrun;
    connection.prepare_cached(sql)?.execute(params![
        span,
        at,
        party,
        micro_usd,
        tokens,
        tasks,
        sum.calls,
        over.micro_usd,
        over.tokens,
    ])?;
    Ok(())
}

/// Adds the first few sums of one span to those of the next.
fn fold_sums(connection: &Connection, fold: Fold) -> rusqlite::Result<usize> {
    let mut sums: HashMap<SpendPlace, Sum, RandomState> = HashMap::default();
    let (mut folded, mut last) = (0, None);
    {
        let sql = format!(
            "SELECT {SUM_COLUMNS} FROM spend \
                   WHERE span = ? AND at < ? ORDER BY at, party LIMIT ?"
        );
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query(params![fold.from, fold.before, STEP])?;
        while let Some(row) = rows.next()? {
            let (place, sum) = read_sum(row)?;
            sums.entry(place.widen(fold.into)).or_default().add(sum);
            (folded, last) = (folded + 1, Some(place));
        }
    }
    let Some(SpendPlace { span, at, party }) = last else { return Ok(0) };
    for (place, sum) in sums {
        add_sum(connection, place, sum)?;
    }
    let sql = "DELETE FROM spend WHERE span = ? AND (at, party) <= (?, ?)";
    connection.prepare_cached(sql)?.execute([span, at, party])?;
    Ok(folded)
}

/// Removes the first few sums of days, up to a place.
fn forget_sums(connection: &Connection, up_to: SpendPlace) -> rusqlite::Result<usize> {
    let sql = format!(
        "SELECT {SUM_COLUMNS} FROM spend \
               WHERE span = ? AND at <= ? ORDER BY at, party LIMIT ?"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map(params![up_to.span, up_to.at, STEP], read_sum)?;
    let old = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut calls = 0;
    for (SpendPlace { span, at, party }, sum) in &old {
        let sql = "DELETE FROM spend WHERE span = ? AND at = ? AND party = ?";
        connection.prepare_cached(sql)?.execute(params![span, at, party])?;
        calls += i64::try_from(sum.calls).unwrap_or(i64::MAX);
    }
    if calls > 0 {
        add_removed(connection, -calls)?;
    }
    Ok(old.len())
}

/// The columns that [`read_sum`] reads.
pub(in crate::sqlite) const SUM_COLUMNS: &str =
    "span, at, party, micro_usd, tokens, tasks, calls, overrun_micro_usd, overrun_tokens";

/// A row of these columns.
pub(in crate::sqlite) fn read_sum(row: &Row<'_>) -> rusqlite::Result<(SpendPlace, Sum)> {
    let place = SpendPlace { span: row.get(0)?, at: row.get(1)?, party: row.get(2)? };
    let charged = Amount { micro_usd: row.get(3)?, tokens: row.get(4)?, tasks: row.get(5)? };
    let overrun = Amount { micro_usd: row.get(7)?, tokens: row.get(8)?, tasks: 0 };
    Ok((place, Sum { charged, overrun, calls: row.get(6)? }))
}
