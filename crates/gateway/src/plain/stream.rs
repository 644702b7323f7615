//! One call whose answer comes piece by piece, as server-sent events.

use std::time::{Duration, Instant};

use bytes::Bytes;
use chancery_protocol::{
    CallContext, ErrorCode, Event, EventStream, Reply, Request, SendMessageRequest, StreamResponse,
};
use chancery_sdk::{Body, Visitor};
use futures_util::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue, Response, header};
use serde_json::Value;

use super::Plain;
use super::body::{Answer, InvokeEvent, InvokeResult};
use super::failure::Failure;
use super::invoke::{timed_out, usage};

/// How long a stream may be silent before it says that it is still there.
const SILENCE: Duration = Duration::from_secs(15);

/// A stream on its way to somebody.
struct Telling {
    events: EventStream,
    id: Value,
    /// The last event that the reader has seen before.
    seen: u64,
    deadline: Option<Instant>,
    over: bool,
}

impl Plain {
    /// Has a message answered piece by piece. What was sent before under the same id is told again, from after the event
    /// that `Last-Event-ID` names.
    pub(super) async fn stream(
        &self,
        visitor: &Visitor,
        request: Box<SendMessageRequest>,
        context: Box<CallContext>,
        id: Value,
    ) -> Result<Response<Body>, Failure> {
        let (seen, deadline) = (context.last_event.unwrap_or(0), context.deadline);
        let reply = visitor.call(Request::SendStreamingMessage(request), context).await?;
        let Reply::Stream(events) = reply else { return Err(ErrorCode::Internal.into()) };
        let telling = Telling { events, id, seen, deadline, over: false };
        let pieces = stream::unfold(telling, |mut telling| async move {
            let piece = telling.next().await?;
            Some((piece, telling))
        });
        let mut response = Response::new(Body::pieces(pieces));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        Ok(response)
    }
}

impl Telling {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            let event = match tokio::time::timeout(SILENCE, self.events.next()).await {
                Err(_) => return Some(Bytes::from_static(b": keep-alive\n\n")),
                Ok(event) => event?,
            };
            match event.map_err(Failure::from).and_then(|event| self.told(&event)) {
                Ok(Some(piece)) => return Some(piece),
                Ok(None) => {}
                Err(failure) => {
                    self.over = true;
                    let body = failure.body(Some(self.id.clone()));
                    return Some([b"event: error\ndata: ", &body[..], b"\n\n"].concat().into());
                }
            }
        }
        None
    }

    /// An event as it is written; none if it has been seen before.
    fn told(&self, event: &Event) -> Result<Option<Bytes>, Failure> {
        if event.number > 0 && event.number <= self.seen {
            return Ok(None);
        }
        let told = match event.payload()? {
            StreamResponse::Task(task) => InvokeEvent::Task(InvokeResult::of_task(task)),
            StreamResponse::Message(message) => InvokeEvent::Message(InvokeResult::of_message(message)),
            StreamResponse::StatusUpdate(update) => {
                let said = update.status.message.as_ref().map(|said| said.text().into_owned());
                let (state, text) = (update.status.state, said.unwrap_or_default());
                let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
                if timed_out(state, &text, is_late) {
                    return Err(Failure::time_is_up(update.task_id.to_string(), text));
                }
                InvokeEvent::Status { state: state.as_str(), text, usage: usage(update.metadata.as_ref()) }
            }
            StreamResponse::ArtifactUpdate(update) => InvokeEvent::Output {
                artifact_id: update.artifact.artifact_id.to_string(),
                append: update.append,
                last: update.last_chunk,
                parts: update.artifact.parts,
            },
        };
        let mut piece = match event.number {
            0 => Vec::new(),
            number => format!("id: {number}\n").into_bytes(),
        };
        piece.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut piece, &Answer::new(self.id.clone(), told))
            .map_err(chancery_protocol::Error::internal)?;
        piece.extend_from_slice(b"\n\n");
        Ok(Some(piece.into()))
    }
}
