//! Push notification configurations, and what is to be delivered to them.

use std::sync::Arc;

use chancery_protocol::{PushConfigId, TaskId, TaskPushNotificationConfig, Timestamp, Version};
use rusqlite::{Connection, Row, params};
use tokio::sync::oneshot;

use super::SqliteStore;
use super::failure::closed;
use super::load;
use super::place;
use super::turns::line_of;
use super::write::Push;
use super::writer::{Job, PushChange, PushWhat};
use crate::error::StoreError;
use crate::outbox::{Delivery, OutboxPlace, Registration};
use crate::record::Scope;

type Config = Arc<TaskPushNotificationConfig>;

impl SqliteStore {
    pub(crate) async fn put_push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        registration: Registration,
    ) -> Result<Config, StoreError> {
        let (config, push) = Push::new(registration)?;
        self.change(scope, task, PushWhat::Put(push)).await?;
        Ok(Arc::new(config))
    }

    pub(crate) async fn push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        id: &PushConfigId,
    ) -> Result<Config, StoreError> {
        let mut configs = self.push_configs(scope, task).await?.into_iter();
        let found = configs.find(|config| config.id.as_ref() == Some(id));
        found.ok_or_else(|| StoreError::UnknownPushConfig { task: task.clone(), id: id.clone() })
    }

    pub(crate) async fn push_configs(&self, scope: &Scope, task: &TaskId) -> Result<Vec<Config>, StoreError> {
        let (line, scope, wanted) = (line_of(scope), scope.clone(), task.clone());
        let read = self.readers.read_for(line, "read push notification configurations", move |connection| {
            let Some(scope) = load::scope(connection, &scope)? else { return Ok(None) };
            let Some(found) = load::find(connection, scope, &wanted)? else { return Ok(None) };
            let sql = "SELECT config FROM pushes WHERE task = ? ORDER BY push";
            let mut select = connection.prepare_cached(sql)?;
            let configs = select.query_map([found.task], |row| config(row, 0))?;
            configs.collect::<rusqlite::Result<Vec<_>>>().map(Some)
        });
        read.await?.ok_or_else(|| StoreError::NotFound { id: task.clone() })
    }

    pub(crate) async fn delete_push_config(
        &self,
        scope: &Scope,
        task: &TaskId,
        id: &PushConfigId,
    ) -> Result<(), StoreError> {
        self.change(scope, task, PushWhat::Delete(id.clone())).await.map(|_| ())
    }

    pub(crate) async fn deliveries(
        &self,
        after: Option<OutboxPlace>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        let gate = self.shared.gate.clone();
        let read = move |connection: &Connection| {
            // A transaction that is open now may be about to show something earlier than what is there.
            drop(gate.lock());
            due(connection, after, now, limit)
        };
        let deliveries = self.readers.read("read what is to be delivered", read).await?;
        if !deliveries.is_empty() {
            // Their events must be there for whoever asks for them next.
            self.shown().await?;
        }
        Ok(deliveries)
    }

    pub(crate) async fn next_delivery_at(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let read = move |connection: &Connection| {
            let sql = "SELECT min(due) FROM pushes WHERE due IS NOT NULL AND due > ?";
            let mut select = connection.prepare_cached(sql)?;
            select.query_row([now.as_micros()], |row| row.get::<_, Option<i64>>(0))
        };
        let due = self.readers.read("read what is to be delivered", read).await?;
        Ok(due.map(Timestamp::from_micros))
    }

    pub(crate) async fn delivered(&self, delivery: &Delivery, to: u64) -> Result<bool, StoreError> {
        let (_, push) = Push::new((*delivery.config).clone().into())?;
        self.outcome(delivery, PushWhat::Delivered { push, cursor: delivery.cursor, to }).await
    }

    pub(crate) async fn postpone(
        &self,
        delivery: &Delivery,
        attempts: u32,
        not_before: Timestamp,
    ) -> Result<bool, StoreError> {
        let (_, push) = Push::new((*delivery.config).clone().into())?;
        let cursor = delivery.cursor;
        self.outcome(delivery, PushWhat::Postpone { push, cursor, attempts, not_before }).await
    }

    /// What is said of a task that is gone means nothing.
    async fn outcome(&self, delivery: &Delivery, what: PushWhat) -> Result<bool, StoreError> {
        match self.change(&delivery.scope, &delivery.task, what).await {
            Err(StoreError::NotFound { .. }) => Ok(false),
            outcome => outcome,
        }
    }

    async fn change(&self, scope: &Scope, task: &TaskId, what: PushWhat) -> Result<bool, StoreError> {
        let doing = "write to the store";
        let permit = self.room(1).await?;
        let (reply, answer) = oneshot::channel();
        let change = PushChange { scope: scope.clone(), task: task.clone(), what, _permit: permit };
        self.writer.push(Job::Push(Box::new(change), reply)).map_err(|_| closed(doing))?;
        answer.await.map_err(|_| closed(doing))?
    }
}

fn due(
    connection: &Connection,
    after: Option<OutboxPlace>,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<Delivery>> {
    let (due, row) = after.map_or((i64::MIN, 0), |place| (place.due.as_micros(), place.row));
    let sql = "SELECT due, push, config, cursor, attempts, realm, owner, agent, tasks.id, pushes.version \
               FROM pushes INDEXED BY pushes_by_due \
               CROSS JOIN tasks USING (task) CROSS JOIN scopes USING (scope) \
               WHERE due IS NOT NULL AND (due, push) > (?, ?) AND due <= ? ORDER BY due, push LIMIT ?";
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map(params![due, row, now.as_micros(), place::rows(limit)], |row| {
        let place = OutboxPlace { due: Timestamp::from_micros(row.get(0)?), row: row.get(1)? };
        let scope = Scope { realm: row.get(5)?, owner: row.get(6)?, agent: row.get(7)? };
        let task = TaskId::from(row.get::<_, String>(8)?);
        Ok(Delivery {
            scope,
            task,
            config: config(row, 2)?,
            version: Version::parse(row.get_ref(9)?.as_str()?).unwrap_or(Version::V1_0),
            cursor: row.get(3)?,
            attempts: row.get(4)?,
            place,
        })
    })?;
    rows.collect()
}

fn config(row: &Row<'_>, column: usize) -> rusqlite::Result<Config> {
    load::parse(row.get_ref(column)?.as_blob()?).map(Arc::new)
}
