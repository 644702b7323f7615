//! Making a turn ready and starting it, and what it tells of itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    Amount, Call, CallContext, Error, ErrorCode, Hold, Json, JsonObject, KeptTask, LINEAGE_EXTENSION,
    Message, SendMessageConfiguration, SendMessageRequest, SendMessageResponse, Task, USAGE_EXTENSION, Usage,
};
use chancery_store::Admission;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::drive::Drive;
use super::live::Live;
use super::sink::Sink;
use super::subscription::TurnEnd;
use crate::agent::Sent;
use crate::turn::{CallerWaits, Purpose, Turn};

/// Thirty years, for a timeout that the clock cannot count to.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// What a turn is started with.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) message: Message,
    /// Whether it is still to become history; a turn that goes on has no message of its own.
    pub(crate) is_new: bool,
    pub(crate) configuration: Option<SendMessageConfiguration>,
    pub(crate) metadata: Option<JsonObject>,
    pub(crate) context: Box<CallContext>,
    pub(crate) admission: Option<Admission>,
    pub(crate) waits: CallerWaits,
    /// Where its streams end, if that is before the task does.
    pub(super) end: Arc<TurnEnd>,
}

/// What a turn finds of its task.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// None if the turn begins it.
    pub(crate) task: Option<Arc<Task>>,
    pub(crate) state: Option<Json>,
    pub(crate) referenced: Vec<Arc<Task>>,
    pub(crate) purpose: Purpose,
}

/// What comes of a turn: the task as the turn left it, or a direct answer without a task.
pub(super) type Answer = SendMessageResponse<KeptTask>;

/// A turn that runs on its own, and what it tells of itself.
pub(super) struct StartedTurn {
    pub(super) live: Arc<Live>,
    pub(super) sink: Arc<Sink>,
    /// Where its streams end, if that is before its task does.
    pub(super) end: Arc<TurnEnd>,
    settled: oneshot::Receiver<Result<Answer, Error>>,
}

impl Incoming {
    /// What a client has sent. The lineage token that came with it is nobody's to see.
    pub(super) fn new(
        call: Call<Box<SendMessageRequest>>,
        admission: Option<Admission>,
        waits: CallerWaits,
    ) -> Box<Self> {
        let Call { request, context } = call;
        let SendMessageRequest { mut message, configuration, metadata, .. } = *request;
        message.metadata = message.metadata.and_then(|said| said.without(LINEAGE_EXTENSION));
        let end = Arc::default();
        Box::new(Self { message, is_new: true, configuration, metadata, context, admission, waits, end })
    }

    /// What was said before, for a turn that nobody has sent a message for.
    pub(super) fn again(message: Message, context: Box<CallContext>, waits: CallerWaits) -> Box<Self> {
        let (is_new, configuration, metadata, admission, end) = (false, None, None, None, Arc::default());
        Box::new(Self { message, is_new, configuration, metadata, context, admission, waits, end })
    }
}

impl Drive {
    /// Makes a turn ready: what the agent is told, and what runs it.
    pub(super) fn new(sink: Sink, live: Arc<Live>, mut incoming: Box<Incoming>, found: Found) -> Box<Self> {
        sink.set_hold(incoming.context.hold.take());
        // What earlier turns consumed counts on.
        found
            .task
            .as_deref()
            .and_then(consumed_by)
            .into_iter()
            .for_each(|consumed| sink.resume_usage(consumed));
        let now = Instant::now();
        let limit = now.checked_add(sink.core.spec.turn_timeout).unwrap_or(now + NEVER);
        let deadline = incoming.context.deadline.map_or(limit, |deadline| deadline.min(limit));
        let sink = Arc::new(sink);
        let (task, waits, end) = (found.task.clone(), incoming.waits, incoming.end.clone());
        let agent =
            sink.core.spec.agent.clone().start(Turn { incoming, found, deadline, sink: sink.clone() });
        Box::new(Self {
            core: sink.core.clone(),
            sink,
            agent,
            deadline,
            end,
            reservation: None,
            sent: Sent::Answered,
            found: task,
            live,
            waits,
            settled: None,
        })
    }

    /// Runs the turn, which goes on without whoever waits for it.
    pub(super) fn start(mut self: Box<Self>) -> StartedTurn {
        let (tell_settled, settled) = oneshot::channel();
        self.settled = Some(tell_settled);
        let (live, sink, end) = (self.live.clone(), self.sink.clone(), self.end.clone());
        tokio::spawn(self.run());
        StartedTurn { live, sink, end, settled }
    }

    /// Tells whoever waits for it that the turn has ended, or that its task waits for somebody.
    pub(super) fn tell_settled(&mut self, done: Result<Answer, Error>) {
        let _ = self.settled.take().map(|settled| settled.send(done));
    }
}

impl StartedTurn {
    /// Waits until the turn has ended or its task waits for somebody.
    pub(super) async fn settled(&mut self) -> Result<Answer, Error> {
        (&mut self.settled).await.unwrap_or_else(|_| Err(ErrorCode::Internal.into()))
    }

    /// Waits until the task is there. An answer if the turn has ended without one.
    pub(super) async fn shown(&mut self) -> Result<Option<Answer>, Error> {
        let mut shown = self.live.watch();
        tokio::select! {
            biased;
            _ = shown.wait_for(|shown| shown.newest > 0) => Ok(None),
            done = self.settled() => done.map(Some),
        }
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
