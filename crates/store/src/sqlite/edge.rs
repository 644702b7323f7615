//! How the record of a call lies in its row.

use std::sync::Arc;

use chancery_protocol::{
    Amount, CallLimits, CallOrigin, CostSource, Edge, HopId, Settled, TaskId, Timestamp, Usage,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use super::load::unreadable;
use super::place::{state_number, state_of};
use super::sum;
use crate::edge::{EdgeQuery, made_at};
use crate::record::Scope;
use crate::spend::SpendParty;

/// An edge on its way to the writer.
#[derive(Debug)]
pub(super) struct EdgeRow {
    /// Realm, caller and agent; with the groups of the caller if it pays.
    pub(super) party: SpendParty,
    /// Who pays, if that is somebody else.
    pub(super) payer: Option<SpendParty>,
    pub(super) edge: Box<Edge>,
    trace: Option<[u8; 16]>,
    task: Option<[u8; 16]>,
    limits: Option<String>,
    overrun: Option<String>,
    sum: u32,
}

/// The columns, in the order in which they are read and written.
pub(super) const COLUMNS: &str = "hop, party, root, parent, depth, trace, skill, peer, task, opened, held_micro_usd, \
                                  held_tokens, held_tasks, sum, settled, micro_usd, tokens, tasks, source, state, payer, limits, overrun";
/// Their places, where they are looked at before the edge is read.
pub(super) const PARTY: usize = 1;
const TRACE: usize = 5;
const TASK: usize = 8;
pub(super) const SETTLED: usize = 14;
pub(super) const PAYER: usize = 20;
const LIMITS: usize = 21;
const OVERRUN: usize = 22;

// === impl EdgeRow ===

impl EdgeRow {
    pub(super) fn new(edge: Box<Edge>) -> Self {
        let billed = SpendParty::of(&edge);
        let (party, payer) = match &edge.payer {
            None => (billed, None),
            Some(_) => {
                let names = Scope { owner: edge.caller.clone(), ..billed.names.clone() };
                (SpendParty { names, groups: Vec::new() }, Some(billed))
            }
        };
        let trace = edge.trace.as_deref().and_then(trace_bytes);
        let task = edge.task.as_ref().and_then(|task| task_bytes(task.as_str()));
        let (limits, overrun, sum) = (limits_text(&edge), overrun_text(&edge), sum_of(&edge));
        Self { party, payer, edge, trace, task, limits, overrun, sum }
    }

    /// Puts the edge where it is not settled yet. Says whether it did.
    pub(super) fn put(
        &self,
        connection: &Connection,
        party: i64,
        payer: Option<i64>,
    ) -> rusqlite::Result<bool> {
        let sql = "INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
                   ON CONFLICT DO UPDATE SET party = excluded.party, root = excluded.root, \
                   parent = excluded.parent, depth = excluded.depth, trace = excluded.trace, \
                   skill = excluded.skill, peer = excluded.peer, task = excluded.task, \
                   opened = excluded.opened, held_micro_usd = excluded.held_micro_usd, \
                   held_tokens = excluded.held_tokens, held_tasks = excluded.held_tasks, sum = excluded.sum, \
                   settled = excluded.settled, micro_usd = excluded.micro_usd, tokens = excluded.tokens, \
                   tasks = excluded.tasks, source = excluded.source, state = excluded.state, \
                   payer = excluded.payer, limits = excluded.limits, overrun = excluded.overrun \
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
            short(self.trace.as_ref(), trace.as_deref()),
            skill,
            peer,
            short(self.task.as_ref(), task.as_ref().map(TaskId::as_str)),
            opened.as_micros() - made_at(*hop).as_micros(),
            reserved.micro_usd.cast_signed(),
            reserved.tokens.cast_signed(),
            reserved.tasks.cast_signed(),
            self.sum,
            settled.map(|settled| settled.at.as_micros() - opened.as_micros()),
            charged.map(|charged| charged.micro_usd.cast_signed()),
            charged.map(|charged| charged.tokens.cast_signed()),
            charged.map(|charged| charged.tasks.cast_signed()),
            settled.map(|settled| source_number(settled.source)),
            settled.and_then(|settled| settled.state).map(state_number),
            payer,
            self.limits,
            self.overrun,
        ])?;
        Ok(changed > 0)
    }
}

/// The edge of a row that has all columns, but for who pays, which parties say.
pub(super) fn read(row: &Row<'_>, [realm, caller, agent]: [&Arc<str>; 3]) -> rusqlite::Result<Edge> {
    let this = hop(row)?;
    let opened = Timestamp::from_micros(made_at(this).as_micros().saturating_add(row.get(9)?));
    let amount = |first: usize| -> rusqlite::Result<Amount> {
        let count = |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
        Ok(Amount { micro_usd: count(first)?, tokens: count(first + 1)?, tasks: count(first + 2)? })
    };
    let optional = |column| row.get_ref(column)?.as_blob_or_null()?.map(hop_of).transpose();
    let Kept { limits, origin, used } = limits_of(row.get_ref(LIMITS)?)?;
    let settled = match row.get::<_, Option<i64>>(14)? {
        None => None,
        Some(at) => Some(Settled {
            at: Timestamp::from_micros(opened.as_micros().saturating_add(at)),
            charged: amount(15)?,
            overrun: overrun_of(row.get_ref(OVERRUN)?)?,
            source: source_of(row.get(18)?)?,
            state: row.get::<_, Option<i64>>(19)?.map(state_of),
        }),
    };
    let edge = Edge {
        hop: this,
        root: optional(2)?.unwrap_or(this),
        parent: optional(3)?,
        depth: row.get(4)?,
        trace: long(row.get_ref(TRACE)?, trace_text)?.map(Arc::from),
        realm: realm.clone(),
        caller: caller.clone(),
        payer: None,
        groups: Vec::new(),
        used,
        agent: agent.clone(),
        skill: row.get(6)?,
        peer: row.get(7)?,
        task: long(row.get_ref(TASK)?, |bytes| HopId::from_bytes(bytes).to_string())?.map(TaskId::from),
        opened,
        reserved: amount(10)?,
        limits,
        origin,
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

/// The bytes of a trace id, if it is one as W3C writes it.
fn trace_bytes(text: &str) -> Option<[u8; 16]> {
    bytes(text, 32)
}

fn trace_text(bytes: [u8; 16]) -> String {
    HopId::from_bytes(bytes).to_string().replace('-', "")
}

/// The bytes of a task id, if it is a UUID as we write it.
fn task_bytes(text: &str) -> Option<[u8; 16]> {
    bytes(text, 36)
}

/// The bytes of 32 hex digits, with or without hyphens. What does not read back as it was is none.
fn bytes(text: &str, length: usize) -> Option<[u8; 16]> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-';
    let parsed = || HopId::parse(text).map(|id| *id.as_bytes());
    (text.len() == length && text.bytes().all(is_plain)).then(parsed)?
}

/// What is kept of a name: its bytes if it has any, else its text.
fn short<'a>(bytes: Option<&'a [u8; 16]>, text: Option<&'a str>) -> ToSqlOutput<'a> {
    let text = text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()));
    ToSqlOutput::Borrowed(bytes.map_or(text, |bytes| ValueRef::Blob(bytes)))
}

fn long(kept: ValueRef<'_>, text: impl Fn([u8; 16]) -> String) -> rusqlite::Result<Option<String>> {
    match kept {
        ValueRef::Blob(bytes) => {
            let bytes = bytes.try_into().map_err(|_| unreadable("an id has not 16 bytes"))?;
            Ok(Some(text(bytes)))
        }
        kept => Ok(kept.as_str_or_null()?.map(str::to_owned)),
    }
}

/// The names that a query wants, as they are kept.
pub(super) struct Wanted<'a> {
    trace: (Option<[u8; 16]>, Option<&'a str>),
    task: (Option<[u8; 16]>, Option<&'a str>),
}

impl<'a> Wanted<'a> {
    pub(super) fn of(query: &'a EdgeQuery) -> Self {
        let (trace, task) = (query.trace.as_deref(), query.task.as_ref().map(TaskId::as_str));
        Self { trace: (trace.and_then(trace_bytes), trace), task: (task.and_then(task_bytes), task) }
    }

    pub(super) fn takes(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let is = |(bytes, text): &(Option<[u8; 16]>, Option<&str>), column| {
            let wanted = short(bytes.as_ref(), *text);
            Ok::<_, rusqlite::Error>(text.is_none() || wanted == ToSqlOutput::Borrowed(row.get_ref(column)?))
        };
        Ok(is(&self.trace, TRACE)? && is(&self.task, TASK)?)
    }
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
    bytes.extend(limits_text(edge).unwrap_or_default().into_bytes());
    bytes.extend(overrun_text(edge).unwrap_or_default().into_bytes());
    sum::of(&[&bytes])
}

/// What only some calls have: limits of their own, another gateway that they come from, and what they have used by now.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    limits: CallLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Arc<CallOrigin>>,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    used: Usage,
}

/// What is kept of that; nothing of most calls.
fn limits_text(edge: &Edge) -> Option<String> {
    let kept = Kept { limits: edge.limits, origin: edge.origin.clone(), used: edge.used };
    let is_none = kept.limits.is_none() && kept.origin.is_none() && kept.used.is_zero();
    if is_none { None } else { serde_json::to_string(&kept).ok() }
}

fn limits_of(kept: ValueRef<'_>) -> rusqlite::Result<Kept> {
    let Some(text) = kept.as_str_or_null()? else { return Ok(Kept::default()) };
    serde_json::from_str(text).map_err(|_| unreadable("the limits of a call cannot be read"))
}

/// What is kept of an overrun; nothing if there is none, as of most.
fn overrun_text(edge: &Edge) -> Option<String> {
    let overrun = edge.settled.map(|settled| settled.overrun).filter(|overrun| !overrun.is_zero())?;
    serde_json::to_string(&overrun).ok()
}

fn overrun_of(kept: ValueRef<'_>) -> rusqlite::Result<Amount> {
    let Some(text) = kept.as_str_or_null()? else { return Ok(Amount::default()) };
    serde_json::from_str(text).map_err(|_| unreadable("the overrun of a call cannot be read"))
}

/// As it is kept, whatever order the sources are in.
fn source_number(source: CostSource) -> i64 {
    match source {
        CostSource::Held => 0,
        CostSource::Declared => 1,
        CostSource::Reported => 2,
        CostSource::Metered => 3,
        CostSource::Unknown => 4,
    }
}

fn source_of(number: i64) -> rusqlite::Result<CostSource> {
    let sources = [
        CostSource::Held,
        CostSource::Declared,
        CostSource::Reported,
        CostSource::Metered,
        CostSource::Unknown,
    ];
    let found = usize::try_from(number).ok().and_then(|number| sources.get(number));
    found.copied().ok_or_else(|| unreadable("it is not known where a figure comes from"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_short_only_if_they_read_back() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_bytes(trace).map(trace_text).as_deref(), Some(trace));
        let task = TaskId::generate();
        let read = task_bytes(task.as_str()).map(|bytes| HopId::from_bytes(bytes).to_string());
        assert_eq!(read.as_deref(), Some(task.as_str()));
        let upper = trace.to_uppercase();
        for text in ["", "t", task.as_str(), &upper, &trace[1..], "4bf92f3577b34da6a3ce929d0e0e473-"] {
            assert_eq!(trace_bytes(text), None, "{text}");
        }
        for text in ["", trace, &task.as_str().to_uppercase(), &task.as_str().replace('-', "0")] {
            assert_eq!(task_bytes(text), None, "{text}");
        }
    }
}
