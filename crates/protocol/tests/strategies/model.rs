//! Arbitrary tasks, messages, events, requests and answers.

use chancery_protocol::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::json::{json, metadata};
use super::{some_text, text, texts};

pub(crate) fn timestamp() -> impl Strategy<Value = Timestamp> + Clone {
    let years_1_to_9999 = -62_135_596_800_000i64..253_402_207_200_000;
    let to_the_nanosecond = (0u32..60, 0u32..1_000_000_000).prop_map(|(second, nanos)| {
        Timestamp::parse(&format!("2026-01-02T03:04:{second:02}.{nanos:09}Z")).expect("a valid time")
    });
    prop_oneof![years_1_to_9999.prop_map(Timestamp::from_millis), to_the_nanosecond]
}

fn task_id() -> impl Strategy<Value = TaskId> + Clone {
    text().prop_map(TaskId::from)
}

fn context_id() -> impl Strategy<Value = ContextId> + Clone {
    text().prop_map(ContextId::from)
}

fn maybe_task_id() -> impl Strategy<Value = Option<TaskId>> + Clone {
    of(some_text().prop_map(TaskId::from))
}

fn maybe_context_id() -> impl Strategy<Value = Option<ContextId>> + Clone {
    of(some_text().prop_map(ContextId::from))
}

pub(crate) fn state() -> impl Strategy<Value = TaskState> + Clone {
    (0u64..9).prop_map(|number| TaskState::from_number(number).expect("there are nine states"))
}

pub(crate) fn part() -> impl Strategy<Value = Part> + Clone {
    let content = prop_oneof![
        text().prop_map(Content::Text),
        vec(any::<u8>(), 0..12).prop_map(|bytes| Content::Raw(bytes.into())),
        text().prop_map(Content::Url),
        json().prop_map(Content::Data),
    ];
    (content, metadata(), of(some_text()), of(some_text())).prop_map(
        |(content, metadata, filename, media_type)| Part {
            content,
            metadata,
            filename: filename.map(Into::into),
            media_type: media_type.map(Into::into),
        },
    )
}

pub(crate) fn message() -> impl Strategy<Value = Message> + Clone {
    let role = select(&[Role::Unspecified, Role::User, Role::Agent][..]);
    let ids = (text().prop_map(MessageId::from), maybe_context_id(), maybe_task_id());
    (ids, role, vec(part(), 0..3), metadata(), texts(), vec(task_id(), 0..2)).prop_map(
        |((message_id, context_id, task_id), role, parts, metadata, extensions, reference_task_ids)| {
            let mut message = Message::new(role, parts);
            message.message_id = message_id;
            message.context_id = context_id;
            message.task_id = task_id;
            message.metadata = metadata;
            message.extensions = extensions;
            message.reference_task_ids = reference_task_ids;
            message
        },
    )
}

pub(crate) fn artifact() -> impl Strategy<Value = Artifact> + Clone {
    (text().prop_map(ArtifactId::from), text(), text(), vec(part(), 0..3), metadata(), texts()).prop_map(
        |(artifact_id, name, description, parts, metadata, extensions)| Artifact {
            artifact_id,
            name,
            description,
            parts,
            metadata,
            extensions,
        },
    )
}

pub(crate) fn status() -> impl Strategy<Value = TaskStatus> + Clone {
    (state(), of(message()), of(timestamp())).prop_map(|(state, message, timestamp)| TaskStatus {
        state,
        message: message.map(Box::new),
        timestamp,
    })
}

pub(crate) fn task() -> impl Strategy<Value = Task> + Clone {
    let lists = (vec(artifact(), 0..3), vec(message(), 0..3));
    (task_id(), maybe_context_id(), status(), lists, metadata()).prop_map(
        |(id, context_id, status, (artifacts, history), metadata)| Task {
            id,
            context_id,
            status,
            artifacts,
            history,
            metadata,
        },
    )
}

pub(crate) fn status_update() -> impl Strategy<Value = TaskStatusUpdateEvent> + Clone {
    (task_id(), context_id(), status(), metadata()).prop_map(|(task_id, context_id, status, metadata)| {
        TaskStatusUpdateEvent { task_id, context_id, status, metadata }
    })
}

pub(crate) fn artifact_update() -> impl Strategy<Value = TaskArtifactUpdateEvent> + Clone {
    (task_id(), context_id(), artifact(), any::<bool>(), any::<bool>(), metadata()).prop_map(
        |(task_id, context_id, artifact, append, last_chunk, metadata)| TaskArtifactUpdateEvent {
            task_id,
            context_id,
            artifact,
            append,
            last_chunk,
            metadata,
        },
    )
}

pub(crate) fn stream_response() -> impl Strategy<Value = StreamResponse> + Clone {
    prop_oneof![
        task().prop_map(StreamResponse::Task),
        message().prop_map(StreamResponse::Message),
        status_update().prop_map(StreamResponse::StatusUpdate),
        artifact_update().prop_map(StreamResponse::ArtifactUpdate),
    ]
}

pub(crate) fn send_message_response() -> impl Strategy<Value = SendMessageResponse> + Clone {
    prop_oneof![task().prop_map(SendMessageResponse::Task), message().prop_map(SendMessageResponse::Message)]
}

// === push notifications ===

pub(crate) fn authentication() -> impl Strategy<Value = AuthenticationInfo> + Clone {
    (text(), text()).prop_map(|(scheme, credentials)| AuthenticationInfo { scheme, credentials })
}

pub(crate) fn push_config() -> impl Strategy<Value = TaskPushNotificationConfig> + Clone {
    let id = of(some_text().prop_map(PushConfigId::from));
    (text(), id, maybe_task_id(), text(), text(), of(authentication())).prop_map(
        |(tenant, id, task_id, url, token, authentication)| TaskPushNotificationConfig {
            tenant,
            id,
            task_id,
            url,
            token,
            authentication,
        },
    )
}

pub(crate) fn push_config_request() -> impl Strategy<Value = PushNotificationConfigRequest> + Clone {
    (text(), task_id(), text().prop_map(PushConfigId::from))
        .prop_map(|(tenant, task_id, id)| PushNotificationConfigRequest { tenant, task_id, id })
}

pub(crate) fn list_push_configs() -> impl Strategy<Value = ListTaskPushNotificationConfigsRequest> + Clone {
    (text(), task_id(), any::<i32>(), text()).prop_map(|(tenant, task_id, page_size, page_token)| {
        ListTaskPushNotificationConfigsRequest { tenant, task_id, page_size, page_token }
    })
}

pub(crate) fn push_configs() -> impl Strategy<Value = ListTaskPushNotificationConfigsResponse> + Clone {
    (vec(push_config(), 0..3), text()).prop_map(|(configs, next_page_token)| {
        ListTaskPushNotificationConfigsResponse { configs, next_page_token }
    })
}

// === other requests and answers ===

pub(crate) fn configuration() -> impl Strategy<Value = SendMessageConfiguration> + Clone {
    (texts(), of(push_config()), of(any::<i32>()), any::<bool>()).prop_map(
        |(accepted_output_modes, task_push_notification_config, history_length, return_immediately)| {
            SendMessageConfiguration {
                accepted_output_modes,
                task_push_notification_config,
                history_length,
                return_immediately,
            }
        },
    )
}

pub(crate) fn send_message() -> impl Strategy<Value = SendMessageRequest> + Clone {
    (text(), message(), of(configuration()), metadata()).prop_map(
        |(tenant, message, configuration, metadata)| SendMessageRequest {
            tenant,
            message,
            configuration,
            metadata,
        },
    )
}

pub(crate) fn get_task() -> impl Strategy<Value = GetTaskRequest> + Clone {
    (text(), task_id(), of(any::<i32>())).prop_map(|(tenant, id, history_length)| GetTaskRequest {
        tenant,
        id,
        history_length,
    })
}

pub(crate) fn list_tasks() -> impl Strategy<Value = ListTasksRequest> + Clone {
    let numbers = (of(any::<i32>()), of(any::<i32>()));
    (text(), maybe_context_id(), state(), numbers, text(), of(timestamp()), of(any::<bool>())).prop_map(
        |(tenant, context_id, status, numbers, page_token, status_timestamp_after, include_artifacts)| {
            ListTasksRequest {
                tenant,
                context_id,
                status,
                page_size: numbers.0,
                page_token,
                history_length: numbers.1,
                status_timestamp_after,
                include_artifacts,
            }
        },
    )
}

pub(crate) fn task_list() -> impl Strategy<Value = ListTasksResponse> + Clone {
    (vec(task(), 0..3), text(), any::<i32>(), any::<i32>()).prop_map(
        |(tasks, next_page_token, page_size, total_size)| ListTasksResponse {
            tasks,
            next_page_token,
            page_size,
            total_size,
        },
    )
}

pub(crate) fn cancel_task() -> impl Strategy<Value = CancelTaskRequest> + Clone {
    (text(), task_id(), metadata()).prop_map(|(tenant, id, metadata)| CancelTaskRequest {
        tenant,
        id,
        metadata,
    })
}

pub(crate) fn subscribe_to_task() -> impl Strategy<Value = SubscribeToTaskRequest> + Clone {
    (text(), task_id()).prop_map(|(tenant, id)| SubscribeToTaskRequest { tenant, id })
}

pub(crate) fn extended_card_request() -> impl Strategy<Value = GetExtendedAgentCardRequest> + Clone {
    text().prop_map(|tenant| GetExtendedAgentCardRequest { tenant })
}

/// The parameters of any operation, as text, with the operation they are for.
pub(crate) fn params() -> impl Strategy<Value = (Operation, String)> + Clone {
    fn written<T: serde::Serialize>(operation: Operation) -> impl Fn(T) -> (Operation, String) + Clone {
        move |request| (operation, serde_json::to_string(&request).expect("requests are always JSON"))
    }
    prop_oneof![
        3 => send_message().prop_map(written(Operation::SendMessage)),
        1 => send_message().prop_map(written(Operation::SendStreamingMessage)),
        1 => get_task().prop_map(written(Operation::GetTask)),
        2 => list_tasks().prop_map(written(Operation::ListTasks)),
        1 => cancel_task().prop_map(written(Operation::CancelTask)),
        1 => subscribe_to_task().prop_map(written(Operation::SubscribeToTask)),
        1 => push_config().prop_map(written(Operation::CreateTaskPushNotificationConfig)),
        1 => push_config_request().prop_map(written(Operation::GetTaskPushNotificationConfig)),
        1 => list_push_configs().prop_map(written(Operation::ListTaskPushNotificationConfigs)),
        1 => push_config_request().prop_map(written(Operation::DeleteTaskPushNotificationConfig)),
        1 => extended_card_request().prop_map(written(Operation::GetExtendedAgentCard)),
    ]
}
