//! What agents say to each other: messages, the parts they are made of, and the artifacts they produce.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

use crate::field::{Base64, is_default, null_as_default};
use crate::id::{ArtifactId, ContextId, MessageId, TaskId, empty_as_none};
use crate::json::{Json, JsonObject};

/// Who wrote a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Unset, or a name that this version does not know.
    #[default]
    Unspecified,
    /// From the client to the server.
    User,
    /// From the server to the client.
    Agent,
    /// A number that this version does not know. It is passed on as it came.
    Unknown(i32),
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Made by the sender.
    #[serde(alias = "message_id")]
    pub message_id: MessageId,
    /// The conversation it belongs to.
    #[serde(alias = "context_id", default, deserialize_with = "empty_as_none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// The task it belongs to.
    #[serde(alias = "task_id", default, deserialize_with = "empty_as_none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Who wrote it.
    pub role: Role,
    /// What it says; never empty.
    pub parts: Vec<Part>,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// URIs of the extensions that this message uses.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub extensions: Vec<String>,
    /// Related tasks, for example the finished one that this message wants refined.
    #[serde(alias = "reference_task_ids", default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub reference_task_ids: Vec<TaskId>,
}

/// One piece of content.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The content itself.
    pub content: Content,
    /// Extension data, keyed by extension URI.
    pub metadata: Option<JsonObject>,
    /// A name for the content, if it is a file.
    pub filename: Option<Box<str>>,
    /// The media type, if it says more than the kind of content does.
    pub media_type: Option<Box<str>>,
}

/// What a [`Part`] holds: exactly one of these.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Bytes, base64 on the wire.
    Raw(Bytes),
    /// Where the content can be fetched.
    Url(String),
    /// Structured data, kept token for token.
    Data(Json),
}

/// A result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Unique within the task.
    #[serde(alias = "artifact_id")]
    pub artifact_id: ArtifactId,
    /// A name for people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub name: String,
    /// What it is, for people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// The content; never empty.
    pub parts: Vec<Part>,
    /// Extension data, keyed by extension URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// URIs of the extensions that this artifact uses.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub extensions: Vec<String>,
}

// === impl Role ===

impl Role {
    /// The name on the wire. A number that nobody here knows has none, and is unspecified.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified | Self::Unknown(_) => "ROLE_UNSPECIFIED",
            Self::User => "ROLE_USER",
            Self::Agent => "ROLE_AGENT",
        }
    }

    /// What a number of a peer's says, whether this version knows it or not.
    pub fn of_number(number: i64) -> Self {
        match number {
            1 => Self::User,
            2 => Self::Agent,
            0 => Self::Unspecified,
            number => i32::try_from(number).map_or(Self::Unspecified, Self::Unknown),
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(number) => serializer.serialize_i32(*number),
            known => serializer.serialize_str(known.as_str()),
        }
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RoleVisitor;
        impl Visitor<'_> for RoleVisitor {
            type Value = Role;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("ROLE_USER or ROLE_AGENT")
            }

            fn visit_str<E>(self, name: &str) -> Result<Role, E> {
                Ok(match name {
                    "ROLE_USER" => Role::User,
                    "ROLE_AGENT" => Role::Agent,
                    _ => Role::Unspecified,
                })
            }

            fn visit_u64<E>(self, number: u64) -> Result<Role, E> {
                Ok(i64::try_from(number).map_or(Role::Unspecified, Role::of_number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Role, E> {
                Ok(Role::of_number(number))
            }
        }
        deserializer.deserialize_any(RoleVisitor)
    }
}

// === impl Message ===

impl Message {
    /// A message with a fresh id.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self {
            message_id: MessageId::generate(),
            context_id: None,
            task_id: None,
            role,
            parts,
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// What a client says, as plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Part::text(text)])
    }

    /// What an agent says, as plain text.
    pub fn agent(text: impl Into<String>) -> Self {
        Self::new(Role::Agent, vec![Part::text(text)])
    }

    /// Continues a task.
    #[must_use]
    pub fn in_task(mut self, task_id: TaskId) -> Self {
        self.task_id = Some(task_id);
        self
    }

    /// Continues a conversation.
    #[must_use]
    pub fn in_context(mut self, context_id: ContextId) -> Self {
        self.context_id = Some(context_id);
        self
    }

    /// All text parts, joined; borrowed when there is just one.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.parts.iter().filter_map(Part::as_text);
        let first = texts.next().unwrap_or_default();
        match texts.next() {
            None => Cow::Borrowed(first),
            Some(second) => Cow::Owned([first, second].into_iter().chain(texts).collect()),
        }
    }
}

// === impl Part ===

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    /// A part of structured data.
    pub fn data(data: Json) -> Self {
        Content::Data(data).into()
    }

    /// A file given by its bytes.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Content::Raw(bytes.into()).into()
    }

    /// A file given by where it is.
    pub fn url(url: impl Into<String>) -> Self {
        Content::Url(url.into()).into()
    }

    /// Names the file.
    #[must_use]
    pub fn named(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into().into());
        self
    }

    /// States the media type.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into().into());
        self
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// About how many bytes it takes to keep this part.
    pub fn weight(&self) -> usize {
        let content = match &self.content {
            Content::Text(text) | Content::Url(text) => text.len(),
            Content::Raw(bytes) => bytes.len(),
            Content::Data(json) => json.as_str().len(),
        };
        content + self.metadata.as_ref().map_or(0, |object| object.as_str().len()) + size_of::<Self>()
    }
}

impl From<Content> for Part {
    fn from(content: Content) -> Self {
        Self { content, metadata: None, filename: None, media_type: None }
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = serializer.serialize_struct("Part", 4)?;
        match &self.content {
            Content::Text(text) => part.serialize_field("text", text)?,
            Content::Raw(bytes) => part.serialize_field("raw", &STANDARD.encode(bytes))?,
            Content::Url(url) => part.serialize_field("url", url)?,
            Content::Data(data) => part.serialize_field("data", data)?,
        }
        if let Some(metadata) = &self.metadata {
            part.serialize_field("metadata", metadata)?;
        }
        if let Some(filename) = &self.filename {
            part.serialize_field("filename", filename)?;
        }
        if let Some(media_type) = &self.media_type {
            part.serialize_field("mediaType", media_type)?;
        }
        part.end()
    }
}

/// The keys of a part. Borrowed from the input where it can be; an escaped key is owned.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
pub(crate) enum PartKey {
    Text,
    Raw,
    Url,
    Data,
    Metadata,
    Filename,
    #[serde(alias = "media_type")]
    MediaType,
    #[serde(other)]
    Unknown,
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part with one of text, raw, url, data")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Part, M::Error> {
        let mut content = None;
        let (mut metadata, mut filename, mut media_type) = (None, None, None);
        while let Some(key) = map.next_key::<PartKey>()? {
            let found = match key {
                PartKey::Text => map.next_value::<Option<String>>()?.map(Content::Text),
                PartKey::Raw => map.next_value::<Option<Base64>>()?.map(|raw| Content::Raw(raw.0)),
                PartKey::Url => map.next_value::<Option<String>>()?.map(Content::Url),
                PartKey::Data => Some(Content::Data(map.next_value()?)),
                PartKey::Metadata => {
                    metadata = map.next_value()?;
                    None
                }
                PartKey::Filename => {
                    filename = map.next_value::<Option<Box<str>>>()?.filter(|name| !name.is_empty());
                    None
                }
                PartKey::MediaType => {
                    media_type = map.next_value::<Option<Box<str>>>()?.filter(|name| !name.is_empty());
                    None
                }
                PartKey::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                    None
                }
            };
            if found.is_some() && content.is_some() {
                return Err(M::Error::custom("more than one of text, raw, url, data"));
            }
            content = content.or(found);
        }
        let content = content.ok_or_else(|| M::Error::custom("expected one of text, raw, url, data"))?;
        Ok(Part { content, metadata, filename, media_type })
    }
}

// === impl Artifact ===

impl Artifact {
    /// An artifact with this id and content.
    pub fn new(artifact_id: impl Into<ArtifactId>, parts: Vec<Part>) -> Self {
        Self {
            artifact_id: artifact_id.into(),
            name: String::new(),
            description: String::new(),
            parts,
            metadata: None,
            extensions: Vec::new(),
        }
    }

    /// Names the artifact.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// About how many bytes it takes to keep this artifact.
    pub fn weight(&self) -> usize {
        self.parts.iter().map(Part::weight).sum::<usize>() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(json: &str) -> Result<Part, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn presence_decides_and_not_value() {
        assert_eq!(part(r#"{"text":""}"#).unwrap(), Part::text(""));
        assert_eq!(part(r#"{"data":null}"#).unwrap(), Part::data(Json::parse("null").unwrap()));
        assert_eq!(part(r#"{"text":"a","url":null}"#).unwrap(), Part::text("a"));
    }

    #[test]
    fn refuses_none_and_two() {
        assert!(part("{}").unwrap_err().contains("expected one of"));
        assert!(part(r#"{"text":"a","url":"b"}"#).unwrap_err().contains("more than one of"));
        assert!(part(r#"{"text":"a","data":null}"#).unwrap_err().contains("more than one of"));
        assert!(part(r#"{"raw":"*"}"#).unwrap_err().contains("expected base64"));
    }

    #[test]
    fn reads_every_base64_spelling() {
        for text in ["+/8=", "+/8", "-_8=", "-_8"] {
            assert_eq!(part(&format!(r#"{{"raw":"{text}"}}"#)).unwrap(), Part::raw(vec![0xfb, 0xff]));
        }
        assert_eq!(serde_json::to_string(&Part::raw(vec![0xfb, 0xff])).unwrap(), r#"{"raw":"+/8="}"#);
    }

    #[test]
    fn accepts_snake_case_and_writes_camel_case() {
        let message: Message = serde_json::from_str(
            r#"{"message_id":"m","task_id":"","context_id":"c","role":1,"parts":[{"text":"x","media_type":"text/plain"}],"new":{}}"#,
        )
        .unwrap();
        assert_eq!(
            serde_json::to_string(&message).unwrap(),
            r#"{"messageId":"m","contextId":"c","role":"ROLE_USER","parts":[{"text":"x","mediaType":"text/plain"}]}"#
        );
    }

    #[test]
    fn joins_text_parts() {
        let mut message = Message::user("a");
        assert!(matches!(message.text(), Cow::Borrowed("a")));
        message.parts.push(Part::text("b"));
        message.parts.push(Part::text("c"));
        assert_eq!(message.text(), "abc");
    }
}
