//! A message whose answer is a stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{
    Call, ContextId, Error, EventStream, Message, Request, SendMessageConfiguration, SendMessageRequest,
    SendMessageResponse, StreamResponse, Task, TaskId, TaskState, TaskStatus,
};
use chancery_store::{Batch, Scope};
use serde_json::value::RawValue;

use super::Core;
use super::keep::{About, Along, Beginning, Kept, goes_on};
use super::line::{Live, Pen};
use super::send::{Outgoing, Taken};
use super::told::{Ending, told};
use crate::client::{Feed, Options, only_task};
use crate::tasks::{Subscription, TurnEnd, only};

impl Core {
    /// Answers with the events of the task as they come.
    pub(super) async fn stream(
        self: Arc<Self>,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<EventStream, Error> {
        let (scope, outgoing) = match self.take(call).await? {
            Taken::Repeats(scope, id) => return self.join(&scope, &id).await,
            Taken::Goes(scope, outgoing) => (scope, outgoing),
        };
        let can_stream = self.can_stream(&outgoing.beginning.peer.client).await;
        if let Err(error) = &can_stream {
            outgoing.options.watch.failed(error, Duration::ZERO);
        }
        if !can_stream.map_err(told)? {
            return Box::pin(self.send_and_join(&scope, outgoing)).await;
        }
        match outgoing.continues.clone() {
            Some(id) => Box::pin(self.stream_on(&scope, &id, outgoing)).await,
            None => self.stream_first(&scope, outgoing).await,
        }
    }

    pub(super) async fn stream_first(
        self: &Arc<Self>,
        scope: &Scope,
        outgoing: Box<Outgoing>,
    ) -> Result<EventStream, Error> {
        let Outgoing { request, options, beginning, .. } = *outgoing;
        let said = request.message.clone();
        let request = Request::SendStreamingMessage(request);
        let peer = beginning.peer.clone();
        let mut events = peer.client.feed(request, options.clone()).await.map_err(told)?;
        let (first, json) = first_of(&mut events).await?;
        let (batch, about) = match self.first_batch(first, json, said) {
            Ok(first) => first,
            Err(message) => {
                events.satisfied();
                return only(*message);
            }
        };
        let live = self.tasks.live.enter(scope, &about.id);
        let pen = live.pen().await;
        let end = Arc::new(TurnEnd::default());
        live.end_with_question(end.clone());
        match self.keep_new(scope, batch, &about, beginning, &options).await? {
            Kept::New(appended) => {
                live.belongs_to(&peer);
                let number = appended.number;
                let state = self.show(&live, appended).state();
                live.catch_up(number, state.is_terminal());
                let shown = Subscription::after(self.tasks.store.clone(), live.clone(), 0, Some(end));
                if state.is_terminal() {
                    events.satisfied();
                    return Ok(Box::pin(shown));
                }
                Ok(self.follow_and_show((live, pen), state, (events, None), shown, options))
            }
            Kept::Known(id) => {
                drop((pen, events));
                self.catch_up(scope, &id, options).await?;
                self.join(scope, &id).await
            }
            Kept::Taken(error) => {
                drop(events);
                self.leave(live, pen, Options::default()).await;
                Err(error)
            }
        }
    }

    /// What begins a task, unless it is a direct answer.
    fn first_batch(
        &self,
        first: StreamResponse,
        json: Bytes,
        said: Message,
    ) -> Result<(Box<Batch>, About), Box<Message>> {
        let mut batch = Box::<Batch>::default();
        // Agents of older versions begin with what happens to the task, and not with the task.
        let about = match first {
            StreamResponse::Message(message) => return Err(Box::new(message)),
            StreamResponse::Task(mut task) => {
                let is_as_written = task.status.timestamp.is_some() && is_only_task(&json);
                self.date(&mut task.status);
                let about = About::of(&task);
                batch.create(task);
                if is_as_written {
                    batch.as_written(json);
                }
                about
            }
            StreamResponse::StatusUpdate(update) => {
                let task = self.begun(&update.task_id, &update.context_id, said);
                let about = About::of(&task);
                batch.create(task);
                self.write_status(&mut batch, update, None, json);
                about
            }
            StreamResponse::ArtifactUpdate(update) => {
                let task = self.begun(&update.task_id, &update.context_id, said);
                let about = About::of(&task);
                batch.create(task);
                batch.artifact(update);
                batch.as_written(json);
                about
            }
        };
        Ok((batch, about))
    }

    /// Streams what comes of a message for a task that exists.
    async fn stream_on(
        self: &Arc<Self>,
        scope: &Scope,
        id: &TaskId,
        outgoing: Box<Outgoing>,
    ) -> Result<EventStream, Error> {
        let Outgoing { request, options, beginning, .. } = *outgoing;
        let (live, pen) = self.claim(scope, id).await?;
        let mut said = Some(request.message.clone());
        let before = self.tasks.snapshot(scope, id).await?.task.value()?.status.clone();
        let held = self.hold_for(&live, beginning.hold.clone()).await?;
        live.belongs_to(&beginning.peer);
        let names = self.names_of(&live).await.map_err(told)?;
        let mut request = Request::SendStreamingMessage(request);
        names.iter().for_each(|names| names.translate(&mut request));
        let opened = beginning.peer.client.feed(request, options.clone()).await;
        let opened = opened.map(|events| match names {
            Some(names) => events.in_names(names),
            None => events,
        });
        let taken = match opened {
            Ok(events) => self.take_first((&live, &pen), events, &before, &mut said, beginning).await,
            Err(failed) => Err(self.given_up(&live, failed).await),
        };
        let mut events = match taken {
            Ok(events) => events,
            Err(error) => {
                drop(held);
                self.leave(live, pen, options).await;
                return Err(error);
            }
        };
        held.keep();
        let snapshot = self.tasks.snapshot(scope, id).await?;
        let state = snapshot.task.state();
        live.catch_up(snapshot.number, state.is_terminal());
        let end = Arc::new(TurnEnd::default());
        if state == TaskState::InputRequired && snapshot.task.value()?.status != before {
            end.close_after(snapshot.number);
        } else {
            live.end_with_question(end.clone());
        }
        let store = self.tasks.store.clone();
        let shown = Subscription::with_snapshot(store, live.clone(), &snapshot, Some(end))?;
        drop(snapshot);
        if state.is_terminal() {
            events.satisfied();
            return Ok(Box::pin(shown));
        }
        Ok(self.follow_and_show((live, pen), state, (events, said), shown, options))
    }

    /// Writes the first event that comes of a message for a task that exists.
    async fn take_first(
        &self,
        (live, pen): (&Live, &Pen),
        mut events: Feed,
        before: &TaskStatus,
        said: &mut Option<Message>,
        beginning: Beginning,
    ) -> Result<Feed, Error> {
        let (first, json) = first_of(&mut events).await?;
        self.register(live.scope(), live.task_id(), beginning.push).await;
        let mut batch = Batch::default();
        match first {
            StreamResponse::Task(mut task) => {
                self.date_beside(&mut task.status, before);
                // Without a change of status there is nothing yet that it could have been said with.
                let said = if task.status == *before { None } else { said.take() };
                let along = Along { said, admission: beginning.admission };
                self.merge(live, pen, task, along).await?;
                return Ok(events);
            }
            StreamResponse::StatusUpdate(update) if update.task_id == *live.task_id() => {
                self.write_status(&mut batch, update, said.take(), json);
            }
            StreamResponse::ArtifactUpdate(update) if update.task_id == *live.task_id() => {
                batch.artifact(update);
                batch.as_written(json);
            }
            _ => {
                let why = "something else came where a task had begun";
                return Err(self.end(live, Ending::BrokeProtocol, why).await);
            }
        }
        batch.admission = beginning.admission;
        self.commit(live, batch.into()).await?;
        Ok(events)
    }

    /// What is done where the agent cannot stream: it answers at once, and its task is looked at now and then.
    async fn send_and_join(
        self: &Arc<Self>,
        scope: &Scope,
        mut outgoing: Box<Outgoing>,
    ) -> Result<EventStream, Error> {
        let wanted = SendMessageConfiguration { return_immediately: true, ..Default::default() };
        outgoing.request.configuration.get_or_insert(wanted).return_immediately = true;
        let answer = match outgoing.continues.clone() {
            Some(id) => self.send_on(scope, &id, outgoing).await?,
            None => self.send_first(scope, outgoing).await?,
        };
        match answer {
            SendMessageResponse::Message(message) => only(message),
            SendMessageResponse::Task(task) => self.join(scope, task.id()).await,
        }
    }

    /// All events of a task that a message has begun, until it ends or asks back.
    async fn join(self: &Arc<Self>, scope: &Scope, id: &TaskId) -> Result<EventStream, Error> {
        let live = self.tasks.live.enter(scope, id);
        let end = Arc::new(TurnEnd::default());
        live.end_with_question(end.clone());
        let snapshot = self.tasks.snapshot(scope, id).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        match snapshot.task.state() {
            TaskState::InputRequired => end.close_after(snapshot.number),
            state if goes_on(state) => self.see_to(live.clone(), state, Options::default()),
            _ => {}
        }
        Ok(Box::pin(Subscription::after(self.tasks.store.clone(), live, 0, Some(end))))
    }

    /// A task that has just begun, as far as can be told from its first event.
    fn begun(&self, id: &TaskId, context_id: &ContextId, said: Message) -> Task {
        let said = said.in_task(id.clone()).in_context(context_id.clone());
        let mut task = Task::submitted(id.clone(), context_id.clone(), said);
        task.status.timestamp = Some(self.tasks.store.clock().millis());
        task
    }
}

/// The first event of a stream, without which there is none.
pub(super) async fn first_of(events: &mut Feed) -> Result<(StreamResponse, Bytes), Error> {
    match events.next().await {
        Some(Ok(told)) => match told.payload {
            Ok(payload) => Ok((payload, told.event.json)),
            Err(error) => Err(Ending::BrokeProtocol.error().caused_by(error)),
        },
        Some(Err(failed)) => Err(told(failed)),
        None => Err(Ending::BrokeProtocol.error()),
    }
}

/// Whether an event is `{"task":…}` and says nothing beside the task.
fn is_only_task(json: &[u8]) -> bool {
    let task = std::str::from_utf8(json).ok().and_then(only_task);
    task.is_some_and(|task| serde_json::from_str::<&RawValue>(task).is_ok())
}
