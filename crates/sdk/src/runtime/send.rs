//! How the sender of a message waits for what comes of it.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    Call, Error, ErrorCode, EventStream, KeptTask, Message, SendMessageRequest, SendMessageResponse,
    TaskState, TaskView,
};
use chancery_store::{Admission, KeyUse};
use tokio::time::timeout;

use super::Core;
use super::failure::{from_store, task_is_over};
use super::journal::view;
use super::live::TaskKey;
use super::reserve::kept_answer;
use super::start::{Answer, StartedTurn};
use super::subscription::{Subscription, TurnEnd, only};
use super::take::{Taken, admission};
use crate::turn::CallerWaits;

/// How long a sender that does not wait for the outcome waits for the agent's first sign: a direct answer, an error or a
/// task. After that it is answered with the task as it stands here.
const FIRST_SIGN: Duration = Duration::from_secs(2);

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
        let admission = admission(&call)?;
        let answer = match self.take(&scope, call, admission.clone(), waits).await? {
            Taken::Starts(turn, _) => self.wait_for_turn(turn, waits).await?,
            Taken::Waits { live, answer, .. } => {
                let answered = async {
                    let error = match answer.heard().await {
                        Some(Ok(task)) => return Ok(task),
                        Some(Err(error)) => error,
                        None => task_is_over(&live.key.id),
                    };
                    let id = self.unless_repeated(&scope, admission.as_ref(), error).await?;
                    self.settled(&TaskKey { scope: scope.clone(), id }).await
                };
                Answer::Task(self.task_after(&live.key, waits, answered).await?)
            }
            Taken::Repeats(id) => {
                let key = TaskKey { scope, id };
                Box::pin(self.repeated(&key, admission, waits)).await?
            }
        };
        Ok(match answer {
            Answer::Task(task) => SendMessageResponse::Task(view(task, history_length)),
            Answer::Message(message) => SendMessageResponse::Message(message),
        })
    }

    /// Waits as long as the sender does: until the turn settles, or only until there is something to show.
    async fn wait_for_turn(&self, mut turn: StartedTurn, waits: CallerWaits) -> Result<Answer, Error> {
        let done = match waits {
            CallerWaits::No => timeout(FIRST_SIGN, turn.shown()).await,
            _ => timeout(self.spec.blocking_timeout, turn.settled()).await.map(|done| done.map(Some)),
        };
        let done = match done {
            Ok(done) => done?,
            // It might have been answered directly. Now only a task can say that the turn goes on.
            Err(_) => {
                turn.sink.open();
                turn.shown().await?
            }
        };
        match done {
            Some(done) => Ok(done),
            None => Ok(Answer::Task(self.snapshot(&turn.live.key).await?.task)),
        }
    }

    /// The task as somebody else's turn leaves it, if the sender waits for that and waits long enough; as it stands otherwise.
    async fn task_after(
        &self,
        key: &TaskKey,
        waits: CallerWaits,
        settled: impl Future<Output = Result<KeptTask, Error>>,
    ) -> Result<KeptTask, Error> {
        if waits != CallerWaits::No
            && let Ok(settled) = Box::pin(timeout(self.spec.blocking_timeout, settled)).await
        {
            return settled;
        }
        Ok(self.snapshot(key).await?.task)
    }

    /// What became of a message that was sent before.
    async fn repeated(
        &self,
        key: &TaskKey,
        admission: Option<Admission>,
        waits: CallerWaits,
    ) -> Result<Answer, Error> {
        if let Ok(answered) = timeout(self.spec.blocking_timeout, self.joined(key, admission)).await
            && let Some(message) = answered?
        {
            return Ok(Answer::Message(message));
        }
        let settled = self.settled(key);
        self.task_after(key, waits, settled).await.map(Answer::Task)
    }

    /// Waits until a call is a task, or has been answered without one: with this message.
    async fn joined(&self, key: &TaskKey, admission: Option<Admission>) -> Result<Option<Message>, Error> {
        if let Some(live) = self.live.find(key) {
            live.until(|work| !work.is_reserved).await;
        }
        let unknown = match self.snapshot(key).await {
            Ok(_) => return Ok(None),
            Err(unknown) => unknown,
        };
        let Some(admission) = &admission else { return Err(unknown) };
        match self.store.admitted(&key.scope, admission).await.map_err(from_store)? {
            Some(KeyUse { answer: Some(answer), .. }) => kept_answer(&answer).map(Some),
            Some(_) => Err(unknown),
            None => {
                let text = "The message that this one repeats was not sent; send it again";
                Err(Error::with_message(ErrorCode::Unavailable, text))
            }
        }
    }

    /// Answers with the events of the turn as they come.
    pub(super) async fn stream(
        self: Arc<Self>,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<EventStream, Error> {
        let scope = self.scope(&call.context.principal);
        let admission = admission(&call)?;
        let taken = self.take(&scope, call, admission.clone(), CallerWaits::ForEvents).await?;
        let (live, end, before) = match taken {
            Taken::Starts(mut turn, before) => match turn.shown().await? {
                Some(Answer::Message(message)) => return only(message),
                Some(Answer::Task(_)) => return Err(ErrorCode::InvalidAgentResponse.into()),
                None => (turn.live, turn.end, before),
            },
            Taken::Waits { live, end, before, .. } => (live, end, before),
            Taken::Repeats(id) => return self.stream_again(&TaskKey { scope, id }, admission).await,
        };
        let store = self.store.clone();
        match before {
            Some(before) => Subscription::with_snapshot(store, live, &before, Some(end)),
            None => Ok(Subscription::after(store, live, 0, Some(end))),
        }
    }

    /// All events of a task that an equal message has begun, until it ends or asks back.
    async fn stream_again(&self, key: &TaskKey, admission: Option<Admission>) -> Result<EventStream, Error> {
        if let Some(message) = self.joined(key, admission).await? {
            return only(message);
        }
        let (live, snapshot) = self.enter(key).await?;
        let end = Arc::new(TurnEnd::default());
        live.end_with_question(end.clone());
        if snapshot.task.state() == TaskState::InputRequired {
            end.close_after(snapshot.number);
        }
        Ok(Subscription::after(self.store.clone(), live, 0, Some(end)))
    }
}
