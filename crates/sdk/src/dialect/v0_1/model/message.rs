//! Messages, parts and artifacts. Neither messages nor artifacts have ids here: a message is named by what it says, an
//! artifact by its place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_protocol::field::{Object, int32, null_as_default};
use chancery_protocol::{Artifact, ArtifactId, Content, JsonObject, Message, MessageId, Part, Role};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use sha2::{Digest, Sha256};
use uuid::Builder;

use super::{Newer, Older};
use crate::dialect::v0_3::{self, Form};

// === messages ===

impl Serialize for Older<'_, Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &v0_3::Older(Form::Kind, &message.role))?;
        map.serialize_entry("parts", &parts(&message.parts))?;
        if let Some(metadata) = &message.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

#[derive(serde::Deserialize)]
struct MessageWire {
    role: v0_3::Newer<Role>,
    parts: Vec<v0_3::Newer<Part>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

impl<'de> Deserialize<'de> for Newer<Message> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<MessageWire>(wire) = Object::deserialize(deserializer)?;
        let (role, parts) = (wire.role.0, v0_3::Newer::all(wire.parts));
        Ok(Self(Message {
            message_id: named_by_content(role, &parts, wire.metadata.as_ref()),
            context_id: None,
            task_id: None,
            role,
            parts,
            metadata: wire.metadata,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }))
    }
}

/// The same message has the same id, however often it is read: so a client that repeats itself can be told from one that
/// says something else.
fn named_by_content(role: Role, parts: &[Part], metadata: Option<&JsonObject>) -> MessageId {
    let mut digest = Sha256::new_with_prefix(role.as_str());
    // What has just been read can be written.
    digest.update(serde_json::to_vec(parts).unwrap_or_default());
    digest.update(metadata.map_or("", JsonObject::as_str));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    MessageId::from(Builder::from_custom_bytes(bytes).into_uuid().to_string())
}

// === artifacts ===

/// An artifact at its place among those of its task, or more of it.
pub(crate) struct OlderArtifact<'a> {
    pub(crate) artifact: &'a Artifact,
    pub(crate) index: usize,
    pub(crate) append: bool,
    pub(crate) last_chunk: bool,
}

impl Serialize for OlderArtifact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { artifact, index, append, last_chunk } = *self;
        let mut map = serializer.serialize_map(None)?;
        if !artifact.name.is_empty() {
            map.serialize_entry("name", &artifact.name)?;
        }
        if !artifact.description.is_empty() {
            map.serialize_entry("description", &artifact.description)?;
        }
        map.serialize_entry("parts", &parts(&artifact.parts))?;
        map.serialize_entry("index", &index)?;
        if append {
            map.serialize_entry("append", &true)?;
        }
        if last_chunk {
            map.serialize_entry("lastChunk", &true)?;
        }
        if let Some(metadata) = &artifact.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

/// An artifact with what v0.1 says in it about the event that brings it.
#[derive(Clone, Debug)]
pub(super) struct HeardArtifact {
    pub(super) artifact: Artifact,
    pub(super) append: bool,
    pub(super) last_chunk: bool,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactWire {
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    description: String,
    #[serde(default, deserialize_with = "null_as_default")]
    parts: Vec<v0_3::Newer<Part>>,
    #[serde(default, deserialize_with = "int32")]
    index: i32,
    #[serde(default, deserialize_with = "null_as_default")]
    append: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    last_chunk: bool,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

impl<'de> Deserialize<'de> for Newer<HeardArtifact> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<ArtifactWire>(wire) = Object::deserialize(deserializer)?;
        let artifact = Artifact {
            artifact_id: ArtifactId::from(wire.index.to_string()),
            name: wire.name,
            description: wire.description,
            parts: v0_3::Newer::all(wire.parts),
            metadata: wire.metadata,
            extensions: Vec::new(),
        };
        Ok(Self(HeardArtifact { artifact, append: wire.append, last_chunk: wire.last_chunk }))
    }
}

// === parts ===

fn parts(values: &[Part]) -> Vec<Older<'_, Part>> {
    values.iter().map(Older).collect()
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct OlderFile<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// The `type` of a part comes first. What v0.3 has no place for has none here either.
impl Serialize for Older<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(part) = *self;
        let mut metadata = part.metadata.clone();
        let mut map = serializer.serialize_map(None)?;
        match &part.content {
            Content::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            content @ (Content::Raw(_) | Content::Url(_)) => {
                map.serialize_entry("type", "file")?;
                let file = OlderFile {
                    name: part.filename.as_deref(),
                    mime_type: part.media_type.as_deref(),
                    bytes: if let Content::Raw(bytes) = content {
                        Some(STANDARD.encode(bytes))
                    } else {
                        None
                    },
                    uri: if let Content::Url(uri) = content { Some(uri) } else { None },
                };
                map.serialize_entry("file", &file)?;
            }
            Content::Data(data) => {
                map.serialize_entry("type", "data")?;
                let data = v0_3::older_data(data, &mut metadata).map_err(S::Error::custom)?;
                map.serialize_entry("data", &data)?;
            }
        }
        if let Some(metadata) = &metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}
