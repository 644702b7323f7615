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

/// The skill that a message says it is for, under the skill extension: its id, as a text or as `{"id": …}`. If the message and
/// the request name different ones, both, which is no skill that any agent has: the agent might read either.
pub fn named_skill(request: &SendMessageRequest) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        Plain(String),
        Object { id: String },
    }
    let of = |metadata: &Option<JsonObject>| match metadata.as_ref()?.entry(SKILL_EXTENSION).ok()?? {
        Named::Plain(id) | Named::Object { id } => Some(id),
    };
    match (of(&request.message.metadata), of(&request.metadata)) {
        (Some(one), Some(other)) if one != other => Some(format!("`{one}` and `{other}`")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use chancery_protocol::Message;

    use super::*;

    #[test]
    fn two_skills_are_none_that_an_agent_has() {
        let skill = |id: &str| JsonObject::parse(&format!(r#"{{"{SKILL_EXTENSION}":"{id}"}}"#)).ok();
        let named = |of_message: Option<&str>, of_request: Option<&str>| {
            let message = Message { metadata: of_message.and_then(skill), ..Message::user("x") };
            named_skill(&SendMessageRequest {
                tenant: String::new(),
                message,
                configuration: None,
                metadata: of_request.and_then(skill),
            })
        };
        assert_eq!(named(Some("a"), None).as_deref(), Some("a"));
        assert_eq!(named(None, Some("a")).as_deref(), Some("a"));
        assert_eq!(named(Some("a"), Some("a")).as_deref(), Some("a"));
        assert_eq!(named(Some("a"), Some("b")).as_deref(), Some("`a` and `b`"));
    }
}
