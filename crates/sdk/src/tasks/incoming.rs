//! What a message says about the task that it is for, besides naming it.

use chancery_protocol::{CallContext, Error, Message, SendMessageRequest, Task};
use chancery_store::Admission;
use sha2::{Digest, Sha256};

/// A message that names a task and a conversation must name the conversation of the task.
pub(crate) fn check_context(message: &Message, task: &Task) -> Result<(), Error> {
    match &message.context_id {
        Some(asked) if Some(asked) != task.context_id.as_ref() => {
            Err(Error::invalid_field("message.contextId", "is not the context of the task"))
        }
        _ => Ok(()),
    }
}

/// What makes a repeated send the same one: its key, and everything that was sent.
pub(crate) fn admission(
    context: &CallContext,
    request: &SendMessageRequest,
) -> Result<Option<Admission>, Error> {
    let Some(key) = &context.idempotency_key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let text = format!("must have 1 to {MAX_KEY_BYTES} bytes");
        return Err(Error::invalid_field("Idempotency-Key", text));
    }
    let body = serde_json::to_vec(request).map_err(Error::internal)?;
    Ok(Some(Admission { key: key.clone(), digest: Sha256::digest(&body).into() }))
}

const MAX_KEY_BYTES: usize = 255;
