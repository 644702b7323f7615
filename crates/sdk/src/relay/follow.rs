//! A task that goes on elsewhere, followed until it ends or waits for somebody here.
//!
//! It is watched if the agent can stream, and asked for now and then if not. A stream that breaks is taken up again; of
//! what the agent then shows only what is new is told. While the agent is out of reach it is asked again, less and less
//! often, and in the end the task fails.

use std::time::Instant;

use chancery_protocol::{
    ContextId, ErrorCode, GetTaskRequest, Request, SendMessageResponse, StreamResponse,
    SubscribeToTaskRequest, Task, TaskId, TaskState, TaskStatusUpdateEvent,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::clean::name_origin;
use super::delta::{Delta, is_same_status};
use super::errors::{Breach, cannot_be_watched};
use super::exchange::Exchange;
use super::source::{LONGEST_PAUSE, Progress, Source};
use crate::agent::{Failure, Outcome};
use crate::client::{ClientError, Feed, Options};
use crate::runtime::Delivered;

/// How long an id of an agent's may be.
const MAX_ID_BYTES: usize = 1024;

/// What has come from the agent.
enum News {
    /// An event, with its number and whether it is the first of its stream.
    Event(Box<StreamResponse>, u64, bool),
    Opened(Box<Feed>),
    Task(Box<Task>),
    /// The stream has ended as it should.
    End,
    /// The stream is open, has brought nothing for long, and the agent did not answer for the task.
    Silence(ClientError),
}

/// What came of a message that was delivered while the task is followed.
pub(super) type DeliveryAnswer = (Delivered, Result<SendMessageResponse, ClientError>);

impl Exchange<'_> {
    /// Follows the task until it ends or asks back.
    pub(super) async fn follow(&mut self, mut progress: Progress) -> Result<Outcome, Failure> {
        let mut deliveries = JoinSet::new();
        loop {
            let before = self.turn.sink.recorded();
            let ended = tokio::select! {
                biased;
                Some(Ok((delivered, answer))) = deliveries.join_next() => self.answered(delivered, answer).await?,
                news = self.hear(&mut progress) => match news {
                    Ok(news) => self.take_news(&mut progress, news).await?,
                    Err(error) => self.failed(&mut progress, &error)?,
                },
                delivered = self.turn.sink.delivered() => {
                    self.deliver(delivered, &mut deliveries).await?;
                    None
                }
            };
            if let Some(outcome) = ended {
                progress.source.leave();
                // Who is not answered yet is told how the task has ended.
                deliveries.detach_all();
                return Ok(outcome);
            }
            if self.turn.sink.recorded() > before {
                progress.is_alive();
            }
        }
    }

    async fn take_news(&mut self, progress: &mut Progress, news: News) -> Result<Option<Outcome>, Failure> {
        match news {
            News::Opened(events) => progress.source = Source::Stream(events),
            News::Event(event, number, is_first) => {
                let follows = progress.last > 0 && number == progress.last + 1;
                match *event {
                    event if is_first && !follows && !matches!(event, StreamResponse::Task(_)) => {
                        // What happened before it is not known, so the task is asked for as a whole from now on.
                        (progress.watchable, progress.source) = (false, Source::Look);
                    }
                    StreamResponse::Message(_) => {
                        return Err(self.broke_protocol("a message came where a task had begun"));
                    }
                    event => return self.take(event, false).await,
                }
            }
            News::Task(task) => {
                let before = self.turn.sink.recorded();
                let ended = self.take(StreamResponse::Task(*task), false).await?;
                progress.looked(self.turn.sink.recorded() > before);
                if !matches!(progress.source, Source::Stream(_)) {
                    progress.rest_if_waiting(self.known);
                }
                return Ok(ended);
            }
            News::Silence(error) => self.silent(progress, &error)?,
            News::End => {
                progress.after_break();
                progress.rest_if_waiting(self.known);
            }
        }
        Ok(None)
    }

    /// Asks the agent once about a task that waits, and follows it if it goes on.
    pub(super) async fn refresh(&mut self) -> Result<Outcome, Failure> {
        let Some(there) = self.state.task.clone() else { return Ok(Outcome::unchanged()) };
        let found = match self.look(there).await {
            Ok(task) => self.take(StreamResponse::Task(task), false).await?,
            Err(error) => match Breach::of(&error) {
                Some(Breach::Forgotten) => return Err(Failure::public(Breach::Forgotten.text())),
                _ => return Ok(Outcome::unchanged()),
            },
        };
        if let Some(outcome) = found {
            return Ok(outcome);
        }
        if self.known.is_interrupted() {
            return Ok(Outcome::unchanged());
        }
        self.turn.current_task().await.map_err(Failure::protocol)?;
        self.turn.sink.refreshed();
        self.follow(Progress::new(Source::Watch)).await
    }

    /// Waits for news from the agent.
    async fn hear(&self, progress: &mut Progress) -> Result<News, ClientError> {
        let there = self.state.task.clone();
        let there = there.ok_or_else(|| ClientError::BadAnswer("the task has no id".to_owned()))?;
        let Source::Stream(events) = &mut progress.source else {
            tokio::time::sleep(progress.pause).await;
            return Ok(match progress.source {
                Source::Watch => News::Opened(Box::new(self.subscribe(there, progress.last).await?)),
                _ => News::Task(Box::new(self.look(there).await?)),
            });
        };
        let silence = match progress.failing_since {
            Some(_) => LONGEST_PAUSE.min(self.agent.settings.silence),
            None => self.agent.settings.silence,
        };
        let is_first = !events.has_begun();
        Ok(match timeout(silence, events.next()).await {
            Err(_) => match self.look(there).await {
                Ok(task) => News::Task(Box::new(task)),
                Err(error) => News::Silence(error),
            },
            Ok(Some(event)) => {
                let event = event?;
                News::Event(Box::new(event.payload), event.number, is_first)
            }
            Ok(None) => News::End,
        })
    }

    async fn subscribe(&self, there: TaskId, last: u64) -> Result<Feed, ClientError> {
        if self.peer.client.peer().await?.card.capabilities.streaming != Some(true) {
            return Err(ClientError::Peer(ErrorCode::UnsupportedOperation.into()));
        }
        let mut options = self.asking();
        options.terms.last_event = (last > 0).then_some(last);
        let request = SubscribeToTaskRequest { tenant: String::new(), id: there };
        self.peer.client.feed(Request::SubscribeToTask(request), options).await
    }

    async fn look(&self, there: TaskId) -> Result<Task, ClientError> {
        let request = GetTaskRequest { tenant: String::new(), id: there, history_length: None };
        self.peer.client.ask(Request::GetTask(request), self.asking()).await
    }

    /// What goes along with questions about a task.
    fn asking(&self) -> Options {
        let mut options = Options { retries: Some(0), watch: self.watch(), ..Options::default() };
        if self.agent.settings.tells_lineage {
            options.terms.traceparent.clone_from(&self.turn.incoming.context.traceparent);
        }
        options
    }

    /// Tells what an event says. An outcome if that ends the turn.
    pub(super) async fn take(
        &mut self,
        event: StreamResponse,
        is_first: bool,
    ) -> Result<Option<Outcome>, Failure> {
        let mut event = self.state.scrubber.scrub(event);
        self.check_ids(&event)?;
        if self.has_new_ids {
            self.has_new_ids = !name_origin(&mut event, &self.state);
        }
        match event {
            StreamResponse::Task(task) if self.turn.sink.is_unopened() => {
                let state = task.status.state;
                if state == TaskState::Unspecified {
                    return Err(self.broke_protocol("its new task is in no state"));
                }
                self.known = state;
                if ends_turn(state) {
                    return Ok(Some(Outcome::forwarded(StreamResponse::Task(task))));
                }
                self.turn.forward(StreamResponse::Task(task)).await?;
                Ok(None)
            }
            StreamResponse::Task(task) => self.merge(task, is_first).await,
            StreamResponse::StatusUpdate(update) => self.take_status(update).await,
            StreamResponse::ArtifactUpdate(update) => {
                self.leave_waiting(TaskState::Working).await?;
                if self.known == TaskState::Unspecified {
                    self.known = TaskState::Submitted;
                }
                self.turn.forward(StreamResponse::ArtifactUpdate(update)).await?;
                Ok(None)
            }
            StreamResponse::Message(_) => Err(self.broke_protocol("a message is no event of a task")),
        }
    }

    /// Learns the agent's ids from the first event, and refuses events of other tasks.
    fn check_ids(&mut self, event: &StreamResponse) -> Result<(), Failure> {
        let (task, context) = match event {
            StreamResponse::Task(task) => (&task.id, task.context_id.as_ref()),
            StreamResponse::StatusUpdate(update) => (&update.task_id, Some(&update.context_id)),
            StreamResponse::ArtifactUpdate(update) => (&update.task_id, Some(&update.context_id)),
            StreamResponse::Message(_) => return Ok(()),
        };
        self.check_task(task, context)
    }

    /// Learns what the agent calls its task, unless it has another.
    pub(super) fn check_task(&mut self, task: &TaskId, context: Option<&ContextId>) -> Result<(), Failure> {
        match &self.state.task {
            Some(known) if known != task => {
                return Err(self.broke_protocol("another task came where one was asked for"));
            }
            Some(_) if !self.has_new_ids => return Ok(()),
            None if task.is_empty() || task.as_str().len() > MAX_ID_BYTES => {
                return Err(self.broke_protocol("the id of its task cannot be used"));
            }
            // Its context may not have been read where its id was learnt.
            _ => {}
        }
        self.state.task = Some(task.clone());
        if let Some(context) = context.filter(|context| !context.is_empty()) {
            self.state.context = Some(context.clone());
        }
        self.has_new_ids = true;
        Ok(self.turn.set_state(&self.state)?)
    }

    /// Tells what is new in a task that is shown whole.
    async fn merge(&mut self, task: Task, is_first: bool) -> Result<Option<Outcome>, Failure> {
        let known = self.turn.current_task().await.map_err(Failure::protocol)?;
        // A stream may begin with the task as it was before the message.
        let found = self.turn.task().filter(|_| is_first && !self.turn.is_resumed());
        let is_as_before = found.is_some_and(|found| is_same_status(&found.status, &task.status));
        let next = task.status.state;
        let Delta { artifacts, status, said } = Delta::between(&known, task);
        drop(known);
        for update in artifacts {
            self.leave_waiting(next).await?;
            self.turn.forward(StreamResponse::ArtifactUpdate(update)).await?;
        }
        let Some(status) = status.filter(|_| !is_as_before) else { return Ok(None) };
        said.into_iter().for_each(|message| self.turn.sink.said(message));
        self.take_status(status).await
    }

    async fn take_status(&mut self, update: TaskStatusUpdateEvent) -> Result<Option<Outcome>, Failure> {
        let next = update.status.state;
        let from = if self.known == TaskState::Unspecified { TaskState::Submitted } else { self.known };
        if next == TaskState::Unspecified || next != from && !from.may_become(next) {
            let why = format!("its task goes from {} to {}", from.as_str(), next.as_str());
            return Err(self.broke_protocol(&why));
        }
        self.leave_waiting(next).await?;
        let says_nothing = update.status.message.is_none() && update.metadata.is_none();
        let was_unparked = std::mem::take(&mut self.is_unparked);
        let is_known = next == self.known && says_nothing && !was_unparked && !self.turn.sink.is_unopened();
        self.known = next;
        if ends_turn(next) {
            return Ok(Some(Outcome::forwarded(StreamResponse::StatusUpdate(update))));
        }
        if !is_known {
            self.turn.forward(StreamResponse::StatusUpdate(update)).await?;
        }
        Ok(None)
    }

    /// A task that waited for somebody goes on: its call is admitted anew, or the task ends.
    async fn leave_waiting(&mut self, next: TaskState) -> Result<(), Failure> {
        if !self.known.is_interrupted() || next == self.known || self.is_unparked {
            return Ok(());
        }
        self.is_unparked = true;
        self.turn.unpark().await.map_err(|refused| {
            self.cancel_there();
            Failure::public(refused.message().to_owned())
        })
    }

    /// The agent did not answer for a task whose stream is silent. Any answer shows that it is there.
    fn silent(&self, progress: &mut Progress, error: &ClientError) -> Result<(), Failure> {
        if matches!(error, ClientError::Peer(_) | ClientError::Status { .. }) {
            progress.failing_since = None;
            return Ok(());
        }
        self.check_patience(progress, error)
    }

    /// Something did not come. Fails the task once there is no point in asking again.
    fn failed(&self, progress: &mut Progress, error: &ClientError) -> Result<Option<Outcome>, Failure> {
        let looked = matches!(progress.source, Source::Look);
        match Breach::of(error) {
            _ if matches!(error, ClientError::BadEvent { .. }) => progress.cannot_read(),
            _ if cannot_be_watched(error) && !looked => {
                progress.watchable = false;
                progress.look_now();
            }
            // Some agents say so of a task that has ended.
            Some(Breach::Forgotten) if !looked => progress.look_now(),
            Some(breach) => return Err(self.give_up(breach, error)),
            None => {
                progress.after_break();
                self.check_patience(progress, error)?;
            }
        }
        Ok(None)
    }

    /// The agent has not answered. The task fails if it has not for too long.
    fn check_patience(&self, progress: &mut Progress, error: &ClientError) -> Result<(), Failure> {
        let since = *progress.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.agent.settings.patience {
            return Err(self.give_up(Breach::OutOfReach, error));
        }
        let id = self.turn.task_id();
        tracing::debug!(task.id = %id, %error, "task {id} cannot be followed now");
        Ok(())
    }
}

/// Whether a task in this state has nothing more to say by itself.
fn ends_turn(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::InputRequired
}
