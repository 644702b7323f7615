//! How the sender of a message waits for what comes of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use chancery_protocol::{
    Call, Error, Event, EventStream, KeptTask, SendMessageRequest, SendMessageResponse, TaskId, TaskState,
    TaskView,
};
use chancery_store::Scope;
use futures_core::Stream;

use super::Core;
use super::drive::{Done, FirstPoll, Launched, Unstoppable};
use super::failure::task_is_over;
use super::live::Live;
use super::queue::TurnEnd;
use super::subscription::{Subscription, message_event};
use super::take::{Taken, looks_up};
use super::view;

impl Core {
    /// Answers when the turn has ended, or at once if that is asked for.
    pub(super) async fn send(
        self: Arc<Self>,
        call: Box<Call<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        // A message that was taken must get its turn, also if its sender goes away before that begins.
        if looks_up(&call.request, &call.context) {
            Unstoppable::new(self.sent(call)).await
        } else {
            self.sent(call).await
        }
    }

    async fn sent(
        self: Arc<Self>,
        call: Box<Call<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let scope = self.scope(&call.context);
        let configuration = call.request.configuration.as_ref();
        let at_once = configuration.is_some_and(|wanted| wanted.return_immediately);
        let history_length = configuration.and_then(|wanted| wanted.history_length);
        let timeout = self.spec.blocking_timeout;
        let show = |task| SendMessageResponse::Task(view(task, history_length));
        let (id, waited) = match self.take(&scope, call).await? {
            Taken::Starts(drive) if at_once => {
                return match drive.launch(FirstPoll::Elsewhere).await? {
                    Launched::Task(live) => Ok(show(self.snapshot(&scope, live.task_id()).await?.task)),
                    Launched::Message(message) => Ok(SendMessageResponse::Message(message)),
                };
            }
            Taken::Starts(mut drive) => {
                let sink = drive.sink.clone();
                let opened = sink.is_unopened().then(|| drive.when_opened());
                let mut turn = Unstoppable::new(drive.run());
                let waited = tokio::time::timeout(timeout, &mut turn).await;
                if let (Err(_), Some(opened)) = (&waited, opened) {
                    // It might have been answered directly. Now only a task can say that it goes on.
                    sink.open();
                    drop(turn);
                    let _ = opened.await;
                }
                (sink.task_id().clone(), waited)
            }
            Taken::Waits { live, .. } if at_once => {
                return Ok(show(self.snapshot(&scope, live.task_id()).await?.task));
            }
            Taken::Waits { live, answer, admission, .. } => {
                let answered = async {
                    let error = match answer.await {
                        Ok(Ok(task)) => return Ok(Done::Task(task)),
                        Ok(Err(error)) => error,
                        Err(_) => task_is_over(live.task_id()),
                    };
                    let id = self.unless_repeated(&scope, admission.as_ref(), error).await?;
                    self.settled(&scope, &id).await.map(Done::Task)
                };
                (live.task_id().clone(), tokio::time::timeout(timeout, answered).await)
            }
            Taken::Repeats(id) if at_once => return Ok(show(self.snapshot(&scope, &id).await?.task)),
            Taken::Repeats(id) => {
                let waited = tokio::time::timeout(timeout, self.settled(&scope, &id)).await;
                (id, waited.map(|settled| settled.map(Done::Task)))
            }
        };
        match waited {
            Ok(Ok(Done::Task(task))) => Ok(show(task)),
            Ok(Ok(Done::Message(message))) => Ok(SendMessageResponse::Message(message)),
            Ok(Err(error)) => Err(error),
            // The sender has waited long enough. The turn goes on; the task says how far it is.
            Err(_) => Ok(show(self.snapshot(&scope, &id).await?.task)),
        }
    }

    /// Answers with the events of the turn as they come.
    pub(super) async fn stream(
        self: Arc<Self>,
        call: Box<Call<SendMessageRequest>>,
    ) -> Result<EventStream, Error> {
        if looks_up(&call.request, &call.context) {
            Unstoppable::new(self.streamed(call)).await
        } else {
            self.streamed(call).await
        }
    }

    async fn streamed(self: Arc<Self>, call: Box<Call<SendMessageRequest>>) -> Result<EventStream, Error> {
        let scope = self.scope(&call.context);
        let store = self.store.clone();
        let continues = call.request.message.task_id.is_some();
        match self.take(&scope, call).await? {
            Taken::Starts(mut drive) => {
                let end = Arc::new(TurnEnd::default());
                drive.end = Some(end.clone());
                match drive.launch(FirstPoll::Here).await? {
                    Launched::Task(live) if continues => self.watch_from_here(&scope, live, end).await,
                    Launched::Task(live) => Ok(Box::pin(Subscription::after(store, live, 0, Some(end)))),
                    Launched::Message(message) => {
                        let event = message_event(message)?;
                        Ok(Box::pin(Once(Some(event))))
                    }
                }
            }
            Taken::Waits { live, end, .. } => self.watch_from_here(&scope, live, end).await,
            Taken::Repeats(id) => {
                let live = self.live.enter(&scope, &id);
                let end = Arc::new(TurnEnd::default());
                live.end_with_question(end.clone());
                let snapshot = self.snapshot(&scope, &id).await?;
                live.catch_up(snapshot.number, snapshot.task.is_over());
                if snapshot.task.state() == TaskState::InputRequired {
                    end.close_after(snapshot.number);
                }
                Ok(Box::pin(Subscription::after(store, live, 0, Some(end))))
            }
        }
    }

    /// The task when it has ended or waits for somebody.
    async fn settled(&self, scope: &Scope, id: &TaskId) -> Result<KeptTask, Error> {
        let live = self.live.enter(scope, id);
        let snapshot = self.snapshot(scope, id).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        let mut events = Subscription::after(self.store.clone(), live, snapshot.number, None);
        loop {
            let task = self.snapshot(scope, id).await?.task;
            let state = task.state();
            if state.is_terminal() || state.is_interrupted() {
                return Ok(task);
            }
            poll_fn(|context| Pin::new(&mut events).poll_next(context)).await.transpose()?;
        }
    }

    /// The task as it stands, then the events that follow.
    async fn watch_from_here(
        &self,
        scope: &Scope,
        live: Arc<Live>,
        end: Arc<TurnEnd>,
    ) -> Result<EventStream, Error> {
        let snapshot = self.snapshot(scope, live.task_id()).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        Ok(Box::pin(Subscription::with_snapshot(self.store.clone(), live, &snapshot, Some(end))?))
    }
}

/// A stream of one event.
struct Once(Option<Event>);

impl Stream for Once {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}
