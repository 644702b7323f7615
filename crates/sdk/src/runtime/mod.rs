//! The runtime: an agent and a journal behind the eleven operations.
//!
//! Follow a message: `take` decides which task it is for and `send` how its sender waits; `drive` runs the turn
//! and commits what the agent put into its `sink` to [`crate::tasks`], which shows it to everyone who watches. Beside
//! that way: `recover` ends what an earlier process left behind, `queued` has the tasks of messages that are not let through yet.

mod drive;
mod failure;
mod queue;
mod queued;
mod recover;
mod send;
mod sink;
mod take;

use std::sync::Arc;

use chancery_protocol::{
    AgentCard, BoxFuture, Call, CallContext, CancelTaskRequest, Endpoint, Error, ErrorCode, EventStream,
    GetExtendedAgentCardRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, Message, Principal,
    PushNotificationConfigRequest, Queued, SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest,
    TaskId, TaskPage, TaskPushNotificationConfig, TaskState, TaskStatus, TaskStatusUpdateEvent, TaskView,
};
use chancery_store::{Batch, Scope, Store, StoreError};

use crate::spec::AgentSpec;
#[cfg(feature = "server")]
use crate::tasks::Door;
use crate::tasks::{
    Carriers, Notifier, Tasks, Unstoppable, from_store, no_extended_card, task_is_over, view,
};
use drive::Done;
use queue::Work;

pub(crate) use failure::contained;
pub use sink::Emit;
pub(crate) use sink::Sink;

/// A task that somebody works on or watches.
type Live = crate::tasks::Live<Work>;

/// Runs one agent. Implements [`Endpoint`], so it can be mounted, nested and called like any other.
#[derive(Clone, Debug)]
pub struct Runtime(Arc<Core>);

#[derive(Debug)]
struct Core {
    spec: AgentSpec,
    card: Arc<AgentCard>,
    tasks: Tasks<Work>,
    /// The turns that are polled by the streams that began them.
    carriers: Carriers<Result<Done, Error>>,
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
        let tasks = Tasks::new(spec.name.clone(), store, notifier);
        let tasks = tasks.after(earlier.map(|earlier| &earlier.0.tasks));
        Self(Arc::new(Core { spec, card, tasks, carriers: Carriers::default() }))
    }

    /// Ends the tasks of this agent that were being worked on when an earlier process ended, as FAILED with a
    /// reason, and says how many. To be called once, before the first call is served.
    pub async fn recover(&self) -> Result<usize, Error> {
        self.0.recover().await
    }

    /// Goes on with a task that waits in AUTH_REQUIRED, once its owner has authenticated out of band.
    pub async fn resume(&self, principal: &Principal, task_id: &TaskId) -> Result<(), Error> {
        Unstoppable::new(|| self.0.clone().resume(principal.clone(), task_id.clone())).await
    }

    /// Ends a task as FAILED, for a reason that its caller may read, and stops whoever works on it. Says whether there
    /// was anything to end.
    pub async fn stop(&self, principal: &Principal, task_id: &TaskId, why: &str) -> Result<bool, Error> {
        let (core, scope, id) = (self.0.clone(), self.0.tasks.scope(principal), task_id.clone());
        let said = Message::agent(why);
        let ended =
            Unstoppable::new(|| core.end_from_outside(scope, id, TaskState::Failed, Some(said))).await;
        match ended {
            Ok(_) => Ok(true),
            Err(error) if error.code() == ErrorCode::TaskNotCancelable => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether nobody works on a task, and nobody watches one.
    #[cfg(feature = "server")]
    pub(crate) fn is_idle(&self) -> bool {
        self.0.tasks.live.is_empty()
    }

    /// Whether somebody works on a task, or watches it.
    #[cfg(feature = "server")]
    pub(crate) fn has_live(&self, principal: &Principal, task: &TaskId) -> bool {
        self.0.tasks.live.find(&self.0.tasks.scope(principal), task).is_some()
    }

    /// Takes over what a call of an earlier process holds for a task of this agent.
    #[cfg(feature = "server")]
    pub(crate) fn restore_hold(
        &self,
        principal: &Principal,
        task: &TaskId,
        hold: &Arc<dyn chancery_protocol::Hold>,
    ) {
        self.0.tasks.holds.put(&self.0.tasks.scope(principal), task, hold, true);
    }

    /// Says who lets calls through.
    #[cfg(feature = "server")]
    pub(crate) fn guarded_by(&self, door: Door) {
        self.0.tasks.guarded_by(door);
    }

    /// How many turns are running, not counting those that have not waited for anything yet.
    pub fn running_turns(&self) -> usize {
        self.0.tasks.live.count(|work| work.running.is_some())
    }
}

impl Endpoint for Runtime {
    fn send_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> impl Future<Output = Result<SendMessageResponse<TaskView>, Error>> + Send {
        let core = self.0.clone();
        async move {
            core.check(&call.context)?;
            core.send(call).await
        }
    }

    fn send_streaming_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> impl Future<Output = Result<EventStream, Error>> + Send {
        let core = self.0.clone();
        async move {
            core.check(&call.context)?;
            core.check_streaming()?;
            core.stream(call).await
        }
    }

    async fn get_task(&self, call: Call<GetTaskRequest>) -> Result<TaskView, Error> {
        self.0.check(&call.context)?;
        call.request.validate()?;
        let scope = self.0.scope(&call.context);
        let task = self.0.tasks.snapshot(&scope, &call.request.id).await?.task;
        Ok(view(task, call.request.history_length))
    }

    async fn list_tasks(&self, call: Call<ListTasksRequest>) -> Result<TaskPage, Error> {
        self.0.check(&call.context)?;
        self.0.tasks.list(&call).await
    }

    async fn cancel_task(&self, call: Call<CancelTaskRequest>) -> Result<TaskView, Error> {
        self.0.check(&call.context)?;
        let (core, scope) = (self.0.clone(), self.0.scope(&call.context));
        // Once it is committed, the work must be stopped, also if nobody waits for the answer any more.
        Unstoppable::new(|| core.end_from_outside(scope, call.request.id, TaskState::Canceled, None)).await
    }

    async fn subscribe_to_task(&self, call: Call<SubscribeToTaskRequest>) -> Result<EventStream, Error> {
        self.0.check(&call.context)?;
        self.0.check_streaming()?;
        Ok(self.0.tasks.subscribe(&call).await?.2)
    }

    async fn create_push_config(
        &self,
        call: Call<TaskPushNotificationConfig>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        self.0.check(&call.context)?;
        self.0.tasks.create_push_config(call).await
    }

    async fn get_push_config(
        &self,
        call: Call<PushNotificationConfigRequest>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        self.0.check(&call.context)?;
        self.0.tasks.get_push_config(call).await
    }

    async fn list_push_configs(
        &self,
        call: Call<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Error> {
        self.0.check(&call.context)?;
        self.0.tasks.list_push_configs(call).await
    }

    async fn delete_push_config(&self, call: Call<PushNotificationConfigRequest>) -> Result<(), Error> {
        self.0.check(&call.context)?;
        self.0.tasks.delete_push_config(call).await
    }

    fn has_queue(&self) -> bool {
        true
    }

    fn enqueue(&self, queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
        Box::pin(Unstoppable::new(|| self.0.clone().enqueue(queued)))
    }

    async fn extended_card(&self, call: Call<GetExtendedAgentCardRequest>) -> Result<Arc<AgentCard>, Error> {
        self.0.check(&call.context)?;
        match &self.0.spec.extended_card {
            Some(make) => {
                let public = (*self.0.card).clone();
                contained("extended_card", || make(&call.context.principal, public)).map(Arc::new)
            }
            None => Err(no_extended_card()),
        }
    }
}

impl Core {
    /// Whose tasks a call may see.
    fn scope(&self, context: &CallContext) -> Scope {
        self.tasks.scope(&context.principal)
    }

    /// Extensions that the agent requires must be activated by every call.
    fn check(&self, context: &CallContext) -> Result<(), Error> {
        let required = self.spec.extensions.iter().filter(|extension| extension.required);
        let missing: Vec<_> = required
            .filter(|extension| !context.extensions.contains(&extension.uri))
            .map(|extension| extension.uri.as_str())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        let text = format!("A required extension was not declared; send `A2A-Extensions: {missing}`");
        Err(Error::with_message(ErrorCode::ExtensionSupportRequired, text).about("extensions", missing))
    }

    fn check_streaming(&self) -> Result<(), Error> {
        if self.spec.streaming {
            return Ok(());
        }
        Err(Error::with_message(ErrorCode::UnsupportedOperation, "This agent does not stream")
            .about("capability", "streaming"))
    }

    /// Ends a task in the name of somebody else than its turn, then stops whoever works on it. The status is committed
    /// here and not by the turn, so that a turn which never yields cannot hold it up.
    async fn end_from_outside(
        self: Arc<Self>,
        scope: Scope,
        id: TaskId,
        state: TaskState,
        said: Option<Message>,
    ) -> Result<TaskView, Error> {
        let (scope, id) = (&scope, &id);
        let snapshot = self.tasks.snapshot(scope, id).await?;
        let context_id = snapshot.task.value()?.context_id.clone().unwrap_or_else(|| "".into());
        let said = said.map(|said| said.in_task(id.clone()).in_context(context_id.clone()));
        let status = TaskStatusUpdateEvent {
            task_id: id.clone(),
            context_id,
            status: TaskStatus::at(self.tasks.store.clock().millis(), state, said),
            metadata: None,
        };
        let mut batch = Batch::default();
        batch.status(status, None);
        match self.tasks.append(scope, id, batch).await {
            Ok(appended) => {
                if let Some(live) = self.tasks.live.find(scope, id) {
                    live.publish(appended.events, true);
                    if let Some(running) = &live.work.lock().running {
                        running.cancel();
                    }
                    live.refuse_queue(|| task_is_over(id));
                }
                Ok(TaskView::whole(appended.task))
            }
            Err(StoreError::Transition { from: TaskState::Canceled, .. }) if state == TaskState::Canceled => {
                Ok(TaskView::whole(self.tasks.snapshot(scope, id).await?.task))
            }
            Err(StoreError::Transition { from, .. }) => {
                Err(Error::with_message(ErrorCode::TaskNotCancelable, "The task has already ended")
                    .about("taskId", id.as_str())
                    .about("state", from.as_str()))
            }
            Err(error) => Err(from_store(error)),
        }
    }
}
