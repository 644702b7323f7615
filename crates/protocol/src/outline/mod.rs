//! A task in outline: read from its JSON by every rule of [`Task`](crate::Task), without keeping what it says.
//!
//! For whoever keeps the JSON as it is, and needs to know only that it is a task, and which. Nothing is allocated for texts,
//! messages and artifacts. That all ways of reading take the same JSON is tested below, and by the fuzzer.

mod quick;

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::field::{Base64, Object, null_as_default, object};
use crate::id::{ContextId, TaskId, empty_as_none};
use crate::json::{Json, JsonObject};
use crate::message::{PartKey, Role};
use crate::task::{TaskState, TaskStatus};
use crate::time::Timestamp;

/// What a task is, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutline {
    /// The task's id.
    pub id: TaskId,
    /// The conversation it belongs to.
    pub context_id: Option<ContextId>,
    /// Where it stands. What is said with that is left out.
    pub status: TaskStatus,
    /// How many artifacts there are.
    pub artifacts: usize,
    /// Extension data, keyed by extension URI.
    pub metadata: Option<JsonObject>,
}

impl TaskOutline {
    /// Reads the JSON of a task.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        if let Some(outline) = quick::read(json) {
            return Ok(outline);
        }
        let Object(TaskShape { id, context_id, status, artifacts, metadata, .. }) =
            serde_json::from_str(json)?;
        let status = TaskStatus { state: status.state, message: None, timestamp: status.timestamp };
        Ok(Self { id, context_id, status, artifacts: artifacts.0, metadata })
    }
}

// Each has the fields of what it is named after. Those that are only read to be checked have a name that says so.

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskShape {
    id: TaskId,
    #[serde(alias = "context_id", default, deserialize_with = "empty_as_none")]
    context_id: Option<ContextId>,
    #[serde(deserialize_with = "object")]
    status: StatusShape,
    #[serde(default, deserialize_with = "null_as_default")]
    artifacts: Count<Object<ArtifactShape>>,
    #[serde(default, rename = "history", deserialize_with = "null_as_default")]
    _history: Count<Object<MessageShape>>,
    #[serde(default)]
    metadata: Option<JsonObject>,
}

#[derive(Deserialize)]
struct StatusShape {
    state: TaskState,
    #[serde(default, rename = "message")]
    _message: Option<Object<MessageShape>>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
struct MessageShape {
    #[serde(rename = "messageId", alias = "message_id")]
    _message_id: Text,
    #[serde(default, rename = "contextId", alias = "context_id")]
    _context_id: Option<Text>,
    #[serde(default, rename = "taskId", alias = "task_id")]
    _task_id: Option<Text>,
    #[serde(rename = "role")]
    _role: Role,
    #[serde(rename = "parts")]
    _parts: Count<PartShape>,
    #[serde(default, rename = "metadata")]
    _metadata: Option<JsonObject>,
    #[serde(default, rename = "extensions")]
    _extensions: Option<Count<Text>>,
    #[serde(default, rename = "referenceTaskIds", alias = "reference_task_ids")]
    _reference_task_ids: Option<Count<Text>>,
}

#[derive(Deserialize)]
struct ArtifactShape {
    #[serde(rename = "artifactId", alias = "artifact_id")]
    _artifact_id: Text,
    #[serde(default, rename = "name")]
    _name: Option<Text>,
    #[serde(default, rename = "description")]
    _description: Option<Text>,
    #[serde(rename = "parts")]
    _parts: Count<PartShape>,
    #[serde(default, rename = "metadata")]
    _metadata: Option<JsonObject>,
    #[serde(default, rename = "extensions")]
    _extensions: Option<Count<Text>>,
}

struct PartShape;

/// Some text.
struct Text;

/// So many of something.
struct Count<T>(usize, PhantomData<fn() -> T>);

impl<T> Default for Count<T> {
    fn default() -> Self {
        Self(0, PhantomData)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Self)
    }
}

impl Visitor<'_> for Text {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Count<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Count<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut all: S) -> Result<Self, S::Error> {
        while all.next_element::<T>()?.is_some() {
            self.0 += 1;
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for PartShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self)
    }
}

impl<'de> Visitor<'de> for PartShape {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part with one of text, raw, url, data")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self, M::Error> {
        let mut contents = 0;
        while let Some(key) = map.next_key::<PartKey>()? {
            let is_content = match key {
                PartKey::Text | PartKey::Url => map.next_value::<Option<Text>>()?.is_some(),
                PartKey::Raw => map.next_value::<Option<Base64>>()?.is_some(),
                PartKey::Data => map.next_value::<Json>().map(|_| true)?,
                PartKey::Metadata => map.next_value::<Option<JsonObject>>().map(|_| false)?,
                PartKey::Filename | PartKey::MediaType => map.next_value::<Option<Text>>().map(|_| false)?,
                PartKey::Unknown => map.next_value::<IgnoredAny>().map(|_| false)?,
            };
            contents += usize::from(is_content);
        }
        if contents == 1 { Ok(self) } else { Err(M::Error::custom("expected one of text, raw, url, data")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::task::Task;

    fn agree(json: &str) -> bool {
        let task = serde_json::from_str(json).ok().map(|Object::<Task>(task)| task);
        let whole = task.map(|Task { id, context_id, mut status, artifacts, metadata, .. }| {
            status.message = None;
            TaskOutline { id, context_id, status, artifacts: artifacts.len(), metadata }
        });
        let outline = TaskOutline::read(json).ok();
        assert_eq!(outline, whole, "{json}");
        outline.is_some()
    }

    /// A value where something else, or nothing, may be expected.
    fn any() -> impl Strategy<Value = String> {
        let odd = [
            "null",
            "7",
            "true",
            "[]",
            "{}",
            r#""""#,
            r#""x""#,
            "[null]",
            "[7]",
            "[[]]",
            "[{}]",
            r#"["a","b"]"#,
        ];
        let odd = prop::sample::select(odd.to_vec()).prop_map(str::to_owned);
        prop_oneof![odd, r#""[a-z\\\\/" ]{0,6}"#]
    }

    /// What a task that is read quickly does not have.
    const UNUSUAL: [&str; 10] = [
        "metadata",
        "extensions",
        "referenceTaskIds",
        "context_id",
        "raw",
        "url",
        "data",
        "filename",
        "media_type",
        "new",
    ];

    /// An object with some of these fields, most of them as they should be.
    fn object_of(usual: bool, fields: Vec<(&'static str, BoxedStrategy<String>)>) -> BoxedStrategy<String> {
        let field = |(name, value): (&'static str, BoxedStrategy<String>)| {
            let value = prop_oneof![12 => value, 1 => any()];
            (0..12_u8, value).prop_map(move |(times, value)| match times {
                0 => String::new(),
                1 => format!("\"{name}\":{value},\"{name}\":{value},"),
                _ => format!("\"{name}\":{value},"),
            })
        };
        let fields = fields.into_iter().filter(|(name, _)| !usual || !UNUSUAL.contains(name));
        let fields: Vec<_> = fields.map(field).collect();
        fields.prop_map(|fields| format!("{{{}}}", fields.concat().trim_end_matches(','))).boxed()
    }

    fn one_of(values: &[&'static str]) -> BoxedStrategy<String> {
        prop::sample::select(values.to_vec()).prop_map(str::to_owned).boxed()
    }

    fn list(of: BoxedStrategy<String>) -> BoxedStrategy<String> {
        prop::collection::vec(of, 0..3).prop_map(|all| format!("[{}]", all.join(","))).boxed()
    }

    fn part(usual: bool) -> BoxedStrategy<String> {
        let text = || one_of(&[r#""some text""#, r#""""#, "null", r#""\u00e4\n""#]);
        let part = |name, value| {
            object_of(usual, vec![(name, value), ("metadata", one_of(&["{}", r#"{"a":[1]}"#]))])
        };
        let files =
            vec![("url", text()), ("filename", text()), ("media_type", text()), ("new", any().boxed())];
        let odd = vec![("text", text()), ("raw", text()), ("data", any().boxed()), ("mediaType", text())];
        prop_oneof![
            4 => part("text", text()),
            1 => part("raw", one_of(&[r#""+/8=""#, r#""-_8""#, r#""*""#, "null"])),
            1 => part("data", any().boxed()),
            1 => object_of(usual, files),
            1 => object_of(usual, odd),
        ]
        .boxed()
    }

    fn message(usual: bool) -> BoxedStrategy<String> {
        object_of(
            usual,
            vec![
                ("messageId", one_of(&[r#""m""#])),
                ("context_id", one_of(&[r#""c""#, r#""""#, "null"])),
                ("taskId", one_of(&[r#""t""#, "null"])),
                ("role", one_of(&[r#""ROLE_USER""#, r#""ROLE_NEW""#, "1"])),
                ("parts", list(part(usual))),
                ("extensions", one_of(&["[]", r#"["a"]"#, "null"])),
                ("referenceTaskIds", one_of(&["[]", r#"["a"]"#, "null"])),
            ],
        )
    }

    fn artifact(usual: bool) -> BoxedStrategy<String> {
        object_of(
            usual,
            vec![
                ("artifactId", one_of(&[r#""a""#])),
                ("name", one_of(&[r#""n""#, "null"])),
                ("description", one_of(&[r#""n""#, "null"])),
                ("parts", list(part(usual))),
                ("metadata", one_of(&["{}", "null"])),
                ("extensions", one_of(&["[]", "null"])),
            ],
        )
    }

    fn task(usual: bool) -> BoxedStrategy<String> {
        let status = object_of(
            usual,
            vec![
                ("state", one_of(&[r#""TASK_STATE_COMPLETED""#, r#""x""#, "3"])),
                ("timestamp", one_of(&[r#""2026-01-01T00:00:00Z""#, "null", r#""soon""#])),
                ("message", message(usual)),
            ],
        );
        object_of(
            usual,
            vec![
                ("id", one_of(&[r#""t""#])),
                ("contextId", one_of(&[r#""c""#, r#""""#])),
                ("status", status),
                ("artifacts", list(artifact(usual))),
                ("history", list(message(usual))),
                ("metadata", one_of(&["{}", r#"{"a": 7}"#])),
            ],
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn an_outline_is_read_where_a_task_is(odd in task(false), usual in task(true)) {
            agree(&odd);
            agree(&usual);
        }
    }

    #[test]
    fn the_usual_is_read_quickly() {
        let said = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a \"b\"\n"}],"taskId":"t","contextId":"c"}"#;
        let made =
            r#"{"artifactId":"a","name":"n","parts":[{"text":"ä","mediaType":"text/plain"},{"text":""}]}"#;
        let status = format!(
            r#"{{"state":"TASK_STATE_FAILED","timestamp":"2026-01-01T00:00:00.5Z","message":{said}}}"#
        );
        let task = format!(
            r#"{{"id":"t","contextId":"c","status":{status},"artifacts":[{made},{made}],"history":[{said}]}}"#
        );
        assert!(agree(&task));
        let quick = quick::read(&task).expect("a task as nearly all are");
        assert_eq!((quick.artifacts, quick.status.state), (2, TaskState::Failed));
        // Every part of it and every beginning of it, taken for a task or not, is so by both.
        for at in task.char_indices().map(|(at, _)| at) {
            agree(&task[..at]);
            let next = at + task[at..].chars().next().map_or(0, char::len_utf8);
            agree(&format!("{}{}", &task[..at], &task[next..]));
            for odd in ['\u{1}', ' ', '\\', '"', ','] {
                agree(&format!("{}{odd}{}", &task[..at], &task[at..]));
            }
        }
    }

    #[test]
    fn both_take_and_refuse() {
        let task = |rest: &str| format!(r#"{{"id":"t","status":{{"state":"TASK_STATE_COMPLETED"}}{rest}}}"#);
        assert!(agree(&task("")));
        let said = r#"{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}"#;
        assert!(agree(&task(&format!(r#","history":[{said},{said}]"#))));
        assert!(agree(&task(r#","artifacts":[{"artifactId":"a","parts":[{"raw":"AA=="}]}]"#)));
        assert!(!agree(&task(r#","artifacts":[{"artifactId":"a","parts":[{"raw":"*"}]}]"#)));
        assert!(!agree(&task(r#","artifacts":[{"artifactId":"a"}]"#)));
        assert!(!agree(&task(r#","history":[["m"]]"#)));
        assert!(!agree(r#"["t"]"#));
        assert!(agree(&format!("{} ", task(""))));
        assert!(!agree(&format!("{} x", task(""))));
    }
}
