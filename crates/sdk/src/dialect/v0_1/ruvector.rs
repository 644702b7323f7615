//! Peers of an older design keep under `ruvector` in metadata what has become extensions with URIs. Agents here see only
//! the extensions; a peer that says `ruvector` is answered with it.

use chancery_protocol::{Json, JsonError, JsonObject, Message, Role, Task};

const RUVECTOR: &str = "ruvector";

const ARTIFACT_KIND: &str = "urn:chancery:ext:artifact-kind:v1";
const LINEAGE: &str = "urn:chancery:ext:lineage:v1";
const MEMORY: &str = "urn:chancery:ext:memory:v1";
const SKILL: &str = "urn:chancery:ext:skill:v1";

/// What it is called there, the extension, and what it is called in that; nothing if it is all of it. Whatever is not
/// in here stays where it is.
const ENTRIES: [(&str, &str, Option<&str>); 6] = [
    ("context", LINEAGE, None),
    ("memory", MEMORY, Some("tier")),
    ("rvlake_witness", MEMORY, Some("witness")),
    ("artifact_kind", ARTIFACT_KIND, Some("kind")),
    ("artifact_kind_version", ARTIFACT_KIND, Some("version")),
    ("artifact_kind_versions_supported", ARTIFACT_KIND, Some("versions")),
];

/// What such peers put beside the metadata of a request.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub(super) skill: Option<Json>,
    pub(super) context: Option<Json>,
    pub(super) policy: Option<Json>,
}

impl Beside {
    /// The metadata, with the rest in its place.
    pub(super) fn join(self, metadata: Option<JsonObject>) -> Option<JsonObject> {
        let mut joined = metadata;
        for (name, value) in [("context", self.context), ("policy", self.policy)] {
            if let Some(value) = value {
                joined = Some(with_inner(joined.as_ref(), RUVECTOR, name, &value).ok().or(joined)?);
            }
        }
        match self.skill {
            Some(skill) => with(joined.as_ref(), SKILL, &skill).ok().or(joined),
            None => joined,
        }
    }
}

/// Whether these metadata come from such a peer.
pub(super) fn is_spoken(metadata: &JsonObject) -> bool {
    matches!(metadata.entry::<Json>(RUVECTOR), Ok(Some(_)))
}

/// Whether a task was begun by such a peer.
#[cfg(feature = "server")]
pub(super) fn began(task: &Task) -> bool {
    let is_theirs = |said: &Message| said.role == Role::User && said.metadata.as_ref().is_some_and(is_spoken);
    task.history.iter().any(is_theirs)
}

/// Metadata that say who is asking.
pub(super) fn marked(metadata: Option<JsonObject>) -> Option<JsonObject> {
    if metadata.as_ref().is_some_and(is_spoken) {
        return metadata;
    }
    with(metadata.as_ref(), RUVECTOR, &serde_json::Map::new()).ok().or(metadata)
}

/// What such a peer says, as extensions.
pub(super) fn newer(metadata: JsonObject) -> JsonObject {
    let Ok(Some(theirs)) = metadata.entry::<JsonObject>(RUVECTOR) else { return metadata };
    lifted(&metadata, theirs).unwrap_or(metadata)
}

fn lifted(metadata: &JsonObject, mut theirs: JsonObject) -> Result<JsonObject, JsonError> {
    let mut lifted = metadata.clone();
    for (name, uri, inner) in ENTRIES {
        let Some(value) = theirs.entry::<Json>(name)? else { continue };
        lifted = match inner {
            Some(inner) => with_inner(Some(&lifted), uri, inner, &value)?,
            None => with(Some(&lifted), uri, &value)?,
        };
        theirs = without(&theirs, name)?;
    }
    with(Some(&lifted), RUVECTOR, &theirs)
}

/// What is said to such a peer, in its words.
pub(super) fn older(metadata: JsonObject) -> JsonObject {
    lowered(&metadata).unwrap_or(metadata)
}

fn lowered(metadata: &JsonObject) -> Result<JsonObject, JsonError> {
    let mut lowered = metadata.clone();
    for (name, uri, inner) in ENTRIES {
        let Some(inner) = inner else {
            if let Some(value) = lowered.entry::<Json>(uri)? {
                lowered = with_inner(Some(&without(&lowered, uri)?), RUVECTOR, name, &value)?;
            }
            continue;
        };
        let Ok(Some(extension)) = lowered.entry::<JsonObject>(uri) else { continue };
        let Some(value) = extension.entry::<Json>(inner)? else { continue };
        lowered = match extension.without(inner) {
            Some(rest) => with(Some(&lowered), uri, &rest)?,
            None => without(&lowered, uri)?,
        };
        lowered = with_inner(Some(&lowered), RUVECTOR, name, &value)?;
    }
    Ok(lowered)
}

/// A task, in the words of such a peer.
#[cfg(feature = "server")]
pub(super) fn older_task(task: &mut Task) {
    let said =
        task.history.iter_mut().chain(task.status.message.as_deref_mut()).map(|said| &mut said.metadata);
    let made = task.artifacts.iter_mut().map(|artifact| &mut artifact.metadata);
    for metadata in said.chain(made).chain([&mut task.metadata]) {
        *metadata = metadata.take().map(older);
    }
}

// === objects ===

fn with<T: serde::Serialize + ?Sized>(
    object: Option<&JsonObject>,
    key: &str,
    value: &T,
) -> Result<JsonObject, JsonError> {
    let entry = JsonObject::single(key, value)?;
    Ok(object.map_or_else(|| entry.clone(), |object| object.merged(&entry)))
}

/// Puts a value into an object within the object.
fn with_inner(
    object: Option<&JsonObject>,
    key: &str,
    inner: &str,
    value: &Json,
) -> Result<JsonObject, JsonError> {
    let known = object.and_then(|object| object.entry::<JsonObject>(key).ok().flatten());
    with(object, key, &with(known.as_ref(), inner, value)?)
}

fn without(object: &JsonObject, key: &str) -> Result<JsonObject, JsonError> {
    object.without(key).map_or_else(|| JsonObject::parse("{}"), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> JsonObject {
        JsonObject::parse(text).unwrap()
    }

    #[test]
    fn what_is_known_becomes_extensions_and_back() {
        let theirs = object(
            r#"{"x":1,"ruvector":{"identity":{"k":"v"},"context":{"trace_id":"t","depth":1},"memory":{"shard":"s"},"rvlake_witness":"w","artifact_kind_version":"1","artifact_kind_versions_supported":["1"],"webhook_algos":["hmac"]}}"#,
        );
        let ours = newer(theirs.clone());
        assert_eq!(
            ours.as_str(),
            r#"{"x":1,"ruvector":{"identity":{"k":"v"},"webhook_algos":["hmac"]},"urn:chancery:ext:lineage:v1":{"trace_id":"t","depth":1},"urn:chancery:ext:memory:v1":{"tier":{"shard":"s"},"witness":"w"},"urn:chancery:ext:artifact-kind:v1":{"version":"1","versions":["1"]}}"#
        );
        let value = |object: &JsonObject| object.to_value::<serde_json::Value>().unwrap();
        assert_eq!(value(&older(ours)), value(&theirs));
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        for text in [r#"{"x":1}"#, r#"{"ruvector":7}"#, r#"{"ruvector":{}}"#, r#"{"ruvector":{"y":[1.0]}}"#] {
            assert_eq!(newer(object(text)).as_str(), text);
            assert_eq!(older(object(text)).as_str(), text);
        }
        let odd = object(
            r#"{"urn:chancery:ext:memory:v1":"text","urn:chancery:ext:artifact-kind:v1":{"other":1}}"#,
        );
        assert_eq!(older(odd.clone()), odd);
    }

    #[test]
    fn what_stands_beside_the_metadata_is_metadata() {
        let json = |text| Some(Json::parse(text).unwrap());
        let beside = Beside { skill: json("\"echo\""), context: json(r#"{"depth":0}"#), policy: json("{}") };
        let joined = beside.join(Some(object(r#"{"x":1}"#))).unwrap();
        assert_eq!(
            joined.as_str(),
            r#"{"x":1,"ruvector":{"context":{"depth":0},"policy":{}},"urn:chancery:ext:skill:v1":"echo"}"#
        );
        assert_eq!(Beside::default().join(None), None);
        assert!(is_spoken(&joined) && !is_spoken(&object("{}")));
        assert_eq!(marked(None).unwrap().as_str(), r#"{"ruvector":{}}"#);
    }
}
