//! What an agent elsewhere says, without what it may not say here.

use chancery_protocol::{JsonObject, LINEAGE_EXTENSION, Message, StreamResponse, Task};

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
    *metadata = metadata.take().and_then(|said| said.without(LINEAGE_EXTENSION));
}
