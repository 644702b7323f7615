//! Messages, parts and artifacts.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chancery_protocol::field::{Base64, Object, empty_as_none, null_as_default};
use chancery_protocol::{
    Artifact, ArtifactId, Content, ContextId, Json, JsonObject, Message, MessageId, Part, Role, TaskId,
};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};

use super::{Form, Newer, Older, each};

/// Marks data that is no object, of which v0.3 knows no other: it stands in `value` then.
pub(crate) const DATA_COMPAT: &str = "data_part_compat";

// === roles ===

impl Serialize for Older<'_, Role> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Form::Kind, Role::Agent) => serializer.serialize_str("agent"),
            (Form::Kind, Role::User | Role::Unspecified | Role::Unknown(_)) => {
                serializer.serialize_str("user")
            }
            (Form::Proto { .. }, role) => role.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Newer<Role> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RoleVisitor;
        impl Visitor<'_> for RoleVisitor {
            type Value = Role;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("user or agent")
            }

            fn visit_str<E>(self, name: &str) -> Result<Role, E> {
                Ok(match name {
                    "user" | "ROLE_USER" => Role::User,
                    "agent" | "ROLE_AGENT" => Role::Agent,
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
        deserializer.deserialize_any(RoleVisitor).map(Self)
    }
}

// === messages ===

impl Serialize for Older<'_, Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, message) = *self;
        let mut map = serializer.serialize_map(None)?;
        if form.is_kind() {
            map.serialize_entry("kind", "message")?;
        }
        map.serialize_entry("messageId", &message.message_id)?;
        if let Some(id) = &message.context_id {
            map.serialize_entry("contextId", id)?;
        }
        if let Some(id) = &message.task_id {
            map.serialize_entry("taskId", id)?;
        }
        map.serialize_entry("role", &Older(form, &message.role))?;
        let parts = each(form, &message.parts);
        map.serialize_entry(if form.is_kind() { "parts" } else { "content" }, &parts)?;
        if let Some(metadata) = &message.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        if !message.extensions.is_empty() {
            map.serialize_entry("extensions", &message.extensions)?;
        }
        if form.is_kind() && !message.reference_task_ids.is_empty() {
            map.serialize_entry("referenceTaskIds", &message.reference_task_ids)?;
        }
        map.end()
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageWire {
    #[serde(alias = "message_id")]
    message_id: MessageId,
    #[serde(alias = "context_id", default, deserialize_with = "empty_as_none")]
    context_id: Option<ContextId>,
    #[serde(alias = "task_id", default, deserialize_with = "empty_as_none")]
    task_id: Option<TaskId>,
    role: Newer<Role>,
    #[serde(alias = "content")]
    parts: Vec<Newer<Part>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
    #[serde(default, deserialize_with = "null_as_default")]
    extensions: Vec<String>,
    #[serde(alias = "reference_task_ids", default, deserialize_with = "null_as_default")]
    reference_task_ids: Vec<TaskId>,
}

impl<'de> Deserialize<'de> for Newer<Message> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<MessageWire>(wire) = Object::deserialize(deserializer)?;
        Ok(Self(Message {
            message_id: wire.message_id,
            context_id: wire.context_id,
            task_id: wire.task_id,
            role: wire.role.0,
            parts: Newer::all(wire.parts),
            metadata: wire.metadata,
            extensions: wire.extensions,
            reference_task_ids: wire.reference_task_ids,
        }))
    }
}

// === artifacts ===

impl Serialize for Older<'_, Artifact> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, artifact) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("artifactId", &artifact.artifact_id)?;
        if !artifact.name.is_empty() {
            map.serialize_entry("name", &artifact.name)?;
        }
        if !artifact.description.is_empty() {
            map.serialize_entry("description", &artifact.description)?;
        }
        map.serialize_entry("parts", &each(form, &artifact.parts))?;
        if let Some(metadata) = &artifact.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        if !artifact.extensions.is_empty() {
            map.serialize_entry("extensions", &artifact.extensions)?;
        }
        map.end()
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactWire {
    #[serde(alias = "artifact_id")]
    artifact_id: ArtifactId,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    description: String,
    #[serde(alias = "content", default, deserialize_with = "null_as_default")]
    parts: Vec<Newer<Part>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
    #[serde(default, deserialize_with = "null_as_default")]
    extensions: Vec<String>,
}

impl<'de> Deserialize<'de> for Newer<Artifact> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<ArtifactWire>(wire) = Object::deserialize(deserializer)?;
        Ok(Self(Artifact {
            artifact_id: wire.artifact_id,
            name: wire.name,
            description: wire.description,
            parts: Newer::all(wire.parts),
            metadata: wire.metadata,
            extensions: wire.extensions,
        }))
    }
}

// === parts, written ===

/// A file: its content under the name that the form has for it, and what it is.
struct OlderFile<'a>(Form, &'a Part);

/// Data in the message that the old proto wraps it in.
#[derive(serde::Serialize)]
struct OlderData<'a> {
    data: &'a Json,
}

/// Of a media type or a name of text or data v0.3 knows nothing, so these are left out.
impl Serialize for Older<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, part) = *self;
        let mut metadata = part.metadata.clone();
        let mut map = serializer.serialize_map(None)?;
        let kind = match &part.content {
            Content::Text(_) => "text",
            Content::Raw(_) | Content::Url(_) => "file",
            Content::Data(_) => "data",
        };
        if form.is_kind() {
            map.serialize_entry("kind", kind)?;
        }
        match &part.content {
            Content::Text(text) => map.serialize_entry(kind, text)?,
            Content::Raw(_) | Content::Url(_) => map.serialize_entry(kind, &OlderFile(form, part))?,
            Content::Data(data) => {
                let data = older_data(data, &mut metadata).map_err(S::Error::custom)?;
                match form {
                    Form::Kind => map.serialize_entry(kind, &data)?,
                    Form::Proto { .. } => map.serialize_entry(kind, &OlderData { data: &data })?,
                }
            }
        }
        if let Some(metadata) = &metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

impl Serialize for OlderFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, part) = *self;
        let mut map = serializer.serialize_map(None)?;
        match &part.content {
            Content::Url(uri) => {
                map.serialize_entry(if form.is_kind() { "uri" } else { "fileWithUri" }, uri)?;
            }
            Content::Raw(bytes) => {
                let once = STANDARD.encode(bytes);
                match form {
                    Form::Kind => map.serialize_entry("bytes", &once)?,
                    Form::Proto { twice: false } => map.serialize_entry("fileWithBytes", &once)?,
                    Form::Proto { twice: true } => {
                        map.serialize_entry("fileWithBytes", &STANDARD.encode(once))?;
                    }
                }
            }
            Content::Text(_) | Content::Data(_) => {}
        }
        if let Some(media_type) = &part.media_type {
            map.serialize_entry("mimeType", media_type)?;
        }
        if let Some(name) = &part.filename {
            map.serialize_entry("name", name)?;
        }
        map.end()
    }
}

/// Data as an object. What is none is put into one, and the metadata say so.
pub(crate) fn older_data(
    data: &Json,
    metadata: &mut Option<JsonObject>,
) -> Result<Json, chancery_protocol::JsonError> {
    if data.as_str().starts_with('{') {
        return Ok(data.clone());
    }
    let mark = JsonObject::single(DATA_COMPAT, &true)?;
    *metadata = Some(match metadata {
        Some(own) => own.merged(&mark),
        None => mark,
    });
    Json::parse(&format!(r#"{{"value":{}}}"#, data.as_str()))
}

// === parts, read ===

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum PartKey {
    #[serde(alias = "type")]
    Kind,
    Text,
    File,
    Data,
    Metadata,
    #[serde(other)]
    Unknown,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileWire {
    #[serde(default)]
    name: Option<Box<str>>,
    #[serde(alias = "mime_type", default)]
    mime_type: Option<Box<str>>,
    #[serde(default)]
    bytes: Option<Base64>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(alias = "file_with_bytes", default)]
    file_with_bytes: Option<Base64>,
    #[serde(alias = "file_with_uri", default)]
    file_with_uri: Option<String>,
}

struct PartVisitor;

impl<'de> Deserialize<'de> for Newer<Part> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part with one of text, file, data")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Part, M::Error> {
        let (mut part, mut data, mut metadata, mut has_kind) = (None, None, None, false);
        while let Some(key) = map.next_key::<PartKey>()? {
            let found = match key {
                PartKey::Kind => {
                    map.next_value::<IgnoredAny>()?;
                    has_kind = true;
                    None
                }
                PartKey::Text => map.next_value::<Option<String>>()?.map(Part::text),
                PartKey::File => {
                    let file = map.next_value::<Option<Object<FileWire>>>()?;
                    file.map(|Object(file)| file.into_part()).transpose().map_err(M::Error::custom)?
                }
                PartKey::Data => {
                    data = Some(map.next_value::<Json>()?);
                    None
                }
                PartKey::Metadata => {
                    metadata = map.next_value()?;
                    None
                }
                PartKey::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                    None
                }
            };
            if found.is_some() && part.is_some() {
                return Err(M::Error::custom("more than one of text, file, data"));
            }
            part = part.or(found);
        }
        let part = match (part, data) {
            (Some(_), Some(_)) => return Err(M::Error::custom("more than one of text, file, data")),
            (None, None) => return Err(M::Error::custom("expected one of text, file, data")),
            (Some(part), None) => part,
            (None, Some(data)) => Part::data(newer_data(data, has_kind, &mut metadata)),
        };
        Ok(Part { metadata, ..part })
    }
}

/// What the data are without what v0.3 puts around them.
fn newer_data(data: Json, has_kind: bool, metadata: &mut Option<JsonObject>) -> Json {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped {
        data: Json,
    }
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Marked {
        value: Json,
    }
    let unwrapped = match has_kind {
        true => data,
        false => data.to_value::<Wrapped>().map_or(data, |wrapped| wrapped.data),
    };
    let marked = metadata.as_ref().and_then(|own| own.entry::<bool>(DATA_COMPAT).ok().flatten());
    match unwrapped.to_value::<Marked>() {
        Ok(inner) if marked == Some(true) => {
            *metadata = metadata.take().and_then(|own| own.without(DATA_COMPAT));
            inner.value
        }
        _ => unwrapped,
    }
}

impl FileWire {
    fn into_part(self) -> Result<Part, &'static str> {
        let uri = self.uri.or(self.file_with_uri).filter(|uri| !uri.is_empty());
        let bytes = self.bytes.map(|Base64(bytes)| bytes);
        let bytes = bytes.or_else(|| self.file_with_bytes.map(|Base64(bytes)| decoded_again(bytes)));
        let content = match (bytes, uri) {
            (Some(bytes), Some(_)) if !bytes.is_empty() => return Err("more than one of bytes, uri"),
            (_, Some(uri)) => Content::Url(uri),
            (Some(bytes), None) => Content::Raw(bytes),
            (None, None) => return Err("expected one of bytes, uri"),
        };
        let given = |text: Option<Box<str>>| text.filter(|text| !text.is_empty());
        Ok(Part { content, metadata: None, filename: given(self.name), media_type: given(self.mime_type) })
    }
}

/// Peers write base64 of base64, or only of the bytes. What is base64 in every detail is taken for the former; bytes
/// that happen to look like it are the price.
fn decoded_again(bytes: Bytes) -> Bytes {
    match STANDARD.decode(&bytes) {
        Ok(inner) if !bytes.is_empty() => inner.into(),
        _ => bytes,
    }
}

/// Whether these bytes are taken for base64.
#[cfg(feature = "server")]
pub(super) fn is_base64(bytes: &[u8]) -> bool {
    !bytes.is_empty() && STANDARD.decode(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Part, String> {
        serde_json::from_str(json).map(|Newer(part)| part).map_err(|error| error.to_string())
    }

    fn written(form: Form, part: &Part) -> String {
        serde_json::to_string(&Older(form, part)).unwrap()
    }

    #[test]
    fn parts_are_read_in_either_form() {
        let text = Part::text("hi");
        for json in [r#"{"kind":"text","text":"hi"}"#, r#"{"text":"hi"}"#, r#"{"type":"text","text":"hi"}"#] {
            assert_eq!(read(json).unwrap(), text);
        }
        let file = Part::raw(&b"\x00\xff"[..]).named("a.png").with_media_type("image/png");
        for json in [
            r#"{"kind":"file","file":{"bytes":"AP8=","name":"a.png","mimeType":"image/png"}}"#,
            r#"{"file":{"fileWithBytes":"AP8=","name":"a.png","mimeType":"image/png"}}"#,
            r#"{"file":{"file_with_bytes":"QVA4PQ==","name":"a.png","mime_type":"image/png"}}"#,
        ] {
            assert_eq!(read(json).unwrap(), file, "{json}");
        }
        assert_eq!(
            written(Form::Proto { twice: false }, &file),
            r#"{"file":{"fileWithBytes":"AP8=","mimeType":"image/png","name":"a.png"}}"#
        );
        let uri = Part::url("https://a.example/x");
        assert_eq!(read(r#"{"file":{"fileWithUri":"https://a.example/x","name":""}}"#).unwrap(), uri);
        for json in [
            "{}",
            "[]",
            r#"{"kind":"text"}"#,
            r#"{"text":"a","data":{}}"#,
            r#"{"text":"a","file":{"uri":"u"}}"#,
            r#"{"file":{}}"#,
            r#"{"file":{"bytes":"AA==","uri":"u"}}"#,
            r#"{"file":{"bytes":"*"}}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn data_keep_their_tokens_and_their_shape() {
        let data = |json: &str| Part::data(Json::parse(json).unwrap());
        let deep = r#"{"data":{"n":1.50,"b":12345678901234567890}}"#;
        assert_eq!(read(&format!(r#"{{"kind":"data","data":{deep}}}"#)).unwrap(), data(deep));
        assert_eq!(read(&format!(r#"{{"data":{{"data":{deep}}}}}"#)).unwrap(), data(deep));
        for json in ["7", "null", r#"["a"]"#, r#"{"value":1}"#, r#"{"data":1}"#, "{}"] {
            for form in [Form::Kind, Form::PROTO] {
                let mut part = data(json);
                assert_eq!(read(&written(form, &part)).unwrap(), part, "{json}");
                part.metadata = Some(JsonObject::parse(r#"{"b":1,"a":2}"#).unwrap());
                assert_eq!(read(&written(form, &part)).unwrap(), part, "{json}");
            }
        }
        assert_eq!(
            written(Form::Kind, &data("7")),
            r#"{"kind":"data","data":{"value":7},"metadata":{"data_part_compat":true}}"#
        );
    }
}
