//! An agent elsewhere as an [`Agent`] of this runtime: each of its turns is an exchange with the agent there, written down
//! before it leaves and followed to its end.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    CancelTaskRequest, Error, ErrorCode, Message, PoolWatch, Principal, Request, Task, TaskId, TaskState,
};

use super::exchange::Exchange;
use super::peers::{Peer, RelayPeers};
use super::state::RemoteState;
use crate::agent::{Agent, Cancellation, Failure, Outcome, TaskHandle, WhileRunning};
use crate::client::{Client, Options};
use crate::runtime::spawn;
use crate::turn::Turn;

/// How many messages may wait for a turn that is about to take them.
const DELIVERIES: usize = 16;

/// An agent elsewhere, or several that do the same.
#[derive(Clone)]
pub(super) struct RemoteAgent {
    pub(super) peers: RelayPeers,
    pub(super) watch: Option<Arc<dyn PoolWatch>>,
    pub(super) settings: RemoteSettings,
}

/// How an agent elsewhere is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteSettings {
    /// For how long the agent may be out of reach before its tasks fail.
    pub(super) patience: Duration,
    /// How long a stream may bring no event before the agent is asked for the task.
    pub(super) silence: Duration,
    /// How long an answer to a message is waited for, at most.
    pub(super) answer_timeout: Duration,
    /// Whether the agent is told on whose behalf calls are made, and in which trace.
    pub(super) tells_lineage: bool,
    /// Whether messages are streamed also for callers that only wait for the outcome.
    pub(super) always_streams: bool,
}

const GONE: &str = "The agent that has this task is no longer there; try again later";

impl Agent for RemoteAgent {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        Exchange::new(self, &turn)?.run().await
    }

    fn opens_task(&self, _: &Message) -> bool {
        false
    }

    fn while_running(&self) -> WhileRunning {
        WhileRunning::Queue(DELIVERIES)
    }

    fn works_elsewhere(&self) -> bool {
        true
    }

    fn refreshes(&self) -> bool {
        true
    }

    async fn cancel(&self, task: TaskHandle) -> Result<Cancellation, Error> {
        let Some((client, there)) = self.whereabouts(&task) else { return Ok(Cancellation::Unknown) };
        let scrubber = RemoteState::of_task(&task).scrubber;
        let canceled = match ask_to_cancel(&client, there).await {
            Ok(canceled) => canceled,
            Err(error) => match error.code() {
                Some(ErrorCode::TaskNotCancelable | ErrorCode::UnsupportedOperation) => {
                    return Err(scrubber.told(error));
                }
                _ => return Ok(Cancellation::Unknown),
            },
        };
        match canceled.status.state {
            TaskState::Canceled => {
                self.ended(&task.principal, &task.task);
                Ok(Cancellation::Done(scrubber.last_status(canceled).map(Box::new)))
            }
            state if state.is_terminal() => {
                let text = "The task has already ended";
                Err(Error::with_message(ErrorCode::TaskNotCancelable, text).about("state", state.as_str()))
            }
            _ => Ok(Cancellation::Pending),
        }
    }

    fn ended_without_agent(&self, task: TaskHandle) {
        self.ended(&task.principal, &task.task);
        if let Some((client, there)) = self.whereabouts(&task) {
            cancel_there(client, there);
        }
    }
}

impl RemoteAgent {
    /// A member of the pool no longer has a task.
    pub(super) fn ended(&self, owner: &Principal, task: &TaskId) {
        self.watch.iter().for_each(|watch| watch.ended(owner, task));
    }

    /// Whom to ask about a task, and by which id.
    fn whereabouts(&self, task: &TaskHandle) -> Option<(Client, TaskId)> {
        let state = RemoteState::of_task(task);
        let peer = self.peers.of_name(&state.remote)?;
        Some((peer.client.clone(), state.task?))
    }

    /// The member that a message goes to: the one that has its task, or the one that was chosen.
    pub(super) fn peer_for(&self, turn: &Turn, state: &RemoteState) -> Result<Arc<Peer>, Failure> {
        let is_new = state.task.is_none() && state.sent == 0;
        let chosen = turn.incoming.context.peer.as_deref().unwrap_or_default();
        self.peers.of_name(if is_new { chosen } else { &state.remote }).ok_or_else(|| {
            let error = Error::with_message(ErrorCode::Unavailable, GONE);
            Failure::protocol(error.about("taskId", turn.task_id().as_str())).never_sent()
        })
    }
}

async fn ask_to_cancel(client: &Client, there: TaskId) -> Result<Task, crate::client::ClientError> {
    let request = CancelTaskRequest { tenant: String::new(), id: there, metadata: None };
    let options = Options { retries: Some(0), ..Options::default() };
    client.ask(Request::CancelTask(request), options).await
}

/// Tells the agent, if that is possible at all, that nobody wants a task any more.
pub(super) fn cancel_there(client: Client, there: TaskId) {
    spawn(async move {
        if let Err(error) = ask_to_cancel(&client, there).await {
            tracing::debug!(%error, "a task that nobody wants was not canceled");
        }
    });
}
