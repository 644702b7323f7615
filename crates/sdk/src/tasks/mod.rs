//! The tasks of one agent, whoever works on them: the journal they are in, who watches them, who else is to be told.
//!
//! A [`Runtime`](crate::Runtime) commits what is new with [`Tasks::append`] and then shows it with [`Live::publish`], whether its
//! agent works here or elsewhere.

mod failure;
mod holds;
mod incoming;
mod live;
mod push;
mod subscription;
mod unstoppable;
mod waits;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Admitted, Artifacts, Call, CallOutcome, DEFAULT_PAGE_SIZE, Error, ErrorCode, EventStream, Hold,
    JsonObject, KeptTask, ListTasksRequest, Principal, RequestLimits, SendMessageRequest,
    SubscribeToTaskRequest, TaskId, TaskPage, TaskState, TaskView,
};
use chancery_store::{
    Appended, Batch, ListQuery, PageToken, ReservationChange, ReservationWrite, Scope, Snapshot, Store,
    StoreError,
};
use futures_core::Stream as _;
use parking_lot::RwLock;

use crate::agent::Sent;
use holds::reported;

pub(crate) use failure::{from_store, no_extended_card, task_is_over};
pub(crate) use holds::Holds;
pub(crate) use incoming::{admission, check_context};
pub(crate) use live::{Live, LiveTasks};
pub use push::Notifier;
pub(crate) use subscription::{Subscription, TurnEnd, all, only};
pub(crate) use unstoppable::Unstoppable;
pub(crate) use waits::{Door, Waits};

/// How long events wait before the store is asked again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The tasks of one agent. `W` is what is to be known of who works on a live one.
#[derive(Debug)]
pub(crate) struct Tasks<W> {
    agent: Arc<str>,
    pub(crate) store: Arc<Store>,
    pub(crate) live: LiveTasks<W>,
    pub(crate) limits: RequestLimits,
    /// What the calls hold that the tasks have come of.
    pub(crate) holds: Arc<Holds>,
    /// None if nobody posts notifications.
    notifier: Option<Arc<dyn Notifier>>,
    /// Who lets calls through, if anybody has to.
    door: RwLock<Option<Door>>,
}

impl<W> Tasks<W> {
    pub(crate) fn new(agent: Arc<str>, store: Arc<Store>, notifier: Option<Arc<dyn Notifier>>) -> Self {
        Self {
            agent,
            store,
            live: LiveTasks::default(),
            limits: RequestLimits::default(),
            holds: Arc::default(),
            notifier,
            door: RwLock::default(),
        }
    }

    /// The same tasks, where somebody else had them before: who works on them, who watches them, what they hold.
    pub(crate) fn after(self, earlier: Option<&Self>) -> Self {
        match earlier {
            Some(earlier) => Self { live: earlier.live.clone(), holds: earlier.holds.clone(), ..self },
            None => self,
        }
    }

    /// Says who lets calls through.
    #[cfg(feature = "server")]
    pub(crate) fn guarded_by(&self, door: Door) {
        *self.door.write() = Some(door);
    }

    /// Has a call let through whose caller does not wait for it. None if nobody has to.
    pub(crate) fn readmit(&self, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        let door = self.door.read().clone()?;
        door.0(call)
    }

    /// Whose tasks somebody may see.
    pub(crate) fn scope(&self, principal: &Principal) -> Scope {
        Scope { realm: principal.realm.clone(), owner: principal.id.clone(), agent: self.agent.clone() }
    }

    pub(crate) async fn snapshot(&self, scope: &Scope, id: &TaskId) -> Result<Snapshot, Error> {
        self.store.snapshot(scope, id).await.map_err(from_store)
    }

    /// Commits a batch, and tells those who are to hear of it.
    pub(crate) async fn append(
        &self,
        scope: &Scope,
        id: &TaskId,
        batch: impl Into<Box<Batch>>,
    ) -> Result<Appended, StoreError> {
        self.append_held(scope, id, batch, None, Sent::Answered).await
    }

    /// The same for the first batch of an admitted call, with what that holds.
    pub(crate) async fn append_held(
        &self,
        scope: &Scope,
        id: &TaskId,
        batch: impl Into<Box<Batch>>,
        hold: Option<Arc<dyn Hold>>,
        sent: Sent,
    ) -> Result<Appended, StoreError> {
        let mut batch = batch.into();
        let riding = self.holds.ride(scope, id, &mut batch, hold, sent);
        let appended = self.store.append(scope, id, batch).await;
        if let Some(riding) = &riding {
            match &appended {
                Ok(_) => self.holds.committed(scope, id, riding),
                Err(_) => self.holds.refused(scope, id, riding),
            }
        }
        let appended = appended?;
        if appended.push
            && let Some(notifier) = &self.notifier
        {
            notifier.wake();
        }
        Ok(appended)
    }

    /// The same, for what has been promised: it waits for a store that cannot take it now.
    pub(crate) async fn append_promised(
        &self,
        scope: &Scope,
        id: &TaskId,
        batch: impl Into<Box<Batch>>,
        sent: Sent,
    ) -> Result<Appended, StoreError> {
        let batch = batch.into();
        if !self.store.can_be_unavailable() {
            return self.append_held(scope, id, batch, None, sent).await;
        }
        self.insist(id, || self.append_held(scope, id, batch.clone(), None, sent)).await
    }

    /// Tries again for as long as the store cannot take it.
    async fn insist<T, F: Future<Output = Result<T, StoreError>>>(
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
    pub(crate) async fn reserve(
        &self,
        scope: &Scope,
        id: &TaskId,
        change: ReservationChange,
        hold: Option<Arc<dyn Hold>>,
    ) -> Result<(), StoreError> {
        let edge = hold.as_ref().map(|hold| hold.begin(id));
        // Before the commit: whoever learns of the call from then on must find this.
        hold.iter().for_each(|hold| _ = self.holds.put(scope, id, hold, true));
        let written = self.store.reserve(scope, id, ReservationWrite { change, edge }).await;
        match (&hold, &written) {
            (Some(hold), Ok(())) => hold.began(),
            (Some(hold), Err(_)) => {
                hold.refused();
                self.holds.forget(scope, id, hold);
            }
            (None, _) => {}
        }
        written
    }

    /// Ends a reserved call without a task, and settles what it holds.
    pub(crate) async fn close_reserved(
        &self,
        scope: &Scope,
        id: &TaskId,
        change: ReservationChange,
        outcome: CallOutcome,
        said: Option<&JsonObject>,
    ) -> Result<(), StoreError> {
        let hold = self.holds.of(scope, id);
        let settling = hold.as_ref().map(|hold| {
            let usage = said.and_then(|said| reported(&**hold, said));
            hold.settle(id, outcome, usage)
        });
        let edge = settling.as_ref().map(|settling| settling.edge.clone());
        let write = ReservationWrite { change, edge };
        self.insist(id, || self.store.reserve(scope, id, write.clone())).await?;
        if let (Some(hold), Some(settling)) = (hold, settling) {
            hold.settled(&settling.settled);
            self.holds.forget(scope, id, &hold);
        }
        Ok(())
    }

    /// Settles a call that has no task of its own, and keeps its record.
    pub(crate) async fn record_call(
        &self,
        hold: &dyn Hold,
        id: &TaskId,
        outcome: CallOutcome,
        said: Option<&JsonObject>,
    ) -> Result<(), StoreError> {
        let usage = said.and_then(|said| reported(hold, said));
        let settling = hold.settle(id, outcome, usage);
        self.insist(id, || self.store.put_edge(settling.edge.clone())).await?;
        hold.settled(&settling.settled);
        Ok(())
    }

    pub(crate) async fn list(&self, call: &Call<ListTasksRequest>) -> Result<TaskPage, Error> {
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
}

impl<W: Default + Send + 'static> Tasks<W> {
    /// Without `Last-Event-ID`: the task, then what follows, and nothing of a task that has ended. With it:
    /// exactly what follows that event, also of a task that has since ended.
    pub(crate) async fn subscribe(
        &self,
        call: &Call<SubscribeToTaskRequest>,
    ) -> Result<(Arc<Live<W>>, Snapshot, EventStream), Error> {
        let (scope, id) = (self.scope(&call.context.principal), &call.request.id);
        // First the place to be woken, then the look: nothing comes between them unseen.
        let live = self.live.enter(&scope, id);
        let snapshot = self.snapshot(&scope, id).await?;
        let over = snapshot.task.is_over();
        let seen = call.context.last_event.filter(|seen| *seen <= snapshot.number);
        if over && call.context.last_event.is_none() {
            let text = "The task has ended; get it with GetTask";
            return Err(
                Error::with_message(ErrorCode::UnsupportedOperation, text).about("taskId", id.as_str())
            );
        }
        live.catch_up(snapshot.number, over);
        let store = self.store.clone();
        let events: EventStream = match seen {
            Some(seen) => Box::pin(Subscription::after(store, live.clone(), seen, None)),
            None => Box::pin(Subscription::with_snapshot(store, live.clone(), &snapshot, None)?),
        };
        Ok((live, snapshot, events))
    }

    /// The task when it has ended or waits for somebody.
    pub(crate) async fn settled(&self, scope: &Scope, id: &TaskId) -> Result<KeptTask, Error> {
        let live = self.live.enter(scope, id);
        let snapshot = self.snapshot(scope, id).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        let mut events = Subscription::after(self.store.clone(), live, snapshot.number, None);
        loop {
            let task = self.snapshot(scope, id).await?.task;
            let state = task.state();
            if state.is_terminal() || state.is_interrupted() {
                return Ok(task);
            }
            poll_fn(|context| Pin::new(&mut events).poll_next(context)).await.transpose()?;
        }
    }

    /// The task as it stands, then the events that follow.
    pub(crate) async fn watch_from_here(
        &self,
        live: Arc<Live<W>>,
        end: Arc<TurnEnd>,
    ) -> Result<EventStream, Error> {
        let snapshot = self.snapshot(live.scope(), live.task_id()).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        Ok(Box::pin(Subscription::with_snapshot(self.store.clone(), live, &snapshot, Some(end))?))
    }
}

/// A task as it was asked for.
pub(crate) fn view(task: KeptTask, history_length: Option<i32>) -> TaskView {
    let history_length = history_length.and_then(|length| usize::try_from(length).ok());
    TaskView { history_length, ..TaskView::whole(task) }
}
