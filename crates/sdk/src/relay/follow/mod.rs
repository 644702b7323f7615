//! A task that goes on elsewhere, followed until it ends or waits for somebody here.
//!
//! It is watched if the agent can stream, and looked at now and then if not. A stream that breaks is taken up again;
//! of what the agent then shows only what is new is written. While the agent is out of reach it is asked again, less
//! and less often, and in the end the task counts as failed.

mod write;

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use chancery_protocol::{
    BoxFuture, ErrorCode, EventStream, GetTaskRequest, Message, Request, StreamResponse,
    SubscribeToTaskRequest, Task, TaskState,
};
use tokio_util::sync::CancellationToken;

use super::Core;
use super::keep::{Along, Merged, goes_on};
use super::line::{Line, Live, Pen};
use super::told::{Ending, cannot_be_watched, cause_of};
use crate::alarm::Alarm;
use crate::at_once::at_once;
use crate::canceled::Canceled;
use crate::client::{Client, ClientError, Feed, Options, Told};
use crate::tasks::{Subscription, Unstoppable};

/// How much is written at a time.
const FULL_BATCH: usize = 64;
const FULL_BYTES: usize = 256 << 10;
/// How long to wait between two looks at a task, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long an agent may take to end a stream after it has said everything.
const GOODBYE: Duration = Duration::from_secs(5);

/// Follows one task.
struct Follower {
    core: Arc<Core>,
    live: Arc<Live>,
    pen: Pen,
    stop: CancellationToken,
    options: Options,
    /// What a client has said and the journal has not yet.
    said: Option<Message>,
    state: TaskState,
    /// Whether the agent lets the task be watched.
    watchable: bool,
    /// The number of the last event that came by a stream that has ended; 0 if it had none.
    last: u64,
    /// Whether the next event is the first of its stream.
    first: bool,
    /// When the agent last answered.
    heard: Instant,
    /// How often in a row nothing new has come by asking for it.
    in_vain: u32,
    /// How long to wait before asking again.
    pause: Duration,
    /// How the stream has ended, if that came together with its last events.
    ended: Option<Result<(), ClientError>>,
    /// What has come and is to be written.
    gathered: Vec<Told>,
    /// Whether the stream has no more at hand, and has not been woken since it said so.
    stream_waits: bool,
    /// When it is to be written, where that is not at once.
    due: Option<Alarm>,
}

/// Where news come from.
enum Source {
    Stream(Box<Feed>),
    /// It is to be watched.
    Watch,
    /// It is to be looked at.
    Look,
}

/// News.
enum Heard {
    Events(Vec<Told>),
    Opened(Box<Feed>),
    /// The task as it stands.
    Task(Box<Task>),
    /// The stream has ended as it should.
    End,
    Failed(ClientError),
}

/// What is to be done next.
enum Next {
    Go(Source),
    /// Nothing, but to hear the stream out.
    Over(Source),
    Done,
}

impl Core {
    /// Follows a task from now on.
    pub(super) fn follow(
        self: &Arc<Self>,
        (live, pen): (Arc<Live>, Pen),
        state: TaskState,
        options: Options,
    ) {
        if let Some(follower) = self.follower((live, pen), state, None, None, options) {
            tokio::spawn(follower);
        }
    }

    /// Follows a task on the stream that has come of a message, and shows it. `said` is what a client has said and no event
    /// has shown yet.
    pub(super) fn follow_and_show(
        self: &Arc<Self>,
        (live, pen): (Arc<Live>, Pen),
        state: TaskState,
        (events, said): (Feed, Option<Message>),
        shown: Subscription<Line>,
        options: Options,
    ) -> EventStream {
        match self.follower((live, pen), state, Some(events), said, options) {
            Some(follower) => self.carriers.carry(shown, Unstoppable::boxed(follower)),
            None => Box::pin(shown),
        }
    }

    /// Follows a task on a stream that nobody is shown.
    pub(super) fn follow_on(
        self: &Arc<Self>,
        (live, pen): (Arc<Live>, Pen),
        state: TaskState,
        events: Feed,
        options: Options,
    ) {
        if let Some(follower) = self.follower((live, pen), state, Some(events), None, options) {
            tokio::spawn(follower);
        }
    }

    /// None if somebody else will see to it.
    fn follower(
        self: &Arc<Self>,
        (live, pen): (Arc<Live>, Pen),
        state: TaskState,
        events: Option<Feed>,
        said: Option<Message>,
        options: Options,
    ) -> Option<BoxFuture<'static, ()>> {
        let stop = self.stop.child_token();
        if !live.begin_to_follow(&stop) {
            return None;
        }
        let follower = Follower {
            core: self.clone(),
            live,
            pen,
            stop,
            options: Options { deadline: None, retries: Some(0), ..options },
            said,
            state,
            watchable: true,
            last: 0,
            first: false,
            heard: Instant::now(),
            in_vain: 0,
            pause: Duration::ZERO,
            ended: None,
            gathered: Vec::new(),
            stream_waits: false,
            due: None,
        };
        let source = events.map_or(Source::Watch, |events| Source::Stream(Box::new(events)));
        Some(Box::pin(follower.run(source)))
    }

    /// Whether the agent says that its tasks can be watched.
    pub(super) async fn can_stream(&self, client: &Client) -> Result<bool, ClientError> {
        Ok(client.peer().await?.card.capabilities.streaming == Some(true))
    }
}

impl Follower {
    async fn run(mut self, mut source: Source) {
        let stop = self.stop.clone();
        let mut stopped = Canceled::new(stop.clone());
        loop {
            // Only listening can be broken off: what is being written is written, and shown.
            let heard = {
                let mut hearing = pin!(self.hear(&mut source));
                poll_fn(|context| match hearing.as_mut().poll(context) {
                    Poll::Ready(heard) => Poll::Ready(Some(heard)),
                    Poll::Pending => stopped.poll(context).map(|()| None),
                })
                .await
            };
            let heard = match heard {
                Some(heard) if !stop.is_cancelled() => heard,
                heard => {
                    let last = if let Some(Heard::Events(events)) = heard { Some(events) } else { None };
                    let last = last.unwrap_or_else(|| mem::take(&mut self.gathered));
                    // A failure to write is told where it happens.
                    let _ = self.write(last).await;
                    break;
                }
            };
            let from = mem::replace(&mut source, Source::Look);
            match self.take_and_note_time(heard, from).await {
                Next::Go(next) => source = next,
                Next::Over(stream) => {
                    self.live.end_following(&stop);
                    drop(self);
                    return hear_out(stream).await;
                }
                Next::Done => break,
            }
        }
        self.live.end_following(&stop);
    }

    /// Writes what was heard, and decides how to go on. If that takes time, somebody may have been woken meanwhile.
    async fn take_and_note_time(&mut self, heard: Heard, from: Source) -> Next {
        let (next, took_no_time) = at_once(pin!(self.take(heard, from))).await;
        self.stream_waits &= took_no_time;
        next
    }

    /// Waits for news.
    async fn hear(&mut self, source: &mut Source) -> Heard {
        let pause = mem::take(&mut self.pause);
        let stream_waits = mem::take(&mut self.stream_waits) && pause.is_zero();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if let Some(ended) = self.ended.take() {
            return Heard::end(ended);
        }
        // Whole calls are put on the heap: a task that is followed on its stream, for hours perhaps, needs no room for them.
        let opened = match source {
            Source::Stream(events) => return self.listen(events, stream_waits).await,
            Source::Watch => Box::pin(self.watch()).await.map(|events| Heard::Opened(Box::new(events))),
            Source::Look => Box::pin(self.look()).await.map(|task| Heard::Task(Box::new(task))),
        };
        opened.unwrap_or_else(Heard::Failed)
    }

    /// The next events of a stream, and those that have come together with them. One that waits wakes us, and need not be
    /// asked before.
    async fn listen(&mut self, events: &mut Feed, mut stream_waits: bool) -> Heard {
        let mut bytes = 0;
        poll_fn(|context| {
            if mem::take(&mut stream_waits) {
                return Poll::Pending;
            }
            while self.gathered.len() < FULL_BATCH && bytes < FULL_BYTES {
                let ended = match events.poll_next(context) {
                    Poll::Ready(Some(Ok(told))) => {
                        bytes += told.event.json.len();
                        self.gathered.push(told);
                        continue;
                    }
                    Poll::Ready(Some(Err(error))) => Err(error),
                    Poll::Ready(None) => Ok(()),
                    Poll::Pending if self.gathered.is_empty() => return Poll::Pending,
                    Poll::Pending => {
                        if let Some(due) = &mut self.due {
                            ready!(due.poll(context));
                        }
                        self.stream_waits = true;
                        break;
                    }
                };
                if self.gathered.is_empty() {
                    return Poll::Ready(Heard::end(ended));
                }
                self.ended = Some(ended);
                break;
            }
            Poll::Ready(Heard::Events(mem::take(&mut self.gathered)))
        })
        .await
    }

    async fn watch(&self) -> Result<Feed, ClientError> {
        let client = self.core.client_of(&self.live).await?;
        if !self.core.can_stream(&client).await? {
            return Err(ClientError::Peer(ErrorCode::UnsupportedOperation.into()));
        }
        let id = self.live.task_id().clone();
        let mut request = Request::SubscribeToTask(SubscribeToTaskRequest { tenant: String::new(), id });
        let names = self.core.names_of(&self.live).await?;
        names.iter().for_each(|names| names.translate(&mut request));
        let mut options = self.options.clone();
        options.terms.last_event = (self.last > 0).then_some(self.last);
        let events = client.feed(request, options).await?;
        Ok(match names {
            Some(names) => events.in_names(names),
            None => events,
        })
    }

    async fn look(&self) -> Result<Task, ClientError> {
        let id = self.live.task_id().clone();
        let request = GetTaskRequest { tenant: String::new(), id, history_length: None };
        self.core.ask_about(&self.live, Request::GetTask(request), self.options.clone()).await
    }

    /// Writes what was heard, and decides how to go on.
    async fn take(&mut self, heard: Heard, from: Source) -> Next {
        if !matches!(heard, Heard::Failed(_)) {
            self.heard = Instant::now();
        }
        match heard {
            Heard::Opened(events) => {
                self.first = true;
                Next::Go(Source::Stream(events))
            }
            Heard::Events(events)
                if self.first && !events.first().is_some_and(|one| self.can_begin_with(one)) =>
            {
                // What happened before it is not known, so the task is looked at as a whole from now on.
                self.watchable = false;
                Next::Go(Source::Look)
            }
            Heard::Events(events) if self.goes_on_with(events.iter().filter_map(state_in)) => {
                match Box::pin(self.core.reserve_anew(&self.live)).await {
                    Ok(()) => self.write_and_go_on(events, from).await,
                    Err(_) => Next::Done,
                }
            }
            Heard::Events(events) => self.write_and_go_on(events, from).await,
            Heard::Task(task) if self.goes_on_with([task.status.state]) => {
                match Box::pin(self.core.reserve_anew(&self.live)).await {
                    Ok(()) => self.merge(*task).await,
                    Err(_) => Next::Done,
                }
            }
            Heard::Task(task) => self.merge(*task).await,
            Heard::End => {
                let next = self.after_break(&from);
                self.go_on(next)
            }
            Heard::Failed(error) => {
                let next = self.after_break(&from);
                Box::pin(self.failed(&error, matches!(from, Source::Look), next)).await
            }
        }
    }

    /// Whether a task that waited for an authorization is worked on again, which parking had settled.
    fn goes_on_with(&self, states: impl IntoIterator<Item = TaskState>) -> bool {
        self.state == TaskState::AuthRequired
            && states.into_iter().any(|state| state != TaskState::AuthRequired)
    }

    async fn write_and_go_on(&mut self, events: Vec<Told>, from: Source) -> Next {
        match self.write(events).await {
            Ok(()) if self.state.is_terminal() => Next::Over(from),
            Ok(()) => Next::Go(from),
            Err(_) => Next::Done,
        }
    }

    async fn merge(&mut self, task: Task) -> Next {
        let along = Along::saying(self.said.take());
        match Box::pin(self.core.merge(&self.live, &self.pen, task, along)).await {
            Ok(merged) => {
                self.in_vain += 1;
                self.note(&merged);
                // By whatever number the agent knows that, it is none that came by a stream.
                self.last = 0;
                self.pause = self.longer_pause();
                self.go_on(if self.watchable { Source::Watch } else { Source::Look })
            }
            Err(_) => Next::Done,
        }
    }

    /// Goes on with a task that is not being streamed, if it goes on itself.
    fn go_on(&mut self, next: Source) -> Next {
        match self.state {
            TaskState::AuthRequired => {
                self.pause = LONGEST_PAUSE;
                Next::Go(Source::Look)
            }
            state if goes_on(state) => Next::Go(next),
            _ => Next::Done,
        }
    }

    /// How to ask after what was asked for has broken off. One that is not worth watching is looked at in between.
    fn after_break(&mut self, from: &Source) -> Source {
        if let Source::Stream(events) = from {
            self.last = events.last_event();
        }
        self.in_vain += 1;
        self.pause = self.longer_pause();
        let look = matches!(from, Source::Look) || !self.watchable || self.in_vain.is_multiple_of(2);
        if look { Source::Look } else { Source::Watch }
    }

    /// Whether a stream that begins with this misses nothing: it shows the task, or goes on where the last one ended.
    fn can_begin_with(&mut self, told: &Told) -> bool {
        self.first = false;
        let follows = self.last > 0 && told.event.number == self.last + 1;
        follows || matches!(told.payload, Ok(StreamResponse::Task(_)))
    }

    fn note(&mut self, merged: &Merged) {
        self.state = merged.task.state();
        if merged.is_new {
            self.in_vain = 0;
        }
    }

    /// Longer with every time that it was in vain.
    fn longer_pause(&self) -> Duration {
        FIRST_PAUSE.saturating_mul(1 << self.in_vain.min(6)).min(LONGEST_PAUSE)
    }

    async fn failed(&mut self, error: &ClientError, looked: bool, next: Source) -> Next {
        let id = self.live.task_id();
        if cannot_be_watched(error) && !looked {
            (self.watchable, self.pause) = (false, Duration::ZERO);
            return Next::Go(Source::Look);
        }
        let ending = match Ending::of(error) {
            // Some agents say so of a task that has ended.
            Some(Ending::Forgotten) if !looked => return Next::Go(Source::Look),
            None if self.heard.elapsed() >= self.core.patience => Some(Ending::OutOfReach),
            ending => ending,
        };
        if let Some(ending) = ending {
            self.core.end(&self.live, ending, &error.to_string()).await;
            return Next::Done;
        }
        tracing::debug!(task.id = %id, %error, cause = cause_of(error), "task {id} cannot be followed now");
        Next::Go(next)
    }
}

impl Heard {
    fn end(ended: Result<(), ClientError>) -> Self {
        match ended {
            Ok(()) => Self::End,
            Err(error) => Self::Failed(error),
        }
    }
}

/// The state that an event leaves its task in, if it says so. Whoever makes something works.
fn state_in(told: &Told) -> Option<TaskState> {
    match told.payload.as_ref().ok()? {
        StreamResponse::Task(task) => Some(task.status.state),
        StreamResponse::StatusUpdate(update) => Some(update.status.state),
        StreamResponse::ArtifactUpdate(_) => Some(TaskState::Working),
        StreamResponse::Message(_) => None,
    }
}

/// Reads a stream to its end, so that its connection can be used again.
async fn hear_out(stream: Source) {
    if let Source::Stream(mut events) = stream {
        events.satisfied();
        let rest = async { while let Some(Ok(_)) = events.next().await {} };
        let _ = tokio::time::timeout(GOODBYE, rest).await;
    }
}
