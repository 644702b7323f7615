//! The server's half of HTTP+JSON.

use bytes::Bytes;
use chancery_protocol::{
    CancelTaskRequest, Error, ErrorCode, GetExtendedAgentCardRequest, GetTaskRequest, JsonObject,
    ListTaskPushNotificationConfigsRequest, NoRoute, Operation, PushNotificationConfigRequest, Reply,
    Request, Route, SubscribeToTaskRequest, TaskId, TaskPushNotificationConfig, TaskState, VERSION_HEADER,
    Version, decode_params, write_json,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::super::model::{Form, Newer, SendParams};
use super::super::{error_code, events, write_reply};
use super::{CARD, PREFIX};
use crate::binding::head::{error_headers, query};
use crate::binding::rest::{agree, keep_private, list_tasks, number, path_id};
use crate::binding::sse::{EventFrames, Framing};
use crate::dialect::Dialect;
use crate::server::{Body, Share, StreamSlot};

/// Where v0.2 has the card for callers who are known, below the agent's URL.
pub(crate) const OLD_CARD: &str = "/agent/authenticatedExtendedCard";

/// The path below `/v1`, if this is a call of v0.3. To a caller of v1.0, `v1` is the name of a tenant.
pub(crate) fn below<'a>(head: &Parts, path: &'a str) -> Option<&'a str> {
    if path == OLD_CARD {
        return Some(CARD);
    }
    let below = path.strip_prefix(PREFIX).filter(|below| below.starts_with('/'))?;
    let header = head.headers.get(VERSION_HEADER).map(|value| value.to_str().unwrap_or_default());
    let asked = match header {
        Some(asked) => Version::parse(asked.trim()),
        None => query(head)
            .find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER))
            .and_then(|(_, value)| Version::parse(&value)),
    };
    asked.is_none_or(|version| version < Version::V1_0).then_some(below)
}

/// Finds the operation of a path below `/v1`.
pub(crate) fn find<'a>(method: &Method, below: &'a str) -> Result<Route<'a>, NoRoute> {
    match (below, method) {
        (CARD, &Method::GET) => {
            Ok(Route { operation: Operation::GetExtendedAgentCard, task: None, config: None })
        }
        (CARD, _) => Err(NoRoute::Verb(vec![Method::GET])),
        _ => Operation::from_path(method, below),
    }
}

/// Reads the request of an operation from path, query and body.
pub(crate) fn decode(form: Form, route: &Route<'_>, head: &Parts, body: &[u8]) -> Result<Request, Error> {
    let tenant = String::new;
    Ok(match route.operation {
        Operation::SendMessage => Request::SendMessage(decode_params::<SendParams>(body)?.into_request(form)),
        Operation::SendStreamingMessage => {
            Request::SendStreamingMessage(decode_params::<SendParams>(body)?.into_request(form))
        }
        Operation::GetTask => {
            let length = number(head, "historyLength")?.or(number(head, "history_length")?);
            Request::GetTask(GetTaskRequest {
                tenant: tenant(),
                id: path_id(&route.task)?,
                // In a query, unlike in the old proto, what is not there is not 0.
                history_length: length,
            })
        }
        Operation::ListTasks => {
            Request::ListTasks(Box::new(list_tasks(head, tenant(), Newer::<TaskState>::named)?))
        }
        Operation::CancelTask => Request::CancelTask(cancel(route, body)?),
        Operation::SubscribeToTask => {
            Request::SubscribeToTask(SubscribeToTaskRequest { tenant: tenant(), id: path_id(&route.task)? })
        }
        Operation::CreateTaskPushNotificationConfig => {
            let Newer(mut config) = decode_params::<Newer<TaskPushNotificationConfig>>(body)?;
            let task: TaskId = path_id(&route.task)?;
            agree(config.task_id.as_ref().is_none_or(|named| *named == task), "name")?;
            config.task_id = Some(task);
            Request::CreateTaskPushNotificationConfig(Box::new(config))
        }
        Operation::GetTaskPushNotificationConfig => Request::GetTaskPushNotificationConfig(config(route)?),
        Operation::DeleteTaskPushNotificationConfig => {
            Request::DeleteTaskPushNotificationConfig(config(route)?)
        }
        Operation::ListTaskPushNotificationConfigs => {
            Request::ListTaskPushNotificationConfigs(ListTaskPushNotificationConfigsRequest {
                tenant: tenant(),
                task_id: path_id(&route.task)?,
                page_size: 0,
                page_token: String::new(),
            })
        }
        Operation::GetExtendedAgentCard => {
            Request::GetExtendedAgentCard(GetExtendedAgentCardRequest::default())
        }
    })
}

fn cancel(route: &Route<'_>, body: &[u8]) -> Result<CancelTaskRequest, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Rest {
        metadata: Option<JsonObject>,
    }
    let rest: Rest = if body.is_empty() { Rest::default() } else { decode_params(body)? };
    Ok(CancelTaskRequest { tenant: String::new(), id: path_id(&route.task)?, metadata: rest.metadata })
}

fn config(route: &Route<'_>) -> Result<PushNotificationConfigRequest, Error> {
    let (task_id, id) = (path_id(&route.task)?, path_id(&route.config)?);
    Ok(PushNotificationConfigRequest { tenant: String::new(), task_id, id })
}

pub(crate) fn respond(
    form: Form,
    operation: Operation,
    reply: Result<(Reply, StreamSlot), Error>,
) -> Response<Body> {
    match reply {
        Ok((Reply::Stream(stream), slot)) => {
            let framing = Framing::Rest(Dialect::V0_3(form));
            EventFrames::new(events(form, operation, stream), framing, slot).into_response()
        }
        Ok((reply, slot)) => {
            let mut body = Vec::with_capacity(1024);
            match write_reply(form, &reply, &mut body) {
                Ok(()) => {
                    let mut response = json(StatusCode::OK, Share::hold(slot.unread, body));
                    keep_private(&mut response, matches!(reply, Reply::Card(_)));
                    response
                }
                Err(error) => fail(&error),
            }
        }
        Err(error) => fail(&error),
    }
}

pub(crate) fn fail(error: &Error) -> Response<Body> {
    fail_with(status(error.code()), error)
}

pub(crate) fn fail_with(status: StatusCode, error: &Error) -> Response<Body> {
    let mut body = Vec::with_capacity(512);
    write_error(&mut body, error);
    let mut response = json(status, body);
    error_headers(&mut response, error);
    response
}

/// Nothing answers to this request line.
pub(crate) fn no_route(why: NoRoute) -> Response<Body> {
    match why {
        NoRoute::Path => {
            fail(&Error::with_message(ErrorCode::MethodNotFound, "Nothing is served at this path"))
        }
        NoRoute::Verb(verbs) => {
            let verbs: Vec<_> = verbs.iter().map(Method::as_str).collect();
            let text = format!("This path takes {}", verbs.join(" and "));
            let error = Error::with_message(ErrorCode::MethodNotFound, text);
            let mut response = fail_with(StatusCode::METHOD_NOT_ALLOWED, &error);
            if let Ok(value) = HeaderValue::try_from(verbs.join(", ")) {
                response.headers_mut().insert(header::ALLOW, value);
            }
            response
        }
    }
}

/// v0.3 does not say how an error looks. This is what all of its clients read: the error object of JSON-RPC, bare.
pub(crate) fn write_error(out: &mut Vec<u8>, error: &Error) {
    #[derive(Serialize)]
    struct Status<'a> {
        code: i32,
        message: &'a str,
        data: chancery_protocol::Details<'a>,
    }
    let status = Status { code: error_code(error.code()), message: error.message(), data: error.details() };
    // Writing strings and numbers into memory cannot fail.
    let _ = write_json(out, &status);
}

/// The status by which clients that do not look into the body know an error.
fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::TaskNotCancelable => StatusCode::CONFLICT,
        ErrorCode::ContentTypeNotSupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::InvalidAgentResponse => StatusCode::BAD_GATEWAY,
        ErrorCode::ExtendedAgentCardNotConfigured => StatusCode::NOT_FOUND,
        ErrorCode::PushNotificationNotSupported
        | ErrorCode::UnsupportedOperation
        | ErrorCode::VersionNotSupported => StatusCode::NOT_IMPLEMENTED,
        code => code.row().http,
    }
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
