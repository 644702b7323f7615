//! The half of the server that both bindings share.

use bytes::Bytes;
use chancery_protocol::{
    Call, DynEndpoint, Error, ErrorCode, Event, EventStream, GetTaskRequest,
    ListTaskPushNotificationConfigsRequest, Operation, PushNotificationConfigRequest, Reply, Request,
    SendMessageResponse, Task, write_json,
};
use futures_util::StreamExt as _;
use futures_util::stream;
use serde::Serialize;

use super::card;
use super::model::{Form, Older, OlderEvent, OlderPage};

/// Has a call answered. A configuration that nobody named is the first one; a task that has ended is what there is to
/// see of it; a card that there is not has an error of its own.
pub(crate) async fn answer(endpoint: &(impl DynEndpoint + ?Sized), call: Call) -> Result<Reply, Error> {
    match &call.request {
        Request::GetTaskPushNotificationConfig(asked) if asked.id.is_empty() => {
            let asked = asked.clone();
            first_config(endpoint, asked, call).await
        }
        Request::SubscribeToTask(asked) => {
            let get =
                GetTaskRequest { tenant: asked.tenant.clone(), id: asked.id.clone(), history_length: None };
            let again = Call { request: Request::GetTask(get), context: call.context.clone() };
            match endpoint.call(call).await {
                Err(error) if error.code() == ErrorCode::UnsupportedOperation => {
                    ended(endpoint.call(again).await, error)
                }
                reply => reply,
            }
        }
        Request::GetExtendedAgentCard(_) => endpoint.call(call).await.map_err(|error| match error.code() {
            ErrorCode::UnsupportedOperation => ErrorCode::ExtendedAgentCardNotConfigured.into(),
            _ => error,
        }),
        _ => endpoint.call(call).await,
    }
}

async fn first_config(
    endpoint: &(impl DynEndpoint + ?Sized),
    asked: PushNotificationConfigRequest,
    call: Call,
) -> Result<Reply, Error> {
    let task = asked.task_id.clone();
    let list = ListTaskPushNotificationConfigsRequest {
        tenant: asked.tenant,
        task_id: asked.task_id,
        page_size: 0,
        page_token: String::new(),
    };
    let call = Call { request: Request::ListTaskPushNotificationConfigs(list), context: call.context };
    match endpoint.call(call).await? {
        Reply::PushConfigs(found) => {
            let first = found.configs.into_iter().next();
            first.map(Reply::PushConfig).ok_or_else(|| Error::task_not_found(&task))
        }
        other => Ok(other),
    }
}

/// A task that has ended, as a stream of itself; if it has not, why it cannot be watched.
fn ended(found: Result<Reply, Error>, refusal: Error) -> Result<Reply, Error> {
    let Ok(Reply::Task(view)) = found else { return Err(refusal) };
    if !view.task.is_over() {
        return Err(refusal);
    }
    let mut json = br#"{"task":"#.to_vec();
    view.write_json(&mut json)?;
    json.push(b'}');
    let event = Event { number: 0, json: json.into() };
    Ok(Reply::Stream(Box::pin(stream::iter([Ok(event)]))))
}

/// Appends a reply, but for streams.
pub(crate) fn write_reply(form: Form, reply: &Reply, out: &mut Vec<u8>) -> Result<(), Error> {
    match (form, reply) {
        (Form::Kind, Reply::Sent(SendMessageResponse::Task(task))) => write(out, &Older(form, task)),
        (Form::Kind, Reply::Sent(SendMessageResponse::Message(message))) => write(out, &Older(form, message)),
        (Form::Proto { .. }, Reply::Sent(sent)) => write(out, &Older(form, sent)),
        (_, Reply::Task(task)) => write(out, &Older(form, task)),
        (_, Reply::Tasks(page)) => write(out, &OlderPage::new(form, page)),
        (_, Reply::PushConfig(config)) => write(out, &Older(form, config)),
        (_, Reply::PushConfigs(found)) => write(out, &Older(form, found)),
        (_, Reply::Card(card)) => card::write_union(out, card, false),
        (Form::Kind, Reply::Empty | Reply::Stream(_)) => write(out, &()),
        (Form::Proto { .. }, Reply::Empty | Reply::Stream(_)) => write(out, &serde_json::Map::new()),
    }
}

/// The events of a stream. What answers a message ends with the agent's question, if it asks one; what watches a task
/// goes on.
pub(crate) fn events(form: Form, operation: Operation, events: EventStream) -> EventStream {
    let question_is_last = operation == Operation::SendStreamingMessage;
    Box::pin(events.map(move |event| {
        let event = event?;
        let payload = event.payload().map_err(Error::internal)?;
        let json = written(&OlderEvent { form, event: &payload, question_is_last })?;
        Ok(Event { number: event.number, json })
    }))
}

/// A notification: the task, whatever happened to it.
pub(crate) fn notification(task: &Task) -> Result<Bytes, Error> {
    written(&Older(Form::Kind, task))
}

/// Two of the errors are newer than this version; the nearest that it has takes their place.
pub(crate) fn error_code(code: ErrorCode) -> i32 {
    match code {
        ErrorCode::ExtensionSupportRequired => ErrorCode::InvalidRequest.row().jsonrpc,
        ErrorCode::VersionNotSupported => ErrorCode::UnsupportedOperation.row().jsonrpc,
        code => code.row().jsonrpc,
    }
}

fn written<T: Serialize>(value: &T) -> Result<Bytes, Error> {
    let mut json = Vec::with_capacity(512);
    write(&mut json, value)?;
    Ok(json.into())
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}
