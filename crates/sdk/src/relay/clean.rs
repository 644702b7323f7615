//! What an agent elsewhere says, without what it may not say here, and with what is said here of where it comes from.

use chancery_protocol::{ContextId, JsonObject, LINEAGE_EXTENSION, Message, StreamResponse, Task, TaskId};
use serde::Serialize;

use super::state::RemoteState;
use crate::PROVENANCE_EXTENSION;

/// Where a task comes from, as its caller reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskProvenance<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    member: &'a str,
    task_id: &'a TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a ContextId>,
}

/// Adds the agent's own ids to the metadata of a task or a status. Whether there is room for them.
pub(super) fn name_origin(event: &mut StreamResponse, state: &RemoteState) -> bool {
    let metadata = match event {
        StreamResponse::Task(task) => &mut task.metadata,
        StreamResponse::StatusUpdate(update) => &mut update.metadata,
        StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_) => return false,
    };
    let Some(task_id) = &state.task else { return false };
    let provenance = TaskProvenance { member: &state.remote, task_id, context_id: state.context.as_ref() };
    if let Ok(origin) = JsonObject::single(PROVENANCE_EXTENSION, &provenance) {
        *metadata = Some(match metadata.take() {
            Some(said) => said.merged(&origin),
            None => origin,
        });
    }
    true
}

/// An event without lineage tokens, wherever the agent repeats them, and without ids of its own tasks.
pub(super) fn cleaned(mut event: StreamResponse) -> StreamResponse {
    match &mut event {
        StreamResponse::Task(task) => clean_task(task),
        StreamResponse::Message(message) => clean_message(message),
        StreamResponse::StatusUpdate(update) => {
            clean(&mut update.metadata);
            update.status.message.iter_mut().for_each(|message| clean_message(message));
        }
        StreamResponse::ArtifactUpdate(update) => {
            clean(&mut update.metadata);
            clean(&mut update.artifact.metadata);
        }
    }
    event
}

fn clean_task(task: &mut Task) {
    clean(&mut task.metadata);
    task.artifacts.iter_mut().for_each(|artifact| clean(&mut artifact.metadata));
    task.history.iter_mut().for_each(clean_message);
    task.status.message.iter_mut().for_each(|message| clean_message(message));
}

fn clean_message(message: &mut Message) {
    clean(&mut message.metadata);
    (message.task_id, message.context_id) = (None, None);
    message.reference_task_ids.clear();
}

fn clean(metadata: &mut Option<JsonObject>) {
    for ours in [LINEAGE_EXTENSION, PROVENANCE_EXTENSION] {
        *metadata = metadata.take().and_then(|said| said.without(ours));
    }
}
