//! Tasks that wait to be let through: what is kept of their calls, and who is asked again after a restart.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{
    Admitted, Call, Error, Json, Message, Principal, SendMessageRequest, TaskState, Waiting,
};
use chancery_store::Snapshot;
use serde::{Deserialize, Serialize};

/// Has calls let through that were waiting, or that go on by themselves.
#[derive(Clone)]
pub(crate) struct Door(
    pub(crate) Arc<dyn Fn(Call<Box<SendMessageRequest>>) -> Option<Admitted> + Send + Sync>,
);

/// The state of a task that waits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waits {
    waiting: Waiting,
}

impl Waits {
    /// What is kept of a call.
    pub(crate) fn state(call: &Call<Box<SendMessageRequest>>) -> Result<Json, Error> {
        Json::from_value(&Self { waiting: Waiting::of(call) }).map_err(Error::internal)
    }

    /// What was kept of the call of a task, if that still waits.
    pub(crate) fn of(snapshot: &Snapshot) -> Option<Self> {
        let state = snapshot.state.as_ref().filter(|_| snapshot.task.state() == TaskState::Submitted);
        state?.to_value().ok()
    }

    /// Whether a state value is no agent's, but says that the task waits or has waited.
    pub(crate) fn is(state: &Json) -> bool {
        state.to_value::<Self>().is_ok()
    }

    /// The call, made again.
    pub(crate) fn call(
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

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}
