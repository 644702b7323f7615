//! Peers that misbehave as a test tells them to: bytes over a socket, and no more of HTTP than that takes.

use std::net::SocketAddr;
use std::sync::Arc;

use chancery_sdk::IDEMPOTENCY_EXTENSION;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Which connection it came by, from 0.
    pub connection: usize,
    /// The request line and the headers.
    pub head: String,
    pub body: String,
}

/// What is said to it.
#[derive(Debug)]
pub enum Reply {
    /// A status, headers and a body, as HTTP has it.
    Whole(u16, Vec<(&'static str, String)>, String),
    /// These bytes, after which the connection is cut.
    Raw(Vec<u8>),
    /// These bytes, after which nothing comes any more.
    Hang(Vec<u8>),
    /// These bytes, and the others once somebody says so; after them the connection is cut.
    InTwo(Vec<u8>, Arc<Notify>, Vec<u8>),
}

/// Somebody who answers as told.
#[derive(Clone, Debug)]
pub struct Peer {
    pub url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Verb and path.
    pub fn line(&self) -> &str {
        self.head.lines().next().and_then(|line| line.strip_suffix(" HTTP/1.1")).expect("a request line")
    }

    pub fn is_card(&self) -> bool {
        self.line().ends_with("/agent-card.json")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A JSON-RPC answer to this.
    pub fn result(&self, result: &Value) -> Reply {
        Reply::json(200, &json!({"jsonrpc": "2.0", "id": self.json()["id"], "result": result}))
    }

    /// A JSON-RPC error to this.
    pub fn error(&self, code: i32) -> Reply {
        let error = json!({"code": code, "message": "as told"});
        Reply::json(200, &json!({"jsonrpc": "2.0", "id": self.json()["id"], "error": error}))
    }

    /// A stream of JSON-RPC answers to this, and what follows it.
    pub fn stream(&self, events: &[(u64, Value)]) -> String {
        let id = &self.json()["id"];
        let events: Vec<_> = events
            .iter()
            .map(|(number, event)| (*number, json!({"jsonrpc": "2.0", "id": id, "result": event})))
            .collect();
        sse(&events)
    }
}

/// Events as frames; number 0 is none.
pub fn sse(events: &[(u64, Value)]) -> String {
    let frame = |(number, event): &(u64, Value)| match number {
        0 => format!("data: {event}\n\n"),
        number => format!("id: {number}\ndata: {event}\n\n"),
    };
    events.iter().map(frame).collect()
}

impl Reply {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Whole(status, vec![("content-type", "application/json".to_owned())], body.to_string())
    }

    pub fn events(frames: String) -> Self {
        Self::Whole(200, vec![("content-type", "text/event-stream".to_owned())], frames)
    }

    /// Frames in a stream that is then cut.
    pub fn cut(frames: &str) -> Self {
        Self::Raw(open_stream(frames))
    }

    /// Frames in a stream that then falls silent.
    pub fn silent(frames: &str) -> Self {
        Self::Hang(open_stream(frames))
    }

    /// A stream that is opened, and whose frames come once somebody says so.
    pub fn later(go_on: &Arc<Notify>, frames: &str) -> Self {
        let chunk = format!("{:x}\r\n{frames}\r\n0\r\n\r\n", frames.len());
        Self::InTwo(STREAM_HEAD.as_bytes().to_vec(), go_on.clone(), chunk.into_bytes())
    }
}

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn open_stream(frames: &str) -> Vec<u8> {
    format!("{STREAM_HEAD}{:x}\r\n{frames}\r\n", frames.len()).into_bytes()
}

/// A card with one interface.
pub fn card(url: &str, binding: &str, idempotent: bool) -> Value {
    let extensions = if idempotent { json!([{"uri": IDEMPOTENCY_EXTENSION}]) } else { json!([]) };
    json!({
        "name": "peer", "description": "as told", "version": "1", "skills": [],
        "defaultInputModes": [], "defaultOutputModes": [],
        "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "extensions": extensions},
    })
}

impl Peer {
    /// Answers each request, counted from 0, as told.
    pub async fn start(script: impl Fn(usize, &Heard) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let peer = Self { url, heard: Arc::default() };
        let (serving, script) = (peer.clone(), Arc::new(script));
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (peer, script) = (serving.clone(), script.clone());
                tokio::spawn(async move { peer.serve(stream, connection, &*script).await });
            }
        });
        peer
    }

    /// The same, with a card for it; the script gets what is no look at the card.
    pub async fn agent(
        binding: &'static str,
        idempotent: bool,
        script: impl Fn(usize, &Heard) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |at, heard| {
            if !heard.is_card() {
                return script(at, heard);
            }
            let host = heard.header("host").expect("a host");
            Reply::json(200, &card(&format!("http://{host}"), binding, idempotent))
        })
        .await
    }

    /// What came, except for looks at the card.
    pub fn calls(&self) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| !heard.is_card()).collect()
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().clone()
    }

    async fn serve<F: Fn(usize, &Heard) -> Reply>(
        &self,
        mut stream: TcpStream,
        connection: usize,
        script: &F,
    ) {
        let mut unread = Vec::new();
        while let Some((head, body)) = read_request(&mut stream, &mut unread).await {
            let heard = Heard { connection, head, body };
            let before = {
                let mut all = self.heard.lock();
                all.push(heard.clone());
                all[..all.len() - 1].iter().filter(|known| known.is_card() == heard.is_card()).count()
            };
            match script(before, &heard) {
                Reply::Whole(status, headers, body) => {
                    let headers: String =
                        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                    let length = body.len();
                    let text =
                        format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Reply::Raw(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    return;
                }
                Reply::InTwo(first, go_on, rest) => {
                    let _ = stream.write_all(&first).await;
                    go_on.notified().await;
                    let _ = stream.write_all(&rest).await;
                    return;
                }
                Reply::Hang(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    // Until the other side gives up.
                    while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
                    return;
                }
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(String, String)> {
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(unread.drain(..head_end).collect()).ok()?;
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    while unread.len() < length {
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(unread.drain(..length).collect()).ok()?;
    Some((head, body))
}

/// Stands between a client and a server, and cuts each connection after as many bytes of answers as `budget` says for
/// it. The server's address is set when there is one.
pub async fn proxy(
    budget: impl Fn(usize) -> usize + Send + 'static,
) -> (String, Arc<Mutex<Option<SocketAddr>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = Arc::new(Mutex::new(None));
    let behind = server.clone();
    tokio::spawn(async move {
        for connection in 0.. {
            let Ok((client, _)) = listener.accept().await else { return };
            let left = budget(connection);
            let address: SocketAddr = behind.lock().expect("a server behind the proxy");
            tokio::spawn(relay(client, address, left));
        }
    });
    (url, server)
}

async fn relay(client: TcpStream, address: SocketAddr, mut left: usize) {
    let server = TcpStream::connect(address).await.expect("the server");
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let mut buffer = vec![0; 4096];
    while left > 0 {
        let Ok(count) = from_server.read(&mut buffer[..]).await else { break };
        let count = count.min(left);
        if count == 0 || to_client.write_all(&buffer[..count]).await.is_err() {
            break;
        }
        left -= count;
    }
    up.abort();
}
