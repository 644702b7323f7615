//! The record of admitted calls: writing to it, and looking into it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use chancery_protocol::{Edge, HopId, TaskId};
use foldhash::fast::RandomState;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::oneshot;

use super::SqliteStore;
use super::edge::{COLUMNS, EdgeRow, PARTY, PAYER, SETTLED, Wanted, hop, read};
use super::load::unreadable;
use super::write::{Body, Write};
use super::writer::kept;
use crate::edge::{EdgePage, EdgeQuery, MOST_SCANNED, made_at};
use crate::error::StoreError;
use crate::record::{Scope, StoreCheck};
use crate::root::{MOST_SUMMED, RootSpends, Roots};
use crate::spend::SpendParty;

/// A party; none if the caller has been deleted.
type KnownParty = Option<SpendParty>;

/// The parties that a read has met.
#[derive(Default)]
struct Parties(HashMap<i64, KnownParty, RandomState>);

const READ: &str = "read the record of calls";

impl SqliteStore {
    pub(crate) async fn put_edge(&self, edge: Box<Edge>) -> Result<(), StoreError> {
        let permit = self.room(1).await?;
        let edge = EdgeRow::new(edge);
        let (reply, answer) = oneshot::channel();
        let write = Write {
            scope: edge.party.names.clone(),
            id: TaskId::from(""),
            admission: None,
            state: None,
            push: None,
            edge: Some(edge),
            opens_reserved: false,
            body: Body::Nothing,
            reply,
            _permit: permit,
        };
        self.commit(write, answer).await.map(|_| ())
    }

    pub(crate) async fn open_edges(&self, query: EdgeQuery) -> Result<EdgePage, StoreError> {
        let from = "edges INDEXED BY edges_open WHERE settled IS NULL AND hop BETWEEN ?1 AND ?2";
        self.readers.read(READ, move |connection| page(connection, &query, from)).await
    }

    pub(crate) async fn edges(&self, query: EdgeQuery) -> Result<EdgePage, StoreError> {
        let from = match query.root {
            None => "edges WHERE hop BETWEEN ?1 AND ?2",
            Some(_) => {
                "edges WHERE hop IN (SELECT hop FROM edges INDEXED BY edges_by_root \
                 WHERE root = ?3 AND hop BETWEEN ?1 AND ?2 \
                 UNION ALL SELECT ?3 WHERE ?3 BETWEEN ?1 AND ?2)"
            }
        };
        self.readers.read(READ, move |connection| page(connection, &query, from)).await
    }

    pub(crate) async fn spend_by_root(&self, query: EdgeQuery) -> Result<RootSpends, StoreError> {
        let Some((first, _)) = query.range() else { return Ok(RootSpends::default()) };
        let read = move |connection: &Connection| {
            let (mut roots, mut from, mut scanned, mut cut) = (Roots::default(), first, 0, None);
            scan(connection, &query, "edges WHERE hop BETWEEN ?1 AND ?2", |hop, edge| {
                if scanned >= MOST_SUMMED {
                    cut = Some(made_at(from));
                    return Ok(false);
                }
                (scanned, from) = (scanned + 1, hop);
                if let Some(edge) = edge()? {
                    roots.add(&edge);
                }
                Ok(true)
            })?;
            let from = if cut.is_some() { from } else { first };
            Ok(RootSpends { roots: roots.finish(query.limit(), from), cut })
        };
        self.readers.read(READ, read).await
    }
}

/// What a query takes of the edges that some part of a statement finds.
fn page(connection: &Connection, query: &EdgeQuery, from: &str) -> rusqlite::Result<EdgePage> {
    let limit = query.limit();
    let mut page = EdgePage::default();
    let (mut last, mut scanned) = (query.after, 0);
    scan(connection, query, from, |hop, edge| {
        if scanned >= MOST_SCANNED {
            page.next = last;
            return Ok(false);
        }
        if let Some(edge) = edge()? {
            if page.edges.len() >= limit {
                page.next = last;
                return Ok(false);
            }
            page.edges.push(edge);
        }
        (scanned, last) = (scanned + 1, Some(hop));
        Ok(true)
    })?;
    Ok(page)
}

/// Goes through edges in the order of a query for as long as it is told to. Each is read only if it is wanted, and
/// there only if the query takes it.
fn scan(
    connection: &Connection,
    query: &EdgeQuery,
    from: &str,
    mut visit: impl FnMut(HopId, &mut dyn FnMut() -> rusqlite::Result<Option<Edge>>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let Some((first, last)) = query.range() else { return Ok(()) };
    let order = if query.newest_first { "DESC" } else { "ASC" };
    let mut select =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM {from} ORDER BY hop {order}"))?;
    let mut rows = match query.root {
        Some(root) => select.query(params![first.as_bytes(), last.as_bytes(), root.as_bytes()])?,
        None => select.query(params![first.as_bytes(), last.as_bytes()])?,
    };
    let (mut parties, wanted) = (Parties::default(), Wanted::of(query));
    while let Some(row) = rows.next()? {
        let mut edge = || {
            let Some(party) = parties.find(connection, row.get(PARTY)?)? else { return Ok(None) };
            let Scope { realm, owner: caller, agent } = &party.names;
            let takes = query.takes_party(realm, caller, agent) && wanted.takes(row)?;
            if !takes {
                return Ok(None);
            }
            let mut edge = read(row, [realm, caller, agent])?;
            edge.groups.clone_from(&party.groups);
            if let Some(payer) = row.get(PAYER)?
                && let Some(payer) = parties.find(connection, payer)?
            {
                edge.payer = Some(payer.names.owner.clone());
                edge.groups.clone_from(&payer.groups);
            }
            Ok(Some(edge).filter(|edge| query.root.is_none_or(|root| edge.root == root)))
        };
        if !visit(hop(row)?, &mut edge)? {
            return Ok(());
        }
    }
    Ok(())
}

impl Parties {
    fn find(&mut self, connection: &Connection, party: i64) -> rusqlite::Result<&KnownParty> {
        match self.0.entry(party) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let sql = "SELECT realm, caller, agent, member_of FROM parties WHERE party = ?";
                let known = |row: &Row<'_>| {
                    let (realm, owner, agent): (_, Option<Arc<str>>, _) =
                        (row.get(0)?, row.get(1)?, row.get(2)?);
                    let groups = read_groups(row.get_ref(3)?)?;
                    Ok(owner.map(|owner| SpendParty { names: Scope { realm, owner, agent }, groups }))
                };
                let found = connection.prepare_cached(sql)?.query_row([party], known).optional()?;
                Ok(place.insert(found.ok_or_else(|| unreadable("the party of a call is not there"))?))
            }
        }
    }
}

/// The groups of a party, as they are kept.
pub(super) fn read_groups(kept: ValueRef<'_>) -> rusqlite::Result<Vec<Arc<str>>> {
    serde_json::from_str(kept.as_str()?).map_err(|_| unreadable("the groups of a caller cannot be read"))
}

/// Every edge must read back, and be among those that the sums count.
pub(super) fn check(connection: &Connection, found: &mut StoreCheck, most: usize) -> rusqlite::Result<()> {
    let mut select = connection.prepare(&format!("SELECT {COLUMNS} FROM edges ORDER BY hop"))?;
    let mut rows = select.query([])?;
    let (mut parties, mut settled) = (Parties::default(), 0);
    while let Some(row) = rows.next()? {
        settled += i64::from(row.get_ref(SETTLED)? != ValueRef::Null);
        let edge = parties.find(connection, row.get(PARTY)?).and_then(|party| match party {
            Some(SpendParty { names: Scope { realm, owner, agent }, .. }) => {
                read(row, [realm, owner, agent]).map(|_| ())
            }
            None => Ok(()),
        });
        if let Err(error) = edge {
            let name = hop(row).map_or_else(|_| "without an id".to_owned(), |hop| hop.to_string());
            found.problems.push(format!("call {name} cannot be read: {error}"));
        }
        if found.problems.len() >= most {
            return Ok(());
        }
    }
    let counted = kept(connection)?;
    if counted != settled {
        found.problems.push(format!("there are {settled} settled calls, not {counted} as the sums say"));
    }
    let strays = "SELECT count(*) FROM spend WHERE party NOT IN (SELECT party FROM parties)";
    let strays: i64 = connection.query_row(strays, [], |row| row.get(0))?;
    if strays > 0 {
        found.problems.push(format!("there are {strays} sums of what was spent by nobody knows whom"));
    }
    Ok(())
}
