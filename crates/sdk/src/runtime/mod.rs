//! The runtime: an agent and a journal behind the eleven operations.
//!
//! Follow a message: `take` decides which task it is for, `start` makes its turn and `send` says how its sender waits; `drive`
//! runs the turn and commits what the agent put into its `sink` to the `journal`, and shows it to everyone who watches. Beside
//! that way: `recover` runs turns that nobody has sent a message for, `queued` has the tasks of messages that are not let
//! through yet.

#[cfg(feature = "client")]
mod delivered;
mod detach;
mod drive;
mod end;
mod failure;
mod holds;
mod journal;
mod live;
mod push;
mod queue;
mod queued;
mod recover;
mod reserve;
mod send;
mod sink;
mod start;
mod subscription;
mod take;

use std::sync::Arc;

use chancery_protocol::{
    AgentCard, AgentExtension, BoxFuture, Call, CallContext, CancelTaskRequest, Endpoint, Error, ErrorCode,
    EventStream, GetExtendedAgentCardRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, Principal, PushNotificationConfigRequest,
    Queued, SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, TaskId, TaskPage,
    TaskPushNotificationConfig, TaskView,
};
use chancery_store::{Scope, Store};
use parking_lot::RwLock;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::spec::AgentSpec;
use detach::detached;
use failure::from_store;
use holds::Holds;
use journal::view;
use live::{LiveTasks, TaskKey};

#[cfg(feature = "client")]
pub(crate) use delivered::Delivered;
pub(crate) use detach::spawn;
#[cfg(feature = "client")]
pub(crate) use failure::chain;
pub(crate) use failure::contained;
pub use push::Notifier;
pub(crate) use queued::Readmitter;
pub(crate) use sink::Sink;
pub(crate) use start::{Found, Incoming};

/// Runs one agent. Implements [`Endpoint`], so it can be mounted, nested and called like any other.
#[derive(Clone, Debug)]
pub struct Runtime {
    core: Arc<Core>,
    /// Lets go of what goes on elsewhere when the last one is gone, also of those that came after.
    abandon: Arc<DropGuard>,
}

#[derive(Debug)]
struct Core {
    spec: AgentSpec,
    card: Arc<AgentCard>,
    store: Arc<Store>,
    live: LiveTasks,
    /// What the calls hold that the tasks have come of.
    holds: Arc<Holds>,
    /// None if nobody posts notifications.
    notifier: Option<Arc<dyn Notifier>>,
    /// Lets calls through that nobody waits for, if calls have to be let through.
    readmitter: RwLock<Option<Readmitter>>,
    /// Fires when nobody serves the agent any more: turns whose work goes on elsewhere end here, and their tasks do not.
    abandoned: CancellationToken,
}

impl Runtime {
    /// An agent on a journal. The card is what the agent is published with.
    pub fn new(spec: AgentSpec, card: Arc<AgentCard>, store: Arc<Store>) -> Self {
        Self::with_notifier(spec, card, store, None)
    }

    /// The same, with somebody who posts the events of tasks to whoever registers for them.
    pub fn with_notifier(
        spec: AgentSpec,
        card: Arc<AgentCard>,
        store: Arc<Store>,
        notifier: Option<Arc<dyn Notifier>>,
    ) -> Self {
        Self::after(None, spec, card, store, notifier)
    }

    /// The same, in the place of an earlier one that ran an agent of this name: whoever works on a task there or watches
    /// one is known here. What is being worked on is finished by the agent that has begun it.
    pub(crate) fn after(
        earlier: Option<&Self>,
        spec: AgentSpec,
        card: Arc<AgentCard>,
        store: Arc<Store>,
        notifier: Option<Arc<dyn Notifier>>,
    ) -> Self {
        let notifier = notifier.filter(|_| spec.push_notifications);
        let readmitter = RwLock::default();
        let (live, holds, abandoned, abandon) = match earlier {
            Some(Self { core, abandon }) => {
                (core.live.clone(), core.holds.clone(), core.abandoned.clone(), abandon.clone())
            }
            None => {
                let abandoned = CancellationToken::new();
                let abandon = Arc::new(abandoned.clone().drop_guard());
                (LiveTasks::default(), Arc::default(), abandoned, abandon)
            }
        };
        let core = Core { spec, card, store, live, holds, notifier, readmitter, abandoned };
        Self { core: Arc::new(core), abandon }
    }

    /// Ends the tasks of this agent that were being worked on when an earlier process ended, as FAILED with a
    /// reason, and says how many. To be called once, before the first call is served.
    pub async fn recover(&self) -> Result<usize, Error> {
        self.core.recover().await
    }

    /// Goes on with a task that waits in AUTH_REQUIRED, once its owner has authenticated out of band.
    pub async fn resume(&self, principal: &Principal, task_id: &TaskId) -> Result<(), Error> {
        detached(self.core.clone().resume(self.core.key(principal, task_id))).await
    }

    /// Ends a task as FAILED, for a reason that its caller may read, and stops whoever works on it. Says whether there
    /// was anything to end.
    pub async fn stop(&self, principal: &Principal, task_id: &TaskId, why: &str) -> Result<bool, Error> {
        let (core, key) = (self.core.clone(), self.core.key(principal, task_id));
        let why = why.to_owned();
        detached(async move { core.stop(key, why).await }).await
    }

    /// Cancels a task, also one that its caller has not been shown yet. Says whether there was anything to cancel.
    #[cfg(feature = "server")]
    pub(crate) async fn cancel(&self, principal: &Principal, task_id: &TaskId) -> Result<bool, Error> {
        let (core, key) = (self.core.clone(), self.core.key(principal, task_id));
        if core.end_reserved(&key, crate::agent::Outcome::canceled()) {
            return Ok(true);
        }
        end::had_effect(detached(core.cancel(key)).await)
    }

    /// Whether the agent is elsewhere.
    #[cfg(feature = "server")]
    pub(crate) fn is_remote(&self) -> bool {
        self.core.spec.refreshes
    }

    /// Whether nobody works on a task, and nobody watches one.
    #[cfg(feature = "server")]
    pub(crate) fn is_idle(&self) -> bool {
        self.core.live.is_empty()
    }

    /// Whether somebody works on a task, or watches it.
    #[cfg(feature = "server")]
    pub(crate) fn has_live(&self, principal: &Principal, task: &TaskId) -> bool {
        self.core.live.find(&self.core.key(principal, task)).is_some()
    }

    /// Takes over what a call of an earlier process holds for a task of this agent. One call pays for a task: another was a
    /// message for it while it ran, and nobody knows what came of that.
    #[cfg(feature = "server")]
    pub(crate) async fn restore_hold(
        &self,
        principal: &Principal,
        task: &TaskId,
        hold: &Arc<dyn chancery_protocol::Hold>,
    ) -> Result<(), Error> {
        let (core, key) = (&self.core, self.core.key(principal, task));
        if core.holds.put(&key, hold) {
            return Ok(());
        }
        let unknown = chancery_protocol::CallOutcome::Unknown(None);
        core.record_call(&key, hold.clone(), unknown, None).await.map_err(from_store)
    }

    /// Says who lets calls through.
    #[cfg(feature = "server")]
    pub(crate) fn readmitted_by(&self, readmitter: Readmitter) {
        *self.core.readmitter.write() = Some(readmitter);
    }

    /// The agent, for a call that may be made: extensions that it requires must be activated.
    fn checked<R>(&self, call: &Call<R>) -> Result<Arc<Core>, Error> {
        check_extensions(&self.core.spec.extensions, &call.context.extensions)?;
        Ok(self.core.clone())
    }

    /// How many turns are running, not counting those that have not waited for anything yet.
    pub fn running_turns(&self) -> usize {
        self.core.live.count(|work| work.running.is_some())
    }
}

impl Endpoint for Runtime {
    async fn send_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        self.checked(&call)?.send(call).await
    }

    async fn send_streaming_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<EventStream, Error> {
        let core = self.checked(&call)?;
        core.check_streaming()?;
        core.stream(call).await
    }

    async fn get_task(&self, call: Call<GetTaskRequest>) -> Result<TaskView, Error> {
        let core = self.checked(&call)?;
        call.request.validate()?;
        let key = core.known_as(&call).await?;
        let task = core.look_at(&key).await?;
        Ok(view(task, call.request.history_length))
    }

    async fn list_tasks(&self, call: Call<ListTasksRequest>) -> Result<TaskPage, Error> {
        self.checked(&call)?.list(&call).await
    }

    async fn cancel_task(&self, call: Call<CancelTaskRequest>) -> Result<TaskView, Error> {
        let core = self.checked(&call)?;
        let key = core.key(&call.context.principal, &call.request.id);
        // Once it is committed, the work must be stopped, also if nobody waits for the answer any more.
        detached(core.cancel(key)).await
    }

    async fn subscribe_to_task(&self, call: Call<SubscribeToTaskRequest>) -> Result<EventStream, Error> {
        self.checked(&call)?.check_streaming()?;
        let (snapshot, events) = self.core.subscribe(&call).await?;
        if snapshot.task.state().is_interrupted() {
            let key = self.core.key(&call.context.principal, &call.request.id);
            self.core.refresh(&key, snapshot);
        }
        Ok(events)
    }

    async fn create_push_config(
        &self,
        call: Call<TaskPushNotificationConfig>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        self.checked(&call)?.create_push_config(call).await
    }

    async fn get_push_config(
        &self,
        call: Call<PushNotificationConfigRequest>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        self.checked(&call)?.get_push_config(call).await
    }

    async fn list_push_configs(
        &self,
        call: Call<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Error> {
        self.checked(&call)?.list_push_configs(call).await
    }

    async fn delete_push_config(&self, call: Call<PushNotificationConfigRequest>) -> Result<(), Error> {
        self.checked(&call)?.delete_push_config(call).await
    }

    fn has_queue(&self) -> bool {
        true
    }

    fn enqueue(&self, queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
        let core = self.checked(&queued.call);
        Box::pin(async { detached(core?.enqueue(queued)).await })
    }

    async fn extended_card(&self, call: Call<GetExtendedAgentCardRequest>) -> Result<Arc<AgentCard>, Error> {
        let core = self.checked(&call)?;
        match &core.spec.extended_card {
            Some(make) => {
                let public = (*core.card).clone();
                contained("extended_card", || make(&call.context.principal, public)).map(Arc::new)
            }
            None => {
                let text = "This agent has no extended card";
                Err(Error::with_message(ErrorCode::UnsupportedOperation, text))
            }
        }
    }
}

impl Core {
    /// Whose tasks somebody may see.
    fn scope(&self, principal: &Principal) -> Scope {
        Scope { realm: principal.realm.clone(), owner: principal.id.clone(), agent: self.spec.name.clone() }
    }

    /// The task that somebody of theirs names.
    fn key(&self, principal: &Principal, id: &TaskId) -> TaskKey {
        TaskKey { scope: self.scope(principal), id: id.clone() }
    }

    /// The task that is looked at. In stores from before, a task that its caller has named has the id that an agent
    /// elsewhere gave it: it is found by the key that it was begun with.
    async fn known_as(&self, call: &Call<GetTaskRequest>) -> Result<TaskKey, Error> {
        let (asked, context, scope) = (&call.request.id, &call.context, self.scope(&call.context.principal));
        let found = match &context.idempotency_key {
            Some(key) if self.spec.works_elsewhere && context.new_task.as_ref() == Some(asked) => {
                self.store.task_of_key(&scope, key).await.map_err(from_store)?
            }
            _ => None,
        };
        Ok(TaskKey { scope, id: found.unwrap_or_else(|| asked.clone()) })
    }

    fn check_streaming(&self) -> Result<(), Error> {
        if self.spec.streaming {
            return Ok(());
        }
        Err(Error::with_message(ErrorCode::UnsupportedOperation, "This agent does not stream")
            .about("capability", "streaming"))
    }

    /// A call that this server makes for whoever owns the tasks of a scope.
    fn own_context(&self, scope: &Scope) -> Box<CallContext> {
        let principal = Principal { realm: scope.realm.clone(), id: scope.owner.clone() };
        CallContext::new(principal, self.spec.name.clone())
    }
}

/// Whether a call activates all extensions that an agent requires.
pub(crate) fn check_extensions(declared: &[AgentExtension], activated: &[String]) -> Result<(), Error> {
    let required = declared.iter().filter(|extension| extension.required);
    let missing: Vec<_> = required
        .filter(|extension| !activated.contains(&extension.uri))
        .map(|extension| extension.uri.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    let text = format!("A required extension was not declared; send `A2A-Extensions: {missing}`");
    Err(Error::with_message(ErrorCode::ExtensionSupportRequired, text).about("extensions", missing))
}
