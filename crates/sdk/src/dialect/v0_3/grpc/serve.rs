//! The server's half of gRPC.

use chancery_protocol::{
    CancelTaskRequest, Error, ErrorCode, Event, GetExtendedAgentCardRequest, GetTaskRequest,
    ListTaskPushNotificationConfigsRequest, Operation, PushNotificationConfigRequest, Reply, Request,
    SubscribeToTaskRequest, TaskPushNotificationConfig, decode_params,
};
use serde::Deserialize;
use serde_json::Value;

use super::super::model::{Form, Newer, SendParams};
use super::super::write_reply;
use super::{CONFIGS, TASKS};
use crate::protobuf::{Malformed, a2a_v0_3, from_json, request_to_json};

/// Every field of a request that is not one of a message.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Named {
    name: String,
    parent: String,
    history_length: i32,
    page_size: i32,
    page_token: String,
}

/// Reads the request of an operation; also as the JSON that it is.
pub(crate) fn decode(operation: Operation, message: &[u8]) -> Result<(Request, Vec<u8>), Error> {
    let unknown = || Error::new(ErrorCode::MethodNotFound);
    let (table, _) = a2a_v0_3::messages(operation).ok_or_else(unknown)?;
    let json = request_to_json(table, message).map_err(|why| crate::binding::grpc::unreadable(&why))?;
    let send = || decode_params::<SendParams>(&json).map(|params| params.into_request(Form::PROTO));
    let named = || decode_params::<Named>(&json);
    let request = match operation {
        Operation::SendMessage => Request::SendMessage(send()?),
        Operation::SendStreamingMessage => Request::SendStreamingMessage(send()?),
        Operation::GetTask => {
            let Named { name, history_length, .. } = named()?;
            // In the old proto, 0 is a field that is not there.
            let history_length = Some(history_length).filter(|length| *length != 0);
            Request::GetTask(GetTaskRequest {
                tenant: String::new(),
                id: task_in(&name)?.into(),
                history_length,
            })
        }
        Operation::CancelTask => {
            let id = task_in(&named()?.name)?.into();
            Request::CancelTask(CancelTaskRequest { tenant: String::new(), id, metadata: None })
        }
        Operation::SubscribeToTask => {
            let id = task_in(&named()?.name)?.into();
            Request::SubscribeToTask(SubscribeToTaskRequest { tenant: String::new(), id })
        }
        Operation::CreateTaskPushNotificationConfig => {
            let Newer(config) = decode_params::<Newer<TaskPushNotificationConfig>>(&json)?;
            Request::CreateTaskPushNotificationConfig(Box::new(config))
        }
        Operation::GetTaskPushNotificationConfig => {
            Request::GetTaskPushNotificationConfig(config_in(&named()?.name)?)
        }
        Operation::DeleteTaskPushNotificationConfig => {
            Request::DeleteTaskPushNotificationConfig(config_in(&named()?.name)?)
        }
        Operation::ListTaskPushNotificationConfigs => {
            let Named { parent, page_size, page_token, .. } = named()?;
            Request::ListTaskPushNotificationConfigs(ListTaskPushNotificationConfigsRequest {
                tenant: String::new(),
                task_id: task_in(&parent)?.into(),
                page_size,
                page_token,
            })
        }
        Operation::GetExtendedAgentCard => {
            Request::GetExtendedAgentCard(GetExtendedAgentCardRequest::default())
        }
        Operation::ListTasks => return Err(unknown()),
    };
    Ok((request, json))
}

/// The id in the path of a task. Some clients leave the path away.
fn task_in(name: &str) -> Result<&str, Error> {
    match name.strip_prefix(TASKS).unwrap_or(name) {
        "" => Err(Error::invalid_field("name", "is required, such as `tasks/{id}`")),
        id => Ok(id),
    }
}

/// The ids in the path of a configuration; without its own, the first one is meant.
fn config_in(name: &str) -> Result<PushNotificationConfigRequest, Error> {
    let ids = task_in(name)?;
    let (task, id) =
        ids.split_once(CONFIGS).unwrap_or((ids.trim_end_matches(CONFIGS.trim_end_matches('/')), ""));
    Ok(PushNotificationConfigRequest { tenant: String::new(), task_id: task.into(), id: id.into() })
}

/// Appends a reply as a message.
pub(crate) fn put_reply(
    out: &mut Vec<u8>,
    form: Form,
    operation: Operation,
    reply: &Reply,
) -> Result<(), Error> {
    let mut json = Vec::with_capacity(1024);
    write_reply(form, reply, &mut json)?;
    if matches!(reply, Reply::Card(_)) {
        return put_card(out, &json);
    }
    let unknown = || Error::new(ErrorCode::MethodNotFound);
    let (_, table) = a2a_v0_3::messages(operation).ok_or_else(unknown)?;
    from_json(out, table, &json).map_err(Error::internal)
}

/// Appends a card, given as the one of all versions. The requirements of v0.3 looked in bytes as those of v1.0 do.
pub(crate) fn put_card(out: &mut Vec<u8>, union: &[u8]) -> Result<(), Error> {
    fn rename(object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        object.remove("security");
        if let Some(requirements) = object.remove("securityRequirements") {
            object.insert("security".to_owned(), requirements);
        }
    }
    let mut card: Value = serde_json::from_slice(union).map_err(Error::internal)?;
    rename(&mut card);
    for skill in card["skills"].as_array_mut().into_iter().flatten() {
        rename(skill);
    }
    from_json(out, &a2a_v0_3::AGENT_CARD, card.to_string().as_bytes()).map_err(Error::internal)
}

/// Appends an event, which is one of v0.3 already, as a message.
pub(crate) fn put_event(out: &mut Vec<u8>, event: &Event) -> Result<(), Malformed> {
    from_json(out, &a2a_v0_3::STREAM_RESPONSE, &event.json)
}

/// What an error was called before v1.0.1: whatever is not done here is not implemented.
pub(crate) fn error_status(code: ErrorCode) -> i32 {
    match code {
        ErrorCode::PushNotificationNotSupported
        | ErrorCode::UnsupportedOperation
        | ErrorCode::VersionNotSupported => ErrorCode::MethodNotFound.row().grpc.0,
        code => code.row().grpc.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_tasks_and_configurations() {
        assert_eq!(task_in("tasks/a/b").unwrap(), "a/b");
        assert_eq!(task_in("a").unwrap(), "a");
        assert!(task_in("tasks/").is_err() && task_in("").is_err());
        let ids = |name: &str| {
            let found = config_in(name).unwrap();
            (found.task_id.to_string(), found.id.to_string())
        };
        let both = |task: &str, id: &str| (task.to_owned(), id.to_owned());
        assert_eq!(ids("tasks/t/pushNotificationConfigs/c"), both("t", "c"));
        assert_eq!(ids("tasks/t/pushNotificationConfigs/"), both("t", ""));
        assert_eq!(ids("tasks/t/pushNotificationConfigs"), both("t", ""));
        assert_eq!(ids("tasks/t"), both("t", ""));
    }
}
