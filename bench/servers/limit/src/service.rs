//! From request bytes to reply: SendMessage, GetTask and SendStreamingMessage.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::clock::Stamp;
use crate::reply::Body;
use crate::store::Store;
use crate::stream::{Events, Plan};
use crate::wire::{self, Ids, Message, Part, Payload, Reply, Role, Task};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// What is done to keep a task.
#[derive(Clone)]
pub(crate) enum Keep {
    Nothing,
    Maps(Arc<Store>),
}

pub(crate) async fn answer(keep: Keep, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() == "/.well-known/agent-card.json" {
        return Ok(whole(card(&request)));
    }
    if request.method() != Method::POST || request.uri().path() != "/" {
        return Ok(plain(StatusCode::NOT_FOUND, Bytes::new()));
    }
    let reply = match read(request.into_body()).await {
        Ok(body) => call(&keep, &body),
        Err(error) => Err(error),
    };
    Ok(reply.unwrap_or_else(|error| plain(StatusCode::BAD_REQUEST, Bytes::from(format!("{error:#}")))))
}

/// The whole body; when it came in one frame, as it does, without a copy.
async fn read(mut body: Incoming) -> anyhow::Result<Bytes> {
    let first = next(&mut body).await?.unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut whole = BytesMut::from(first);
    while let Some(more) = next(&mut body).await? {
        whole.extend_from_slice(&more);
    }
    Ok(whole.freeze())
}

async fn next(body: &mut Incoming) -> anyhow::Result<Option<Bytes>> {
    match std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        Some(frame) => Ok(frame?.into_data().ok()),
        None => Ok(None),
    }
}

fn call(keep: &Keep, body: &[u8]) -> anyhow::Result<Response<Body>> {
    let wire::Request { id, method, params } = serde_json::from_slice(body)?;
    match method {
        "SendMessage" => send(keep, id, params.message.context("no message")?),
        "GetTask" => get(keep, id, params.id.context("no task id")?),
        "SendStreamingMessage" => stream(keep, id, params.message.context("no message")?),
        other => bail!("no such method: {other}"),
    }
}

fn send(keep: &Keep, id: &RawValue, message: Message<'_>) -> anyhow::Result<Response<Body>> {
    let (ids, timestamp) = (Ids::new(), Stamp::now());
    let echo =
        |message: &Message<'_>| json(&Reply::new(id, Payload::Task(Task::echo(ids, timestamp, message))));
    match keep {
        Keep::Nothing => echo(&message),
        Keep::Maps(store) => echo(&store.insert(ids, timestamp, message.into_owned()).message),
    }
    .map(whole)
}

fn get(keep: &Keep, id: &RawValue, task: Uuid) -> anyhow::Result<Response<Body>> {
    let Keep::Maps(store) = keep else {
        let message = canned();
        let ids = Ids { task, context: Uuid::from_u128(7) };
        return json(&Reply::new(id, Task::echo(ids, Stamp::now(), &message))).map(whole);
    };
    let kept = store.find(task).context("no such task")?;
    json(&Reply::new(id, Task::echo(kept.ids, kept.timestamp, &kept.message))).map(whole)
}

fn stream(keep: &Keep, id: &RawValue, message: Message<'_>) -> anyhow::Result<Response<Body>> {
    let plan = Plan::parse(message.text()).unwrap_or(Plan::ECHO);
    let (ids, message) = (Ids::new(), message.into_owned());
    let kept = match keep {
        Keep::Nothing => None,
        Keep::Maps(store) => Some(store.insert(ids, Stamp::now(), message.clone())),
    };
    let events = Box::new(Events::new(id, ids, message, kept, plan));
    let mut response = Response::new(Body::Events(events));
    response.headers_mut().insert(CONTENT_TYPE, EVENTS);
    response.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    Ok(response)
}

/// A card, for those who want one before they call.
fn card(request: &Request<Incoming>) -> Bytes {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let interface =
        format!(r#"{{"url":"http://{host}/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}"#);
    Bytes::from(format!(
        r#"{{"name":"limit","description":"The floor","version":"1","skills":[],"supportedInterfaces":[{interface}],
        "defaultInputModes":[],"defaultOutputModes":[],"capabilities":{{"streaming":true}}}}"#
    ))
}

/// A message of the size that the benchmark sends, for a GetTask without a store.
fn canned() -> Message<'static> {
    Message {
        message_id: "01930000-0000-7000-8000-000000000000".into(),
        role: Role::User,
        parts: vec![Part { text: include_str!("../../../message.txt").into() }],
    }
}

fn json<T: Serialize>(reply: &T) -> anyhow::Result<Bytes> {
    let mut bytes = Vec::with_capacity(1024);
    serde_json::to_writer(&mut bytes, reply)?;
    Ok(Bytes::from(bytes))
}

fn whole(reply: Bytes) -> Response<Body> {
    let mut response = plain(StatusCode::OK, reply);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn plain(status: StatusCode, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(bytes)));
    *response.status_mut() = status;
    response
}
