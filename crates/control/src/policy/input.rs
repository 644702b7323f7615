//! What a message holds, as far as a policy asks.

use chancery_protocol::{Content, Message};

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
