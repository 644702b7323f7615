//! The HTTP+JSON binding: an operation is a verb and a path.

use std::borrow::Cow;
use std::str::FromStr;

use bytes::Bytes;
use chancery_protocol::{
    CancelTaskRequest, Error, ErrorCode, GetExtendedAgentCardRequest, GetTaskRequest, JsonObject,
    ListTaskPushNotificationConfigsRequest, ListTasksRequest, NoRoute, Operation,
    PushNotificationConfigRequest, Reply, Request, Route, SubscribeToTaskRequest, TaskId,
    TaskPushNotificationConfig, TaskState, Timestamp, decode_params, write_json,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use super::head::{content_type, error_headers, query};
use super::sse::{EventFrames, Framing};
use crate::dialect::Dialect;
use crate::server::{Body, Share, StreamSlot};

const A2A_JSON: &str = "application/a2a+json";
const JSON: &str = "application/json";
/// The media types of requests.
pub(crate) const MEDIA_TYPES: &[&str] = &[A2A_JSON, JSON];

/// A request line that names an operation, and the tenant that its path names.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) route: Route<'a>,
    pub(crate) tenant: Option<Cow<'a, str>>,
}

/// Finds the operation of a path below the agent's URL, with or without a tenant before it.
pub(crate) fn find<'a>(method: &Method, path: &'a str) -> Result<Target<'a>, NoRoute> {
    let plain = Operation::from_path(method, path);
    let Err(NoRoute::Path) = plain else { return plain.map(|route| Target { route, tenant: None }) };
    let rest = path.strip_prefix('/').ok_or(NoRoute::Path)?;
    let (tenant, _) = rest.split_once('/').ok_or(NoRoute::Path)?;
    let route = Operation::from_path(method, &rest[tenant.len()..])?;
    Ok(Target { route, tenant: Some(percent_decode_str(tenant).decode_utf8_lossy()) })
}

/// Whether the answer is wanted as `application/a2a+json`: it is if the request says so of itself or of it.
pub(crate) fn wants_a2a_json(head: &Parts) -> bool {
    let accepts = head.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    content_type(head).is_some_and(|actual| actual.eq_ignore_ascii_case(A2A_JSON))
        || accepts.flat_map(|list| list.split(',')).any(|accepted| {
            accepted.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(A2A_JSON)
        })
}

/// Reads the request of an operation from path, query and body.
pub(crate) fn decode(route: &Route<'_>, head: &Parts, body: &[u8]) -> Result<Request, Error> {
    let tenant = value(head, "tenant").map(Cow::into_owned).unwrap_or_default();
    let request = match route.operation {
        Operation::SendMessage => Request::SendMessage(decode_params(body)?),
        Operation::SendStreamingMessage => Request::SendStreamingMessage(decode_params(body)?),
        Operation::GetTask => Request::GetTask(GetTaskRequest {
            tenant,
            id: path_id(&route.task)?,
            history_length: number(head, "historyLength")?,
        }),
        Operation::ListTasks => Request::ListTasks(Box::new(list_tasks(head, tenant, TaskState::from_name)?)),
        Operation::CancelTask => Request::CancelTask(cancel(route, body)?),
        Operation::SubscribeToTask => {
            Request::SubscribeToTask(SubscribeToTaskRequest { tenant, id: path_id(&route.task)? })
        }
        Operation::CreateTaskPushNotificationConfig => {
            let mut config: TaskPushNotificationConfig = decode_params(body)?;
            let task_id = path_id(&route.task)?;
            agree(config.task_id.as_ref().is_none_or(|named: &TaskId| *named == task_id), "taskId")?;
            config.task_id = Some(task_id);
            Request::CreateTaskPushNotificationConfig(Box::new(config))
        }
        Operation::GetTaskPushNotificationConfig => {
            Request::GetTaskPushNotificationConfig(config(route, tenant)?)
        }
        Operation::DeleteTaskPushNotificationConfig => {
            Request::DeleteTaskPushNotificationConfig(config(route, tenant)?)
        }
        Operation::ListTaskPushNotificationConfigs => {
            Request::ListTaskPushNotificationConfigs(ListTaskPushNotificationConfigsRequest {
                tenant,
                task_id: path_id(&route.task)?,
                page_size: number(head, "pageSize")?.unwrap_or_default(),
                page_token: value(head, "pageToken").map(Cow::into_owned).unwrap_or_default(),
            })
        }
        Operation::GetExtendedAgentCard => {
            Request::GetExtendedAgentCard(GetExtendedAgentCardRequest { tenant })
        }
    };
    name_tenant(request, head)
}

/// A tenant in the query counts as much as one in the body, with which it must agree.
fn name_tenant(mut request: Request, head: &Parts) -> Result<Request, Error> {
    if let Some(asked) = value(head, "tenant").filter(|asked| !asked.is_empty()) {
        let tenant = request.tenant_mut();
        agree(tenant.is_empty() || **tenant == *asked, "tenant")?;
        *tenant = asked.into_owned();
    }
    Ok(request)
}

pub(crate) fn list_tasks(
    head: &Parts,
    tenant: String,
    named: fn(&str) -> Option<TaskState>,
) -> Result<ListTasksRequest, Error> {
    let text = |name| value(head, name).filter(|text| !text.is_empty());
    let state =
        |name: Cow<'_, str>| named(&name).ok_or_else(|| Error::invalid_field("status", "unknown task state"));
    let timestamp = |text: Cow<'_, str>| {
        Timestamp::parse(&text)
            .map_err(|error| Error::invalid_field("statusTimestampAfter", error.to_string()))
    };
    let flag = |text: Cow<'_, str>| match &*text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::invalid_field("includeArtifacts", "must be true or false")),
    };
    Ok(ListTasksRequest {
        tenant,
        context_id: text("contextId").map(|id| (*id).into()),
        status: text("status").map(state).transpose()?.unwrap_or_default(),
        page_size: number(head, "pageSize")?,
        page_token: text("pageToken").map(Cow::into_owned).unwrap_or_default(),
        history_length: number(head, "historyLength")?,
        status_timestamp_after: text("statusTimestampAfter").map(timestamp).transpose()?,
        include_artifacts: text("includeArtifacts").map(flag).transpose()?,
    })
}

fn cancel(route: &Route<'_>, body: &[u8]) -> Result<CancelTaskRequest, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Rest {
        id: Option<TaskId>,
        tenant: Option<String>,
        metadata: Option<JsonObject>,
    }
    let rest: Rest = if body.is_empty() { Rest::default() } else { decode_params(body)? };
    let id = path_id(&route.task)?;
    agree(rest.id.is_none_or(|named| named.is_empty() || named == id), "id")?;
    Ok(CancelTaskRequest { tenant: rest.tenant.unwrap_or_default(), id, metadata: rest.metadata })
}

fn config(route: &Route<'_>, tenant: String) -> Result<PushNotificationConfigRequest, Error> {
    Ok(PushNotificationConfigRequest { tenant, task_id: path_id(&route.task)?, id: path_id(&route.config)? })
}

/// What a path and a body both name must be the same.
pub(crate) fn agree(same: bool, field: &str) -> Result<(), Error> {
    if same { Ok(()) } else { Err(Error::invalid_field(field, "the path and the body disagree")) }
}

pub(crate) fn path_id<T: From<String>>(segment: &Option<Cow<'_, str>>) -> Result<T, Error> {
    let decoded = percent_decode_str(segment.as_deref().unwrap_or_default()).decode_utf8();
    let text = decoded.map_err(|_| Error::invalid_field("id", "must be UTF-8"))?;
    Ok(T::from(text.into_owned()))
}

fn value<'a>(head: &'a Parts, name: &str) -> Option<Cow<'a, str>> {
    query(head).find(|(known, _)| known == name).map(|(_, value)| value)
}

pub(crate) fn number<T: FromStr>(head: &Parts, name: &str) -> Result<Option<T>, Error> {
    let Some(text) = value(head, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Error::invalid_field(name, "must be a number"))
}

pub(crate) fn respond(a2a_json: bool, reply: Result<(Reply, StreamSlot), Error>) -> Response<Body> {
    match reply {
        Ok((Reply::Stream(events), slot)) => {
            EventFrames::new(events, Framing::Rest(Dialect::V1_0), slot).into_response()
        }
        Ok((reply, slot)) => {
            let is_card = matches!(reply, Reply::Card(_));
            let mut body = Vec::with_capacity(1024);
            match reply.write_json(&mut body) {
                Ok(()) => {
                    let body = Share::hold(slot.unread, body);
                    let mut response = json(StatusCode::OK, a2a_json, body);
                    keep_private(&mut response, is_card);
                    response
                }
                Err(error) => fail(a2a_json, &error),
            }
        }
        Err(error) => fail(a2a_json, &error),
    }
}

/// What one caller is answered is kept by nobody, but for a card, which is kept by who has asked for it.
pub(crate) fn keep_private(response: &mut Response<Body>, is_card: bool) {
    let headers = response.headers_mut();
    if is_card {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private"));
        headers.insert(header::VARY, HeaderValue::from_static("Authorization, X-API-Key"));
    } else {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

pub(crate) fn fail(a2a_json: bool, error: &Error) -> Response<Body> {
    fail_with(error.code().row().http, a2a_json, error)
}

pub(crate) fn fail_with(status: StatusCode, a2a_json: bool, error: &Error) -> Response<Body> {
    let mut body = Vec::with_capacity(512);
    write_error_as(&mut body, status, error);
    let mut response = json(status, a2a_json, body);
    error_headers(&mut response, error);
    response
}

/// Nothing answers to this request line.
pub(crate) fn no_route(a2a_json: bool, why: NoRoute) -> Response<Body> {
    let error = ErrorCode::MethodNotFound;
    match why {
        NoRoute::Path => fail(a2a_json, &Error::with_message(error, "Nothing is served at this path")),
        NoRoute::Verb(verbs) => {
            let verbs: Vec<_> = verbs.iter().map(Method::as_str).collect();
            let text = format!("This path takes {}", verbs.join(" and "));
            let mut response =
                fail_with(StatusCode::METHOD_NOT_ALLOWED, a2a_json, &Error::with_message(error, text));
            if let Ok(value) = HeaderValue::try_from(verbs.join(", ")) {
                response.headers_mut().insert(header::ALLOW, value);
            }
            response
        }
    }
}

/// An error as `google.rpc.Status` in JSON.
pub(crate) fn write_error(out: &mut Vec<u8>, error: &Error) {
    write_error_as(out, error.code().row().http, error);
}

fn write_error_as(out: &mut Vec<u8>, status: StatusCode, error: &Error) {
    #[derive(Serialize)]
    struct Wrapped<'a> {
        error: Status<'a>,
    }
    #[derive(Serialize)]
    struct Status<'a> {
        code: u16,
        status: &'static str,
        message: &'a str,
        details: chancery_protocol::Details<'a>,
    }
    let error = Status {
        code: status.as_u16(),
        status: error.code().row().grpc.1,
        message: error.message(),
        details: error.details(),
    };
    // Writing strings and numbers into memory cannot fail.
    let _ = write_json(out, &Wrapped { error });
}

fn json(status: StatusCode, a2a_json: bool, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(if a2a_json { A2A_JSON } else { JSON });
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
