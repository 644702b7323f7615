//! How the record of a call lies in its row.

use std::sync::Arc;

use chancery_protocol::{Amount, CostSource, Edge, HopId, Settled, TaskId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::load::unreadable;
use super::place::{state_number, state_of};
use super::sum;
use crate::record::Scope;

/// An edge on its way to the writer.
#[derive(Debug)]
pub(super) struct EdgeRow {
    /// Realm, caller and agent.
    pub(super) party: Scope,
    pub(super) edge: Box<Edge>,
    sum: u32,
}

/// The columns, in the order in which they are read and written.
pub(super) const COLUMNS: &str = "hop, party, root, parent, depth, trace, skill, peer, task, opened, held_micro_usd, \
                                  held_tokens, held_tasks, sum, settled, micro_usd, tokens, tasks, source, state";
/// Their places, where they are looked at before the edge is read.
pub(super) const PARTY: usize = 1;
pub(super) const TRACE: usize = 5;
pub(super) const TASK: usize = 8;
pub(super) const SETTLED: usize = 14;

// === impl EdgeRow ===

impl EdgeRow {
    pub(super) fn new(edge: Box<Edge>) -> Self {
        let party =
            Scope { realm: edge.realm.clone(), owner: edge.caller.clone(), agent: edge.agent.clone() };
        let sum = sum_of(&edge);
        Self { party, edge, sum }
    }

    /// Puts the edge where it is not settled yet. Says whether it did.
    pub(super) fn put(&self, connection: &Connection, party: i64) -> rusqlite::Result<bool> {
        let sql = "INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
                   ON CONFLICT DO UPDATE SET party = excluded.party, root = excluded.root, \
                   parent = excluded.parent, depth = excluded.depth, trace = excluded.trace, \
                   skill = excluded.skill, peer = excluded.peer, task = excluded.task, \
                   opened = excluded.opened, held_micro_usd = excluded.held_micro_usd, \
                   held_tokens = excluded.held_tokens, held_tasks = excluded.held_tasks, sum = excluded.sum, \
                   settled = excluded.settled, micro_usd = excluded.micro_usd, tokens = excluded.tokens, \
                   tasks = excluded.tasks, source = excluded.source, state = excluded.state \
                   WHERE settled IS NULL";
        let Edge { hop, root, parent, depth, trace, skill, peer, task, opened, reserved, settled, .. } =
            &*self.edge;
        let charged = settled.map(|settled| settled.charged);
        let changed = connection.prepare_cached(sql)?.execute(params![
            hop.as_bytes(),
            party,
            (root != hop).then(|| root.as_bytes()),
            parent.as_ref().map(HopId::as_bytes),
            depth,
            trace,
            skill,
            peer,
            task.as_ref().map(TaskId::as_str),
            opened.as_micros(),
            reserved.micro_usd.cast_signed(),
            reserved.tokens.cast_signed(),
            reserved.tasks.cast_signed(),
            self.sum,
            settled.map(|settled| settled.at.as_micros()),
            charged.map(|charged| charged.micro_usd.cast_signed()),
            charged.map(|charged| charged.tokens.cast_signed()),
            charged.map(|charged| charged.tasks.cast_signed()),
            settled.map(|settled| source_number(settled.source)),
            settled.and_then(|settled| settled.state).map(state_number),
        ])?;
        Ok(changed > 0)
    }
}

/// The edge of a row that has all columns.
pub(super) fn read(row: &Row<'_>, [realm, caller, agent]: [&Arc<str>; 3]) -> rusqlite::Result<Edge> {
    let this = hop(row)?;
    let amount = |first: usize| -> rusqlite::Result<Amount> {
        let count = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
        Ok(Amount { micro_usd: count(first)?, tokens: count(first + 1)?, tasks: count(first + 2)? })
    };
    let optional = |column| row.get_ref(column)?.as_blob_or_null()?.map(hop_of).transpose();
    let settled = match row.get::<_, Option<i64>>(14)? {
        None => None,
        Some(at) => Some(Settled {
            at: Timestamp::from_micros(at),
            charged: amount(15)?,
            source: source_of(row.get(18)?)?,
            state: row.get::<_, Option<i64>>(19)?.map(state_of),
        }),
    };
    let edge = Edge {
        hop: this,
        root: optional(2)?.unwrap_or(this),
        parent: optional(3)?,
        depth: row.get(4)?,
        trace: row.get(5)?,
        realm: realm.clone(),
        caller: caller.clone(),
        agent: agent.clone(),
        skill: row.get(6)?,
        peer: row.get(7)?,
        task: row.get::<_, Option<String>>(8)?.map(TaskId::from),
        opened: Timestamp::from_micros(row.get(9)?),
        reserved: amount(10)?,
        settled,
    };
    if sum_of(&edge) == row.get::<_, u32>(13)? {
        Ok(edge)
    } else {
        Err(unreadable("the checksum of a call does not match: the disk has changed it"))
    }
}

/// The id of the call of a row.
pub(super) fn hop(row: &Row<'_>) -> rusqlite::Result<HopId> {
    hop_of(row.get_ref(0)?.as_blob()?)
}

fn hop_of(bytes: &[u8]) -> rusqlite::Result<HopId> {
    bytes.try_into().map(HopId::from_bytes).map_err(|_| unreadable("the id of a call has not 16 bytes"))
}

/// The checksum of all that a row holds.
fn sum_of(edge: &Edge) -> u32 {
    let mut bytes = Vec::with_capacity(512);
    let mut hops = |hop: Option<&HopId>| match hop {
        Some(hop) => bytes.extend_from_slice(hop.as_bytes()),
        None => bytes.push(0),
    };
    hops(Some(&edge.hop));
    hops(Some(&edge.root));
    hops(edge.parent.as_ref());
    for text in [
        Some(&*edge.realm),
        Some(&*edge.caller),
        Some(&*edge.agent),
        edge.trace.as_deref(),
        edge.skill.as_deref(),
        edge.peer.as_deref(),
        edge.task.as_ref().map(TaskId::as_str),
    ] {
        let text = text.map(str::as_bytes);
        bytes.extend_from_slice(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.unwrap_or_default());
    }
    let settled = edge.settled.as_ref();
    let charged = settled.map(|settled| settled.charged).unwrap_or_default();
    let state = settled.and_then(|settled| settled.state).map_or(-1, state_number);
    for number in [
        i64::from(edge.depth),
        edge.opened.as_micros(),
        edge.reserved.micro_usd.cast_signed(),
        edge.reserved.tokens.cast_signed(),
        edge.reserved.tasks.cast_signed(),
        settled.map_or(i64::MIN, |settled| settled.at.as_micros()),
        charged.micro_usd.cast_signed(),
        charged.tokens.cast_signed(),
        charged.tasks.cast_signed(),
        settled.map_or(-1, |settled| source_number(settled.source)),
        state,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    sum::of(&[&bytes])
}

/// As it is kept, whatever order the sources are in.
fn source_number(source: CostSource) -> i64 {
    match source {
        CostSource::Estimated => 0,
        CostSource::Declared => 1,
        CostSource::Reported => 2,
        CostSource::Metered => 3,
    }
}

fn source_of(number: i64) -> rusqlite::Result<CostSource> {
    let sources = [CostSource::Estimated, CostSource::Declared, CostSource::Reported, CostSource::Metered];
    let found = usize::try_from(number).ok().and_then(|number| sources.get(number));
    found.copied().ok_or_else(|| unreadable("it is not known where a figure comes from"))
}
