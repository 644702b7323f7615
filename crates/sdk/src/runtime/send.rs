//! How the sender of a message waits for what comes of it.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Call, Error, ErrorCode, EventStream, Message, SendMessageRequest, SendMessageResponse, TaskId, TaskState,
    TaskView,
};
use chancery_store::{Admission, KeyUse, Scope};

use tokio::time::error::Elapsed;

use super::Core;
use super::drive::{Done, Drive};
use super::launch::{FirstPoll, Launched, Opened};
use super::reserve::kept_answer;
use super::take::{Taken, looks_up};
use crate::tasks::{
    Subscription, TurnEnd, Unstoppable, admission, all, from_store, only, task_is_over, view,
};
use crate::turn::CallerWaits;

/// How long a sender that does not wait for the outcome waits for the agent's first sign: a direct answer, an error or a
/// task. After that it is answered with the task as it stands here.
const FIRST_SIGN: Duration = Duration::from_secs(2);

/// What a repeated message joins.
enum Joined {
    Task,
    Message(Message),
}

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
        let waits = if at_once { CallerWaits::No } else { CallerWaits::ForOutcome };
        let key = admission(&call.context, &call.request)?;
        let (id, waited) = match self.take(&scope, call, waits).await? {
            Taken::Starts(drive) if at_once => {
                return match self.send_at_once(&scope, drive, key).await? {
                    Done::Task(task) => Ok(show(task)),
                    Done::Message(message) => Ok(SendMessageResponse::Message(message)),
                    Done::Repeats(_) => Err(Error::new(ErrorCode::Internal)),
                };
            }
            Taken::Starts(drive) => {
                let id = drive.sink.task_id().clone();
                (id, self.run_and_wait(drive).await)
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
            Taken::Repeats(id, key) => {
                let waited =
                    Box::pin(tokio::time::timeout(timeout, self.repeated(&scope, &id, key, at_once)));
                let waited = waited.await;
                (id, waited)
            }
            Taken::Answered(message) => return Ok(SendMessageResponse::Message(message)),
        };
        match waited {
            Ok(Ok(Done::Task(task))) => Ok(show(task)),
            Ok(Ok(Done::Message(message))) => Ok(SendMessageResponse::Message(message)),
            Ok(Ok(Done::Repeats(id))) => match Box::pin(self.repeated(&scope, &id, key, at_once)).await? {
                Done::Task(task) => Ok(show(task)),
                Done::Message(message) => Ok(SendMessageResponse::Message(message)),
                Done::Repeats(_) => Err(Error::new(ErrorCode::Internal)),
            },
            Ok(Err(error)) => Err(error),
            // The sender has waited long enough. The turn goes on; the task says how far it is.
            Err(_) => Ok(show(self.tasks.snapshot(&scope, &id).await?.task)),
        }
    }

    /// Runs a turn until it has ended, or its sender has waited long enough: then its task is there.
    async fn run_and_wait(&self, mut drive: Box<Drive>) -> Result<Result<Done, Error>, Elapsed> {
        let sink = drive.sink.clone();
        let opened = sink.is_unopened().then(|| drive.when_opened());
        let mut turn = Unstoppable::new(|| drive.run_until_parked());
        let waited = tokio::time::timeout(self.spec.blocking_timeout, &mut turn).await;
        if let (Err(_), Some(opened)) = (&waited, opened) {
            // It might have been answered directly. Now only a task can say that it goes on.
            sink.open_now();
            drop(turn);
            let _ = opened.await;
        }
        waited
    }

    /// Starts a turn, and answers with its task as soon as there is one.
    async fn send_at_once(
        &self,
        scope: &Scope,
        drive: Box<Drive>,
        key: Option<Admission>,
    ) -> Result<Done, Error> {
        let sink = drive.sink.clone();
        let mut launch = Box::pin(drive.launch(FirstPoll::Elsewhere));
        let launched = match tokio::time::timeout(FIRST_SIGN, &mut launch).await {
            Ok(launched) => launched?,
            // The agent has not shown anything. The answer is the task that it works on.
            Err(_) => {
                sink.open_now();
                launch.await?
            }
        };
        match launched {
            Launched::Begun(..) | Launched::Task(_) => {
                Ok(Done::Task(self.tasks.snapshot(scope, sink.task_id()).await?.task))
            }
            Launched::Message(message) => Ok(Done::Message(message)),
            Launched::Repeats(id) => self.repeated(scope, &id, key, true).await,
        }
    }

    /// What became of a message that was sent before.
    async fn repeated(
        &self,
        scope: &Scope,
        id: &TaskId,
        key: Option<Admission>,
        at_once: bool,
    ) -> Result<Done, Error> {
        match self.joined(scope, id, key).await? {
            Joined::Message(message) => Ok(Done::Message(message)),
            Joined::Task if at_once => Ok(Done::Task(self.tasks.snapshot(scope, id).await?.task)),
            Joined::Task => self.tasks.settled(scope, id).await.map(Done::Task),
        }
    }

    /// Waits until a call is a task, or has been answered without one.
    async fn joined(&self, scope: &Scope, id: &TaskId, key: Option<Admission>) -> Result<Joined, Error> {
        loop {
            let reserved = self.tasks.live.find(scope, id).and_then(|live| live.work.lock().reserved.clone());
            if let Some(reserved) = reserved {
                reserved.cancelled().await;
                continue;
            }
            let unknown = match self.tasks.snapshot(scope, id).await {
                Ok(_) => return Ok(Joined::Task),
                Err(unknown) => unknown,
            };
            let Some(key) = &key else { return Err(unknown) };
            return match self.tasks.store.admitted(scope, key).await.map_err(from_store)? {
                Some(KeyUse { answer: Some(answer), .. }) => kept_answer(&answer).map(Joined::Message),
                Some(_) => Err(unknown),
                None => {
                    let text = "The message that this one repeats was not sent; send it again";
                    Err(Error::with_message(ErrorCode::Unavailable, text))
                }
            };
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
        let key = admission(&call.context, &call.request)?;
        match self.take(&scope, call, CallerWaits::ForEvents).await? {
            Taken::Starts(mut drive) => {
                let end = Arc::new(TurnEnd::default());
                drive.end = Some(end.clone());
                let live = match drive.launch(FirstPoll::Here).await? {
                    // What is left of the turn runs on its own.
                    Launched::Begun(live, turn) => {
                        drop(turn);
                        live
                    }
                    Launched::Task(Opened::Live(live)) => live,
                    Launched::Task(Opened::Over(events)) => return Ok(all(events)),
                    Launched::Message(message) => return only(message),
                    Launched::Repeats(id) => return Box::pin(self.stream_again(&scope, id, key)).await,
                };
                if continues {
                    return Box::pin(self.tasks.watch_from_here(live, end)).await;
                }
                Ok(Box::pin(Subscription::after(store, live, 0, Some(end))))
            }
            Taken::Waits { live, end, .. } => self.tasks.watch_from_here(live, end).await,
            Taken::Repeats(id, key) => Box::pin(self.stream_again(&scope, id, key)).await,
            Taken::Answered(message) => only(message),
        }
    }

    /// All events of a task that an equal message has begun, until it ends or asks back.
    async fn stream_again(
        &self,
        scope: &Scope,
        id: TaskId,
        key: Option<Admission>,
    ) -> Result<EventStream, Error> {
        if let Joined::Message(message) = self.joined(scope, &id, key).await? {
            return only(message);
        }
        let live = self.tasks.live.enter(scope, &id);
        let end = Arc::new(TurnEnd::default());
        live.end_with_question(end.clone());
        let snapshot = self.tasks.snapshot(scope, &id).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        if snapshot.task.state() == TaskState::InputRequired {
            end.close_after(snapshot.number);
        }
        Ok(Box::pin(Subscription::after(self.tasks.store.clone(), live, 0, Some(end))))
    }
}
