//! JSON-RPC: the methods of v0.3, and their parameters.

use chancery_protocol::jsonrpc::write_call_head;
use chancery_protocol::{CancelTaskRequest, Error, ListTasksRequest, Operation, Request, write_json};
#[cfg(feature = "server")]
use chancery_protocol::{
    GetExtendedAgentCardRequest, ListTaskPushNotificationConfigsRequest, SubscribeToTaskRequest,
    decode_params,
};
use serde::Serialize;

#[cfg(feature = "server")]
use super::model::{ConfigParams, GetParams, IdParams, ListParams, Newer, SendParams};
use super::model::{Form, Older, OlderSend};

/// Asks for the public card. Only some fleets have it.
pub(crate) const CARD_METHOD: &str = "agent/card";

/// Every method with its operation, the one that the specification names first. The others are what some fleets say.
#[rustfmt::skip]
pub(crate) const METHODS: [(&str, Operation); 14] = [
    ("message/send", Operation::SendMessage),
    ("message/stream", Operation::SendStreamingMessage),
    ("tasks/get", Operation::GetTask),
    ("tasks/list", Operation::ListTasks),
    ("tasks/cancel", Operation::CancelTask),
    ("tasks/resubscribe", Operation::SubscribeToTask),
    ("tasks/subscribe", Operation::SubscribeToTask),
    ("tasks/pushNotificationConfig/set", Operation::CreateTaskPushNotificationConfig),
    ("tasks/pushNotificationConfig/get", Operation::GetTaskPushNotificationConfig),
    ("tasks/pushNotificationConfig/list", Operation::ListTaskPushNotificationConfigs),
    ("tasks/pushNotificationConfig/delete", Operation::DeleteTaskPushNotificationConfig),
    ("agent/getAuthenticatedExtendedCard", Operation::GetExtendedAgentCard),
    ("agent/authenticatedExtendedCard", Operation::GetExtendedAgentCard),
    (CARD_METHOD, Operation::GetExtendedAgentCard),
];

/// The operation that a method names.
#[cfg(feature = "server")]
pub(crate) fn operation(method: &str) -> Option<Operation> {
    METHODS.iter().find(|(known, _)| *known == method).map(|(_, operation)| *operation)
}

/// The method of an operation.
pub(crate) fn method(operation: Operation) -> &'static str {
    METHODS.iter().find(|(_, known)| *known == operation).map_or("", |(method, _)| method)
}

/// Reads the parameters of an operation.
#[cfg(feature = "server")]
pub(crate) fn decode(operation: Operation, params: &[u8]) -> Result<Request, Error> {
    let form = Form::Kind;
    Ok(match operation {
        Operation::SendMessage => {
            Request::SendMessage(decode_params::<SendParams>(params)?.into_request(form))
        }
        Operation::SendStreamingMessage => {
            Request::SendStreamingMessage(decode_params::<SendParams>(params)?.into_request(form))
        }
        Operation::GetTask => Request::GetTask(decode_params::<GetParams>(params)?.into_request()),
        Operation::ListTasks => {
            Request::ListTasks(Box::new(decode_params::<ListParams>(params)?.into_request()?))
        }
        Operation::CancelTask => Request::CancelTask(decode_params::<IdParams>(params)?.cancel()),
        Operation::SubscribeToTask => {
            let id = decode_params::<IdParams>(params)?.id;
            Request::SubscribeToTask(SubscribeToTaskRequest { tenant: String::new(), id })
        }
        Operation::CreateTaskPushNotificationConfig => {
            Request::CreateTaskPushNotificationConfig(Box::new(decode_params::<Newer<_>>(params)?.0))
        }
        Operation::GetTaskPushNotificationConfig => {
            Request::GetTaskPushNotificationConfig(decode_params::<ConfigParams>(params)?.into_request())
        }
        Operation::DeleteTaskPushNotificationConfig => {
            Request::DeleteTaskPushNotificationConfig(decode_params::<ConfigParams>(params)?.into_request())
        }
        Operation::ListTaskPushNotificationConfigs => {
            Request::ListTaskPushNotificationConfigs(ListTaskPushNotificationConfigsRequest {
                tenant: String::new(),
                task_id: decode_params::<IdParams>(params)?.id,
                page_size: 0,
                page_token: String::new(),
            })
        }
        Operation::GetExtendedAgentCard => {
            Request::GetExtendedAgentCard(GetExtendedAgentCardRequest::default())
        }
    })
}

// === the client's half ===

/// A whole request with a number as its id.
pub(crate) fn write_call(out: &mut Vec<u8>, id: u64, request: &Request) -> Result<(), Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Named<'a> {
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        history_length: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        push_notification_config_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a chancery_protocol::JsonObject>,
    }
    let named = |id| Named { id, history_length: None, push_notification_config_id: None, metadata: None };
    write_call_head(out, id, method(request.operation()));
    match request {
        Request::SendMessage(request) | Request::SendStreamingMessage(request) => {
            write(out, &OlderSend(Form::Kind, request))?;
        }
        Request::GetTask(request) => {
            write(out, &Named { history_length: request.history_length, ..named(request.id.as_str()) })?;
        }
        Request::CancelTask(CancelTaskRequest { id, metadata, .. }) => {
            write(out, &Named { metadata: metadata.as_ref(), ..named(id.as_str()) })?;
        }
        Request::SubscribeToTask(request) => write(out, &named(request.id.as_str()))?,
        Request::ListTasks(request) => {
            write(out, &ListTasksRequest { tenant: String::new(), ..(**request).clone() })?;
        }
        Request::CreateTaskPushNotificationConfig(request) => write(out, &Older(Form::Kind, &**request))?,
        Request::GetTaskPushNotificationConfig(request)
        | Request::DeleteTaskPushNotificationConfig(request) => {
            let id = Some(request.id.as_str());
            write(out, &Named { push_notification_config_id: id, ..named(request.task_id.as_str()) })?;
        }
        Request::ListTaskPushNotificationConfigs(request) => write(out, &named(request.task_id.as_str()))?,
        Request::GetExtendedAgentCard(_) => write(out, &serde_json::Map::new())?,
    }
    out.push(b'}');
    Ok(())
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_method() {
        for row in &chancery_protocol::OPERATIONS {
            assert_eq!(operation(method(row.operation)), Some(row.operation));
            assert_eq!(operation(row.method), None);
        }
        assert_eq!(method(Operation::SubscribeToTask), "tasks/resubscribe");
        assert_eq!(method(Operation::GetExtendedAgentCard), "agent/getAuthenticatedExtendedCard");
    }
}
