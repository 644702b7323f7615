//! A task as it came from the agent: written into the journal, and shown only then.

use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{
    CancelTaskRequest, ContextId, Error, Hold, KeptTask, Message, Request, Task, TaskId, TaskOutline,
    TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use chancery_store::{Admission, Appended, Batch, Registration, Scope, StoreError};

use super::Core;
use super::delta::delta;
use super::line::{Live, Pen};
use super::peers::Peer;
use super::told::Ending;
use crate::client::{Client, Options, Watch};
use crate::tasks::from_store;

/// What is written along with a task that is new here.
#[derive(Debug)]
pub(super) struct Beginning {
    /// Who has the task.
    pub(super) peer: Arc<Peer>,
    pub(super) push: Option<Box<Registration>>,
    pub(super) admission: Option<Admission>,
    /// What the call was let through with.
    pub(super) hold: Option<Arc<dyn Hold>>,
}

/// A task that has been written.
pub(super) enum Kept {
    New(Appended),
    /// It was there already, because it goes on there or because its message had been sent before. Nothing was written.
    Known(TaskId),
    /// Its id is that of a task that another agent has. Nothing was written.
    Taken(Error),
}

/// What comes of a message for a task that exists, besides what its agent says.
#[derive(Debug, Default)]
pub(super) struct Along {
    /// What was said, which is history whether the agent keeps it or not.
    pub(super) said: Option<Message>,
    pub(super) admission: Option<Admission>,
}

/// A task that is new here, as far as it matters for how it is kept.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) id: TaskId,
    pub(super) context_id: Option<ContextId>,
    pub(super) state: TaskState,
}

/// A task, and whether there was anything new in it.
pub(super) struct Merged {
    pub(super) task: KeptTask,
    pub(super) is_new: bool,
}

/// Whether the agent is going to do something about a task in this state.
pub(super) fn goes_on(state: TaskState) -> bool {
    matches!(state, TaskState::Submitted | TaskState::Working | TaskState::AuthRequired)
}

impl About {
    pub(super) fn of(task: &Task) -> Self {
        Self { id: task.id.clone(), context_id: task.context_id.clone(), state: task.status.state }
    }

    pub(super) fn outlined(task: &TaskOutline) -> Self {
        Self { id: task.id.clone(), context_id: task.context_id.clone(), state: task.status.state }
    }
}

impl Along {
    pub(super) fn saying(said: Option<Message>) -> Self {
        Self { said, admission: None }
    }
}

impl Core {
    /// Dates a status from when it was heard of, if its agent does not say when it began: tasks are listed by it.
    pub(super) fn date(&self, status: &mut TaskStatus) {
        status.timestamp.get_or_insert_with(|| self.tasks.store.clock().millis());
    }

    /// Adds a status to a batch, as it was written unless it has to be dated.
    pub(super) fn write_status(
        &self,
        batch: &mut Batch,
        mut update: TaskStatusUpdateEvent,
        said: Option<Message>,
        json: Bytes,
    ) {
        let is_dated = update.status.timestamp.is_some();
        self.date(&mut update.status);
        batch.status(update, said);
        if is_dated {
            batch.as_written(json);
        }
    }

    /// The same, where a status is known that this may be: that one keeps its date.
    pub(super) fn date_beside(&self, status: &mut TaskStatus, known: &TaskStatus) {
        if (status.state, &status.message) == (known.state, &known.message) {
            status.timestamp = status.timestamp.or(known.timestamp);
        }
        self.date(status);
    }

    /// Writes a task that is new here, under the id that the agent has given it.
    pub(super) async fn keep_new(
        &self,
        scope: &Scope,
        mut batch: Box<Batch>,
        about: &About,
        beginning: Beginning,
        options: &Options,
    ) -> Result<Kept, Error> {
        let About { id, context_id, state } = about;
        if *state == TaskState::Unspecified {
            return Err(self.refuse(id, "its new task is in no state"));
        }
        if id.is_empty() || id.as_str().len() > self.tasks.limits.id_bytes {
            return Err(self.refuse(id, "the id of its task cannot be used"));
        }
        let Beginning { peer, push, admission, hold } = beginning;
        batch.admission = admission;
        batch.state = peer.state.clone();
        batch.push = push.map(|mut registration| {
            registration.config.task_id = Some(id.clone());
            registration
        });
        let trouble = match self.tasks.append_held(scope, id, batch, hold.clone()).await {
            Ok(appended) => {
                if !appended.task.is_over() {
                    self.peers.began(scope, id, context_id.as_ref(), &peer);
                }
                return Ok(Kept::New(appended));
            }
            Err(StoreError::Exists { id }) => return Box::pin(self.known(scope, id, &peer, options)).await,
            Err(StoreError::Duplicate { task }) => {
                if task != *id {
                    // Its message has begun another one already.
                    self.call_off(&peer.client, id.clone(), options);
                }
                return Ok(Kept::Known(task));
            }
            Err(trouble) => trouble,
        };
        // What is not kept here must not go on there for nobody.
        self.call_off(&peer.client, id.clone(), options);
        match trouble {
            StoreError::TaskFull { .. } => {
                let mut failed = Batch::default();
                failed.create(self.failed(id, context_id.as_ref(), Ending::TooLarge));
                let appended = self.tasks.append_held(scope, id, failed, hold).await.map_err(from_store)?;
                Ok(Kept::New(appended))
            }
            StoreError::Transition { .. } => Err(self.refuse(id, "its new task begins as none can")),
            trouble => Err(from_store(trouble)),
        }
    }

    /// A task whose id is known: it is the same if the same agent has it.
    async fn known(&self, scope: &Scope, id: TaskId, peer: &Peer, options: &Options) -> Result<Kept, Error> {
        let known = self.tasks.snapshot(scope, &id).await?;
        if self.peers.of_task(&known).is_some_and(|known| known.is(peer)) {
            return Ok(Kept::Known(id));
        }
        self.call_off(&peer.client, id.clone(), options);
        Ok(Kept::Taken(self.refuse(&id, "another agent of the pool has a task of this id")))
    }

    /// Writes what is new in a task. One that breaks the protocol ends here.
    pub(super) async fn merge(
        &self,
        live: &Live,
        _pen: &Pen,
        mut now: Task,
        along: Along,
    ) -> Result<Merged, Error> {
        let snapshot = self.tasks.snapshot(live.scope(), live.task_id()).await?;
        if snapshot.task.is_over() {
            return Ok(Merged { task: snapshot.task, is_new: false });
        }
        if now.id != *live.task_id() {
            return Err(self
                .end(live, Ending::BrokeProtocol, "another task came where one was asked for")
                .await);
        }
        let known = snapshot.task.value()?;
        self.date_beside(&mut now.status, &known.status);
        let mut batch = delta(&known, now, along.said);
        drop(known);
        if batch.is_empty() {
            return Ok(Merged { task: snapshot.task, is_new: false });
        }
        // A reader that holds the task would have the store copy it.
        drop(snapshot);
        batch.admission = along.admission;
        Ok(Merged { task: self.commit(live, batch.into()).await?, is_new: true })
    }

    /// Writes events. A task that takes no more of them ends here.
    pub(super) async fn commit(&self, live: &Live, batch: Box<Batch>) -> Result<KeptTask, Error> {
        let (scope, id) = (live.scope(), live.task_id());
        match self.tasks.append_promised(scope, id, batch).await {
            Ok(appended) => Ok(self.show(live, appended)),
            Err(error @ StoreError::Transition { .. }) => {
                let snapshot = self.tasks.snapshot(scope, id).await?;
                if snapshot.task.is_over() {
                    return Ok(snapshot.task);
                }
                Err(Box::pin(self.end(live, Ending::BrokeProtocol, &error.to_string())).await)
            }
            Err(StoreError::Duplicate { .. }) => Ok(self.tasks.snapshot(scope, id).await?.task),
            Err(error @ StoreError::TaskFull { .. }) => {
                Err(Box::pin(self.end(live, Ending::TooLarge, &error.to_string())).await)
            }
            Err(error) => Err(from_store(error)),
        }
    }

    /// Shows what was written to everyone who watches. The task as it stands now.
    pub(super) fn show(&self, live: &Live, appended: Appended) -> KeptTask {
        let state = appended.task.state();
        if state == TaskState::InputRequired {
            live.end_streams_after(appended.number);
        }
        live.publish(appended.events, state.is_terminal());
        if state.is_terminal() {
            self.peers.ended(live.scope(), live.task_id());
        }
        appended.task
    }

    /// Ends a task that the agent has not ended, and gives what its caller is told. The reason is for the log.
    pub(super) async fn end(&self, live: &Live, ending: Ending, why: &str) -> Error {
        let id = live.task_id();
        tracing::warn!(task.id = %id, why, "task {id} is given up: {}", ending.text());
        if ending != Ending::Forgotten {
            self.call_off_there(live).await;
        }
        let known = self.tasks.snapshot(live.scope(), id).await;
        let context_id = known.ok().and_then(|known| known.task.value().ok()?.context_id.clone());
        let Task { status, .. } = self.failed(id, context_id.as_ref(), ending);
        let context_id = context_id.unwrap_or_else(|| ContextId::from(""));
        let mut batch = Batch::default();
        batch.status(TaskStatusUpdateEvent { task_id: id.clone(), context_id, status, metadata: None }, None);
        match self.tasks.append_promised(live.scope(), id, batch).await {
            Ok(appended) => drop(self.show(live, appended)),
            // Somebody else has ended it.
            Err(StoreError::Transition { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return from_store(error),
        }
        ending.error().about("taskId", id.as_str())
    }

    /// A task of which nothing is to be said but that it has failed.
    fn failed(&self, id: &TaskId, context_id: Option<&ContextId>, ending: Ending) -> Task {
        let mut said = Message::agent(ending.text()).in_task(id.clone());
        said.context_id = context_id.cloned();
        Task {
            id: id.clone(),
            context_id: context_id.cloned(),
            status: TaskStatus::at(self.tasks.store.clock().millis(), TaskState::Failed, Some(said)),
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: None,
        }
    }

    /// An answer that begins nothing here.
    pub(super) fn refuse(&self, id: &TaskId, why: &str) -> Error {
        tracing::warn!(task.id = %id, why, "an answer breaks the protocol");
        Ending::BrokeProtocol.error()
    }

    /// Tells the agent, if that is possible at all, that nobody wants a task any more.
    pub(super) fn call_off(&self, client: &Client, id: TaskId, options: &Options) {
        let client = client.clone();
        let options =
            Options { deadline: None, retries: Some(0), watch: Watch::default(), ..options.clone() };
        let request = CancelTaskRequest { tenant: String::new(), id, metadata: None };
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(async move {
            if let Err(error) = client.ask::<Task>(Request::CancelTask(request), options).await {
                tracing::debug!(%error, "a task that nobody wants was not canceled");
            }
        }));
    }

    /// The same of a task that is known here.
    pub(super) async fn call_off_there(&self, live: &Live) {
        let Ok(client) = self.client_of(live).await else { return };
        let Ok(names) = self.names_of(live).await else { return };
        let id = names.map_or_else(|| live.task_id().clone(), |names| names.there);
        self.call_off(&client, id, &Options::default());
    }

    /// Lets go of the pen. What goes on there is followed from now on, and so is what was followed before.
    pub(super) async fn leave(self: &Arc<Self>, live: Arc<Live>, pen: Pen, options: Options) {
        let Ok(snapshot) = self.tasks.snapshot(live.scope(), live.task_id()).await else { return };
        let state = snapshot.task.state();
        if goes_on(state) || pen.from_follower && !state.is_terminal() {
            self.follow((live, pen), state, options);
        }
    }
}
