//! How the sender of a message waits for what comes of it.

use std::sync::Arc;

use chancery_protocol::{
    Call, Error, EventStream, SendMessageRequest, SendMessageResponse, TaskState, TaskView,
};

use super::Core;
use super::drive::{Done, FirstPoll, Launched, Opened};
use super::take::{Taken, looks_up};
use crate::tasks::{Subscription, TurnEnd, Unstoppable, all, only, task_is_over, view};

impl Core {
    /// Answers when the turn has ended, or at once if that is asked for.
    pub(super) async fn send(
        self: Arc<Self>,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        // A message that was taken must get its turn, also if its sender goes away before that begins.
        if looks_up(&call.request, &call.context) {
            Unstoppable::new(|| self.sent(call)).await
        } else {
            self.sent(call).await
        }
    }

    async fn sent(
        self: Arc<Self>,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let scope = self.scope(&call.context);
        let configuration = call.request.configuration.as_ref();
        let at_once = configuration.is_some_and(|wanted| wanted.return_immediately);
        let history_length = configuration.and_then(|wanted| wanted.history_length);
        let timeout = self.spec.blocking_timeout;
        let show = |task| SendMessageResponse::Task(view(task, history_length));
        let (id, waited) = match self.take(&scope, call).await? {
            Taken::Starts(drive) if at_once => {
                let id = drive.sink.task_id().clone();
                return match Box::pin(drive.launch(FirstPoll::Elsewhere)).await? {
                    Launched::Begun(..) | Launched::Task(_) => {
                        Ok(show(self.tasks.snapshot(&scope, &id).await?.task))
                    }
                    Launched::Message(message) => Ok(SendMessageResponse::Message(message)),
                };
            }
            Taken::Starts(mut drive) => {
                let sink = drive.sink.clone();
                let opened = sink.is_unopened().then(|| drive.when_opened());
                let mut turn = Unstoppable::new(|| drive.run());
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
                return Ok(show(self.tasks.snapshot(&scope, live.task_id()).await?.task));
            }
            Taken::Waits { live, answer, admission, .. } => {
                let answered = async {
                    let error = match answer.await {
                        Ok(Ok(task)) => return Ok(Done::Task(task)),
                        Ok(Err(error)) => error,
                        Err(_) => task_is_over(live.task_id()),
                    };
                    let id = self.unless_repeated(&scope, admission.as_ref(), error).await?;
                    self.tasks.settled(&scope, &id).await.map(Done::Task)
                };
                (live.task_id().clone(), Box::pin(tokio::time::timeout(timeout, answered)).await)
            }
            Taken::Repeats(id) if at_once => return Ok(show(self.tasks.snapshot(&scope, &id).await?.task)),
            Taken::Repeats(id) => {
                let waited = Box::pin(tokio::time::timeout(timeout, self.tasks.settled(&scope, &id))).await;
                (id, waited.map(|settled| settled.map(Done::Task)))
            }
        };
        match waited {
            Ok(Ok(Done::Task(task))) => Ok(show(task)),
            Ok(Ok(Done::Message(message))) => Ok(SendMessageResponse::Message(message)),
            Ok(Err(error)) => Err(error),
            // The sender has waited long enough. The turn goes on; the task says how far it is.
            Err(_) => Ok(show(self.tasks.snapshot(&scope, &id).await?.task)),
        }
    }

    /// Answers with the events of the turn as they come.
    pub(super) async fn stream(
        self: Arc<Self>,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<EventStream, Error> {
        if looks_up(&call.request, &call.context) {
            Unstoppable::new(|| self.streamed(call)).await
        } else {
            self.streamed(call).await
        }
    }

    async fn streamed(self: Arc<Self>, call: Call<Box<SendMessageRequest>>) -> Result<EventStream, Error> {
        let scope = self.scope(&call.context);
        let store = self.tasks.store.clone();
        let continues = call.request.message.task_id.is_some();
        match self.take(&scope, call).await? {
            Taken::Starts(mut drive) => {
                let end = Arc::new(TurnEnd::default());
                drive.end = Some(end.clone());
                let (live, turn) = match drive.launch(FirstPoll::Here).await? {
                    Launched::Begun(live, turn) => (live, Some(turn)),
                    Launched::Task(Opened::Live(live)) => (live, None),
                    Launched::Task(Opened::Over(events)) => return Ok(all(events)),
                    Launched::Message(message) => return only(message),
                };
                if continues {
                    drop(turn);
                    return Box::pin(self.tasks.watch_from_here(live, end)).await;
                }
                let shown = Subscription::after(store, live, 0, Some(end));
                Ok(match turn {
                    Some(turn) => self.carriers.carry(shown, turn),
                    None => Box::pin(shown),
                })
            }
            Taken::Waits { live, end, .. } => self.tasks.watch_from_here(live, end).await,
            Taken::Repeats(id) => {
                let live = self.tasks.live.enter(&scope, &id);
                let end = Arc::new(TurnEnd::default());
                live.end_with_question(end.clone());
                let snapshot = self.tasks.snapshot(&scope, &id).await?;
                live.catch_up(snapshot.number, snapshot.task.is_over());
                if snapshot.task.state() == TaskState::InputRequired {
                    end.close_after(snapshot.number);
                }
                Ok(Box::pin(Subscription::after(store, live, 0, Some(end))))
            }
        }
    }
}
