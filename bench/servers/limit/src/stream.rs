//! `stream N MS`: the task, N artifact chunks MS milliseconds apart, then completed. Any other text comes back as one chunk.
//!
//! Each event is serialised when hyper polls for it and is one frame of the body.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep};

use crate::clock::Stamp;
use crate::store::Kept;
use crate::wire::{
    Artifact, ArtifactUpdate, Ids, Message, Payload, Reply, State, Status, StatusUpdate, Task,
};

/// How many chunks, and how far apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) chunks: u32,
    pub(crate) pause: Duration,
    /// Whether the chunk is the text of the message.
    is_echo: bool,
}

pub(crate) struct Events {
    request_id: Box<RawValue>,
    ids: Ids,
    message: Message<'static>,
    /// Where events go before they are sent.
    kept: Option<Arc<Kept>>,
    plan: Plan,
    /// 0 is the task, 1 to N the chunks, N + 1 the end.
    next: u32,
    /// The pause after the last event, as the agents of the others take it: not shorter because it began late.
    pause: Option<Pin<Box<Sleep>>>,
}

// === impl Plan ===

impl Plan {
    pub(crate) const ECHO: Self = Self { chunks: 1, pause: Duration::ZERO, is_echo: true };

    /// Reads `stream N MS`; both numbers may be left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix("stream")?.split_ascii_whitespace();
        let chunks = words.next().map_or(Ok(100), str::parse).ok()?;
        let pause = words.next().map_or(Ok(10), str::parse).ok()?;
        Some(Self { chunks, pause: Duration::from_millis(pause), is_echo: false })
    }
}

// === impl Events ===

impl Events {
    pub(crate) fn new(
        request_id: &RawValue,
        ids: Ids,
        message: Message<'static>,
        kept: Option<Arc<Kept>>,
        plan: Plan,
    ) -> Self {
        let pause = (!plan.pause.is_zero()).then(|| Box::pin(sleep(plan.pause)));
        Self { request_id: request_id.to_owned(), ids, message, kept, plan, next: 0, pause }
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.next > self.plan.chunks + 1 {
            return Poll::Ready(None);
        }
        // The first chunk follows the task at once; the pause is between chunks.
        if let Some(pause) = &mut self.pause {
            if (2..=self.plan.chunks).contains(&self.next) {
                ready!(pause.as_mut().poll(context));
            }
            pause.as_mut().reset(Instant::now() + self.plan.pause);
        }
        let event = self.event();
        self.next += 1;
        if let (Some(kept), Some(event)) = (&self.kept, &event) {
            kept.push(event.clone());
        }
        Poll::Ready(event)
    }

    /// The next event as SSE; nothing if it cannot be written, which ends the stream short.
    fn event(&self) -> Option<Bytes> {
        if self.next == 0 {
            return self.frame(Payload::Task(Task {
                id: self.ids.task,
                context_id: self.ids.context,
                status: Status { state: State::Working, timestamp: Stamp::now() },
                artifacts: None,
                history: [&self.message],
            }));
        }
        if self.next > self.plan.chunks {
            return self.frame(Payload::StatusUpdate(StatusUpdate {
                task_id: self.ids.task,
                context_id: self.ids.context,
                status: Status { state: State::Completed, timestamp: Stamp::now() },
            }));
        }
        let text = match self.plan.is_echo {
            true => Cow::Borrowed(self.message.text()),
            false => Cow::Owned(format!("chunk {} ", self.next)),
        };
        self.frame(Payload::ArtifactUpdate(ArtifactUpdate {
            task_id: self.ids.task,
            context_id: self.ids.context,
            artifact: Artifact::text("stream", &text),
            append: self.next > 1,
            last_chunk: self.next == self.plan.chunks,
        }))
    }

    fn frame(&self, payload: Payload<'_>) -> Option<Bytes> {
        let mut bytes = Vec::with_capacity(384);
        bytes.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut bytes, &Reply::new(&self.request_id, payload)).ok()?;
        bytes.extend_from_slice(b"\n\n");
        Some(Bytes::from(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_chunks_and_pause_with_defaults() {
        let plan = |chunks, pause| Some(Plan { chunks, pause: Duration::from_millis(pause), is_echo: false });
        assert_eq!(Plan::parse("stream 7 0"), plan(7, 0));
        assert_eq!(Plan::parse("stream 7"), plan(7, 10));
        assert_eq!(Plan::parse("stream"), plan(100, 10));
        assert_eq!(Plan::parse("hello"), None);
    }
}
