//! Where an agent reads its inbox and writes about its tasks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_control::Terms;
use chancery_control::identity::Access;
use chancery_protocol::{Caller, Error, ErrorCode, Operation, Principal, TaskId};
use chancery_sdk::{Body, Refused, Routes, Visitor, Way};
use chancery_store::Scope;
use futures_util::{StreamExt as _, stream};
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Inboxes;
use super::desk::{Desk, Parcel, Reader, Said, Seen, Unheard};
use super::wire::{TaskResult, Told};
use crate::routes::{self, InboxRoute};

/// How long a stream may be silent before it says that it is still there.
const SILENCE: Duration = Duration::from_secs(15);
/// How long a result is waited for until it is in the journal, and how often is looked.
const LONGEST_COMMIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// What is posted.
const JSON: &[&str] = &["application/json"];

/// The paths of all inboxes.
pub(crate) struct InboxRoutes {
    pub(crate) inboxes: Arc<Inboxes>,
    /// Who may come in.
    pub(crate) terms: Arc<Terms>,
}

/// What is asked of one of them.
struct Asked {
    desk: Arc<Desk>,
    name: Arc<str>,
    route: InboxRoute,
    wanted: Option<Method>,
    /// The task that it is about; empty if it is about none.
    task: TaskId,
}

impl Routes for InboxRoutes {
    fn find(&self, head: &Parts) -> Option<Way> {
        let found = routes::find(&routes::INBOX, &head.method, head.uri.path())?;
        let name: Arc<str> = found.first()?.into();
        let Some(desk) = self.inboxes.find(&name) else { return Some(Way::Nowhere) };
        let (task, terms) = (TaskId::from(found.second().unwrap_or_default()), self.terms.clone());
        let (route, wanted) = (found.route, found.verb.method());
        let asked = Asked { desk, name, route, wanted, task };
        Some(Way::answer(move |visitor| answer(visitor, terms, asked)))
    }
}

async fn answer(visitor: Visitor, terms: Arc<Terms>, asked: Asked) -> Result<Response<Body>, Refused> {
    let Asked { desk, name, route, wanted, task } = asked;
    if !visitor.sees(&name) && !visitor.is_agent(&name) {
        return Ok(visitor.nowhere());
    }
    let caller = visitor.caller()?;
    terms.may_come_in(&Access::new(&caller, &name, Operation::SubscribeToTask)).map_err(Error::from)?;
    if caller.identity.agent.as_deref() != Some(&*name) {
        let text = format!(
            "The inbox of `{name}` is for that agent; use a key made with `chancery key create --agent {name}`"
        );
        return Err(Error::with_message(ErrorCode::PermissionDenied, text).into());
    }
    let reader = Reader::of(&caller);
    if let Some(wanted) = wanted.filter(|wanted| visitor.head().method != wanted) {
        let error = Error::with_message(ErrorCode::MethodNotFound, format!("Send {wanted}"));
        return Err(Refused { status: Some(StatusCode::METHOD_NOT_ALLOWED), error });
    }
    match route {
        InboxRoute::Stream => read(&visitor, desk, &caller, reader),
        InboxRoute::Events => {
            let Told { lease, events } = parsed(&visitor.body(JSON).await?)?;
            desk.say(&reader, &task, lease, Said::Events(events)).await.map_err(unheard)?;
            Ok(written(&json!({"taskId": task, "lease": lease})))
        }
        InboxRoute::Result => {
            let result: TaskResult = parsed(&visitor.body(JSON).await?)?;
            if let Some(problem) = result.problem() {
                return Err(Error::invalid_field("state", problem).into());
            }
            let principal = desk.principal(&reader, &task).ok_or_else(|| unheard(Unheard::Gone))?;
            desk.say(&reader, &task, result.lease, Said::Result(Box::new(result))).await.map_err(unheard)?;
            let state = committed(&desk, &principal, &name, &task).await?;
            Ok(written(&json!({"taskId": task, "state": state})))
        }
    }
}

/// The inbox as a stream of events, from after the one that the reader has seen last.
fn read(
    visitor: &Visitor,
    desk: Arc<Desk>,
    caller: &Caller,
    reader: Reader,
) -> Result<Response<Body>, Refused> {
    let last = visitor.head().headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let resumes = match last.filter(|last| !last.is_empty()) {
        Some(last) => {
            let wrong = |_| Error::invalid_field("Last-Event-ID", "must be the number of a lease");
            Some(last.parse().map_err(wrong)?)
        }
        None => None,
    };
    let seen = Seen::after(reader, resumes);
    let pieces = stream::unfold((desk, seen), |(desk, mut seen)| async move {
        let piece = match tokio::time::timeout(SILENCE, desk.next(&mut seen)).await {
            Ok(Some(Parcel::Task { lease, data })) => framed(Some(lease), "task", &data),
            Ok(Some(Parcel::Withdrawn { data })) => framed(None, "withdrawn", &data),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((piece, (desk, seen)))
    });
    let beginning = stream::iter([Bytes::from_static(b": this is the inbox\n\n")]);
    let revoked = visitor.revoked(caller).unwrap_or_else(|| Box::pin(std::future::pending()));
    let body = Body::pieces(beginning.chain(pieces).take_until(revoked));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    Ok(response)
}

fn framed(id: Option<u64>, event: &str, data: &[u8]) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let mut frame = format!("{id}event: {event}\ndata: ").into_bytes();
    frame.extend_from_slice(data);
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// Waits until the journal has what came of a task: whoever is told that it was taken need not say it again.
async fn committed(
    desk: &Desk,
    principal: &Principal,
    agent: &Arc<str>,
    task: &TaskId,
) -> Result<String, Refused> {
    let scope = Scope { realm: principal.realm.clone(), owner: principal.id.clone(), agent: agent.clone() };
    let ends = tokio::time::Instant::now() + LONGEST_COMMIT;
    while tokio::time::Instant::now() < ends {
        if let Ok(snapshot) = desk.store.snapshot(&scope, task).await {
            let state = snapshot.task.state();
            if state.is_terminal() || state.is_interrupted() {
                return Ok(state.as_str().to_owned());
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(Error::with_message(ErrorCode::Unavailable, "The result is not in the journal yet; send it again")
        .into())
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        Error::with_message(ErrorCode::InvalidParams, format!("The body cannot be read: {error}")).into()
    })
}

fn written(answer: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.to_string()));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn unheard(why: Unheard) -> Refused {
    let text = match why {
        Unheard::Gone => "The task needs no more work, or was never here",
        Unheard::Late => "The lease is over: the task was given out again, or waits to be",
    };
    Refused {
        status: Some(StatusCode::CONFLICT),
        error: Error::with_message(ErrorCode::UnsupportedOperation, text),
    }
}
