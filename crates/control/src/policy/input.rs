//! What a message holds, as far as a policy asks.

use chancery_protocol::{Content, JsonObject, Message, SendMessageRequest};
use serde::Deserialize;

/// The extension under which a message says which skill it is for: the protocol itself has no place for that.
pub const SKILL_EXTENSION: &str = "urn:chancery:ext:skill:v1";

/// The media types of a message's parts. A part that states none is judged as what it is: stating nothing must not get
/// it past a policy.
pub fn media_types(message: &Message) -> Vec<&str> {
    let parts = message.parts.iter();
    parts
        .map(|part| match (&part.media_type, &part.content) {
            (Some(stated), _) => stated,
            (None, Content::Text(_)) => "text/plain",
            (None, Content::Data(_)) => "application/json",
            (None, Content::Raw(_) | Content::Url(_)) => "application/octet-stream",
        })
        .collect()
}

/// The skill that a message says it is for, under the skill extension: its id, as a text or as `{"id": …}`.
pub fn named_skill(request: &SendMessageRequest) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        Plain(String),
        Object { id: String },
    }
    let of = |metadata: &Option<JsonObject>| metadata.as_ref()?.entry(SKILL_EXTENSION).ok().flatten();
    match of(&request.message.metadata).or_else(|| of(&request.metadata))? {
        Named::Plain(id) | Named::Object { id } => Some(id),
    }
}
