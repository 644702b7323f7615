//! A request that came to a peer, and the answers that suit it.

use chancery_protocol::ProtocolBinding;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::reply::Reply;

/// How large a request may be.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Which connection it came by, from 0.
    pub connection: usize,
    /// The verb, such as `POST`.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The headers, in their order and as they were written.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Heard {
    /// The first header of this name, however it is written.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether it is a look at the agent's card.
    pub fn is_card(&self) -> bool {
        self.path.split('?').next().is_some_and(|path| path.ends_with("/agent-card.json"))
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// A good card with one interface, at the place that the client has asked.
    pub fn card(&self, binding: &ProtocolBinding) -> Value {
        let url = format!("http://{}", self.header("host").unwrap_or_default());
        json!({
            "name": "peer", "description": "Answers as told", "version": "1",
            "skills": [{"id": "any", "name": "Any", "description": "Whatever the script says", "tags": ["test"]}],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "supportedInterfaces": [{"url": url, "protocolBinding": binding.as_str(), "protocolVersion": "1.0"}],
            "capabilities": {"streaming": true},
        })
    }

    /// This as the result of the call, in the binding by which the call came.
    pub fn result(&self, result: &Value) -> Reply {
        Reply::json(&self.envelope(result))
    }

    /// This error as the answer to the call, in the binding by which it came.
    pub fn error(&self, code: chancery_protocol::ErrorCode) -> Reply {
        let row = code.row();
        let info = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": row.reason,
            "domain": chancery_protocol::DOMAIN}]);
        match self.jsonrpc_id() {
            Some(id) => {
                let error = json!({"code": row.jsonrpc, "message": row.message, "data": info});
                Reply::json(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
            None => {
                let status = row.http.as_u16();
                let (_, name) = row.grpc;
                let error = json!({"code": status, "status": name, "message": row.message, "details": info});
                Reply::json(&json!({"error": error})).with_status(status)
            }
        }
    }

    /// These as a stream of events, in the binding by which the call came. An event's number becomes its SSE `id`;
    /// 0 is none.
    pub fn stream(&self, events: &[(u64, Value)]) -> Reply {
        Reply::events(self.frames(events))
    }

    /// The text of such a stream.
    pub fn frames(&self, events: &[(u64, Value)]) -> String {
        let frame = |(number, event): &(u64, Value)| {
            let event = self.envelope(event);
            if *number == 0 {
                format!("data: {event}\n\n")
            } else {
                format!("id: {number}\ndata: {event}\n\n")
            }
        };
        events.iter().map(frame).collect()
    }

    /// What stands around a result in the binding by which the call came.
    pub(super) fn envelope(&self, result: &Value) -> Value {
        match self.jsonrpc_id() {
            Some(id) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => result.clone(),
        }
    }

    /// The id of a JSON-RPC call; none if it is no such call.
    fn jsonrpc_id(&self) -> Option<Value> {
        let body = self.json();
        body.get("jsonrpc").map(|_| body["id"].clone())
    }
}

/// The next request of a connection; none when it has ended, or says what is no request or too large a one.
pub(super) async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>, connection: usize) -> Option<Heard> {
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, unread).await?;
    };
    let head = String::from_utf8_lossy(&unread.drain(..head_end).collect::<Vec<_>>()).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut heard = Heard { connection, method, path, headers, body: String::new() };
    let body = if heard.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        read_chunks(stream, unread).await?
    } else {
        let length = heard.header("content-length").map_or(Some(0), |length| length.parse().ok())?;
        take(stream, unread, length).await?
    };
    heard.body = String::from_utf8_lossy(&body).into_owned();
    Some(heard)
}

async fn read_chunks(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = unread.windows(2).position(|window| window == b"\r\n") {
                break at + 2;
            }
            more(stream, unread).await?;
        };
        let line = String::from_utf8_lossy(&unread.drain(..end).collect::<Vec<_>>()).into_owned();
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if body.len().checked_add(size)? > MAX_REQUEST_BYTES {
            return None;
        }
        let chunk = take(stream, unread, size.checked_add(2)?).await?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

async fn take(stream: &mut TcpStream, unread: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    if length > MAX_REQUEST_BYTES {
        return None;
    }
    while unread.len() < length {
        more(stream, unread).await?;
    }
    Some(unread.drain(..length).collect())
}

async fn more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    if unread.len() > MAX_REQUEST_BYTES || stream.read_buf(unread).await.ok()? == 0 {
        return None;
    }
    Some(())
}
