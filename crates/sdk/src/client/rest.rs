//! The HTTP+JSON half of the client: an operation is a verb and a path.

use std::fmt::Write as _;

use chancery_protocol::{Error, ErrorCode, Operation, OperationRow, Request, TaskState, decode_reply};
use http::response::Parts;
use http::{HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::ClientError;
use super::peer::Interface;
use super::replied::{Json, Replied, StreamEvent};
use super::transport::{Outgoing, bare_status, is_of_type, wrong_type};

const A2A_JSON: HeaderValue = HeaderValue::from_static("application/a2a+json");
const JSON: HeaderValue = HeaderValue::from_static("application/a2a+json, application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/a2a+json");

/// What stands for itself in a path segment and in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text as one segment of a path, or one value of a query.
pub(crate) fn segment(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, PLAIN)
}

/// How a request looks; `other_verb` takes the second verb of an operation that has two.
pub(crate) fn encode(
    interface: &Interface,
    request: &Request,
    other_verb: bool,
) -> Result<Outgoing, ClientError> {
    let operation = request.operation();
    let row = row(operation, other_verb)?;
    let (task, config) = variables(request);
    let mut path = interface.base.clone();
    row.write_path(&mut path, [&segment(task).to_string(), &segment(config).to_string()]);
    path_query(request, &mut path);
    let uri = path.parse().map_err(|_| ClientError::bad("its URL and the task's id do not make a URL"))?;
    let mut body = Vec::new();
    if row.verb == Method::POST && operation != Operation::SubscribeToTask {
        request.write_json(&mut body).map_err(ClientError::Peer)?;
    }
    Ok(Outgoing {
        operation: Some(operation),
        version: interface.wire.version(),
        method: row.verb.clone(),
        uri,
        origin: interface.origin.clone(),
        accept: if operation.is_streaming() { EVENTS } else { JSON },
        content_type: (!body.is_empty()).then_some(A2A_JSON),
        body: body.into(),
        is_grpc: false,
    })
}

/// Subscribe has two verbs. POST is the one that most servers know; GET is the proto's.
pub(crate) fn row(operation: Operation, other_verb: bool) -> Result<&'static OperationRow, ClientError> {
    let mut rows: Vec<_> = operation.rows().collect();
    rows.sort_by_key(|row| row.verb != Method::POST);
    let row = if other_verb { rows.last() } else { rows.first() };
    row.copied().ok_or_else(|| ClientError::bad("there is no such operation"))
}

/// Whether a failure may mean no more than that the peer knows an operation by its other verb.
pub(crate) fn has_other_verb(request: &Request, error: &ClientError) -> bool {
    let unknown = match error {
        ClientError::Peer(error) => error.code() == ErrorCode::MethodNotFound,
        ClientError::Status { status, .. } => matches!(status.as_u16(), 404 | 405),
        _ => false,
    };
    unknown && request.operation().rows().count() > 1
}

/// What stands for the variables of the path.
pub(crate) fn variables(request: &Request) -> (&str, &str) {
    match request {
        Request::GetTask(request) => (request.id.as_str(), ""),
        Request::CancelTask(request) => (request.id.as_str(), ""),
        Request::SubscribeToTask(request) => (request.id.as_str(), ""),
        Request::CreateTaskPushNotificationConfig(request) => {
            (request.task_id.as_ref().map_or("", |id| id.as_str()), "")
        }
        Request::GetTaskPushNotificationConfig(request)
        | Request::DeleteTaskPushNotificationConfig(request) => {
            (request.task_id.as_str(), request.id.as_str())
        }
        Request::ListTaskPushNotificationConfigs(request) => (request.task_id.as_str(), ""),
        Request::SendMessage(_)
        | Request::SendStreamingMessage(_)
        | Request::ListTasks(_)
        | Request::GetExtendedAgentCard(_) => ("", ""),
    }
}

pub(crate) fn path_query(request: &Request, path: &mut String) {
    let mut query = Query { path, any: false };
    match request {
        Request::GetTask(request) => query.number("historyLength", request.history_length),
        Request::ListTasks(request) => {
            query.text("contextId", request.context_id.as_ref().map_or("", |id| id.as_str()));
            if request.status != TaskState::Unspecified {
                query.text("status", request.status.as_str());
            }
            query.number("pageSize", request.page_size);
            query.text("pageToken", &request.page_token);
            query.number("historyLength", request.history_length);
            if let Some(after) = &request.status_timestamp_after {
                query.text("statusTimestampAfter", &after.to_string());
            }
            if let Some(include) = request.include_artifacts {
                query.text("includeArtifacts", if include { "true" } else { "false" });
            }
        }
        Request::ListTaskPushNotificationConfigs(request) => {
            query.number("pageSize", (request.page_size != 0).then_some(request.page_size));
            query.text("pageToken", &request.page_token);
        }
        _ => {}
    }
}

struct Query<'a> {
    path: &'a mut String,
    any: bool,
}

impl Query<'_> {
    fn text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let before = if self.any { '&' } else { '?' };
        self.any = true;
        // Writing to a string cannot fail.
        let _ = write!(self.path, "{before}{name}={}", segment(value));
    }

    fn number(&mut self, name: &str, value: Option<i32>) {
        if let Some(value) = value {
            self.text(name, &value.to_string());
        }
    }
}

// === answers ===

#[derive(Deserialize)]
struct Failed<'a> {
    #[serde(borrow)]
    error: &'a RawValue,
}

pub(crate) fn decode(operation: Operation, head: &Parts, body: &[u8]) -> Result<Replied, ClientError> {
    Replied::read(operation, &Answer { head, body })
}

struct Answer<'a> {
    head: &'a Parts,
    body: &'a [u8],
}

impl Json for Answer<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        self.check()?;
        if !is_of_type(self.head, &["application/a2a+json", "application/json"]) {
            return Err(wrong_type(self.head, "application/a2a+json"));
        }
        decode_reply(self.body).map_err(|error| ClientError::unreadable(&error))
    }

    fn check(&self) -> Result<(), ClientError> {
        if self.head.status.is_success() { Ok(()) } else { Err(failure(self.head, self.body)) }
    }
}

/// What an answer says that is no success.
pub(crate) fn failure(head: &Parts, body: &[u8]) -> ClientError {
    match error_in(body) {
        Some(error) => ClientError::Peer(error),
        None => bare_status(head, body),
    }
}

/// The event in a frame of a stream.
pub(crate) fn event(data: &[u8]) -> Result<StreamEvent, ClientError> {
    match error_in(data) {
        Some(error) => Err(ClientError::Peer(error)),
        None => StreamEvent::read(data),
    }
}

/// The error in `error`, if there is one.
pub(crate) fn error_in(body: &[u8]) -> Option<Error> {
    let failed: Failed<'_> = serde_json::from_slice(body).ok()?;
    Error::decode(failed.error.get().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::origin::Origin;
    use super::*;
    use chancery_protocol::{GetTaskRequest, ListTasksRequest, SubscribeToTaskRequest};

    fn interface() -> Interface {
        Interface {
            wire: super::super::wire::Wire::Rest,
            uri: "https://a.example/r".parse().unwrap(),
            origin: Origin::of(&"https://a.example".parse().unwrap()).unwrap().into(),
            base: "https://a.example/r".to_owned(),
            tenant: String::new(),
        }
    }

    #[test]
    fn ids_and_filters_are_written_so_that_they_are_read_again() {
        let request = Request::GetTask(GetTaskRequest {
            tenant: String::new(),
            id: "a/b ü:cancel".into(),
            history_length: Some(2),
        });
        let outgoing = encode(&interface(), &request, false).unwrap();
        let expected = "https://a.example/r/tasks/a%2Fb%20%C3%BC%3Acancel?historyLength=2";
        assert_eq!((outgoing.method, outgoing.uri.to_string().as_str()), (Method::GET, expected));
        let request = Request::ListTasks(Box::new(ListTasksRequest {
            context_id: Some("c&d".into()),
            status: TaskState::Working,
            page_token: "a=b".to_owned(),
            include_artifacts: Some(false),
            ..Default::default()
        }));
        let uri = encode(&interface(), &request, false).unwrap().uri.to_string();
        assert!(
            uri.ends_with(
                "/tasks?contextId=c%26d&status=TASK_STATE_WORKING&pageToken=a%3Db&includeArtifacts=false"
            ),
            "{uri}"
        );
    }

    #[test]
    fn subscribing_has_two_verbs() {
        let request =
            Request::SubscribeToTask(SubscribeToTaskRequest { tenant: String::new(), id: "t".into() });
        assert_eq!(encode(&interface(), &request, false).unwrap().method, Method::POST);
        assert_eq!(encode(&interface(), &request, true).unwrap().method, Method::GET);
    }
}
