//! Messages that are not let through yet: their tasks are there, and are worked on when there is room.
//!
//! Such a task is SUBMITTED and has its place among the live ones like one that is worked on, so it is watched, canceled and
//! talked to in the same way. What is needed to have it let through stands in its state, so a restart goes on waiting.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{
    Admitted, Call, Error, Json, Message, Principal, Queued, SendMessageRequest, TaskState, TaskView, Waiting,
};
use chancery_store::{Snapshot, StoreError, Unfinished};
use serde::{Deserialize, Serialize};

use super::Core;
use super::failure::{from_store, task_is_over};
use super::journal::view;
use super::live::Live;
use super::queue::Incoming;
use super::refresh::last_said;
use super::sink::Sink;
use super::take::admission;
use crate::agent::Sent;
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
        let Call { request, context } = call;
        self.check(&context)?;
        self.check_message(&request)?;
        let scope = self.scope(&context.principal);
        let admission = admission(&context, &request)?;
        let SendMessageRequest { tenant, message, mut configuration, metadata } = *request;
        let history_length = configuration.as_ref().and_then(|wanted| wanted.history_length);
        let (message, opening) = self.open(message, configuration.as_mut(), &context, true)?;
        let request = Box::new(SendMessageRequest { tenant, message, configuration, metadata });
        let call = Call { request, context };
        let (id, context_id) = (opening.task_id().clone(), opening.context_id().clone());
        let mut batch = opening.take_batch();
        (batch.admission, batch.state) = (admission, Some(Waits::state(&call)?));
        let live = self.live.enter(&scope, &id);
        let sink = Sink::working(&self, id.clone(), context_id);
        live.claim(&sink);
        let appended = match self.append(&scope, &id, batch, None, Sent::Answered).await {
            Ok(appended) => appended,
            Err(StoreError::Duplicate { task }) => {
                return Ok(view(self.snapshot(&scope, &task).await?.task, history_length));
            }
            Err(error) => return Err(from_store(error)),
        };
        live.publish(appended.events, false);
        tokio::spawn(self.wait(live, sink, call, admitted));
        Ok(view(appended.task, history_length))
    }

    /// Has a call let through whose caller does not wait for it. None if nobody has to.
    pub(super) fn readmit(&self, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        let readmitter = self.readmitter.read().clone()?;
        readmitter.0(call)
    }

    /// Waits until the message is let through, then works on it.
    async fn wait(
        self: Arc<Self>,
        live: Arc<Live>,
        sink: Sink,
        call: Call<Box<SendMessageRequest>>,
        admitted: Admitted,
    ) {
        let ended = sink.cancellation().clone();
        let Some(admitted) = ended.run_until_cancelled(admitted).await else {
            live.work.lock().running = None;
            return;
        };
        let SendMessageRequest { message, configuration, metadata, .. } = *call.request;
        match admitted {
            Ok(context) => {
                let incoming = Incoming {
                    message,
                    is_new: false,
                    configuration,
                    metadata,
                    context,
                    admission: None,
                    waits: CallerWaits::No,
                };
                // What becomes of it stands in the journal, and a failure is told where it happens.
                if let Ok(drive) = self.begin(live, sink, Box::new(incoming)).await {
                    drive.run().await;
                }
            }
            Err(error) => self.turn_away(&live, &sink, &error).await,
        }
    }

    /// Ends the task of a message that is not let through.
    async fn turn_away(&self, live: &Live, sink: &Sink, error: &Error) {
        let (scope, id, context_id) = (live.scope(), live.task_id(), Some(sink.context_id().clone()));
        let rejected = (TaskState::Rejected, error.message());
        if let Err(error) = self.end_without_turn(scope, id, context_id, rejected, Sent::Answered).await {
            tracing::error!(task.id = %id, %error, "a task that waits is lost");
        }
        live.work.lock().running = None;
        live.refuse_queue(|| task_is_over(id));
    }

    /// Goes on waiting with a task that an earlier process had waiting. Whether it was such a task.
    pub(super) async fn wait_again(self: &Arc<Self>, orphan: &Unfinished) -> Result<bool, StoreError> {
        let (scope, id) = (&orphan.scope, &orphan.task);
        let snapshot = self.store.snapshot(scope, id).await?;
        let Some(waits) = Waits::of(&snapshot) else { return Ok(false) };
        let Ok(task) = snapshot.task.value() else { return Ok(false) };
        let Some(message) = last_said(&task.history) else {
            return Ok(false);
        };
        let principal = Principal { realm: scope.realm.clone(), id: scope.owner.clone() };
        let call = waits.call(principal, self.spec.name.clone(), message);
        let Some(admitted) = self.readmit(call.clone()) else { return Ok(false) };
        if let (live, Some(sink)) = self.claim(scope, id, &task) {
            live.catch_up(snapshot.number, false);
            tokio::spawn(self.clone().wait(live, sink, call, admitted));
        }
        Ok(true)
    }
}

impl Waits {
    /// What is kept of a call.
    pub(super) fn state(call: &Call<Box<SendMessageRequest>>) -> Result<Json, Error> {
        Json::from_value(&Self { waiting: Waiting::of(call) }).map_err(Error::internal)
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
