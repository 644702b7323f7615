//! Requests to the agent under test, within limits.

use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use super::report::{Stop, failed};
use crate::egress::{Connector, Egress};

/// The most that is read of an answer.
const MAX_BYTES: usize = 16 << 20;
/// How much of an answer is repeated.
const EXCERPT_CHARS: usize = 300;

/// The way to the agent.
#[derive(Debug)]
pub(super) struct Http {
    client: Client<Connector, Full<Bytes>>,
    patience: Duration,
}

/// An answer that has been read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Parts,
    pub(super) body: Bytes,
}

/// The events of a stream.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) data: Vec<String>,
    /// Whether the agent has ended it.
    pub(super) ended: bool,
}

// === impl Http ===

impl Http {
    /// Waits so long for each answer. Where the agent is, a person has said, so nobody is refused.
    pub(super) fn new(patience: Duration) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(Egress::unrestricted().connector());
        Self { client, patience }
    }

    pub(super) async fn fetch(
        &self,
        verb: &Method,
        url: &str,
        headers: &HeaderMap,
        body: String,
    ) -> Result<Answer, Stop> {
        let (head, body) = self.open(verb, url, headers, body).await?;
        self.read(head, body).await
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn open(
        &self,
        verb: &Method,
        url: &str,
        headers: &HeaderMap,
        body: String,
    ) -> Result<(Parts, Incoming), Stop> {
        let Ok(uri) = url.parse::<Uri>() else { return failed(format!("`{url}` is no URL")) };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = verb.clone();
        *request.uri_mut() = uri;
        request.headers_mut().clone_from(headers);
        match tokio::time::timeout(self.patience, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response.into_parts()),
            Ok(Err(error)) => failed(format!("{verb} {url}: {}", chain(&error))),
            Err(_) => self.too_late(&format!("{verb} {url}")),
        }
    }

    /// Reads the whole body.
    pub(super) async fn read(&self, head: Parts, mut body: Incoming) -> Result<Answer, Stop> {
        let mut bytes = Vec::new();
        let reading = async {
            while let Some(frame) = body.frame().await {
                match frame {
                    Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
                    Err(error) => return failed(format!("the answer breaks off: {error}")),
                }
                if bytes.len() > MAX_BYTES {
                    return failed(format!("the answer is larger than {MAX_BYTES} bytes"));
                }
            }
            Ok(())
        };
        match tokio::time::timeout(self.patience, reading).await {
            Ok(read) => read?,
            Err(_) => return self.too_late("the rest of the answer"),
        }
        Ok(Answer { head, body: bytes.into() })
    }

    /// Reads the frames of a stream to its end, or to the first of which this is so.
    pub(super) async fn frames(
        &self,
        mut body: Incoming,
        is_last: impl Fn(&str) -> bool + Send,
    ) -> Result<Frames, Stop> {
        let (mut unread, mut read) = (Vec::new(), 0);
        let mut frames = Frames { data: Vec::new(), ended: false };
        loop {
            let piece = match tokio::time::timeout(self.patience, body.frame()).await {
                Err(_) => return self.too_late("the next event of the stream, or its end"),
                Ok(None) => {
                    frames.ended = true;
                    return Ok(frames);
                }
                Ok(Some(Err(error))) => return failed(format!("the stream breaks off: {error}")),
                Ok(Some(Ok(piece))) => piece.into_data().unwrap_or_default(),
            };
            read += piece.len();
            if read > MAX_BYTES {
                return failed(format!("the stream is larger than {MAX_BYTES} bytes"));
            }
            unread.extend_from_slice(&piece);
            while let Some(frame) = next_frame(&mut unread) {
                if frame.is_empty() {
                    continue;
                }
                let last = is_last(&frame);
                frames.data.push(frame);
                if last {
                    return Ok(frames);
                }
            }
        }
    }

    fn too_late<T>(&self, what: &str) -> Result<T, Stop> {
        let seconds = self.patience.as_secs_f32();
        failed(format!(
            "{what} has not come within {seconds} s; raise `patience` if the agent takes that long"
        ))
    }
}

/// Takes the first complete frame and gives its data; lines may end in each way there is.
fn next_frame(unread: &mut Vec<u8>) -> Option<String> {
    // A line that is not whole may end within a character.
    let whole = unread.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'))? + 1;
    let text = String::from_utf8_lossy(&unread[..whole]).replace("\r\n", "\n").replace('\r', "\n");
    let (frame, rest) = text.split_once("\n\n")?;
    let data = frame.lines().filter_map(|line| line.strip_prefix("data:"));
    let data: Vec<_> = data.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect();
    unread.splice(..whole, rest.bytes());
    Some(data.join("\n"))
}

// === impl Answer ===

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    pub(super) fn is_json(&self) -> bool {
        let kind = self.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
    }

    pub(super) fn json(&self) -> Result<Value, Stop> {
        match serde_json::from_slice(&self.body) {
            Ok(value) => Ok(value),
            Err(error) => failed(format!("the answer is no JSON: {error}: {}", self.excerpt())),
        }
    }

    /// Status and the beginning of the body.
    pub(super) fn excerpt(&self) -> String {
        format!("{} {}", self.status(), excerpt(&String::from_utf8_lossy(&self.body)))
    }
}

/// The beginning of a text.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
