//! The tasks of the agent in the journal: every commit goes through here, and so does whoever looks at a task or watches it.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Artifacts, Call, CallOutcome, DEFAULT_PAGE_SIZE, Error, ErrorCode, EventStream, Hold, JsonObject,
    KeptTask, ListTasksRequest, SubscribeToTaskRequest, TaskId, TaskPage, TaskState, TaskView,
};
use chancery_store::{
    Appended, Batch, ListQuery, PageToken, ReservationChange, ReservationWrite, Snapshot, StoreError,
};

use super::Core;
use super::failure::from_store;
use super::holds::Holds;
use super::live::{Live, TaskKey};
use super::subscription::Subscription;
use crate::agent::Sent;

/// How long events wait before the store is asked again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Core {
    pub(super) async fn snapshot(&self, key: &TaskKey) -> Result<Snapshot, Error> {
        self.store.snapshot(&key.scope, &key.id).await.map_err(from_store)
    }

    /// A task made live, and how it stands. First the place to be woken, then the look: nothing comes between them unseen.
    pub(super) async fn enter(&self, key: &TaskKey) -> Result<(Arc<Live>, Snapshot), Error> {
        let live = self.live.enter(key);
        let snapshot = self.snapshot(key).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        Ok((live, snapshot))
    }

    /// Commits a batch, and tells those who are to hear of it. The first batch of an admitted call comes with what that holds.
    pub(super) async fn append(
        &self,
        key: &TaskKey,
        mut batch: Box<Batch>,
        hold: Option<Arc<dyn Hold>>,
        sent: Sent,
    ) -> Result<Appended, StoreError> {
        let riding = self.holds.ride(key, &mut batch, hold, sent);
        let appended = self.store.append(&key.scope, &key.id, batch).await;
        self.holds.landed(key, riding, appended.is_ok());
        let appended = appended?;
        if appended.push
            && let Some(notifier) = &self.notifier
        {
            notifier.wake();
        }
        Ok(appended)
    }

    /// The same, for what has been promised: it waits for a store that cannot take it now.
    pub(super) async fn append_promised(
        &self,
        key: &TaskKey,
        batch: Box<Batch>,
        sent: Sent,
    ) -> Result<Appended, StoreError> {
        self.insist(&key.id, || self.append(key, batch.clone(), None, sent)).await
    }

    /// Tries again for as long as the store cannot take it.
    pub(super) async fn insist<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        id: &TaskId,
        commit: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match commit().await {
                Err(error @ StoreError::Unavailable { .. }) => {
                    tracing::warn!(task.id = %id, %error, "events of task {id} wait for the store");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// Writes a reserved call down, with what it holds if that is new.
    pub(super) async fn reserve(
        &self,
        key: &TaskKey,
        change: ReservationChange,
        hold: Option<Arc<dyn Hold>>,
    ) -> Result<(), StoreError> {
        let (edge, riding) = hold.map(|hold| self.holds.begin(key, hold)).unzip();
        let written = self.store.reserve(&key.scope, &key.id, ReservationWrite { change, edge }).await;
        self.holds.landed(key, riding, written.is_ok());
        written
    }

    /// Ends a reserved call without a task, and settles what it holds.
    pub(super) async fn close_reserved(
        &self,
        key: &TaskKey,
        change: ReservationChange,
        outcome: CallOutcome,
        said: Option<&JsonObject>,
    ) -> Result<(), StoreError> {
        let hold = self.holds.of(key);
        let (edge, riding) = hold.map(|hold| Holds::settle(key, hold, outcome, said)).unzip();
        let write = ReservationWrite { change, edge };
        self.insist(&key.id, || self.store.reserve(&key.scope, &key.id, write.clone())).await?;
        self.holds.landed(key, riding, true);
        Ok(())
    }

    /// Settles a call that has no task of its own, and keeps its record.
    pub(super) async fn record_call(
        &self,
        key: &TaskKey,
        hold: Arc<dyn Hold>,
        outcome: CallOutcome,
        said: Option<&JsonObject>,
    ) -> Result<(), StoreError> {
        let (edge, riding) = Holds::settle(key, hold, outcome, said);
        self.insist(&key.id, || self.store.put_edge(edge.clone())).await?;
        self.holds.landed(key, Some(riding), true);
        Ok(())
    }

    pub(super) async fn list(&self, call: &Call<ListTasksRequest>) -> Result<TaskPage, Error> {
        let request = &call.request;
        request.validate()?;
        let page_size = request.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(PageToken::parse(token).map_err(from_store)?),
        };
        let query = ListQuery {
            context_id: request.context_id.clone(),
            state: Some(request.status).filter(|state| *state != TaskState::Unspecified),
            since: request.status_timestamp_after,
            after,
            limit: usize::try_from(page_size).unwrap_or_default(),
        };
        let scope = self.scope(&call.context.principal);
        let page = self.store.list(&scope, &query).await.map_err(from_store)?;
        let shown = match request.include_artifacts {
            Some(true) => Artifacts::Shown,
            _ => Artifacts::Hidden,
        };
        let show = |task| TaskView { artifacts: shown, ..view(task, request.history_length) };
        Ok(TaskPage {
            tasks: page.tasks.into_iter().map(show).collect(),
            next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
            page_size,
            total_size: i32::try_from(page.total).unwrap_or(i32::MAX),
        })
    }

    /// Without `Last-Event-ID`: the task, then what follows, and nothing of a task that has ended. With it:
    /// exactly what follows that event, also of a task that has since ended.
    pub(super) async fn subscribe(
        &self,
        call: &Call<SubscribeToTaskRequest>,
    ) -> Result<(Snapshot, EventStream), Error> {
        let key = self.key(&call.context.principal, &call.request.id);
        let (live, snapshot) = self.enter(&key).await?;
        if snapshot.task.is_over() && call.context.last_event.is_none() {
            let text = "The task has ended; get it with GetTask";
            return Err(
                Error::with_message(ErrorCode::UnsupportedOperation, text).about("taskId", key.id.as_str())
            );
        }
        let store = self.store.clone();
        let events = match call.context.last_event.filter(|seen| *seen <= snapshot.number) {
            Some(seen) => Subscription::after(store, live, seen, None),
            None => Subscription::with_snapshot(store, live, &snapshot, None)?,
        };
        Ok((snapshot, events))
    }

    /// The task when it has ended or waits for somebody.
    pub(super) async fn settled(&self, key: &TaskKey) -> Result<KeptTask, Error> {
        let live = self.live.enter(key);
        let mut shown = live.watch();
        loop {
            let task = self.snapshot(key).await?.task;
            let state = task.state();
            if state.is_terminal() || state.is_interrupted() || shown.changed().await.is_err() {
                return Ok(task);
            }
        }
    }
}

/// A task as it was asked for.
pub(super) fn view(task: KeptTask, history_length: Option<i32>) -> TaskView {
    let history_length = history_length.and_then(|length| usize::try_from(length).ok());
    TaskView { history_length, ..TaskView::whole(task) }
}
