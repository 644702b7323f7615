//! Where a stream of a task that exists begins.
//!
//! One that was cut is taken up again after its last event. In an older version that is no place to go on from: a stream
//! begins with whatever happens next, and not with the task as v1.0 has it. So the task is asked for once the stream is
//! open: nothing is missing then, and what came meanwhile and is in the task already is left out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use chancery_protocol::{
    ErrorCode, Event, GetTaskRequest, Request, StreamResponse, SubscribeToTaskRequest, Task, TaskId, Version,
};
use tokio::time::sleep;

use super::Client;
use super::error::ClientError;
use super::stream::{Heard, Open, Opened, Streamed};
use super::unary::Options;

/// How many frames are looked at before the task is shown. What comes after them is passed on as it is.
const MOST_FRAMES: usize = 256;

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
        match self.attempts(Request::SubscribeToTask(request), options.clone(), &Streamed).await {
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
        let request = GetTaskRequest { tenant: String::new(), id: id.clone(), history_length: None };
        let Ok(task) = self.ask::<Task>(Request::GetTask(request), options).await else { return };
        let Ok(json) = serde_json::to_vec(&StreamResponse::Task(task.clone())) else { return };
        open.skip_to(&task).await;
        open.snapshot = Some(Event { number: 0, json: json.into() });
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
    let json = serde_json::to_vec(&StreamResponse::Task(task));
    let json = json.map_err(|error| ClientError::bad(error.to_string()))?;
    Ok(Opened::Outcome(Event { number: 0, json: json.into() }))
}

impl Open {
    /// Takes what has come so far, but for what the task shows already.
    async fn skip_to(&mut self, task: &Task) {
        let mut heard = VecDeque::new();
        poll_fn(|context| {
            while let Poll::Ready(next) = self.poll(context) {
                let goes_on = matches!(next, Heard::Frame(_)) && heard.len() < MOST_FRAMES;
                heard.push_back(next);
                if !goes_on {
                    break;
                }
            }
            Poll::Ready(())
        })
        .await;
        heard.retain(|heard| !self.is_in(heard, task));
        self.kept = heard;
    }

    fn is_in(&self, heard: &Heard, task: &Task) -> bool {
        let Heard::Frame(frame) = heard else { return false };
        let Ok(event) = self.wire.event(self.id, &frame.data, false) else { return false };
        Event { number: 0, json: event.json }.payload().is_ok_and(|event| shows(task, &event))
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
