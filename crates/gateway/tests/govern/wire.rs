//! Every way to speak to an agent, and everything that can be asked on it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use chancery_protocol::{
    Call, CallContext, DynEndpoint as _, Error, OPERATIONS, Operation, Principal, Reply, Request,
};
use chancery_sdk::Client;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{ProtocolBinding, Version};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::gateway::Gateway;

/// A version and a binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wire(pub(crate) Version, pub(crate) ProtocolBinding);

pub(crate) const WIRES: [Wire; 7] = [
    Wire(Version::V1_0, ProtocolBinding::JsonRpc),
    Wire(Version::V1_0, ProtocolBinding::HttpJson),
    Wire(Version::V1_0, ProtocolBinding::Grpc),
    Wire(Version::V0_3, ProtocolBinding::JsonRpc),
    Wire(Version::V0_3, ProtocolBinding::HttpJson),
    Wire(Version::V0_3, ProtocolBinding::Grpc),
    Wire(Version::V0_1, ProtocolBinding::JsonRpc),
];

/// What to send besides the request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// The text of the message, where there is one.
    pub(crate) text: Option<&'static str>,
    /// Its metadata.
    pub(crate) metadata: Option<&'static str>,
    pub(crate) idempotency_key: Option<&'static str>,
}

impl Wire {
    pub(crate) async fn connect(&self, gateway: &Gateway, agent: &str) -> Client {
        self.connect_with(gateway, agent, None).await
    }

    pub(crate) async fn connect_with(&self, gateway: &Gateway, agent: &str, key: Option<&str>) -> Client {
        let Self(version, binding) = self;
        let builder = Client::builder().version(*version).only([binding.clone()]).retries(0);
        let builder = builder.egress(Egress::unrestricted());
        let builder = match key {
            Some(key) => builder.bearer(key),
            None => builder,
        };
        // The card of an agent of a fleet names no such interface, since its messages have no place for a tenant. Where
        // there is one agent only, it can be called all the same.
        let url = match self {
            Self(Version::V0_3, ProtocolBinding::Grpc) => card_of(gateway.place()),
            _ => gateway.agent(agent),
        };
        builder.connect(&url).await.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Whether the version has a word for it on this binding.
    pub(crate) fn has(&self, operation: Operation) -> bool {
        match (self, operation) {
            (Self(Version::V1_0, _), _) => true,
            (Self(Version::V0_3, ProtocolBinding::Grpc | ProtocolBinding::JsonRpc), Operation::ListTasks) => {
                false
            }
            (Self(Version::V0_1, _), operation) => matches!(
                operation,
                Operation::SendMessage
                    | Operation::SendStreamingMessage
                    | Operation::GetTask
                    | Operation::CancelTask
                    | Operation::SubscribeToTask
                    | Operation::CreateTaskPushNotificationConfig
                    | Operation::GetTaskPushNotificationConfig
            ),
            _ => true,
        }
    }
}

/// Every operation of the protocol, once.
pub(crate) fn operations() -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for row in &OPERATIONS {
        if !operations.contains(&row.operation) {
            operations.push(row.operation);
        }
    }
    operations
}

/// Asks, and says why it was refused if it was. Of a stream, what it begins with.
pub(crate) async fn ask(client: &Client, operation: Operation, manner: Manner) -> Result<(), Error> {
    let mut context = CallContext::new(Principal::anonymous(), "".into());
    context.idempotency_key = manner.idempotency_key.map(str::to_owned);
    match client.call(Call { request: request(operation, manner), context }).await? {
        Reply::Stream(mut events) => events.next().await.transpose().map(drop),
        _ => Ok(()),
    }
}

/// There is no arm for the rest: a new operation has to be asked for here, and so to be refused by every gate that it is for.
fn request(operation: Operation, manner: Manner) -> Request {
    let task = json!({ "id": "no-such-task" });
    let config = json!({ "taskId": "no-such-task", "id": "no-such-config" });
    match operation {
        Operation::SendMessage => Request::SendMessage(read(message(manner))),
        Operation::SendStreamingMessage => Request::SendStreamingMessage(read(message(manner))),
        Operation::GetTask => Request::GetTask(read(task)),
        Operation::ListTasks => Request::ListTasks(read(json!({}))),
        Operation::CancelTask => Request::CancelTask(read(task)),
        Operation::SubscribeToTask => Request::SubscribeToTask(read(task)),
        Operation::CreateTaskPushNotificationConfig => Request::CreateTaskPushNotificationConfig(read(
            json!({ "taskId": "no-such-task", "url": "https://receiver.example/" }),
        )),
        Operation::GetTaskPushNotificationConfig => Request::GetTaskPushNotificationConfig(read(config)),
        Operation::ListTaskPushNotificationConfigs => {
            Request::ListTaskPushNotificationConfigs(read(json!({ "taskId": "no-such-task" })))
        }
        Operation::DeleteTaskPushNotificationConfig => {
            Request::DeleteTaskPushNotificationConfig(read(config))
        }
        Operation::GetExtendedAgentCard => Request::GetExtendedAgentCard(read(json!({}))),
    }
}

fn message(manner: Manner) -> Value {
    let metadata: Option<Value> = manner.metadata.map(|text| serde_json::from_str(text).expect("it is JSON"));
    let parts = json!([{ "text": manner.text.unwrap_or("hello") }]);
    json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": parts, "metadata": metadata } })
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it is such a request")
}

/// The URL of a card that names a place for gRPC of v0.3, and nothing else.
fn card_of(place: &str) -> String {
    let card = json!({
        "protocolVersion": "0.3.0", "name": "echo", "description": "", "version": "1",
        "url": place, "preferredTransport": "GRPC", "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    })
    .to_string();
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let _ = stream.read(&mut [0; 4096]);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}", card.len());
        let _ = write!(stream, "{head}\r\nconnection: close\r\n\r\n{card}");
    });
    url
}
