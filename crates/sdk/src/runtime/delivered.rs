//! What a turn needs of the runtime beside its sink: the journal, the gates, messages that come while it runs.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{
    Amount, CallOutcome, Error, Hold, Message, SendMessageConfiguration, Task, USAGE_EXTENSION, Usage,
};
use chancery_store::{Batch, Scope, StoreError};
use serde::Deserialize;

use super::detach::spawn;
use super::failure::from_store;
use super::queue::AnswerSender;
use super::recover::last_said;
use super::sink::Sink;
use super::start::Incoming;
use crate::agent::Sent;

/// A message that a running turn takes. It is answered with the task when [`Delivered::answer`] is called or it is dropped.
pub struct Delivered {
    sink: Arc<Sink>,
    incoming: Box<Incoming>,
    answer: Option<AnswerSender>,
    /// Whether its call pays for the task from now on, which waited for its client.
    pays_for_task: bool,
}

impl Sink {
    /// The task as the journal has it.
    pub(crate) async fn task(&self) -> Result<Arc<Task>, Error> {
        self.core.snapshot(&self.key).await?.task.value()
    }

    /// The same of any task that belongs to the same caller and agent.
    #[cfg(feature = "client")]
    pub(crate) async fn sibling(&self, id: &chancery_protocol::TaskId) -> Option<crate::agent::TaskHandle> {
        let found = self.core.store.snapshot(&self.key.scope, id).await.ok()?;
        let principal = self.core.own_context(&self.key.scope).principal;
        Some(crate::agent::TaskHandle { principal, task: id.clone(), state: found.state })
    }

    /// A secret from which ids for agents elsewhere derive.
    #[cfg(feature = "client")]
    pub(crate) fn context_secret(&self) -> [u8; 32] {
        self.core.store.context_secret()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.key.scope
    }

    /// Has the call of a task admitted anew that waited for its client and goes on, and gives what it holds. Without gates
    /// nothing has to be.
    pub(crate) async fn readmit(&self) -> Result<Option<Arc<dyn Hold>>, Error> {
        let (core, key) = (&self.core, &self.key);
        if let Some(held) = core.holds.of(key) {
            return Ok(Some(held));
        }
        let task = self.task().await?;
        let Some(said) = last_said(&task) else { return Ok(None) };
        let Some(hold) = core.admit_again(&key.scope, said).await?.hold else { return Ok(None) };
        resume_account(&*hold, &task);
        let recorded = core.append(key, Box::default(), Some(hold.clone()), Sent::Answered).await;
        recorded.map(|_| Some(hold)).map_err(from_store)
    }

    /// The agent has been asked about a task that waits: whoever looks at it may see it now.
    #[cfg(feature = "client")]
    pub(crate) fn refreshed(&self) {
        if let Some(live) = self.core.live.find(&self.key) {
            live.change(|work| work.is_refreshing = false);
        }
    }

    /// The next message that comes for the task while its turn runs.
    pub(crate) async fn delivered(self: &Arc<Self>) -> Delivered {
        loop {
            let Some(live) = self.core.live.find(&self.key) else {
                return std::future::pending().await;
            };
            live.until(|work| !work.queue.is_empty()).await;
            let Some(queued) = live.work.lock().queue.pop_front() else { continue };
            let (incoming, answer) = (queued.incoming, Some(queued.answer));
            let mut delivered = Delivered { sink: self.clone(), incoming, answer, pays_for_task: false };
            match delivered.begin().await {
                Ok(()) => return delivered,
                Err(error) => delivered.answer(Err(error)).await,
            }
        }
    }
}

impl Delivered {
    /// What the client says.
    pub fn message(&self) -> &Message {
        &self.incoming.message
    }

    /// How the client wants to be answered.
    pub fn configuration(&self) -> Option<&SendMessageConfiguration> {
        self.incoming.configuration.as_ref()
    }

    #[cfg(feature = "client")]
    pub(crate) fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// What the task is paid with from now on, if this message is what it waited for.
    pub(crate) fn hold_for_task(&self) -> Option<Arc<dyn Hold>> {
        self.incoming.context.hold.clone().filter(|_| self.pays_for_task)
    }

    /// Writes the call down, and uses its key up. It pays for the task if no other call does, and has a record of its own
    /// otherwise.
    async fn begin(&mut self) -> Result<(), Error> {
        let Sink { core, key, .. } = &*self.sink;
        self.incoming.message.task_id = Some(key.id.clone());
        let mut batch = Box::new(Batch::default());
        batch.admission = self.incoming.admission.take();
        let hold = self.incoming.context.hold.clone();
        self.pays_for_task = hold.is_some() && core.holds.of(key).is_none();
        let written = if self.pays_for_task {
            let task = self.sink.task().await?;
            hold.iter().for_each(|hold| resume_account(&**hold, &task));
            core.append(key, batch, hold, Sent::Answered).await
        } else {
            batch.edge = hold.as_ref().map(|hold| hold.begin(&key.id));
            let written = core.store.append(&key.scope, &key.id, batch).await;
            hold.iter().filter(|_| written.is_ok()).for_each(|hold| hold.began());
            written
        };
        match written {
            Ok(_) => Ok(()),
            Err(StoreError::Duplicate { .. }) => Err(from_store(StoreError::NotFound { id: key.id.clone() })),
            Err(error) => Err(from_store(error)),
        }
    }

    /// Answers the client once the task has ended or waits for somebody, or at once if the client does not wait.
    #[cfg(feature = "client")]
    pub(crate) async fn answer_when_shown(self) {
        let at_once = self.configuration().is_some_and(|wanted| wanted.return_immediately);
        if !at_once {
            let core = &self.sink.core;
            let settled = core.settled(&self.sink.key);
            let _ = tokio::time::timeout(core.spec.blocking_timeout, settled).await;
        }
        self.answer(Ok(())).await;
    }

    /// Answers the client with the task as it stands, or with an error, and settles the call.
    pub async fn answer(mut self, outcome: Result<(), Error>) {
        if let Some(answer) = self.answer.take() {
            self.sink.answer_delivered(self.own_hold(), answer, outcome).await;
        }
    }

    /// What the call holds, if it has a record of its own.
    fn own_hold(&self) -> Option<Arc<dyn Hold>> {
        self.incoming.context.hold.clone().filter(|_| !self.pays_for_task)
    }
}

impl Sink {
    async fn answer_delivered(
        &self,
        hold: Option<Arc<dyn Hold>>,
        sender: AnswerSender,
        outcome: Result<(), Error>,
    ) {
        let Self { core, key, .. } = self;
        let snapshot = core.snapshot(key).await;
        if let (Some(hold), Ok(snapshot)) = (hold, &snapshot) {
            let outcome = CallOutcome::Task(snapshot.task.state());
            if let Err(error) = core.record_call(key, hold, outcome, None).await {
                tracing::error!(task.id = %key.id, %error, "the record of a call for task {} is lost", key.id);
            }
        }
        let answer = match outcome {
            Ok(()) => snapshot.map(|snapshot| snapshot.task),
            Err(error) => Err(error),
        };
        sender.send_replace(Some(answer));
    }

    /// Waits until the turn that runs has ended and said so.
    async fn turn_over(&self) {
        let live = self.core.live.find(&self.key);
        let running = live.and_then(|live| live.work.lock().running.clone());
        if let Some(running) = running {
            let _ = tokio::time::timeout(self.core.spec.blocking_timeout, running.cancelled()).await;
        }
    }
}

/// A message that nobody answers is answered with what its turn left.
impl Drop for Delivered {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let (sink, hold) = (self.sink.clone(), self.own_hold());
        spawn(async move {
            sink.turn_over().await;
            sink.answer_delivered(hold, answer, Ok(())).await;
        });
    }
}

/// What the turns of a task have consumed so far.
pub(super) fn consumed_by(task: &Task) -> Option<Usage> {
    task.metadata.as_ref().and_then(|known| known.entry(USAGE_EXTENSION).ok().flatten())
}

/// What was reported for a task and charged to its agent alone.
#[derive(Default, Deserialize)]
struct Overrun {
    #[serde(default)]
    overrun: Amount,
}

/// A call goes on with the account of its task.
pub(super) fn resume_account(hold: &dyn Hold, task: &Task) {
    let Some(charged) = consumed_by(task) else { return };
    let told =
        task.metadata.as_ref().and_then(|known| known.entry::<Overrun>(USAGE_EXTENSION).ok().flatten());
    hold.resume(charged, told.unwrap_or_default().overrun);
}

impl fmt::Debug for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivered").field("message", &self.incoming.message).finish_non_exhaustive()
    }
}
