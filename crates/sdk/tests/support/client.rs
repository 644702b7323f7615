//! One call, one connection: JSON-RPC and HTTP+JSON with the same parameters.

use std::fmt::Write as _;
use std::net::SocketAddr;

use bytes::Bytes;
use chancery_sdk::ErrorCode;
use chancery_sdk::protocol::{DOMAIN, OPERATIONS};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::sse::Events;
use super::{message, state, within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    JsonRpc,
    Rest,
}

#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    pub wire: Wire,
    base: String,
    headers: HeaderMap,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

/// An error, read from either binding.
#[derive(Debug)]
pub struct Refusal {
    pub message: String,
    pub reason: String,
    pub metadata: Value,
    /// The field that is wrong, if one is named.
    pub field: String,
}

/// The connection goes with whoever holds it.
pub struct Connection(JoinHandle<()>);

impl Client {
    pub fn new(address: SocketAddr, wire: Wire) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("a2a-version", HeaderValue::from_static("1.0"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        Self { address, wire, base: String::new(), headers }
    }

    /// Sets a header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        self
    }

    /// The same header once more.
    pub fn with_another(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        self
    }

    /// Leaves a header out.
    pub fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Everything below this path.
    pub fn at(mut self, base: &str) -> Self {
        base.clone_into(&mut self.base);
        self
    }

    pub fn by(self, realm: &str, owner: &str) -> Self {
        self.with("authorization", &format!("Bearer {realm}/{owner}"))
    }

    /// Calls an operation by its JSON-RPC name, with the parameters that JSON-RPC has.
    pub async fn call(&self, method: &str, params: Value) -> Answer {
        self.call_text(method, &params.to_string()).await
    }

    /// The same, with parameters that are sent as they are written, where they form the body.
    pub async fn call_text(&self, method: &str, params: &str) -> Answer {
        let (verb, path, body) = self.request_line(method, params);
        self.fetch(verb, &path, body).await
    }

    /// Says a text in a new task and waits for what comes of it.
    pub async fn say(&self, text: &str) -> Value {
        self.send(message(text)).await.task()
    }

    pub async fn send(&self, message: Value) -> Answer {
        self.call("SendMessage", json!({"message": message})).await
    }

    /// Says a text in a new task and does not wait.
    pub async fn start(&self, text: &str) -> Value {
        self.start_with(message(text)).await.task()
    }

    pub async fn start_with(&self, message: Value) -> Answer {
        let configuration = json!({"returnImmediately": true});
        self.call("SendMessage", json!({"message": message, "configuration": configuration})).await
    }

    pub async fn get(&self, id: &str) -> Value {
        self.call("GetTask", json!({"id": id})).await.task()
    }

    pub async fn cancel(&self, id: &str) -> Answer {
        self.call("CancelTask", json!({"id": id})).await
    }

    /// The task, once it is in a state.
    pub async fn wait_for(&self, id: &str, wanted: &str) -> Value {
        super::until(&format!("waiting for {wanted}"), || async { state(&self.get(id).await) == wanted })
            .await;
        self.get(id).await
    }

    /// Sends a message and reads the stream that comes back.
    pub async fn stream(&self, message: Value) -> Events {
        self.open("SendStreamingMessage", json!({"message": message})).await
    }

    pub async fn subscribe(&self, id: &str) -> Events {
        self.open("SubscribeToTask", json!({"id": id})).await
    }

    /// Subscribes again, having seen an event.
    pub async fn resume(&self, id: &str, seen: u64) -> Events {
        self.clone().with("last-event-id", &seen.to_string()).subscribe(id).await
    }

    /// Opens a stream that must come to be.
    pub async fn open(&self, method: &str, params: Value) -> Events {
        match self.try_open(method, &params.to_string()).await {
            Ok(events) => events,
            Err(answer) => panic!("no stream: {answer:?}"),
        }
    }

    pub async fn try_open(&self, method: &str, params: &str) -> Result<Events, Answer> {
        let (verb, path, body) = self.request_line(method, params);
        let (response, connection) = self.exchange(verb, &path, body).await;
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        if kind == Some("text/event-stream") {
            return Ok(Events::new(response, connection, self.wire));
        }
        Err(Answer::read(response).await)
    }

    /// Opens a stream by a request line.
    pub async fn open_at(&self, verb: Method, path: &str, body: String) -> Events {
        let (response, connection) = self.exchange(verb, path, body).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events::new(response, connection, self.wire)
    }

    /// Any request at all.
    pub async fn fetch(&self, verb: Method, path: &str, body: String) -> Answer {
        let (response, _connection) = self.exchange(verb, path, body).await;
        Answer::read(response).await
    }

    async fn exchange(&self, verb: Method, path: &str, body: String) -> (Response<Incoming>, Connection) {
        within("the answer to a request", async {
            let stream = TcpStream::connect(self.address).await.expect("the server accepts");
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .expect("a connection begins");
            let connection = Connection(tokio::spawn(async move {
                // How a connection ends shows in what was read from it.
                let _ = connection.await;
            }));
            let mut request =
                Request::builder().method(verb).uri(path).header("host", self.address.to_string());
            request.headers_mut().expect("a request head").extend(self.headers.clone());
            let request = request.body(Full::<Bytes>::from(body)).expect("a request");
            (sender.send_request(request).await.expect("an answer"), connection)
        })
        .await
    }

    fn request_line(&self, method: &str, params: &str) -> (Method, String, String) {
        if self.wire == Wire::JsonRpc {
            let body = format!(r#"{{"jsonrpc":"2.0","id":"r1","method":"{method}","params":{params}}}"#);
            return (Method::POST, format!("{}/", self.base), body);
        }
        let row = OPERATIONS.iter().rfind(|row| row.method == method).expect("a known operation");
        if row.path.starts_with("/message:") {
            return (row.verb.clone(), format!("{}{}", self.base, row.path), params.to_owned());
        }
        let mut rest: Map<String, Value> = serde_json::from_str(params).expect("parameters");
        let named = rest.remove("id").map(|id| plain(&id)).unwrap_or_default();
        let mut path = format!("{}{}", self.base, row.path.replace("{id}", &named));
        if row.verb == Method::POST {
            return (row.verb.clone(), path, Value::Object(rest).to_string());
        }
        for (index, (name, value)) in rest.iter().enumerate() {
            let between = if index == 0 { '?' } else { '&' };
            write!(path, "{between}{name}={}", plain(value)).expect("a string grows");
        }
        (row.verb.clone(), path, String::new())
    }
}

/// A value as a path or a query has it.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.replace('%', "%25").replace('/', "%2F").replace(' ', "%20").replace('+', "%2B")
}

impl Answer {
    async fn read(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = within("a body", body.collect()).await.expect("a whole body").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("a text");
        Self { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a header of text"))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// What was asked for; anything else fails the test.
    pub fn result(&self) -> Value {
        let json = self.json();
        assert!(self.status == 200 && json.get("error").is_none(), "an error: {self:?}");
        json.get("result").cloned().unwrap_or(json)
    }

    /// The task, however it is wrapped.
    pub fn task(&self) -> Value {
        let result = self.result();
        let task = result.get("task").cloned().unwrap_or(result);
        assert!(task["status"]["state"].is_string(), "no task: {self:?}");
        task
    }

    /// The error, which must be this one, as the table of errors has it for the binding that was used.
    pub fn refused(&self, code: ErrorCode) -> Refusal {
        let refusal = self.refused_with(code, code.row().reason);
        assert_eq!(self.info()["domain"], DOMAIN);
        refusal
    }

    /// The same, with a reason of its own.
    pub fn refused_with(&self, code: ErrorCode, reason: &str) -> Refusal {
        let (json, row) = (self.json(), code.row());
        let error = &json["error"];
        if json.get("jsonrpc").is_some() {
            assert_eq!(error["code"], row.jsonrpc, "{self:?}");
        } else {
            assert_eq!(error["code"], self.status, "{self:?}");
            assert_eq!((self.status, &error["status"]), (row.http.as_u16(), &json!(row.grpc.1)), "{self:?}");
        }
        let info = self.info();
        assert_eq!(info["reason"], reason, "{self:?}");
        let details = self.details();
        let bad = details.iter().find(|detail| detail["fieldViolations"].is_array());
        let field = bad.and_then(|bad| bad["fieldViolations"][0]["field"].as_str());
        Refusal {
            message: error["message"].as_str().expect("a message").to_owned(),
            reason: reason.to_owned(),
            metadata: info["metadata"].clone(),
            field: field.unwrap_or_default().to_owned(),
        }
    }

    fn details(&self) -> Vec<Value> {
        let json = self.json();
        let error = &json["error"];
        let details = error.get("data").or(error.get("details")).and_then(Value::as_array);
        details.unwrap_or_else(|| panic!("no error: {self:?}")).clone()
    }

    fn info(&self) -> Value {
        let details = self.details();
        details.into_iter().find(|detail| detail["reason"].is_string()).expect("an ErrorInfo")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Writes bytes to a fresh connection and reads until the server closes it.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    within("an answer to raw bytes", async {
        let mut stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.write_all(bytes).await.expect("the server reads");
        let mut answer = Vec::new();
        // A server that refuses early may reset what it has not read.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    })
    .await
}
