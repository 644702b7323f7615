//! Where a stream of a task that exists begins.
//!
//! One that was cut is taken up again after its last event. In an older version that is no place to go on from: a stream
//! begins with whatever happens next, and not with the task as v1.0 has it. So the task is asked for once the stream is
//! open: nothing is missing then, and what came meanwhile and is in the task already is left out.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use chancery_protocol::{
    ErrorCode, GetTaskRequest, Request, StreamResponse, SubscribeToTaskRequest, Task, TaskId, Version,
};
use tokio::time::sleep;

use super::Client;
use super::error::ClientError;
use super::open::{Heard, Open, Streamed};
use super::overlap::{Overlap, overlap};
use super::replied::StreamEvent;
use super::stream::Opened;
use super::unary::Options;

/// How many frames are looked at before the task is shown. What comes after them is passed on as it is.
const MOST_FRAMES: usize = 256;
/// How often the task is asked for, if it cannot be told from one look what of the stream is in it.
const TRIES: usize = 3;

impl Client {
    /// Takes a stream up again after an event, or says what came of its task.
    pub(super) async fn reopen(
        self,
        id: TaskId,
        mut options: Options,
        last: u64,
        pause: Duration,
        is_old: bool,
    ) -> Result<Opened, ClientError> {
        sleep(pause).await;
        options.terms.last_event = (last > 0).then_some(last);
        options.terms.idempotency_key = None;
        options.retries = Some(0);
        let request = SubscribeToTaskRequest { tenant: String::new(), id: id.clone() };
        let mut request = Request::SubscribeToTask(request);
        match self.attempts(&mut request, &mut options.clone(), &Streamed).await {
            Ok(mut open) => {
                self.catch_up(&mut open, &id, &options).await;
                Ok(Opened::Stream(Box::new(open)))
            }
            Err(error) if error.code().is_some_and(|code| may_be_over(code, is_old)) => {
                options.terms.last_event = None;
                let request = GetTaskRequest { tenant: String::new(), id, history_length: None };
                match self.ask(Request::GetTask(request), options).await {
                    Ok(task) => outcome(task, last),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Has a stream begin with its task, if its version does not. If the task cannot be had, the stream is as it is.
    pub(super) async fn catch_up(&self, open: &mut Open, id: &TaskId, options: &Options) {
        if open.wire.version() >= Version::V1_0 || options.terms.last_event.is_some() {
            return;
        }
        let mut options = options.clone();
        options.terms.idempotency_key = None;
        for tries_left in (0..TRIES).rev() {
            let sure = open.hear_ready().await;
            let request = GetTaskRequest { tenant: String::new(), id: id.clone(), history_length: None };
            let Ok(task) = self.ask::<Task>(Request::GetTask(request), options.clone()).await else { return };
            open.hear_ready().await;
            if open.skip_to(&task, sure, tries_left == 0) {
                open.snapshot = Some(StreamEvent::new(0, StreamResponse::Task(task)));
                return;
            }
        }
    }
}

/// Whether the refusal of a stream may mean that its task has ended. Older peers say so in different ways.
fn may_be_over(code: ErrorCode, is_old: bool) -> bool {
    match code {
        ErrorCode::UnsupportedOperation => true,
        ErrorCode::TaskNotFound | ErrorCode::InvalidParams | ErrorCode::MethodNotFound => is_old,
        _ => false,
    }
}

/// A task that has nothing more to say, as the last event of its stream.
fn outcome(task: Task, last_event: u64) -> Result<Opened, ClientError> {
    let state = task.status.state;
    if !state.is_terminal() && !state.is_interrupted() {
        let why = "the agent does not stream the task any more, though it goes on".to_owned();
        return Err(ClientError::StreamCut { last_event, why });
    }
    Ok(Opened::Outcome(StreamEvent::new(0, StreamResponse::Task(task))))
}

impl Open {
    /// Takes what has come so far, and says how much that is.
    async fn hear_ready(&mut self) -> usize {
        let mut heard = std::mem::take(&mut self.kept);
        poll_fn(|context| {
            let may_go_on = |last: &Heard| matches!(last, Heard::Frame(_));
            while heard.len() < MOST_FRAMES && heard.back().is_none_or(may_go_on) {
                let Poll::Ready(next) = self.poll(context) else { break };
                heard.push_back(next);
            }
            Poll::Ready(())
        })
        .await;
        self.kept = heard;
        self.kept.len()
    }

    /// Leaves out what the task shows already, of which the first `sure` had come before it was asked for. Says no if
    /// another look at it may tell more, unless this is the last.
    fn skip_to(&mut self, task: &Task, sure: usize, is_last: bool) -> bool {
        let events: Vec<_> = self.kept.iter().map_while(|heard| self.payload(heard)).collect();
        let count = match overlap(task, &events, sure.min(events.len())) {
            Overlap::Of(count) => count,
            Overlap::UpTo(_) | Overlap::Unknown if !is_last => return false,
            // On a stream that never pauses, what looks the same most likely is.
            Overlap::UpTo(count) => count,
            // What the agent shows is behind what it tells.
            Overlap::Unknown => match overlap(task, &events, 0) {
                Overlap::Of(count) | Overlap::UpTo(count) => count,
                Overlap::Unknown => 0,
            },
        };
        self.kept.drain(..count);
        if count == 0 && sure > 0 {
            let mut shown = events.iter().map(|event| shows(task, event));
            self.kept.retain(|_| !shown.next().unwrap_or(false));
        }
        true
    }

    fn payload(&self, heard: &Heard) -> Option<StreamResponse> {
        let Heard::Frame(frame) = heard else { return None };
        self.wire.event(self.id, frame, false).ok().map(|event| event.payload)
    }
}

/// Whether a task shows what an event tells.
fn shows(task: &Task, event: &StreamResponse) -> bool {
    match event {
        StreamResponse::StatusUpdate(update) => match (update.status.timestamp, task.status.timestamp) {
            (Some(then), Some(now)) => then <= now,
            _ => update.status.state == task.status.state,
        },
        StreamResponse::ArtifactUpdate(update) => {
            let parts = &update.artifact.parts;
            let known = task.artifacts.iter().find(|known| known.artifact_id == update.artifact.artifact_id);
            known.is_some_and(|known| {
                parts.is_empty() || known.parts.windows(parts.len()).any(|shown| shown == parts)
            })
        }
        StreamResponse::Task(_) | StreamResponse::Message(_) => false,
    }
}
