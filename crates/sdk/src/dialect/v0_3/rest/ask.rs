//! The client's half of HTTP+JSON.

use bytes::Bytes;
use chancery_protocol::{
    Error, Operation, PushConfigId, Request, TaskId, TaskPushNotificationConfig, write_json,
};
use http::response::Parts;
use http::{HeaderValue, Method};
use serde::{Deserialize, Serialize};

use super::super::model::{Form, Older, OlderSend};
use super::super::{error_by_status, read_event, read_reply};
use super::{CARD, PREFIX};
use crate::client::rest::{error_in, path_query, row, segment, variables};
use crate::client::{
    ClientError, Interface, Outgoing, Replied, StreamEvent, bare_status, is_of_type, wrong_type,
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// How a request looks; `other_verb` takes the second verb of an operation that has two. The first is the proto's,
/// which all servers of that version know.
pub(crate) fn encode(
    interface: &Interface,
    form: Form,
    request: &Request,
    other_verb: bool,
) -> Result<Outgoing, ClientError> {
    let operation = request.operation();
    let row = row(operation, !other_verb)?;
    let (task, config) = variables(request);
    let mut path = format!("{}{PREFIX}", interface.base);
    match operation {
        Operation::GetExtendedAgentCard => path.push_str(CARD),
        _ => row.write_path(&mut path, [&segment(task).to_string(), &segment(config).to_string()]),
    }
    path_query(request, &mut path);
    let uri = path.parse().map_err(|_| ClientError::bad("its URL and the task's id do not make a URL"))?;
    let body = body(form, request).map_err(ClientError::Peer)?;
    Ok(Outgoing {
        operation: Some(operation),
        version: interface.wire.version(),
        method: row.verb.clone(),
        uri,
        origin: interface.origin.clone(),
        accept: if operation.is_streaming() { EVENTS } else { JSON },
        content_type: (row.verb == Method::POST).then_some(JSON),
        body,
        is_grpc: false,
    })
}

fn body(form: Form, request: &Request) -> Result<Bytes, Error> {
    #[derive(Serialize)]
    struct Cancel<'a> {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a chancery_protocol::JsonObject>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Create<'a> {
        parent: String,
        config_id: &'a str,
        config: Older<'a, TaskPushNotificationConfig>,
    }
    let mut body = Vec::new();
    match request {
        Request::SendMessage(request) | Request::SendStreamingMessage(request) => {
            write(&mut body, &OlderSend(form, request))?;
        }
        Request::CancelTask(request) => {
            let name = format!("tasks/{}", request.id);
            write(&mut body, &Cancel { name, metadata: request.metadata.as_ref() })?;
        }
        Request::CreateTaskPushNotificationConfig(config) => {
            let task = config.task_id.as_ref().map_or("", TaskId::as_str);
            let config_id = config.id.as_ref().map_or("", PushConfigId::as_str);
            let config = Older(form, &**config);
            write(&mut body, &Create { parent: format!("tasks/{task}"), config_id, config })?;
        }
        _ => {}
    }
    Ok(body.into())
}

pub(crate) fn decode(operation: Operation, head: &Parts, body: &[u8]) -> Result<Replied, ClientError> {
    if !head.status.is_success() {
        return Err(failure(operation, head, body));
    }
    if operation == Operation::DeleteTaskPushNotificationConfig {
        return Ok(Replied::Empty);
    }
    if !is_of_type(head, &["application/json", "application/a2a+json"]) {
        return Err(wrong_type(head, "application/json"));
    }
    let text = std::str::from_utf8(body).map_err(|_| ClientError::bad("it is not UTF-8"))?;
    read_reply(operation, text)
}

/// What an answer says that is no success: an error object, in `error` or bare; a sentence; a mere status.
pub(crate) fn failure(operation: Operation, head: &Parts, body: &[u8]) -> ClientError {
    #[derive(Deserialize)]
    struct Bare {
        #[serde(default)]
        code: Option<i64>,
        message: String,
    }
    if let Some(error) = error_in(body) {
        return ClientError::Peer(error);
    }
    match serde_json::from_slice(body) {
        Ok(Bare { code: Some(code), .. }) if code < 0 => Error::decode(body).map(ClientError::Peer),
        Ok(Bare { message, .. }) => error_by_status(operation, head.status, &message).map(ClientError::Peer),
        Err(_) => None,
    }
    .unwrap_or_else(|| bare_status(head, body))
}

/// The event in a frame of a stream.
pub(crate) fn event(data: &[u8]) -> Result<StreamEvent, ClientError> {
    #[derive(Deserialize)]
    struct Failed {
        code: i64,
    }
    if let Some(error) = error_in(data) {
        return Err(ClientError::Peer(error));
    }
    if serde_json::from_slice::<Failed>(data).is_ok_and(|failed| failed.code < 0)
        && let Some(error) = Error::decode(data)
    {
        return Err(ClientError::Peer(error));
    }
    let text = std::str::from_utf8(data).map_err(|_| ClientError::bad("an event is not UTF-8"))?;
    read_event(text)
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}
