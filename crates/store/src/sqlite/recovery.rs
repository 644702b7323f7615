//! Tasks that somebody was at work on.

use chancery_protocol::{TaskId, TaskState};
use rusqlite::params;

use super::SqliteStore;
use super::place::{self, state_number};
use crate::error::StoreError;
use crate::record::Scope;
use crate::recovery::Unfinished;

/// There are few of these beside those that are over, so they have an index of their own.
const AT_WORK: &str = "tasks INDEXED BY tasks_at_work JOIN scopes USING (scope) WHERE state IN (1, 2)";

impl SqliteStore {
    pub(crate) async fn unfinished(
        &self,
        agent: &str,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        self.found(AT_WORK, agent, after, limit).await
    }

    pub(crate) async fn waiting(
        &self,
        agent: &str,
        state: TaskState,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        let state = state_number(state);
        let from = format!("scopes JOIN tasks INDEXED BY tasks_by_state USING (scope) WHERE state = {state}");
        self.found(&from, agent, after, limit).await
    }

    async fn found(
        &self,
        from: &str,
        agent: &str,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        let sql = format!(
            "SELECT realm, owner, agent, id, context FROM {from} AND agent = ?1 \
             AND (?2 OR (realm, owner, id) > (?3, ?4, ?5)) ORDER BY realm, owner, id LIMIT ?6"
        );
        let agent = agent.to_owned();
        let after = after.map(|one| (one.scope.realm.clone(), one.scope.owner.clone(), one.task.clone()));
        let read = self.readers.read("look for unfinished tasks", move |connection| {
            let mut select = connection.prepare_cached(&sql)?;
            let from_start = after.is_none();
            let (realm, owner, id) = after.unwrap_or_else(|| ("".into(), "".into(), TaskId::from("")));
            let values = params![agent, from_start, &*realm, &*owner, id.as_str(), place::rows(limit)];
            let rows = select.query_map(values, |row| {
                let scope = Scope { realm: row.get(0)?, owner: row.get(1)?, agent: row.get(2)? };
                let task = TaskId::from(row.get::<_, String>(3)?);
                let context_id = place::context_of(&task, row.get(4)?);
                Ok(Unfinished { scope, task, context_id })
            })?;
            rows.collect()
        });
        read.await
    }
}
