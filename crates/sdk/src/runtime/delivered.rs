//! What a turn with an agent elsewhere needs of the runtime beside its sink, above all messages that come while it runs.

use std::sync::Arc;

use chancery_protocol::{CallOutcome, Error, Hold};
use chancery_store::{Batch, StoreError};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::detach::spawn;
use super::failure::from_store;
use super::queue::{AnswerSender, Queued};
use super::sink::Sink;
use super::start::{Incoming, resume_account};
use crate::agent::Sent;

/// A message that a running turn takes. It is answered with the error that `answer` is told, or else with the task: when that has
/// ended or waits for somebody if the agent has the message, and when the turn is over if nothing is told.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) incoming: Box<Incoming>,
    pub(crate) answer: oneshot::Sender<Result<(), Error>>,
}

impl Sink {
    /// A task that belongs to the same caller and agent.
    pub(crate) async fn sibling(&self, id: &chancery_protocol::TaskId) -> Option<crate::agent::TaskHandle> {
        let found = self.core.store.snapshot(&self.key.scope, id).await.ok()?;
        let principal = self.core.own_context(&self.key.scope).principal;
        Some(crate::agent::TaskHandle { principal, task: id.clone(), state: found.state })
    }

    /// A secret from which ids for agents elsewhere derive.
    pub(crate) fn context_secret(&self) -> [u8; 32] {
        self.core.store.context_secret()
    }

    /// The agent has been asked about a task that waits: whoever looks at it may see it now.
    pub(crate) fn refreshed(&self) {
        if let Some(live) = self.core.live.find(&self.key) {
            live.change(|work| work.is_refreshing = false);
        }
    }

    /// The next message that comes for the task while its turn runs. It becomes history with the next status.
    pub(crate) async fn delivered(self: &Arc<Self>) -> Delivered {
        loop {
            let Some(live) = self.core.live.find(&self.key) else {
                return std::future::pending().await;
            };
            live.until(|work| !work.queue.is_empty()).await;
            let Some(Queued { mut incoming, answer: sender, .. }) = live.work.lock().queue.pop_front() else {
                continue;
            };
            match self.deliver(&mut incoming).await {
                Ok(own_hold) => {
                    self.said(incoming.message.clone());
                    let (answer, answered) = oneshot::channel();
                    spawn(self.clone().close_delivered(own_hold, answered, sender));
                    return Delivered { incoming, answer };
                }
                Err(error) => {
                    sender.send_replace(Some(Err(error)));
                }
            }
        }
    }

    /// Writes the call of a message down, and uses its key up. It pays for the task if no other call does, which waited for its
    /// client. Otherwise it has a record of its own: what it holds is given.
    async fn deliver(&self, incoming: &mut Incoming) -> Result<Option<Arc<dyn Hold>>, Error> {
        let Self { core, key, .. } = self;
        incoming.message.task_id = Some(key.id.clone());
        let mut batch = Box::new(Batch::default());
        batch.admission = incoming.admission.take();
        let pays_for_task = core.holds.of(key).is_none();
        let (new, own) = match incoming.context.hold.clone() {
            Some(hold) if pays_for_task => {
                resume_account(&*hold, &*self.task().await?);
                (Some(hold), None)
            }
            hold => (None, hold),
        };
        batch.edge = own.as_ref().map(|hold| hold.begin(&key.id));
        match core.append(key, batch, new.clone(), Sent::Answered).await {
            Ok(_) => own.iter().for_each(|hold| hold.began()),
            Err(StoreError::Duplicate { .. }) => return Err(Error::task_not_found(&key.id)),
            Err(error) => return Err(from_store(error)),
        }
        if new.is_some() {
            self.set_hold(new);
        }
        Ok(own)
    }

    /// Answers a message that was delivered, and settles its call.
    async fn close_delivered(
        self: Arc<Self>,
        own_hold: Option<Arc<dyn Hold>>,
        answered: oneshot::Receiver<Result<(), Error>>,
        sender: AnswerSender,
    ) {
        let Self { core, key, .. } = &*self;
        let limit = core.spec.blocking_timeout;
        let refused = match answered.await {
            Ok(outcome) => {
                if outcome.is_ok() {
                    let _ = timeout(limit, core.settled(key)).await;
                }
                outcome.err()
            }
            Err(_) => {
                let _ = timeout(limit, self.cancellation().cancelled()).await;
                None
            }
        };
        let task = core.snapshot(key).await.map(|snapshot| snapshot.task);
        if let (Some(hold), Ok(task)) = (own_hold, &task)
            && let Err(error) = core.record_call(key, hold, CallOutcome::Task(task.state()), None).await
        {
            tracing::error!(task.id = %key.id, %error, "the record of a call for task {} is lost", key.id);
        }
        sender.send_replace(Some(refused.map_or(task, Err)));
    }
}
