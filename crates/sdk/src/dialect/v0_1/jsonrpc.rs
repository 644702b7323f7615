//! The methods of v0.1, and how their parameters are read and written.

use chancery_protocol::jsonrpc::write_call_head;
#[cfg(feature = "server")]
use chancery_protocol::{
    CancelTaskRequest, GetTaskRequest, PushNotificationConfigRequest, SubscribeToTaskRequest, decode_params,
};
use chancery_protocol::{Error, ErrorCode, JsonObject, Operation, Request, write_json};
use serde::Serialize;

#[cfg(feature = "server")]
use super::model::{ConfigParams, IdParams, Newer, SendParams};
use super::model::{OlderConfig, OlderSend};

#[rustfmt::skip]
pub(crate) const METHODS: [(&str, Operation); 7] = [
    ("tasks/send", Operation::SendMessage),
    ("tasks/sendSubscribe", Operation::SendStreamingMessage),
    ("tasks/get", Operation::GetTask),
    ("tasks/cancel", Operation::CancelTask),
    ("tasks/resubscribe", Operation::SubscribeToTask),
    ("tasks/pushNotification/set", Operation::CreateTaskPushNotificationConfig),
    ("tasks/pushNotification/get", Operation::GetTaskPushNotificationConfig),
];

/// The operation that a method names.
#[cfg(feature = "server")]
pub(crate) fn operation(method: &str) -> Option<Operation> {
    METHODS.iter().find(|(known, _)| *known == method).map(|(_, operation)| *operation)
}

/// Whether v0.3 names this operation by the same method.
#[cfg(feature = "server")]
pub(crate) fn is_shared(operation: Operation) -> bool {
    matches!(operation, Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask)
}

/// Reads the parameters of an operation. The ids in them are the client's.
#[cfg(feature = "server")]
pub(crate) fn decode(operation: Operation, params: &[u8]) -> Result<Request, Error> {
    let tenant = String::new();
    Ok(match operation {
        Operation::SendMessage => Request::SendMessage(decode_params::<SendParams>(params)?.into_request()),
        Operation::SendStreamingMessage => {
            Request::SendStreamingMessage(decode_params::<SendParams>(params)?.into_request())
        }
        Operation::GetTask => {
            let IdParams { id, history_length, .. } = decode_params(params)?;
            Request::GetTask(GetTaskRequest { tenant, id, history_length })
        }
        Operation::CancelTask => {
            let IdParams { id, metadata, .. } = decode_params(params)?;
            Request::CancelTask(CancelTaskRequest { tenant, id, metadata })
        }
        Operation::SubscribeToTask => {
            let IdParams { id, .. } = decode_params(params)?;
            Request::SubscribeToTask(SubscribeToTaskRequest { tenant, id })
        }
        Operation::CreateTaskPushNotificationConfig => {
            let Newer(config) = decode_params::<ConfigParams>(params)?;
            Request::CreateTaskPushNotificationConfig(Box::new(config))
        }
        Operation::GetTaskPushNotificationConfig => {
            let IdParams { id, .. } = decode_params(params)?;
            let config = PushNotificationConfigRequest { tenant, id: id.as_str().into(), task_id: id };
            Request::GetTaskPushNotificationConfig(config)
        }
        _ => return Err(ErrorCode::UnsupportedOperation.into()),
    })
}

// === the client's half ===

/// A whole request with a number as its id. Not every operation of v1.0 is one of v0.1.
pub(crate) fn write_call(out: &mut Vec<u8>, id: u64, request: &Request) -> Result<(), Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Named<'a> {
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        history_length: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a JsonObject>,
    }
    let operation = request.operation();
    let Some((method, _)) = METHODS.iter().find(|(_, known)| *known == operation) else {
        let text =
            format!("Version 0.1 of the protocol, which this agent speaks, has no {}", operation.method());
        return Err(Error::with_message(ErrorCode::UnsupportedOperation, text));
    };
    let named = |id| Named { id, history_length: None, metadata: None };
    write_call_head(out, id, method);
    match request {
        Request::SendMessage(request) | Request::SendStreamingMessage(request) => {
            write(out, &OlderSend(request))?;
        }
        Request::GetTask(get) => {
            write(out, &Named { history_length: get.history_length, ..named(get.id.as_str()) })?;
        }
        Request::CancelTask(cancel) => {
            write(out, &Named { metadata: cancel.metadata.as_ref(), ..named(cancel.id.as_str()) })?;
        }
        Request::SubscribeToTask(subscribe) => write(out, &named(subscribe.id.as_str()))?,
        Request::CreateTaskPushNotificationConfig(config) => write(out, &OlderConfig(config))?,
        Request::GetTaskPushNotificationConfig(config) => write(out, &named(config.task_id.as_str()))?,
        _ => return Err(ErrorCode::UnsupportedOperation.into()),
    }
    out.push(b'}');
    Ok(())
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}
