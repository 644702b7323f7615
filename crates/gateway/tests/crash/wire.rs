//! Calls over the wire, each on a connection of its own, and events as the bytes they are.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    JsonRpc,
    HttpJson,
}

/// An operation of an agent, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    binding: Binding,
    verb: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// An event: its number, and its data byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) data: Bytes,
}

/// For how long nothing may come.
const PATIENCE: Duration = Duration::from_secs(120);

// === impl Call ===

impl Call {
    pub(crate) fn send(binding: Binding, agent: &str, params: &Value) -> Self {
        Self::post(binding, agent, "SendMessage", "/message:send", params)
    }

    pub(crate) fn stream(binding: Binding, agent: &str, params: &Value) -> Self {
        Self::post(binding, agent, "SendStreamingMessage", "/message:stream", params)
    }

    /// Takes up a stream after an event.
    pub(crate) fn resume(binding: Binding, agent: &str, task: &str, after: u64) -> Self {
        let path = format!("/tasks/{task}:subscribe");
        Self::post(binding, agent, "SubscribeToTask", &path, &json!({"id": task}))
            .with("Last-Event-ID", after.to_string())
    }

    pub(crate) fn get(agent: &str, task: &str) -> Self {
        Self::post(Binding::JsonRpc, agent, "GetTask", "", &json!({"id": task}))
    }

    pub(crate) fn list(agent: &str, params: &Value) -> Self {
        Self::post(Binding::JsonRpc, agent, "ListTasks", "", params)
    }

    /// Any operation, by its name in the protocol.
    #[allow(dead_code, reason = "the tests of agents elsewhere ask for more than the others")]
    pub(crate) fn ask(agent: &str, method: &str, params: &Value) -> Self {
        Self::post(Binding::JsonRpc, agent, method, "", params)
    }

    fn post(binding: Binding, agent: &str, method: &str, path: &str, params: &Value) -> Self {
        let (path, body) = match binding {
            Binding::JsonRpc => {
                let envelope = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
                (format!("/agents/{agent}/"), envelope.to_string())
            }
            Binding::HttpJson => (format!("/agents/{agent}{path}"), params.to_string()),
        };
        Self { binding, verb: "POST", path, headers: Vec::new(), body }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn with_key(self, key: Option<&str>) -> Self {
        match key {
            Some(key) => self.with("Idempotency-Key", key),
            None => self,
        }
    }

    async fn exchange(&self, address: SocketAddr) -> anyhow::Result<Response<Incoming>> {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the body; how it ends, the body says.
        tokio::spawn(async move { connection.await.ok() });
        let mut request = Request::builder()
            .method(self.verb)
            .uri(&self.path)
            .header("Host", address.to_string())
            .header("Content-Type", "application/json")
            .header("A2A-Version", "1.0");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.body.clone())))?;
        Ok(tokio::time::timeout(PATIENCE, sender.send_request(request)).await??)
    }

    /// The status and the body of what a unary call is answered. Fails if the server has gone.
    pub(crate) async fn answer(&self, address: SocketAddr) -> anyhow::Result<(u16, Value)> {
        let response = self.exchange(address).await?;
        let status = response.status().as_u16();
        let body = tokio::time::timeout(PATIENCE, response.into_body().collect()).await??.to_bytes();
        Ok((status, serde_json::from_slice(&body)?))
    }

    /// The result of a unary call. Fails if there is none: the server has gone, or refuses.
    pub(crate) async fn result(&self, address: SocketAddr) -> anyhow::Result<Value> {
        let (status, body) = self.answer(address).await?;
        ensure!(status == 200 && body.get("error").is_none(), "{status}: {body}");
        Ok(opened(self.binding, body))
    }

    /// Reads the events of a stream into a list, as long as they come. Fails if the stream breaks off.
    pub(crate) async fn frames(
        &self,
        address: SocketAddr,
        seen: &mut Vec<Frame>,
        progress: &AtomicUsize,
    ) -> anyhow::Result<()> {
        let response = self.exchange(address).await?;
        let kind = response.headers().get("content-type").context("a content type")?;
        ensure!(kind == "text/event-stream", "{kind:?}");
        let mut body = response.into_body();
        let mut pending = Vec::new();
        while let Some(part) = tokio::time::timeout(PATIENCE, body.frame()).await.context("silence")? {
            pending.extend_from_slice(part?.data_ref().context("data")?);
            while let Some(end) = pending.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = pending.drain(..end + 2).collect();
                seen.extend(read_frame(&frame));
                progress.fetch_add(1, Ordering::Relaxed);
            }
        }
        assert!(pending.is_empty(), "a stream ends after an event, not within one");
        Ok(())
    }

    /// All events of a stream that must end.
    pub(crate) async fn all(&self, address: SocketAddr) -> Vec<Frame> {
        let mut seen = Vec::new();
        let read = self.frames(address, &mut seen, &AtomicUsize::new(0)).await;
        read.unwrap_or_else(|error| panic!("{self:?}: {error:?}"));
        seen
    }
}

/// One event, unless it is a comment. What is of no task has no number.
fn read_frame(frame: &[u8]) -> Option<Frame> {
    let text = std::str::from_utf8(frame).expect("UTF-8").trim_end();
    if text.starts_with(':') {
        return None;
    }
    if let Some(data) = text.strip_prefix("data: ").filter(|data| !data.contains('\n')) {
        return Some(Frame { number: 0, data: Bytes::copy_from_slice(data.as_bytes()) });
    }
    let (id, data) = text.split_once('\n').unwrap_or_else(|| panic!("no event: {text}"));
    let number = id.strip_prefix("id: ").and_then(|number| number.parse().ok());
    let data = data.strip_prefix("data: ").filter(|data| !data.contains('\n'));
    let (Some(number), Some(data)) = (number, data) else { panic!("no event: {text}") };
    Some(Frame { number, data: Bytes::copy_from_slice(data.as_bytes()) })
}

/// What is in an answer, out of its envelope.
fn opened(binding: Binding, mut body: Value) -> Value {
    match binding {
        Binding::JsonRpc => body["result"].take(),
        Binding::HttpJson => body,
    }
}

// === impl Binding ===

impl Binding {
    /// One or the other.
    pub(crate) fn by(number: usize) -> Self {
        if number.is_multiple_of(2) { Self::HttpJson } else { Self::JsonRpc }
    }
}

// === impl Frame ===

impl Frame {
    /// The event, out of its envelope.
    pub(crate) fn event(&self, binding: Binding) -> Value {
        opened(binding, serde_json::from_slice(&self.data).expect("JSON"))
    }
}
