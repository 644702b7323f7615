//! Messages that are not let through yet: their tasks are there, and are worked on when there is room.
//!
//! Such a task is SUBMITTED and has its place among the live ones like one that is worked on, so it is watched, canceled and
//! talked to in the same way. What is needed to have it let through stands in its state, so a restart goes on waiting.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{
    Admitted, Call, Error, Json, Message, Principal, Queued, SendMessageRequest, TaskState, TaskView, Waiting,
};
use chancery_store::{Snapshot, StoreError};
use serde::{Deserialize, Serialize};

use super::Core;
use super::failure::from_store;
use super::journal::view;
use super::live::{Live, TaskKey};
use super::recover::last_said;
use super::sink::Sink;
use super::start::Incoming;
use super::take::admission;
use crate::agent::{Outcome, Sent};
use crate::turn::CallerWaits;

/// Has calls let through that were waiting, or that go on by themselves.
#[derive(Clone)]
pub(crate) struct Readmitter(
    pub(crate) Arc<dyn Fn(Call<Box<SendMessageRequest>>) -> Option<Admitted> + Send + Sync>,
);

/// The state of a task that waits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waits {
    waiting: Waiting,
}

impl Core {
    /// Opens the task of a message that is not let through yet.
    pub(super) async fn enqueue(self: Arc<Self>, queued: Box<Queued>) -> Result<TaskView, Error> {
        let Queued { call, admitted } = *queued;
        self.check_message(&call.request)?;
        let scope = self.scope(&call.context.principal);
        let history_length = call.request.configuration.as_ref().and_then(|wanted| wanted.history_length);
        let key = admission(&call)?;
        let mut incoming = Incoming::new(call, None, CallerWaits::No);
        let opening = self.open(&scope, &mut incoming, true)?;
        incoming.is_new = false;
        let mut batch = opening.take_batch();
        (batch.admission, batch.state) = (key, Some(Waits::state(&incoming)?));
        let live = self.live.enter(&opening.key);
        let sink = Sink::working(&self, opening.key.clone(), opening.context_id().clone());
        live.claim(&sink);
        let appended = match self.append(&opening.key, batch, None, Sent::Answered).await {
            Ok(appended) => appended,
            Err(StoreError::Duplicate { task }) => {
                let key = TaskKey { scope, id: task };
                return Ok(view(self.snapshot(&key).await?.task, history_length));
            }
            Err(error) => return Err(from_store(error)),
        };
        let task = live.publish(appended);
        tokio::spawn(self.wait(live, sink, incoming, admitted));
        Ok(view(task, history_length))
    }

    /// Has a call let through whose caller does not wait for it. None if nobody has to.
    pub(super) fn readmit(&self, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        let readmitter = self.readmitter.read().clone()?;
        readmitter.0(call)
    }

    /// Waits until the message is let through, then works on it. One that is not let through ends its task.
    async fn wait(
        self: Arc<Self>,
        live: Arc<Live>,
        sink: Sink,
        mut incoming: Box<Incoming>,
        admitted: Admitted,
    ) {
        let ended = sink.cancellation().clone();
        match ended.run_until_cancelled(admitted).await {
            Some(Ok(context)) => {
                incoming.context = context;
                // What becomes of it stands in the journal, and a failure is told where it happens.
                if let Ok(drive) = self.begin(live, sink, incoming).await {
                    drive.run().await;
                }
            }
            Some(Err(error)) => {
                let (key, why) = (&live.key, || Outcome::rejected(error.message()));
                let end = || self.end_task(key, Some(sink.context_id().clone()), why(), Sent::Answered);
                if let Err(error) = self.insist(&key.id, end).await {
                    tracing::error!(task.id = %live.key.id, %error, "a task that waits is lost");
                }
                live.work.lock().running = None;
                live.refuse_queue();
            }
            None => live.work.lock().running = None,
        }
    }

    /// Goes on waiting with a task that an earlier process had waiting. Whether it was such a task.
    pub(super) async fn wait_again(self: &Arc<Self>, key: &TaskKey) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot(&key.scope, &key.id).await?;
        let Some(waits) = Waits::of(&snapshot) else { return Ok(false) };
        let Ok(task) = snapshot.task.value() else { return Ok(false) };
        let Some(said) = last_said(&task) else { return Ok(false) };
        let call = waits.call(self.own_context(&key.scope).principal, self.spec.name.clone(), said);
        let Some(admitted) = self.readmit(call.clone()) else { return Ok(false) };
        if let (live, Some(sink)) = self.claim(key, &task) {
            live.catch_up(snapshot.number, false);
            let incoming =
                Box::new(Incoming { is_new: false, ..*Incoming::new(call, None, CallerWaits::No) });
            tokio::spawn(self.clone().wait(live, sink, incoming, admitted));
        }
        Ok(true)
    }
}

impl Waits {
    /// What is kept of a call.
    fn state(incoming: &Incoming) -> Result<Json, Error> {
        let Incoming { message, configuration, metadata, context, .. } = incoming;
        let (message, configuration, metadata) = (message.clone(), configuration.clone(), metadata.clone());
        let request =
            Box::new(SendMessageRequest { tenant: String::new(), message, configuration, metadata });
        let waiting = Waiting::of(&Call { request, context: context.clone() });
        Json::from_value(&Self { waiting }).map_err(Error::internal)
    }

    /// What was kept of the call of a task, if that still waits.
    pub(super) fn of(snapshot: &Snapshot) -> Option<Self> {
        let state = snapshot.state.as_ref().filter(|_| snapshot.task.state() == TaskState::Submitted);
        state?.to_value().ok()
    }

    /// Whether a state value is no agent's, but says that the task waits or has waited.
    pub(super) fn is(state: &Json) -> bool {
        state.to_value::<Self>().is_ok()
    }

    /// The call, made again.
    pub(super) fn call(
        self,
        principal: Principal,
        agent: Arc<str>,
        message: Message,
    ) -> Call<Box<SendMessageRequest>> {
        // The task that it has by now is not one that the message was for.
        let message = Message { task_id: None, ..message };
        self.waiting.call(principal, agent, message)
    }
}

impl fmt::Debug for Readmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readmitter")
    }
}
