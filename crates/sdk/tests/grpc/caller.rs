//! A caller of gRPC that shares nothing with ours: hyper's HTTP/2, frames by hand, messages by prost-reflect from the
//! `.proto` files.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::{Site, message, within};

pub static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile(["lf/a2a/v1/a2a.proto", "a2a/v1/a2a.proto"], [folder])
        .expect("the .proto files are good");
    DescriptorPool::from_file_descriptor_set(files).expect("the descriptors fit together")
});

#[derive(Clone)]
pub struct Caller {
    address: SocketAddr,
    /// What it calls the server.
    authority: String,
    service: String,
    metadata: HeaderMap,
}

/// How a call ended, and the messages that came before.
#[derive(Debug)]
pub struct Answer {
    pub head: HeaderMap,
    pub messages: Vec<Value>,
    /// The status and its companions, wherever they stood.
    pub trailers: HeaderMap,
    /// Whether the head was all there was.
    pub only_head: bool,
}

/// A stream that is read as slowly as a test likes.
pub struct Messages {
    pub head: HeaderMap,
    body: Incoming,
    held: BytesMut,
    output: MessageDescriptor,
    pub trailers: Option<HeaderMap>,
    _connection: Connection,
}

struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Caller {
    pub fn new(site: &Site) -> Self {
        Self::at(site.address)
    }

    pub fn at(address: SocketAddr) -> Self {
        let mut metadata = HeaderMap::new();
        metadata.insert("a2a-version", HeaderValue::from_static("1.0"));
        metadata.insert("content-type", HeaderValue::from_static("application/grpc"));
        metadata.insert("te", HeaderValue::from_static("trailers"));
        let authority = address.to_string();
        Self { address, authority, service: "lf.a2a.v1.A2AService".to_owned(), metadata }
    }

    /// Under another name of the server.
    pub fn under(mut self, authority: &str) -> Self {
        authority.clone_into(&mut self.authority);
        self
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.metadata.insert(name, HeaderValue::from_str(value).expect("a value"));
        self
    }

    /// Calls another service.
    pub fn of(mut self, service: &str) -> Self {
        service.clone_into(&mut self.service);
        self
    }

    pub fn without(mut self, name: &'static str) -> Self {
        self.metadata.remove(name);
        self
    }

    pub fn by(self, realm: &str, owner: &str) -> Self {
        self.with("authorization", &format!("Bearer {realm}/{owner}"))
    }

    /// Input and output of a method.
    fn descriptors(&self, method: &str) -> (MessageDescriptor, MessageDescriptor) {
        let service = POOL.get_service_by_name(&self.service).expect("a known service");
        let method = service.methods().find(|known| known.name() == method).expect("a known method");
        (method.input(), method.output())
    }

    /// A request as bytes.
    pub fn encode(&self, method: &str, request: &Value) -> Vec<u8> {
        let (input, _) = self.descriptors(method);
        let text = request.to_string();
        let mut json = serde_json::Deserializer::from_str(&text);
        DynamicMessage::deserialize(input, &mut json).expect("a request").encode_to_vec()
    }

    /// Calls a method with a request as ProtoJSON.
    pub async fn call(&self, method: &str, request: Value) -> Answer {
        let body = framed(&self.encode(method, &request));
        self.post(method, body).await
    }

    /// Posts a body as it is.
    pub async fn post(&self, method: &str, body: Vec<u8>) -> Answer {
        let (_, output) = self.descriptors(method);
        let path = format!("/{}/{method}", self.service);
        self.open(&path, body, output).await.all().await
    }

    /// Posts to any path.
    pub async fn post_to(&self, path: &str, body: Vec<u8>) -> Answer {
        let empty = POOL.get_message_by_name("google.protobuf.Empty").expect("a message");
        self.open(path, body, empty).await.all().await
    }

    pub async fn stream(&self, method: &str, request: Value) -> Messages {
        let (_, output) = self.descriptors(method);
        let path = format!("/{}/{method}", self.service);
        self.open(&path, framed(&self.encode(method, &request)), output).await
    }

    pub async fn open(&self, path: &str, body: Vec<u8>, output: MessageDescriptor) -> Messages {
        let (response, connection) = within("the answer to a call", self.exchange(path, body)).await;
        assert_eq!(response.status(), 200, "{response:?}");
        let head = response.headers().clone();
        Messages {
            head,
            body: response.into_body(),
            held: BytesMut::new(),
            output,
            trailers: None,
            _connection: connection,
        }
    }

    async fn exchange(&self, path: &str, body: Vec<u8>) -> (Response<Incoming>, Connection) {
        let stream = TcpStream::connect(self.address).await.expect("the server accepts");
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .expect("a connection begins");
        let connection = Connection(tokio::spawn(async move {
            // How a connection ends shows in what was read from it.
            let _ = connection.await;
        }));
        let mut request = Request::post(format!("http://{}{path}", self.authority));
        request.headers_mut().expect("a head").extend(self.metadata.clone());
        let request = request.body(Full::<Bytes>::from(body)).expect("a request");
        (sender.send_request(request).await.expect("an answer"), connection)
    }

    /// Says a text in a new task and waits for what comes of it.
    pub async fn say(&self, text: &str) -> Value {
        self.call("SendMessage", json!({"message": message(text)})).await.one()["task"].clone()
    }

    /// Says a text in a new task and does not wait.
    pub async fn start(&self, text: &str) -> Value {
        let configuration = json!({"returnImmediately": true});
        let request = json!({"message": message(text), "configuration": configuration});
        self.call("SendMessage", request).await.one()["task"].clone()
    }
}

/// A frame around a message.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a small message").to_be_bytes();
    [&[0][..], &length, message].concat()
}

impl Messages {
    /// The next message; none when the stream has ended, however it did.
    pub async fn next(&mut self) -> Option<Value> {
        let bytes = self.next_bytes().await?;
        Some(self.decoded(&bytes))
    }

    /// The next message, which must come.
    pub async fn one(&mut self) -> Value {
        self.next().await.expect("one more message")
    }

    pub async fn next_bytes(&mut self) -> Option<Bytes> {
        within("the next message", async {
            loop {
                if self.held.len() >= 5 {
                    let length = u32::from_be_bytes(self.held[1..5].try_into().expect("four bytes")) as usize;
                    if self.held.len() >= 5 + length {
                        assert_eq!(self.held[0], 0, "nothing is compressed");
                        self.held.advance(5);
                        return Some(self.held.split_to(length).freeze());
                    }
                }
                let Some(frame) = self.body.frame().await else {
                    assert!(self.held.is_empty(), "the stream ends in the middle of a message");
                    return None;
                };
                match frame.expect("the stream is not cut").into_data() {
                    Ok(data) => self.held.extend_from_slice(&data),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                }
            }
        })
        .await
    }

    pub fn decoded(&self, bytes: &[u8]) -> Value {
        let read = DynamicMessage::decode(self.output.clone(), bytes).expect("a message of the method's");
        let mut json = Vec::new();
        read.serialize_with_options(&mut serde_json::Serializer::new(&mut json), &SerializeOptions::new())
            .expect("JSON");
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Everything that is left.
    pub async fn all(mut self) -> Answer {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        let only_head = self.trailers.is_none();
        let trailers = self.trailers.unwrap_or_else(|| self.head.clone());
        Answer { head: self.head, messages, trailers, only_head }
    }
}

impl Answer {
    pub fn code(&self) -> i32 {
        let code = self.trailers.get("grpc-status").unwrap_or_else(|| panic!("no status: {self:?}"));
        code.to_str().expect("text").parse().expect("a number")
    }

    pub fn text(&self) -> String {
        let text = self.trailers.get("grpc-message").map_or("", |value| value.to_str().expect("ASCII"));
        percent_encoding::percent_decode_str(text).decode_utf8().expect("UTF-8").into_owned()
    }

    /// The one message of a call that went well.
    pub fn one(&self) -> Value {
        assert_eq!((self.code(), self.messages.len()), (0, 1), "{self:?}");
        self.messages[0].clone()
    }

    /// The details of a failure, as JSON.
    pub fn details(&self) -> Vec<Value> {
        let value = self.trailers.get("grpc-status-details-bin").expect("details");
        let bytes = STANDARD_NO_PAD.decode(value.as_bytes()).expect("base64 without padding");
        let status = prost_types::Status::decode(&bytes);
        assert_eq!(status.code, self.code());
        assert_eq!(status.message, self.text());
        status.details
    }

    /// The failure, which must be this one, as the table of errors has it.
    pub fn refused(&self, code: chancery_sdk::ErrorCode) -> Vec<Value> {
        let row = code.row();
        assert_eq!(self.code(), row.grpc.0, "{self:?}");
        let details = self.details();
        assert_eq!(details[0]["reason"], row.reason, "{self:?}");
        assert_eq!(details[0]["domain"], "a2a-protocol.org");
        details
    }
}

/// `google.rpc.Status` from the few lines of its definition.
mod prost_types {
    use super::*;

    const RPC: &str = r#"
        syntax = "proto3";
        package google.rpc;
        import "google/protobuf/any.proto";
        import "google/protobuf/duration.proto";
        message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
        message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
        message BadRequest {
          message FieldViolation { string field = 1; string description = 2; }
          repeated FieldViolation field_violations = 1;
        }
        message RetryInfo { google.protobuf.Duration retry_delay = 1; }
    "#;

    static RPC_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        struct Texts;
        impl protox::file::FileResolver for Texts {
            fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
                match name {
                    "rpc.proto" => protox::file::File::from_source(name, RPC),
                    _ => protox::file::GoogleFileResolver::new().open_file(name),
                }
            }
        }
        let mut compiler = protox::Compiler::with_file_resolver(Texts);
        compiler.include_imports(true).open_file("rpc.proto").expect("the definition is good");
        DescriptorPool::from_file_descriptor_set(compiler.file_descriptor_set()).expect("a pool")
    });

    pub struct Status {
        pub code: i32,
        pub message: String,
        pub details: Vec<Value>,
    }

    impl Status {
        pub fn decode(bytes: &[u8]) -> Self {
            let descriptor = RPC_POOL.get_message_by_name("google.rpc.Status").expect("the message");
            let read = DynamicMessage::decode(descriptor, bytes).expect("a status");
            let json = serde_json::to_value(&read).expect("JSON");
            Self {
                code: i32::try_from(json["code"].as_i64().unwrap_or_default()).expect("a code"),
                message: json["message"].as_str().unwrap_or_default().to_owned(),
                details: json["details"].as_array().cloned().unwrap_or_default(),
            }
        }
    }
}
