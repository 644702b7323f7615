//! A request of any binding, and what came back, as raw as a client sees it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::site::Standing;

/// The longest that anything may take on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Headers that say when, how often or over which connection, rather than what.
const VOLATILE: [&str; 5] =
    ["date", "ratelimit-remaining", "ratelimit-reset", "connection", "content-length"];

/// What is asked.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) verb: Method,
    /// Where: a path, and for gRPC a port or an authority of its own.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) over: Over,
    /// Whether the answer is a stream, of which the beginning is enough.
    pub(crate) streams: bool,
}

/// Over what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Http,
    Grpc,
    /// By the name of the agent before that of the server.
    GrpcByHost(String),
    /// By a port that is for one agent.
    GrpcByPort,
    /// The admin listener.
    Admin,
}

/// What came back: all of it, or the beginning of a stream that goes on.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Done,
    Missing,
    Forbidden,
    Unknown,
    Refused,
}

/// Connections that are kept.
pub(crate) struct Wires {
    http: Client<HttpConnector, Full<Bytes>>,
    grpc: SendRequest<Full<Bytes>>,
    grpc_of_agent: SendRequest<Full<Bytes>>,
    place: String,
    admin: String,
}

impl Ask {
    /// A request with JSON, or with nothing.
    pub(crate) fn http(verb: Method, path: impl Into<String>, body: Option<&Value>) -> Self {
        let mut headers = Vec::new();
        if body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        Self { verb, path: path.into(), headers, body, over: Over::Http, streams: false }
    }

    /// A call of gRPC, its request as ProtoJSON.
    pub(crate) fn grpc(path: &str, request: &Value, over: Over) -> Self {
        let headers = vec![("content-type", "application/grpc".to_owned()), ("te", "trailers".to_owned())];
        let body = framed(&encoded(path, request));
        Self { verb: Method::POST, path: path.to_owned(), headers, body, over, streams: false }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Wires {
    pub(crate) async fn to(place: &str, grpc_of_agent: &str, admin: &str) -> Self {
        Self {
            http: Client::builder(TokioExecutor::new()).build_http(),
            grpc: connected(place).await,
            grpc_of_agent: connected(grpc_of_agent).await,
            place: place.to_owned(),
            admin: admin.to_owned(),
        }
    }

    pub(crate) async fn send(&self, ask: &Ask, credentials: &[(&'static str, String)]) -> Answer {
        self.send_until(ask, credentials, 0).await
    }

    /// Reads a stream of events until there are so many; with none, until it says anything.
    pub(crate) async fn send_until(
        &self,
        ask: &Ask,
        credentials: &[(&'static str, String)],
        events: usize,
    ) -> Answer {
        let authority = match &ask.over {
            Over::GrpcByHost(name) => format!("{name}.{}", self.place),
            Over::Admin => self.admin.clone(),
            _ => self.place.clone(),
        };
        let mut request = Request::builder().method(&ask.verb).uri(format!("http://{authority}{}", ask.path));
        for (name, value) in ask.headers.iter().chain(credentials) {
            request = request.header(HeaderName::from_static(name), value);
        }
        let request = request.body(Full::from(ask.body.clone())).expect("a request");
        let answered = async {
            let response = match ask.over {
                Over::Http | Over::Admin => self.http.request(request).await.expect("an answer"),
                Over::GrpcByPort => {
                    self.grpc_of_agent.clone().send_request(request).await.expect("an answer")
                }
                Over::Grpc | Over::GrpcByHost(_) => {
                    self.grpc.clone().send_request(request).await.expect("an answer")
                }
            };
            Answer::read(response, ask.streams, events).await
        };
        tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("no answer to {ask:?}"))
    }
}

async fn connected(place: &str) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(place).await.expect("it listens");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("it speaks HTTP/2");
    tokio::spawn(connection);
    sender
}

impl Answer {
    /// Reads all, or what a stream begins with.
    async fn read(response: Response<Incoming>, streams: bool, events: usize) -> Self {
        let (head, mut body) = response.into_parts();
        let mut headers = head.headers;
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let (is_events, is_grpc) =
            (kind.starts_with("text/event-stream"), kind.starts_with("application/grpc"));
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame.expect("the answer is not cut").into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => headers.extend(frame.into_trailers().unwrap_or_default()),
            }
            let text = String::from_utf8_lossy(&bytes);
            let said = text.rfind("\n\n").map_or("", |end| &text[..end]);
            let is_enough = is_events && !said.is_empty() && said.matches("data: ").count() >= events;
            if is_enough || streams && is_grpc && has_message(&bytes) {
                break;
            }
        }
        Self { status: head.status.as_u16(), headers, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What became of the request, whichever binding says so.
    pub(crate) fn class(&self) -> Class {
        let status = self.headers.get("grpc-status").and_then(|status| status.to_str().ok());
        let error = || serde_json::from_str::<Value>(&self.text).ok().filter(is_error);
        let event = || self.text.split("data: ").nth(1).and_then(|data| data.lines().next());
        let error = error().or_else(|| serde_json::from_str(event()?).ok().filter(is_error));
        let told = format!("{}{}", self.text, self.details());
        match (self.status, status) {
            (401, _) | (_, Some("16")) => Class::Unknown,
            (403, _) | (_, Some("7")) => Class::Forbidden,
            _ if error.as_ref().is_some_and(is_forbidden) => Class::Forbidden,
            (404, _) | (_, Some("5")) => Class::Missing,
            (200..300, None) if error.is_none() => Class::Done,
            (200, Some("0")) => Class::Done,
            _ if told.contains("TASK_NOT_FOUND") => Class::Missing,
            _ => Class::Refused,
        }
    }

    /// What gRPC says about a failure.
    fn details(&self) -> String {
        let details = self.headers.get("grpc-status-details-bin").map(|value| value.as_bytes());
        let bytes = details.and_then(|value| STANDARD_NO_PAD.decode(value).ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// All that its reader can tell, but for what it said itself.
    pub(crate) fn looks(&self, said: &Standing) -> String {
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| !VOLATILE.contains(&name.as_str()) && *name != "grpc-status-details-bin")
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        headers.sort();
        let mut text = format!("{}\n{}\n{}\n{}", self.status, headers.join("\n"), self.text, self.details());
        for (value, name) in said.values() {
            text = text.replace(value, name);
        }
        text
    }
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(f, "{} {} {:?} {:?} {body}", self.verb, self.path, self.over, self.headers)
    }
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "it is done",
            Self::Missing => "it is not found",
            Self::Forbidden => "it is forbidden",
            Self::Unknown => "it is not known who asks",
            Self::Refused => "it is refused",
        }
    }
}

/// Whether a whole message has come.
fn has_message(bytes: &[u8]) -> bool {
    let length = bytes.get(1..5).map(|length| u32::from_be_bytes(length.try_into().expect("four bytes")));
    length.is_some_and(|length| bytes.len() >= 5 + length as usize)
}

fn is_error(value: &Value) -> bool {
    // HTTP+JSON of v0.3 has the error bare.
    value.get("error").is_some()
        || value.get("code").is_some_and(Value::is_i64) && value.get("message").is_some()
}

fn is_forbidden(value: &Value) -> bool {
    let error = value.get("error").unwrap_or(value);
    // The last is what v0.1 says.
    [-31403, 403, -32008].into_iter().any(|code| error["code"] == code)
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a small message").to_be_bytes();
    [&[0][..], &length, message].concat()
}

/// A request of a method as bytes; nothing of those that take nothing we know.
fn encoded(path: &str, request: &Value) -> Vec<u8> {
    static POOL: std::sync::LazyLock<DescriptorPool> = std::sync::LazyLock::new(|| {
        let descriptors = include_bytes!("../../../sdk/proto/descriptors.bin");
        DescriptorPool::decode(&descriptors[..]).expect("the descriptors fit together")
    });
    let (service, method) = path[1..].split_once('/').expect("a service and a method");
    let Some(service) = POOL.get_service_by_name(service) else { return Vec::new() };
    let method = service.methods().find(|known| known.name() == method).expect("a known method");
    let text = request.to_string();
    let mut json = serde_json::Deserializer::from_str(&text);
    let message = DynamicMessage::deserialize(method.input(), &mut json);
    message.unwrap_or_else(|error| panic!("{path} {request}: {error}")).encode_to_vec()
}
