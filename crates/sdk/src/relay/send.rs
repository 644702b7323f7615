//! A message on its way to the agent, and what is made of the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    Call, Error, Hold, KeptTask, LINEAGE_EXTENSION, Message, Request, SendMessageRequest,
    SendMessageResponse, StreamResponse, TaskId, TaskView, USAGE_EXTENSION,
};
use chancery_store::{Batch, Registration, Scope};
use futures_util::StreamExt as _;
use sha2::{Digest, Sha256};

use super::Core;
use super::keep::{About, Along, Beginning, Kept, goes_on};
use super::line::{Live, Pen};
use super::peers::{Peer, name_there};
use super::queued::check_heard_of;
use super::told::{Ending, told};
use crate::client::{Options, Sent};
use crate::tasks::{admission, check_context, from_store, task_is_over, view};

/// For a timeout that the clock cannot count to.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What in metadata says on whose behalf a message is sent: a token of the lineage, or what peers of an older design say.
const WHO_CALLS: [&str; 2] = [LINEAGE_EXTENSION, "ruvector"];

/// A message that may be sent on.
pub(super) struct Outgoing {
    pub(super) request: Box<SendMessageRequest>,
    pub(super) options: Options,
    pub(super) beginning: Beginning,
    /// The task that it is for, if that exists.
    pub(super) continues: Option<TaskId>,
}

/// What became of a message.
pub(super) enum Taken {
    Goes(Scope, Box<Outgoing>),
    /// It has been sent before; this is its task.
    Repeats(Scope, TaskId),
}

/// What is held for a message of which the agent may yet want to hear nothing.
pub(super) struct HeldWhileSent<'a> {
    core: &'a Core,
    live: Arc<Live>,
    hold: Option<Arc<dyn Hold>>,
}

impl Core {
    /// Answers with what the agent does, in one exchange with it.
    pub(super) async fn send(
        self: Arc<Self>,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let now = Instant::now();
        let latest = now.checked_add(self.blocking_timeout).unwrap_or(now + A_DAY);
        let deadline = call.context.deadline.map_or(latest, |deadline| deadline.min(latest));
        let wanted = call.request.configuration.as_ref();
        let history_length = wanted.and_then(|wanted| wanted.history_length);
        let at_once = wanted.is_some_and(|wanted| wanted.return_immediately);
        let (scope, task) = match self.take(call).await? {
            Taken::Repeats(scope, id) => {
                let task = self.tasks.snapshot(&scope, &id).await?.task;
                if goes_on(task.state()) {
                    self.see_to(self.tasks.live.enter(&scope, &id), task.state(), Options::default());
                }
                (scope, task)
            }
            Taken::Goes(scope, mut outgoing) => {
                let is_governed = outgoing.beginning.hold.is_some();
                let answer = match outgoing.continues.clone() {
                    // What is seldom needed is put on the heap when it is: every message would carry room for it.
                    None if is_governed && !at_once => Box::pin(self.begin_first(&scope, outgoing)).await?,
                    continues => {
                        outgoing.options.deadline = (!at_once).then_some(deadline);
                        match continues {
                            Some(id) => Box::pin(self.send_on(&scope, &id, outgoing)).await?,
                            None => self.send_first(&scope, outgoing).await?,
                        }
                    }
                };
                match answer {
                    SendMessageResponse::Task(task) => (scope, task),
                    SendMessageResponse::Message(message) => {
                        return Ok(SendMessageResponse::Message(message));
                    }
                }
            }
        };
        let state = task.state();
        if at_once || state.is_terminal() || state.is_interrupted() {
            return Ok(SendMessageResponse::Task(view(task, history_length)));
        }
        // The agent has answered before it was done.
        let id = task.id().clone();
        drop(task);
        let task = match tokio::time::timeout_at(deadline.into(), self.tasks.settled(&scope, &id)).await {
            Ok(task) => task?,
            Err(_) => self.tasks.snapshot(&scope, &id).await?.task,
        };
        Ok(SendMessageResponse::Task(view(task, history_length)))
    }

    /// Looks at everything that can be decided here.
    pub(super) async fn take(&self, call: Call<Box<SendMessageRequest>>) -> Result<Taken, Error> {
        let Call { mut request, context } = call;
        let scope = self.scope(&context);
        request.validate(&self.tasks.limits)?;
        let admission = admission(&context, &request)?;
        if let Some(admission) = &admission
            && let Some(task) = self.tasks.store.admitted(&scope, admission).await.map_err(from_store)?
        {
            return Ok(Taken::Repeats(scope, task));
        }
        if context.new_task.is_some() {
            // Whoever has named the task may ask for it before it has ended, so it has to be here before that.
            request.configuration.get_or_insert_default().return_immediately = true;
        }
        let configuration = request.configuration.as_mut();
        let push = configuration.and_then(|wanted| {
            // The journal is to have the whole task; what is shown of it is cut here.
            wanted.history_length = None;
            wanted.task_push_notification_config.take()
        });
        let no_task = TaskId::from("");
        let push =
            push.map(|config| self.tasks.inline_push(config, &no_task, context.version)).transpose()?;
        let continues = request.message.task_id.clone();
        if !self.tells_descent {
            forget_who_calls(&mut request);
        }
        let peer = match &continues {
            Some(id) => {
                let known = self.tasks.snapshot(&scope, id).await?;
                let task = known.task.value()?;
                check_context(&request.message, &task)?;
                check_heard_of(id, &known)?;
                let consumed =
                    task.metadata.as_ref().and_then(|said| said.entry(USAGE_EXTENSION).ok().flatten());
                if let (Some(hold), Some(consumed)) = (&context.hold, consumed) {
                    hold.resume(consumed);
                }
                if known.task.is_over() {
                    return Err(task_is_over(id));
                }
                self.peers
                    .of_task(&known)
                    .ok_or_else(|| Ending::OutOfReach.error().about("taskId", id.as_str()))?
            }
            None => self.peers.chosen(&context)?,
        };
        self.forget_foreign_tasks(&scope, &mut request.message, &peer).await;
        let chosen = context.peer.clone();
        let key = context.idempotency_key.as_ref().map(|key| key_there(&scope, key));
        let hold = context.hold.clone();
        let mut options = self.options_for(context);
        options.terms.idempotency_key = key;
        peer.tell_only_who_chose_it(chosen.as_deref(), &mut options);
        let beginning = Beginning { peer, push, admission, hold };
        Ok(Taken::Goes(scope, Box::new(Outgoing { request, options, beginning, continues })))
    }

    /// The agent knows us, and not our callers: what one of them may not see, it must not be asked about either. Nor does
    /// it know what another agent has.
    pub(super) async fn forget_foreign_tasks(&self, scope: &Scope, message: &mut Message, peer: &Peer) {
        let mut own = Vec::with_capacity(message.reference_task_ids.len());
        for id in std::mem::take(&mut message.reference_task_ids) {
            let Ok(known) = self.tasks.store.snapshot(scope, &id).await else { continue };
            if self.peers.of_task(&known).is_some_and(|known| known.is(peer)) {
                own.push(name_there(&known).unwrap_or(id));
            }
        }
        message.reference_task_ids = own;
    }

    pub(super) async fn send_first(
        self: &Arc<Self>,
        scope: &Scope,
        mut outgoing: Box<Outgoing>,
    ) -> Result<SendMessageResponse<KeptTask>, Error> {
        // What is on the heap stays there: a future that holds it is larger, and every message pays for that.
        let mut request = Request::SendMessage(outgoing.request);
        let client = &outgoing.beginning.peer.client;
        let sent = client.send_as_written(&mut request, &mut outgoing.options).await;
        let (about, batch) = match sent.map_err(told)? {
            Sent::Message(message) => return Ok(SendMessageResponse::Message(message)),
            Sent::Ended(outline, json) => {
                (About::outlined(&outline), Box::new(Batch::of_ended(outline, json)))
            }
            Sent::Task(mut task, json) => {
                let json = json.filter(|_| task.status.timestamp.is_some());
                self.date(&mut task.status);
                let (about, mut batch) = (About::of(&task), Box::<Batch>::default());
                batch.create(task);
                if let Some(json) = json {
                    batch.as_written(json);
                }
                (about, batch)
            }
        };
        if !goes_on(about.state) {
            // Nothing more happens to it by itself, so nobody has to be woken.
            return match self.keep_new(scope, batch, &about, outgoing.beginning, &outgoing.options).await? {
                Kept::New(appended) => Ok(SendMessageResponse::Task(appended.task)),
                Kept::Known(id) => {
                    Box::pin(self.catch_up(scope, &id, outgoing.options)).await.map(SendMessageResponse::Task)
                }
                Kept::Taken(error) => Err(error),
            };
        }
        let peer = outgoing.beginning.peer.clone();
        let live = self.tasks.live.enter(scope, &about.id);
        let pen = live.pen().await;
        match self.keep_new(scope, batch, &about, outgoing.beginning, &outgoing.options).await? {
            Kept::New(appended) => {
                live.belongs_to(&peer);
                let task = self.show(&live, appended);
                self.follow((live, pen), task.state(), outgoing.options);
                Ok(SendMessageResponse::Task(task))
            }
            Kept::Known(id) => {
                drop(pen);
                Box::pin(self.catch_up(scope, &id, outgoing.options)).await.map(SendMessageResponse::Task)
            }
            Kept::Taken(error) => {
                Box::pin(self.leave(live, pen, Options::default())).await;
                Err(error)
            }
        }
    }

    /// Sends a message that may begin a task, and answers as soon as that has begun: whoever has let the call through may
    /// want to stop it, so the task has to be here before it ends.
    async fn begin_first(
        self: &Arc<Self>,
        scope: &Scope,
        mut outgoing: Box<Outgoing>,
    ) -> Result<SendMessageResponse<KeptTask>, Error> {
        let can_stream = self.can_stream(&outgoing.beginning.peer.client).await;
        if let Err(error) = &can_stream {
            outgoing.options.watch.failed(error, Duration::ZERO);
        }
        if !can_stream.map_err(told)? {
            outgoing.request.configuration.get_or_insert_default().return_immediately = true;
            return self.send_first(scope, outgoing).await;
        }
        let mut events = self.stream_first(scope, outgoing).await?;
        let first = events.next().await.ok_or_else(|| Ending::BrokeProtocol.error())??;
        match first.payload()? {
            StreamResponse::Message(message) => Ok(SendMessageResponse::Message(message)),
            StreamResponse::Task(task) => {
                let task = self.tasks.snapshot(scope, &task.id).await?.task;
                Ok(SendMessageResponse::Task(task))
            }
            _ => Err(Ending::BrokeProtocol.error()),
        }
    }

    /// Sends a message for a task that exists.
    pub(super) async fn send_on(
        self: &Arc<Self>,
        scope: &Scope,
        id: &TaskId,
        outgoing: Box<Outgoing>,
    ) -> Result<SendMessageResponse<KeptTask>, Error> {
        let Outgoing { request, options, beginning, .. } = *outgoing;
        let (live, pen) = self.claim(scope, id).await?;
        let said = request.message.clone();
        let held = self.hold_for(&live, beginning.hold).await?;
        live.belongs_to(&beginning.peer);
        let names = self.names_of(&live).await.map_err(told)?;
        let mut request = Request::SendMessage(request);
        names.iter().for_each(|names| names.translate(&mut request));
        let answer = beginning.peer.client.ask(request, options.clone()).await;
        let kept = match answer {
            Ok(SendMessageResponse::Task(mut task)) => {
                names.iter().for_each(|names| names.task(&mut task));
                self.register(scope, id, beginning.push).await;
                let along = Along { said: Some(said), admission: beginning.admission };
                self.merge(&live, &pen, task, along).await.map(|merged| merged.task)
            }
            Ok(SendMessageResponse::Message(_)) => {
                let why = "a message came where a task had begun";
                Err(self.end(&live, Ending::BrokeProtocol, why).await)
            }
            Err(failed) => Err(self.given_up(&live, failed).await),
        };
        match &kept {
            Ok(_) => held.keep(),
            Err(_) => drop(held),
        }
        self.leave(live, pen, options).await;
        kept.map(SendMessageResponse::Task)
    }

    /// Waits until nobody else writes into a task, for a message that is to go to the agent.
    pub(super) async fn claim(&self, scope: &Scope, id: &TaskId) -> Result<(Arc<Live>, Pen), Error> {
        let live = self.tasks.live.enter(scope, id);
        let pen = live.pen().await;
        // It may have ended while we waited.
        if self.tasks.snapshot(scope, id).await?.task.is_over() {
            return Err(task_is_over(id));
        }
        Ok((live, pen))
    }

    /// Keeps what a message holds for the task that it is for, if what comes of it does.
    pub(super) async fn hold_for(
        &self,
        live: &Arc<Live>,
        hold: Option<Arc<dyn Hold>>,
    ) -> Result<HeldWhileSent<'_>, Error> {
        if hold.is_some() {
            // It is on record before it is sent: whoever has let it through may want it stopped while it runs.
            let recorded =
                self.tasks.append_held(live.scope(), live.task_id(), Batch::default(), hold.clone()).await;
            recorded.map_err(from_store)?;
        }
        Ok(HeldWhileSent { core: self, live: live.clone(), hold })
    }

    /// Registers a receiver that came with a message for a task that exists.
    pub(super) async fn register(&self, scope: &Scope, id: &TaskId, push: Option<Box<Registration>>) {
        let Some(mut registration) = push else { return };
        registration.config.task_id = Some(id.clone());
        if let Err(error) = self.tasks.store.put_push_config(scope, id, *registration).await {
            tracing::warn!(task.id = %id, %error, "a receiver of task {id} was not registered");
        }
    }
}

impl HeldWhileSent<'_> {
    /// The message has been taken.
    pub(super) fn keep(mut self) {
        self.hold = None;
    }
}

impl Drop for HeldWhileSent<'_> {
    fn drop(&mut self) {
        if let Some(hold) = &self.hold {
            self.core.tasks.holds.forget(self.live.scope(), self.live.task_id(), hold);
        }
    }
}

/// A caller's idempotency key as the agent gets it. To the agent all of our callers are one, so two of them must not
/// come by the same key.
fn key_there(scope: &Scope, key: &str) -> String {
    let mut digest = Sha256::new();
    for text in [&*scope.realm, &*scope.owner, key] {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    }
    digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes out of a message what a caller may have put there about itself, or was given to pass on.
fn forget_who_calls(request: &mut SendMessageRequest) {
    for metadata in [&mut request.metadata, &mut request.message.metadata] {
        for name in WHO_CALLS {
            *metadata = metadata.take().and_then(|said| said.without(name));
        }
    }
}
