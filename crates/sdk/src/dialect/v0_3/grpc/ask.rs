//! The client's half of gRPC.

use chancery_protocol::{
    ALL_ERROR_CODES, Error, ErrorCode, Operation, PushConfigId, Request, TaskId, TaskPushNotificationConfig,
    write_json,
};
use http::response::Parts;
use serde::Serialize;

use super::super::model::{Form, Older, OlderSend};
use super::super::{read_event, read_reply};
use super::{CONFIGS, SERVICE, TASKS, method};
use crate::client::grpc::{self, Answer};
use crate::client::{ClientError, Interface, Outgoing, Replied, StreamEvent};
use crate::protobuf::a2a_v0_3;

/// How a request looks.
pub(crate) fn encode(interface: &Interface, form: Form, request: &Request) -> Result<Outgoing, ClientError> {
    let operation = request.operation();
    let (Some(method), Some((table, _))) = (method(operation), a2a_v0_3::messages(operation)) else {
        let text = "v0.3 has no such operation over gRPC";
        return Err(ClientError::Peer(Error::with_message(ErrorCode::MethodNotFound, text)));
    };
    let mut json = Vec::with_capacity(512);
    write_request(&mut json, form, request).map_err(ClientError::Peer)?;
    grpc::encode_as(interface, operation, (SERVICE, method), table, &json)
}

fn write_request(out: &mut Vec<u8>, form: Form, request: &Request) -> Result<(), Error> {
    #[derive(Default, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Named<'a> {
        name: String,
        parent: String,
        history_length: i32,
        page_size: i32,
        page_token: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Create<'a> {
        parent: String,
        config_id: &'a str,
        config: Older<'a, TaskPushNotificationConfig>,
    }
    let task = |id: &TaskId| format!("{TASKS}{id}");
    let named = |id: &TaskId| Named { name: task(id), ..Named::default() };
    match request {
        Request::SendMessage(request) | Request::SendStreamingMessage(request) => {
            write(out, &OlderSend(form, request))
        }
        Request::GetTask(request) => {
            write(out, &Named { history_length: request.history_length.unwrap_or(0), ..named(&request.id) })
        }
        Request::CancelTask(request) => write(out, &named(&request.id)),
        Request::SubscribeToTask(request) => write(out, &named(&request.id)),
        Request::CreateTaskPushNotificationConfig(config) => {
            let parent = format!("{TASKS}{}", config.task_id.as_ref().map_or("", TaskId::as_str));
            let config_id = config.id.as_ref().map_or("", PushConfigId::as_str);
            write(out, &Create { parent, config_id, config: Older(form, config) })
        }
        Request::GetTaskPushNotificationConfig(request)
        | Request::DeleteTaskPushNotificationConfig(request) => {
            let name = format!("{TASKS}{}{CONFIGS}{}", request.task_id, request.id);
            write(out, &Named { name, ..Named::default() })
        }
        Request::ListTaskPushNotificationConfigs(request) => {
            let (page_size, page_token) = (request.page_size, request.page_token.as_str());
            write(out, &Named { parent: task(&request.task_id), page_size, page_token, ..Named::default() })
        }
        Request::ListTasks(_) | Request::GetExtendedAgentCard(_) => write(out, &Named::default()),
    }
}

pub(crate) fn decode(operation: Operation, head: &Parts, body: &[u8]) -> Result<Replied, ClientError> {
    let (_, table) =
        a2a_v0_3::messages(operation).ok_or_else(|| ClientError::bad("it answers another operation"))?;
    let json = Answer::new(table, head, body).json().map_err(|error| named(operation, error))?;
    let text = std::str::from_utf8(&json).map_err(|_| ClientError::bad("it is not UTF-8"))?;
    read_reply(operation, text)
}

/// What an answer says that has no success to tell.
pub(crate) fn failure(operation: Operation, head: &Parts, body: &[u8]) -> ClientError {
    named(operation, grpc::failure(head, body))
}

/// Peers of that time have no details. Some begin what they say with the name of the error.
fn named(operation: Operation, error: ClientError) -> ClientError {
    let ClientError::Peer(told) = &error else { return error };
    let name = told.message().split(':').next().unwrap_or_default();
    let by_name = ALL_ERROR_CODES.iter().find(|code| is_named(code.row().reason, name)).copied();
    let code = match (by_name, told.code()) {
        (Some(code), _) => code,
        (None, ErrorCode::MethodNotFound) if operation.is_push() => ErrorCode::PushNotificationNotSupported,
        // FAILED_PRECONDITION, which has one meaning only where a task is to be stopped.
        (None, ErrorCode::UnsupportedOperation) if operation == Operation::CancelTask => {
            ErrorCode::TaskNotCancelable
        }
        _ => return error,
    };
    ClientError::Peer(Error::with_message(code, told.message().to_owned()))
}

/// Whether `TaskNotFoundError` is the name of `TASK_NOT_FOUND`.
fn is_named(reason: &str, name: &str) -> bool {
    let name = name.strip_suffix("Error").unwrap_or_default();
    reason.replace('_', "").eq_ignore_ascii_case(name)
}

/// The event in a message of a stream.
pub(crate) fn event(data: &[u8]) -> Result<StreamEvent, ClientError> {
    let json = grpc::json_of(&a2a_v0_3::STREAM_RESPONSE, data)?;
    read_event(std::str::from_utf8(&json).map_err(|_| ClientError::bad("an event is not UTF-8"))?)
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    write_json(out, value).map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_known_by_their_names() {
        let code = |operation, code, text: &'static str| {
            named(operation, ClientError::Peer(Error::with_message(code, text))).code()
        };
        let (get, push) = (Operation::GetTask, Operation::CreateTaskPushNotificationConfig);
        let internal = ErrorCode::Internal;
        assert_eq!(code(get, internal, "TaskNotFoundError: Task not found"), Some(ErrorCode::TaskNotFound));
        assert_eq!(code(get, internal, "Error: x"), Some(internal));
        assert_eq!(code(get, internal, "TaskNotFound"), Some(internal));
        let unknown = ErrorCode::MethodNotFound;
        assert_eq!(code(get, unknown, "x"), Some(unknown));
        assert_eq!(code(push, unknown, "x"), Some(ErrorCode::PushNotificationNotSupported));
        let precondition = ErrorCode::UnsupportedOperation;
        assert_eq!(code(Operation::CancelTask, precondition, "x"), Some(ErrorCode::TaskNotCancelable));
        assert_eq!(code(get, precondition, "x"), Some(precondition));
    }
}
