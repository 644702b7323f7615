//! How the sender of a message waits for what comes of it.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Call, Error, ErrorCode, EventStream, KeptTask, Message, SendMessageRequest, SendMessageResponse, TaskId,
    TaskState, TaskView,
};
use chancery_store::{Admission, KeyUse, Scope};
use tokio::time::timeout;

use super::Core;
use super::drive::Done;
use super::failure::{from_store, task_is_over};
use super::journal::view;
use super::reserve::kept_answer;
use super::start::{FirstSign, OpenedTask, StartedTurn};
use super::subscription::{Subscription, TurnEnd, all, only};
use super::take::{Taken, admission};
use crate::turn::CallerWaits;

/// How long a sender that does not wait for the outcome waits for the agent's first sign: a direct answer, an error or a
/// task. After that it is answered with the task as it stands here.
const FIRST_SIGN: Duration = Duration::from_secs(2);

/// What a sender is answered with.
type Answer = SendMessageResponse<KeptTask>;

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
        let scope = self.scope(&call.context.principal);
        let configuration = call.request.configuration.as_ref();
        let history_length = configuration.and_then(|wanted| wanted.history_length);
        let waits = match configuration.is_some_and(|wanted| wanted.return_immediately) {
            true => CallerWaits::No,
            false => CallerWaits::ForOutcome,
        };
        let key = admission(&call.context, &call.request)?;
        let done = match self.take(&scope, call, waits).await? {
            Taken::Starts(turn) => self.wait_for_turn(&scope, turn, waits).await?,
            Taken::Waits { live, answer, .. } => {
                let answered = async {
                    let error = match answer.await {
                        Ok(Ok(task)) => return Ok(task),
                        Ok(Err(error)) => error,
                        Err(_) => task_is_over(live.task_id()),
                    };
                    let id = self.unless_repeated(&scope, key.as_ref(), error).await?;
                    self.settled(&scope, &id).await
                };
                Done::Task(self.task_after(&scope, live.task_id(), waits, answered).await?)
            }
            Taken::Repeats(id) => Done::Repeats(id),
            Taken::Answered(message) => Done::Message(message),
        };
        let answer = match done {
            Done::Task(task) => Answer::Task(task),
            Done::Message(message) => Answer::Message(message),
            Done::Repeats(id) => Box::pin(self.repeated(&scope, &id, key, waits)).await?,
        };
        Ok(match answer {
            Answer::Task(task) => SendMessageResponse::Task(view(task, history_length)),
            Answer::Message(message) => SendMessageResponse::Message(message),
        })
    }

    /// Waits as long as the sender does: until the turn settles, or only until there is something to show.
    async fn wait_for_turn(
        &self,
        scope: &Scope,
        mut turn: StartedTurn,
        waits: CallerWaits,
    ) -> Result<Done, Error> {
        let sign = match waits {
            CallerWaits::No => timeout(FIRST_SIGN, turn.first_sign()).await,
            _ => {
                timeout(self.spec.blocking_timeout, turn.settled()).await.map(|done| done.map(FirstSign::End))
            }
        };
        let sign = match sign {
            Ok(sign) => sign?,
            // It might have been answered directly. Now only a task can say that the turn goes on.
            Err(_) => {
                turn.sink.open_now();
                turn.first_sign().await?
            }
        };
        match sign {
            FirstSign::End(done) => Ok(done),
            FirstSign::Task(_) => Ok(Done::Task(self.snapshot(scope, turn.sink.task_id()).await?.task)),
        }
    }

    /// The task as somebody else's turn leaves it, if the sender waits for that and waits long enough; as it stands otherwise.
    async fn task_after(
        &self,
        scope: &Scope,
        id: &TaskId,
        waits: CallerWaits,
        settled: impl Future<Output = Result<KeptTask, Error>>,
    ) -> Result<KeptTask, Error> {
        if waits != CallerWaits::No
            && let Ok(settled) = Box::pin(timeout(self.spec.blocking_timeout, settled)).await
        {
            return settled;
        }
        Ok(self.snapshot(scope, id).await?.task)
    }

    /// What became of a message that was sent before.
    async fn repeated(
        &self,
        scope: &Scope,
        id: &TaskId,
        key: Option<Admission>,
        waits: CallerWaits,
    ) -> Result<Answer, Error> {
        let joined = match timeout(self.spec.blocking_timeout, self.joined(scope, id, key)).await {
            Ok(joined) => joined?,
            Err(_) => Joined::Task,
        };
        match joined {
            Joined::Message(message) => Ok(Answer::Message(message)),
            Joined::Task => {
                let settled = self.settled(scope, id);
                self.task_after(scope, id, waits, settled).await.map(Answer::Task)
            }
        }
    }

    /// Waits until a call is a task, or has been answered without one.
    async fn joined(&self, scope: &Scope, id: &TaskId, key: Option<Admission>) -> Result<Joined, Error> {
        loop {
            let reserved = self.live.find(scope, id).and_then(|live| live.work.lock().reserved.clone());
            if let Some(reserved) = reserved {
                reserved.cancelled().await;
                continue;
            }
            let unknown = match self.snapshot(scope, id).await {
                Ok(_) => return Ok(Joined::Task),
                Err(unknown) => unknown,
            };
            let Some(key) = &key else { return Err(unknown) };
            return match self.store.admitted(scope, key).await.map_err(from_store)? {
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
        let scope = self.scope(&call.context.principal);
        let key = admission(&call.context, &call.request)?;
        match self.take(&scope, call, CallerWaits::ForEvents).await? {
            Taken::Starts(mut turn) => {
                let live = match turn.first_sign().await? {
                    FirstSign::Task(OpenedTask::Live(live)) => live,
                    FirstSign::Task(OpenedTask::Over(events)) => return Ok(all(events)),
                    FirstSign::End(Done::Message(message)) => return only(message),
                    FirstSign::End(Done::Repeats(id)) => {
                        return Box::pin(self.stream_again(&scope, id, key)).await;
                    }
                    FirstSign::End(Done::Task(_)) => return Err(ErrorCode::InvalidAgentResponse.into()),
                };
                let (store, end) = (self.store.clone(), Some(turn.end));
                Ok(match turn.before {
                    Some(before) => Box::pin(Subscription::with_snapshot(store, live, &before, end)?),
                    None => Box::pin(Subscription::after(store, live, 0, end)),
                })
            }
            Taken::Waits { live, end, .. } => self.watch_from_here(&live, end).await,
            Taken::Repeats(id) => Box::pin(self.stream_again(&scope, id, key)).await,
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
        let live = self.live.enter(scope, &id);
        let end = Arc::new(TurnEnd::default());
        live.end_with_question(end.clone());
        let snapshot = self.snapshot(scope, &id).await?;
        live.catch_up(snapshot.number, snapshot.task.is_over());
        if snapshot.task.state() == TaskState::InputRequired {
            end.close_after(snapshot.number);
        }
        Ok(Box::pin(Subscription::after(self.store.clone(), live, 0, Some(end))))
    }
}
