//! The agent: echoes a text as a completed Task, or emits `stream N MS` as artifact chunks.

use std::time::Duration;

use a2a::{
    A2AError, Artifact, Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use a2a_server::{AgentExecutor, ExecutorContext};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};

type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

pub(crate) struct Echo;

/// The ids that every event repeats.
#[derive(Clone)]
struct Ids {
    task: String,
    context: String,
}

// === impl Echo ===

impl AgentExecutor for Echo {
    fn execute(&self, context: ExecutorContext) -> Events {
        let ids = Ids { task: context.task_id, context: context.context_id };
        let Some(message) = context.message else {
            return Box::pin(stream::once(async { Err(A2AError::invalid_params("no message")) }));
        };
        let text = message.text().unwrap_or_default();
        match plan(text) {
            Some((chunks, pause)) => chunked(ids, message, chunks, pause),
            None => echo(ids, message),
        }
    }

    fn cancel(&self, context: ExecutorContext) -> Events {
        let ids = Ids { task: context.task_id, context: context.context_id };
        Box::pin(stream::once(async move { Ok(ids.status(TaskState::Canceled)) }))
    }
}

// === impl Ids ===

impl Ids {
    fn status(&self, state: TaskState) -> StreamResponse {
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            status: status(state),
            metadata: None,
        })
    }

    fn task(&self, state: TaskState, message: Message, artifacts: Option<Vec<Artifact>>) -> StreamResponse {
        StreamResponse::Task(Task {
            id: self.task.clone(),
            context_id: self.context.clone(),
            status: status(state),
            artifacts,
            history: Some(vec![message]),
            metadata: None,
        })
    }

    fn chunk(&self, number: u32, chunks: u32) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact: artifact("stream", format!("chunk {number} ")),
            append: Some(number > 1),
            last_chunk: Some(number == chunks),
            metadata: None,
        })
    }
}

/// Working, then the whole Task, as the crate's example has it.
fn echo(ids: Ids, message: Message) -> Events {
    let artifacts = vec![artifact("echo", message.text().unwrap_or_default().to_owned())];
    let working = ids.status(TaskState::Working);
    let done = ids.task(TaskState::Completed, message, Some(artifacts));
    Box::pin(stream::iter([Ok(working), Ok(done)]))
}

fn chunked(ids: Ids, message: Message, chunks: u32, pause: Duration) -> Events {
    let first = ids.task(TaskState::Working, message, None);
    let end = ids.status(TaskState::Completed);
    let middle = stream::iter(1..=chunks).then(move |number| {
        let chunk = ids.chunk(number, chunks);
        async move {
            if !pause.is_zero() && number > 1 {
                tokio::time::sleep(pause).await;
            } else {
                // Its channel to the response holds 32 events and drops the rest of a burst;
                // giving way after each one lets it keep up most of the time.
                tokio::task::yield_now().await;
            }
            Ok(chunk)
        }
    });
    Box::pin(stream::iter([Ok(first)]).chain(middle).chain(stream::iter([Ok(end)])))
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) }
}

fn artifact(id: &str, text: String) -> Artifact {
    Artifact {
        artifact_id: id.to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    }
}

/// Reads `stream N MS`; both numbers may be left out.
fn plan(text: &str) -> Option<(u32, Duration)> {
    let mut words = text.strip_prefix("stream")?.split_ascii_whitespace();
    let chunks = words.next().map_or(Ok(100), str::parse).ok()?;
    let pause = words.next().map_or(Ok(10), str::parse).ok()?;
    Some((chunks, Duration::from_millis(pause)))
}
