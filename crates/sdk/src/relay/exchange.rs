//! One turn with an agent elsewhere: the message on its way there, and what is made of what comes back.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    AgentCard, CallContext, ContextId, LINEAGE_EXTENSION, Message, Operation, Request, SendMessageRequest,
    SendMessageResponse, StreamResponse, TaskId, TaskState,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::agent::{RemoteAgent, cancel_there};
use super::errors::{Breach, cannot_be_watched, fate};
use super::peers::Peer;
use super::source::{Progress, Source};
use super::state::{RemoteState, context_there, dispatch_key};
use crate::agent::{Failure, Outcome};
use crate::client::{Client, ClientError, Fault, Feed, Options, Watch};
use crate::runtime::{Incoming, check_extensions, spawn};
use crate::turn::{CallerWaits, Turn};

/// How long an answer is read for that nobody waits for any more: it says which task there is to cancel.
const LATE_ANSWER: Duration = Duration::from_secs(30);
/// How long to wait before asking for a card again.
const CARD_PAUSE: Duration = Duration::from_millis(500);
/// What peers of an older design say of who calls, in metadata.
const OLD_IDENTITY: &str = "ruvector";

const OUTCOME_UNKNOWN: &str =
    "The server was restarted before the agent had answered; the outcome is unknown";

/// One turn with an agent elsewhere.
pub(super) struct Exchange<'a> {
    pub(super) agent: &'a RemoteAgent,
    pub(super) turn: &'a Turn,
    /// The member of the pool that has the task, or is to get it.
    pub(super) peer: Arc<Peer>,
    pub(super) state: RemoteState,
    /// The state that the task is in here, as far as this turn has come.
    pub(super) known: TaskState,
    /// Whether a task that waits has been admitted anew, and has said nothing but artifacts since.
    pub(super) is_unparked: bool,
    /// Whether the agent's ids are known, and the caller has not been told.
    pub(super) has_new_ids: bool,
    /// Whether the member of the pool no longer has the task when this ends.
    is_over: bool,
}

/// What came first, and the stream that it came by.
type First = (FirstEvent, Option<Box<Feed>>);

/// What an answer began with.
enum FirstEvent {
    Read(Box<StreamResponse>),
    /// Something about this task that cannot be read.
    Unread(TaskId),
}

impl<'a> Exchange<'a> {
    pub(super) fn new(agent: &'a RemoteAgent, turn: &'a Turn) -> Result<Self, Failure> {
        let known = match turn.task() {
            // A message has put it back to work.
            Some(_) if !turn.is_resumed() && !turn.is_refresh() => TaskState::Working,
            Some(task) => task.status.state,
            None if turn.sink.is_unopened() => TaskState::Unspecified,
            None => TaskState::Submitted,
        };
        let state = RemoteState::of_turn(turn);
        let peer = agent.peer_for(turn, &state)?;
        Ok(Self { agent, turn, peer, state, known, is_unparked: false, has_new_ids: false, is_over: true })
    }

    pub(super) async fn run(mut self) -> Result<Outcome, Failure> {
        self.tell_pool();
        let ended = match (self.turn.is_refresh(), &self.state.task) {
            (true, _) => self.refresh().await,
            (false, Some(_)) if self.turn.is_resumed() => {
                self.turn.dispatch().await?;
                self.follow(Progress::new(Source::Watch)).await
            }
            _ => self.send_and_follow().await,
        };
        // A task that waits for its client stays with the agent.
        self.is_over = !self.known.is_interrupted() || ended.is_err() && self.is_unparked;
        ended
    }

    /// Tells who watches the pool that its member has the task.
    fn tell_pool(&self) {
        if let Some(watch) = &self.agent.watch {
            let (turn, context) = (self.turn, self.turn.context_id());
            watch.began(turn.principal(), turn.task_id(), Some(context), &self.peer.name);
        }
    }

    async fn send_and_follow(&mut self) -> Result<Outcome, Failure> {
        let was_sent = self.turn.is_resumed() && self.state.sent > 0;
        if was_sent && (self.state.is_keyless || !self.honours_keys().await) {
            return Err(Failure::public(OUTCOME_UNKNOWN).unanswered());
        }
        let mut tried = Vec::new();
        let (first, stream) = loop {
            let error = match self.send(was_sent).await? {
                Ok(first) => break first,
                // This time. An earlier process has sent it.
                Err(_) if was_sent => return Err(Failure::public(OUTCOME_UNKNOWN).unanswered()),
                Err(never_sent) => never_sent,
            };
            tried.push(self.peer.name.clone());
            let next = self.agent.peers.untried(&tried).filter(|_| self.state.task.is_none());
            let Some(next) = next else {
                return Err(Failure::protocol(self.state.scrubber.told(error)).never_sent());
            };
            tracing::info!(from = &*self.peer.name, to = &*next.name, %error, "the next member of the pool is tried");
            self.agent.ended(self.turn.principal(), self.turn.task_id());
            self.peer = next;
            self.turn.sink.hold().iter().for_each(|hold| hold.moved_to(&self.peer.name));
            self.tell_pool();
        };
        let first = match first {
            FirstEvent::Read(first) => *first,
            FirstEvent::Unread(there) => {
                self.check_task(&there, None)?;
                let mut progress = Progress::new(stream.map_or(Source::Look, Source::Stream));
                progress.cannot_read();
                return self.follow(progress).await;
            }
        };
        if let StreamResponse::Message(_) = first {
            stream.into_iter().for_each(|mut events| events.satisfied());
            return match self.state.task {
                None => Ok(Outcome::forwarded(self.state.scrubber.scrub(first))),
                Some(_) => Err(self.broke_protocol("a message came where a task had begun")),
            };
        }
        let ended = self.take(first, stream.is_some()).await?;
        let source = stream.map_or(Source::Watch, Source::Stream);
        match ended {
            Some(outcome) => {
                source.leave();
                Ok(outcome)
            }
            None => self.follow(Progress::new(source)).await,
        }
    }

    /// Whether the same message may be sent to an agent again. It may be starting as we are.
    async fn honours_keys(&self) -> bool {
        let until = Instant::now() + self.agent.settings.patience;
        loop {
            match self.peer.client.peer().await {
                Ok(found) => return found.honours_keys,
                Err(_) if Instant::now() >= until => return false,
                Err(_) => tokio::time::sleep(CARD_PAUSE).await,
            }
        }
    }

    /// Writes the message down and sends it. The inner error is of a message that never left: somebody else may be asked.
    async fn send(&mut self, was_sent: bool) -> Result<Result<First, ClientError>, Failure> {
        let watch = self.watch();
        let card = match self.peer.client.peer().await {
            Ok(found) => found.card.clone(),
            Err(error) => {
                watch.failed(&error, Duration::ZERO);
                return Ok(Err(error));
            }
        };
        self.check_extensions(&card)?;
        let waits = self.turn.incoming.waits;
        let can_stream = card.capabilities.streaming == Some(true);
        let mut streams =
            can_stream && (waits != CallerWaits::ForOutcome || self.agent.settings.always_streams);
        if !was_sent {
            self.state.sent += 1;
        }
        self.state.remote = self.peer.name.clone();
        let lineage = self.turn.lineage();
        self.write_down(lineage.as_deref()).await?;
        let mut refused = None;
        loop {
            let mut request = self.request(&self.turn.incoming).await;
            let return_immediately = !streams && waits != CallerWaits::ForOutcome;
            if return_immediately || request.configuration.is_some() {
                request.configuration.get_or_insert_default().return_immediately = return_immediately;
            }
            let mut options = self.options(&self.turn.incoming.context, lineage.clone());
            // The turn ends in time; what comes a little later says which task is to be canceled.
            let (end, latest) =
                (self.turn.deadline(), Instant::now().checked_add(self.agent.settings.answer_timeout));
            options.deadline = Some(latest.map_or(end, |latest| latest.min(end)) + LATE_ANSWER);
            match self.exchange(request, options, streams).await {
                Ok(first) => return Ok(Ok(first)),
                Err(error) if self.refuses_context(&error) => {
                    (self.state.context, refused) = (Some(ContextId::from("")), Some(error));
                }
                // Its card says otherwise.
                Err(error) if streams && cannot_be_watched(&error) => {
                    (streams, refused) = (false, Some(error));
                }
                Err(error) if error.was_never_sent() => match refused {
                    // What it had refused has arrived, all the same.
                    Some(refused) => return Err(self.not_taken(refused)),
                    None => return Ok(Err(error)),
                },
                Err(error) => return Err(self.not_taken(error)),
            }
        }
    }

    /// Has it written down that a message is about to be sent, before it is.
    pub(super) async fn write_down(&mut self, lineage: Option<&str>) -> Result<(), Failure> {
        lineage.into_iter().for_each(|token| self.state.scrubber.sent(token));
        self.turn.set_state(&self.state)?;
        Ok(self.turn.dispatch().await?)
    }

    /// What the agent requires is required here: a call without it would be refused there, and charged.
    fn check_extensions(&self, card: &AgentCard) -> Result<(), Failure> {
        let mut activated = self.turn.incoming.context.extensions.clone();
        activated.push(LINEAGE_EXTENSION.to_owned());
        check_extensions(&card.capabilities.extensions, &activated)
            .map_err(|error| Failure::protocol(error).never_sent())
    }

    /// Sends a message, and waits as long as the agent may take to answer. An answer that nobody waits for any more is heard of
    /// for a while longer: the task in it is canceled.
    async fn exchange(
        &self,
        request: Box<SendMessageRequest>,
        options: Options,
        streams: bool,
    ) -> Result<First, ClientError> {
        let client = self.peer.client.clone();
        let answer = async move {
            if !streams {
                let answer = match client.ask(Request::SendMessage(request), options).await? {
                    SendMessageResponse::Task(task) => StreamResponse::Task(task),
                    SendMessageResponse::Message(message) => StreamResponse::Message(message),
                };
                return Ok((FirstEvent::Read(Box::new(answer)), None));
            }
            let mut events = client.feed(Request::SendStreamingMessage(request), options).await?;
            let first = match events.next().await {
                Some(Ok(event)) => FirstEvent::Read(Box::new(event.payload)),
                Some(Err(ClientError::BadEvent { task: Some(there), .. })) => FirstEvent::Unread(there),
                Some(Err(error)) => return Err(error),
                None => return Err(ClientError::BadAnswer("the stream has no event".to_owned())),
            };
            Ok((first, Some(Box::new(events))))
        };
        let (client, sink) = (self.peer.client.clone(), self.turn.sink.clone());
        let (mut tell, told) = oneshot::channel();
        spawn(async move {
            let mut answer = pin!(answer);
            let answer = tokio::select! {
                answer = &mut answer => Ok(answer),
                () = tell.closed() => timeout(LATE_ANSWER, answer).await,
            };
            if let Ok(answer) = answer
                && let Err(Ok((late, _))) = tell.send(answer)
                && !sink.is_abandoned()
            {
                cancel_late(client, late);
            }
        });
        let after = self.agent.settings.answer_timeout;
        match timeout(after, told).await {
            Ok(Ok(answer)) => answer,
            _ => Err(ClientError::TimedOut { what: "the answer to a message", after }),
        }
    }

    /// A message as the agent is to get it: under the ids that the agent knows, and without what is not its business.
    pub(super) async fn request(&self, said: &Incoming) -> Box<SendMessageRequest> {
        let (mut message, mut configuration) = (said.message.clone(), said.configuration.clone());
        let mut metadata = said.metadata.clone();
        self.address(&mut message).await;
        if let Some(wanted) = &mut configuration {
            // The journal is to have the whole task, and notifications are posted from here.
            (wanted.history_length, wanted.task_push_notification_config) = (None, None);
        }
        for said in [&mut metadata, &mut message.metadata] {
            *said = said.take().and_then(|said| said.without(LINEAGE_EXTENSION));
            if !self.agent.settings.tells_lineage {
                *said = said.take().and_then(|said| said.without(OLD_IDENTITY));
            }
        }
        Box::new(SendMessageRequest { tenant: String::new(), message, configuration, metadata })
    }

    /// Puts the agent's ids into a message. Tasks that it does not have it is not told of.
    async fn address(&self, message: &mut Message) {
        let sink = &self.turn.sink;
        message.task_id = self.state.task.clone();
        let derived = || context_there(&sink.context_secret(), sink.scope(), self.turn.context_id());
        let context = self.state.context.clone().unwrap_or_else(derived);
        message.context_id = Some(context).filter(|context| !context.is_empty());
        let mut known = Vec::with_capacity(message.reference_task_ids.len());
        for id in std::mem::take(&mut message.reference_task_ids) {
            let Some(found) = sink.sibling(&id).await else { continue };
            let state = RemoteState::of_task(&found);
            known.extend(state.task.filter(|_| state.remote == self.peer.name));
        }
        message.reference_task_ids = known;
    }

    /// What goes along with a message: its caller's trace, extensions and lineage, if the agent may know.
    pub(super) fn options(&self, context: &CallContext, lineage: Option<String>) -> Options {
        let tells = self.agent.settings.tells_lineage;
        let mut options = Options { is_dispatch: true, watch: self.watch(), ..Options::default() };
        options.terms.extensions.clone_from(&context.extensions);
        options.terms.traceparent = context.traceparent.clone().filter(|_| tells);
        options.terms.lineage = lineage.filter(|_| tells);
        let secret = self.turn.sink.context_secret();
        options.terms.idempotency_key = Some(dispatch_key(&secret, self.turn.task_id(), self.state.sent));
        options
    }

    /// Who wants to hear how a member of a pool does hears of the member that was chosen.
    pub(super) fn watch(&self) -> Watch {
        let context = &self.turn.incoming.context;
        let is_chosen = self.peer.name.is_empty() || context.peer.as_ref() == Some(&self.peer.name);
        Watch(context.peer_watch.clone().filter(|_| is_chosen))
    }

    /// Whether the agent takes no context that it has not given itself.
    fn refuses_context(&self, error: &ClientError) -> bool {
        let ClientError::Peer(error) = error else { return false };
        let names_context = error.violations().iter().any(|violation| violation.field.contains("context"))
            || error.message().to_ascii_lowercase().contains("context");
        names_context && self.state.context.is_none() && self.state.task.is_none()
    }

    /// A message that the agent has not taken. What says that the task is lost ends it.
    fn not_taken(&self, error: ClientError) -> Failure {
        let sent = fate(&error);
        let failure = match Breach::of(&error) {
            Some(breach @ (Breach::Forgotten | Breach::BrokeProtocol)) if self.state.task.is_some() => {
                self.give_up(breach, &error)
            }
            _ => Failure::protocol(self.state.scrubber.told(error)),
        };
        Failure { sent, ..failure }
    }

    /// The agent does what the protocol does not allow.
    pub(super) fn broke_protocol(&self, why: &str) -> Failure {
        self.peer.client.faults().tell(Fault::ImpossibleTask, Operation::SendMessage, &why, b"");
        self.give_up(Breach::BrokeProtocol, &why)
    }

    /// The task fails here, if there is one, and is canceled there.
    pub(super) fn give_up(&self, breach: Breach, why: &dyn Display) -> Failure {
        let id = self.turn.task_id();
        match breach {
            // The fault itself has been told.
            Breach::BrokeProtocol => {
                tracing::info!(task.id = %id, %why, "task {id} is given up: {}", breach.text());
            }
            _ => tracing::warn!(task.id = %id, %why, "task {id} is given up: {}", breach.text()),
        }
        if breach != Breach::Forgotten {
            self.cancel_there();
        }
        let told = breach.error().about("taskId", id.as_str());
        let failure = match self.turn.sink.is_unopened() {
            true => Failure::protocol(told),
            false => Failure::public(breach.text()).answering(told),
        };
        failure.unanswered()
    }

    pub(super) fn cancel_there(&self) {
        if let Some(there) = self.state.task.clone() {
            cancel_there(self.peer.client.clone(), there);
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if self.is_over && !self.turn.sink.is_abandoned() {
            self.agent.ended(self.turn.principal(), self.turn.task_id());
        }
    }
}

/// An answer that nobody waits for any more says which task there is to cancel.
fn cancel_late(client: Client, late: FirstEvent) {
    let there = match late {
        FirstEvent::Unread(there) => there,
        FirstEvent::Read(late) => match *late {
            StreamResponse::Task(task) if !task.status.state.is_terminal() => task.id,
            StreamResponse::StatusUpdate(update) => update.task_id,
            StreamResponse::ArtifactUpdate(update) => update.task_id,
            StreamResponse::Task(_) | StreamResponse::Message(_) => return,
        },
    };
    cancel_there(client, there);
}
