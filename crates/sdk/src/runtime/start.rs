//! Making a turn ready and starting it, and what it tells of itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    Call, CallContext, Error, ErrorCode, Event, Json, JsonObject, KeptTask, LINEAGE_EXTENSION, Message,
    SendMessageConfiguration, SendMessageRequest, SendMessageResponse, Task,
};
use chancery_store::{Admission, Snapshot};
use tokio::sync::oneshot;

use super::delivered::consumed_by;
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

/// What a turn shows first.
#[derive(Debug)]
pub(super) enum FirstSign {
    /// Its task is there, and is being worked on.
    Live(Arc<Live>),
    /// Its task is over already, and this is all that happened.
    Over(Vec<Event>),
    /// It has come to its end, and its task was not shown before.
    End(Answer),
}

/// A turn that runs on its own, and what it tells of itself.
pub(super) struct StartedTurn {
    pub(super) sink: Arc<Sink>,
    /// Where its streams end, if that is before its task does.
    pub(super) end: Arc<TurnEnd>,
    /// The task as it was before the message was taken into it.
    pub(super) before: Option<Snapshot>,
    opened: oneshot::Receiver<FirstSign>,
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
        Box::new(Self { message, is_new: true, configuration, metadata, context, admission, waits })
    }

    /// What was said before, for a turn that nobody has sent a message for.
    pub(super) fn again(message: Message, context: Box<CallContext>, waits: CallerWaits) -> Box<Self> {
        let (is_new, configuration, metadata, admission) = (false, None, None, None);
        Box::new(Self { message, is_new, configuration, metadata, context, admission, waits })
    }
}

impl Drive {
    /// Makes a turn ready: what the agent is told, and what runs it.
    pub(super) fn new(
        sink: Sink,
        live: Option<Arc<Live>>,
        mut incoming: Box<Incoming>,
        found: Found,
    ) -> Box<Self> {
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
        let (task, waits) = (found.task.clone(), incoming.waits);
        let agent =
            sink.core.spec.agent.clone().start(Turn { incoming, found, deadline, sink: sink.clone() });
        Box::new(Self {
            core: sink.core.clone(),
            sink,
            agent,
            deadline,
            end: Arc::default(),
            committed: live.is_some(),
            reservation: None,
            is_reserved: false,
            sent: Sent::Answered,
            found: task,
            live,
            waits,
            before: None,
            opened: None,
            settled: None,
        })
    }

    /// Runs the turn, which goes on without whoever waits for it.
    pub(super) fn start(mut self: Box<Self>) -> StartedTurn {
        let (tell_opened, opened) = oneshot::channel();
        let (tell_settled, settled) = oneshot::channel();
        (self.opened, self.settled) = (Some(tell_opened), Some(tell_settled));
        let (sink, end, before) = (self.sink.clone(), self.end.clone(), self.before.take());
        tokio::spawn(self.run());
        StartedTurn { sink, end, before, opened, settled }
    }

    /// Tells whoever waits for it that the task exists.
    pub(super) fn tell_opened(&mut self) {
        if self.opened.is_some() {
            let live = self.enter();
            // Whoever waited may have gone.
            let _ = self.opened.take().map(|opened| opened.send(FirstSign::Live(live)));
        }
    }

    /// Tells whoever waits for it that the turn has ended, or that its task waits for somebody.
    pub(super) fn tell_settled(&mut self, done: Result<Answer, Error>) {
        let _ = self.settled.take().map(|settled| settled.send(done));
    }

    /// Lets others know of the task.
    pub(super) fn enter(&mut self) -> Arc<Live> {
        let live = self.live.get_or_insert_with(|| {
            let live = self.core.live.enter(&self.sink.key);
            live.claim(&self.sink);
            live
        });
        live.clone()
    }
}

impl StartedTurn {
    /// Waits until the turn has ended or its task waits for somebody.
    pub(super) async fn settled(&mut self) -> Result<Answer, Error> {
        (&mut self.settled).await.unwrap_or_else(|_| Err(ErrorCode::Internal.into()))
    }

    /// Waits until the task is there, or the turn has ended without one.
    pub(super) async fn first_sign(&mut self) -> Result<FirstSign, Error> {
        tokio::select! {
            biased;
            Ok(opened) = &mut self.opened => Ok(opened),
            settled = &mut self.settled => {
                settled.unwrap_or_else(|_| Err(ErrorCode::Internal.into())).map(FirstSign::End)
            }
        }
    }
}
