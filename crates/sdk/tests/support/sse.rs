//! Server-sent events, read as slowly as a test likes.

use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::client::{Connection, Wire};
use super::within;

/// A stream. It reads from the socket only when it is asked for an event; dropping it cuts the connection.
pub struct Events {
    body: Incoming,
    _connection: Connection,
    wire: Wire,
    unread: String,
    pub comments: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<u64>,
    pub name: Option<String>,
    /// The one `data:` line, as it was sent.
    pub data: String,
    wire: Wire,
}

impl Events {
    pub(super) fn new(response: Response<Incoming>, connection: Connection, wire: Wire) -> Self {
        assert_eq!(response.headers()["cache-control"], "no-cache");
        Self { body: response.into_body(), _connection: connection, wire, unread: String::new(), comments: 0 }
    }

    /// The next event; none when the stream has ended as it should.
    pub async fn next(&mut self) -> Option<SseEvent> {
        within("the next event", async {
            loop {
                if let Some(end) = self.unread.find("\n\n") {
                    let frame: String = self.unread.drain(..end + 2).collect();
                    match self.read_frame(frame.trim_end_matches('\n')) {
                        Some(event) => return Some(event),
                        None => continue,
                    }
                }
                let Some(frame) = self.body.frame().await else {
                    assert_eq!(self.unread, "", "the stream ends in the middle of a frame");
                    return None;
                };
                let data = frame.expect("the stream is not cut").into_data().expect("a data frame");
                self.unread.push_str(std::str::from_utf8(&data).expect("a text"));
            }
        })
        .await
    }

    /// The next event, which must come.
    pub async fn one(&mut self) -> SseEvent {
        self.next().await.expect("one more event")
    }

    /// Everything that is left.
    pub async fn rest(&mut self) -> Vec<SseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Events up to and with the first that says something.
    pub async fn through(&mut self, is_last: impl Fn(&SseEvent) -> bool) -> Vec<SseEvent> {
        let mut events = vec![self.one().await];
        while !is_last(&events[events.len() - 1]) {
            events.push(self.one().await);
        }
        events
    }

    /// Reads until a keep-alive comment has come; no event may come before it.
    pub async fn comment(&mut self) {
        within("a comment", async {
            while !self.unread.contains("\n\n") {
                let frame = self.body.frame().await.expect("an open stream").expect("a stream");
                let data = frame.into_data().expect("a data frame");
                self.unread.push_str(std::str::from_utf8(&data).expect("a text"));
            }
        })
        .await;
        assert!(self.unread.starts_with(':'), "not a comment: {}", self.unread);
    }

    fn read_frame(&mut self, frame: &str) -> Option<SseEvent> {
        let mut event = SseEvent { id: None, name: None, data: String::new(), wire: self.wire };
        let mut data_lines = 0;
        for line in frame.split('\n') {
            match line.split_once(':').unwrap_or((line, "")) {
                ("", _) => self.comments += 1,
                ("id", value) => event.id = Some(value.trim().parse().expect("a number as id")),
                ("event", value) => event.name = Some(value.trim().to_owned()),
                ("data", value) => {
                    event.data = value.trim_start().to_owned();
                    data_lines += 1;
                }
                _ => panic!("not a line of an event: {line}"),
            }
        }
        assert!(data_lines <= 1, "the data of an event must be one line: {frame}");
        (data_lines == 1).then_some(event)
    }
}

impl SseEvent {
    /// The `StreamResponse` in it, without the envelope that JSON-RPC puts around it.
    pub fn payload(&self) -> Value {
        let json: Value = serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e}: {}", self.data));
        match self.wire {
            Wire::JsonRpc => {
                assert_eq!((&json["jsonrpc"], &json["id"]), (&"2.0".into(), &"r1".into()));
                json["result"].clone()
            }
            Wire::Rest => json,
        }
    }

    /// Which of the four payloads it is.
    pub fn kind(&self) -> String {
        let payload = self.payload();
        let keys: Vec<_> = payload.as_object().expect("an object").keys().collect();
        assert_eq!(keys.len(), 1, "exactly one payload: {payload}");
        keys[0].clone()
    }

    /// The state that a `task` or a `statusUpdate` tells.
    pub fn state(&self) -> Option<String> {
        let payload = self.payload();
        let status = payload.get("task").or(payload.get("statusUpdate"))?;
        status["status"]["state"].as_str().map(str::to_owned)
    }

    pub fn is(&self, state: &str) -> bool {
        self.state().as_deref() == Some(state)
    }
}
