//! Reserved calls in the database.

use chancery_protocol::{Json, TaskId};
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::SqliteStore;
use super::edge::EdgeRow;
use super::load::{unreadable, verify};
use super::place;
use super::sum;
use super::write::{Body, Write};
use crate::error::StoreError;
use crate::record::Scope;
use crate::reserved::{ReservationChange, ReservationWrite, ReservedCall};

impl SqliteStore {
    pub(crate) async fn reserve(
        &self,
        scope: &Scope,
        task: &TaskId,
        write: ReservationWrite,
    ) -> Result<(), StoreError> {
        let body = Body::Reservation(write.change);
        let permit = self.room(body.bytes() >> 10).await?;
        let (reply, answer) = oneshot::channel();
        let write = Write {
            scope: scope.clone(),
            id: task.clone(),
            admission: None,
            state: None,
            push: None,
            edge: write.edge.map(EdgeRow::new),
            opens_reserved: false,
            body,
            reply,
            _permit: permit,
        };
        self.commit(write, answer).await.map(|_| ())
    }

    pub(crate) async fn reserved(
        &self,
        agent: &str,
        after: Option<&ReservedCall>,
        limit: usize,
    ) -> Result<Vec<ReservedCall>, StoreError> {
        let agent = agent.to_owned();
        let after = after.map(|one| (one.scope.realm.clone(), one.scope.owner.clone(), one.task.clone()));
        let read = self.readers.read("look for reserved calls", move |connection| {
            let sql = "SELECT realm, owner, agent, id, sum, json FROM reserved JOIN scopes USING (scope) \
                       WHERE agent = ?1 AND (?2 OR (realm, owner, id) > (?3, ?4, ?5)) \
                       ORDER BY realm, owner, id LIMIT ?6";
            let mut select = connection.prepare_cached(sql)?;
            let from_start = after.is_none();
            let (realm, owner, id) = after.unwrap_or_else(|| ("".into(), "".into(), TaskId::from("")));
            let values = params![agent, from_start, &*realm, &*owner, id.as_str(), place::rows(limit)];
            let rows = select.query_map(values, |row| {
                let scope = Scope { realm: row.get(0)?, owner: row.get(1)?, agent: row.get(2)? };
                let text = row.get_ref(5)?.as_str()?;
                verify(row.get(4)?, sum::of(&[text.as_bytes()]))?;
                let call = Json::parse(text).map_err(unreadable)?;
                Ok(ReservedCall { scope, task: TaskId::from(row.get::<_, String>(3)?), call })
            })?;
            rows.collect()
        });
        read.await
    }

    pub(crate) fn context_secret(&self) -> [u8; 32] {
        self.context_secret
    }
}

/// The secret that ids for agents elsewhere derive from.
pub(super) fn read_context_secret(connection: &Connection) -> rusqlite::Result<[u8; 32]> {
    connection.query_row("SELECT value FROM secrets WHERE name = 'contexts'", [], |row| row.get(0))
}

/// Writes a reservation, or what is left when it ends. Keys are the caller's to check.
pub(super) fn write_change(
    connection: &Connection,
    (scope, task): (i64, &TaskId),
    change: &ReservationChange,
) -> rusqlite::Result<()> {
    match change {
        ReservationChange::Put(call, _) => {
            let sql = "INSERT INTO reserved VALUES (?, ?, ?, ?) \
                       ON CONFLICT DO UPDATE SET sum = excluded.sum, json = excluded.json";
            let text = call.as_str();
            let values = params![scope, task.as_str(), sum::of(&[text.as_bytes()]), text];
            connection.prepare_cached(sql)?.execute(values)?;
            return Ok(());
        }
        ReservationChange::Answer(answer, Some(key)) => {
            let sql = "UPDATE admissions SET answer = ? WHERE scope = ? AND key = ?";
            connection.prepare_cached(sql)?.execute(params![answer.as_str(), scope, key])?;
        }
        ReservationChange::Release(Some(key)) => {
            let sql = "DELETE FROM admissions WHERE scope = ? AND key = ?";
            connection.prepare_cached(sql)?.execute(params![scope, key])?;
        }
        ReservationChange::Answer(_, None) | ReservationChange::Release(None) => {}
    }
    remove(connection, scope, task)
}

/// The reservation has come to its end.
pub(super) fn remove(connection: &Connection, scope: i64, task: &TaskId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM reserved WHERE scope = ? AND id = ?";
    connection.prepare_cached(sql)?.execute(params![scope, task.as_str()])?;
    Ok(())
}
