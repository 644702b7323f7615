//! The shapes of the protocol: what is required is there, and what is known is of its kind. Anything else may be there
//! too, unless it is asked for no more than the protocol has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// An object of the protocol, as JSON has it.
///
/// ```
/// use chancery_sdk::testing::shape;
///
/// let task = serde_json::json!({"id": "t", "contextId": "c", "kind": "task",
///     "status": {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-02T03:04:05Z"}});
/// assert_eq!(shape::TASK.problem(&task), None);
/// assert_eq!(shape::TASK.problem_if_closed(&task).unwrap(), "kind: is unknown");
/// ```
#[derive(Debug)]
pub struct Shape {
    required: &'static [(&'static str, Kind)],
    optional: &'static [(&'static str, Kind)],
    /// Of these, exactly one is there.
    one_of: &'static [(&'static str, Kind)],
    /// What may be left out, and whoever follows every recommendation does not.
    recommended: &'static [&'static str],
}

#[derive(Debug)]
enum Kind {
    Text,
    /// A text that says something.
    Id,
    Flag,
    Count,
    Time,
    State,
    Role,
    Base64,
    /// Any JSON.
    Any,
    /// Any JSON object.
    Struct,
    One(&'static Shape),
    Many(&'static Kind),
    /// An array with something in it.
    Some(&'static Kind),
}

use Kind::{Any, Base64, Count, Flag, Id, Many, One, Role, Some, State, Struct, Text, Time};

/// Every state of a task.
pub const STATES: [&str; 8] = [
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

static PART: Shape = Shape {
    required: &[],
    optional: &[("metadata", Struct), ("filename", Text), ("mediaType", Text)],
    one_of: &[("text", Text), ("raw", Base64), ("url", Text), ("data", Any)],
    recommended: &[],
};

static MESSAGE: Shape = Shape {
    required: &[("messageId", Id), ("role", Role), ("parts", Some(&One(&PART)))],
    optional: &[
        ("contextId", Text),
        ("taskId", Text),
        ("metadata", Struct),
        ("extensions", Many(&Text)),
        ("referenceTaskIds", Many(&Text)),
    ],
    one_of: &[],
    recommended: &[],
};

static STATUS: Shape = Shape {
    required: &[("state", State)],
    optional: &[("message", One(&MESSAGE)), ("timestamp", Time)],
    one_of: &[],
    recommended: &["timestamp"],
};

static ARTIFACT: Shape = Shape {
    required: &[("artifactId", Id), ("parts", Some(&One(&PART)))],
    optional: &[("name", Text), ("description", Text), ("metadata", Struct), ("extensions", Many(&Text))],
    one_of: &[],
    recommended: &[],
};

/// A task.
pub static TASK: Shape = Shape {
    required: &[("id", Id), ("status", One(&STATUS))],
    optional: &[
        ("contextId", Id),
        ("artifacts", Many(&One(&ARTIFACT))),
        ("history", Many(&One(&MESSAGE))),
        ("metadata", Struct),
    ],
    one_of: &[],
    recommended: &["contextId"],
};

static STATUS_UPDATE: Shape = Shape {
    required: &[("taskId", Id), ("contextId", Id), ("status", One(&STATUS))],
    optional: &[("metadata", Struct)],
    one_of: &[],
    recommended: &[],
};

static ARTIFACT_UPDATE: Shape = Shape {
    required: &[("taskId", Id), ("contextId", Id), ("artifact", One(&ARTIFACT))],
    optional: &[("append", Flag), ("lastChunk", Flag), ("metadata", Struct)],
    one_of: &[],
    recommended: &[],
};

/// The answer to SendMessage.
pub static SEND_MESSAGE_RESPONSE: Shape = Shape {
    required: &[],
    optional: &[],
    one_of: &[("task", One(&TASK)), ("message", One(&MESSAGE))],
    recommended: &[],
};

/// An event of a stream.
pub static STREAM_RESPONSE: Shape = Shape {
    required: &[],
    optional: &[],
    one_of: &[
        ("task", One(&TASK)),
        ("message", One(&MESSAGE)),
        ("statusUpdate", One(&STATUS_UPDATE)),
        ("artifactUpdate", One(&ARTIFACT_UPDATE)),
    ],
    recommended: &[],
};

/// A page of tasks.
pub static LIST_TASKS_RESPONSE: Shape = Shape {
    required: &[
        ("tasks", Many(&One(&TASK))),
        ("nextPageToken", Text),
        ("pageSize", Count),
        ("totalSize", Count),
    ],
    optional: &[],
    one_of: &[],
    recommended: &[],
};

static INTERFACE: Shape = Shape {
    required: &[("url", Id), ("protocolBinding", Id), ("protocolVersion", Id)],
    optional: &[("tenant", Text)],
    one_of: &[],
    recommended: &[],
};

static EXTENSION: Shape = Shape {
    required: &[("uri", Id)],
    optional: &[("description", Text), ("required", Flag), ("params", Struct)],
    one_of: &[],
    recommended: &[],
};

static CAPABILITIES: Shape = Shape {
    required: &[],
    optional: &[
        ("streaming", Flag),
        ("pushNotifications", Flag),
        ("extensions", Many(&One(&EXTENSION))),
        ("extendedAgentCard", Flag),
    ],
    one_of: &[],
    recommended: &[],
};

static PROVIDER: Shape =
    Shape { required: &[("url", Id), ("organization", Id)], optional: &[], one_of: &[], recommended: &[] };

static SKILL: Shape = Shape {
    required: &[("id", Id), ("name", Id), ("description", Text), ("tags", Many(&Text))],
    optional: &[
        ("examples", Many(&Text)),
        ("inputModes", Many(&Text)),
        ("outputModes", Many(&Text)),
        ("securityRequirements", Many(&Struct)),
    ],
    one_of: &[],
    recommended: &[],
};

/// A card.
pub static AGENT_CARD: Shape = Shape {
    required: &[
        ("name", Id),
        ("description", Text),
        ("supportedInterfaces", Some(&One(&INTERFACE))),
        ("version", Text),
        ("capabilities", One(&CAPABILITIES)),
        ("defaultInputModes", Many(&Text)),
        ("defaultOutputModes", Many(&Text)),
        ("skills", Many(&One(&SKILL))),
    ],
    optional: &[
        ("provider", One(&PROVIDER)),
        ("documentationUrl", Text),
        ("iconUrl", Text),
        ("securitySchemes", Struct),
        ("securityRequirements", Many(&Struct)),
        ("signatures", Many(&Struct)),
    ],
    one_of: &[],
    recommended: &[],
};

// === impl Shape ===

impl Shape {
    /// The first thing that is wrong with a value.
    pub fn problem(&self, value: &Value) -> Option<String> {
        self.check("", value, false).err()
    }

    /// The same, where nothing may be there that the protocol does not have, nor anything that is empty and may be left
    /// out, and everything that is recommended has to be.
    pub fn problem_if_closed(&self, value: &Value) -> Option<String> {
        self.check("", value, true).err()
    }

    fn check(&self, path: &str, value: &Value, is_closed: bool) -> Result<(), String> {
        let Value::Object(object) = value else { return Err(format!("{}: is no object", name(path))) };
        let known = || self.required.iter().chain(self.optional).chain(self.one_of);
        for (key, kind) in known() {
            if let Option::Some(value) = object.get(*key) {
                kind.check(&join(path, key), value, is_closed)?;
            }
        }
        if is_closed {
            let is_unknown = |key: &&String| known().all(|(known, _)| known != key);
            if let Option::Some(unknown) = object.keys().find(is_unknown) {
                return Err(format!("{}: is unknown", join(path, unknown)));
            }
            let is_empty = |(key, _): &&(&str, Kind)| object.get(*key).is_some_and(|value| value == "");
            if let Option::Some((empty, _)) = self.optional.iter().find(is_empty) {
                return Err(format!("{}: is empty", join(path, empty)));
            }
        }
        let recommended = self.recommended.iter().filter(|_| is_closed);
        let mut wanted = self.required.iter().map(|(key, _)| key).chain(recommended);
        if let Option::Some(missing) = wanted.find(|key| !object.contains_key(**key)) {
            return Err(format!("{}: is missing", join(path, missing)));
        }
        let chosen = self.one_of.iter().filter(|(key, _)| object.contains_key(*key)).count();
        if !self.one_of.is_empty() && chosen != 1 {
            let names: Vec<_> = self.one_of.iter().map(|(name, _)| *name).collect();
            return Err(format!("{}: has {chosen} of {}, not one", name(path), names.join(", ")));
        }
        Ok(())
    }
}

// === impl Kind ===

impl Kind {
    fn check(&self, path: &str, value: &Value, is_closed: bool) -> Result<(), String> {
        let text = value.as_str();
        let good = match self {
            Any => true,
            Text => text.is_some(),
            Id => text.is_some_and(|text| !text.is_empty()),
            Flag => value.is_boolean(),
            Count => value.as_u64().is_some(),
            Struct => value.is_object(),
            State => text.is_some_and(|text| STATES.contains(&text)),
            Role => text.is_some_and(|text| ["ROLE_USER", "ROLE_AGENT"].contains(&text)),
            Time => text.is_some_and(is_timestamp),
            Base64 => text.is_some_and(|text| STANDARD.decode(text).is_ok()),
            One(shape) => return shape.check(path, value, is_closed),
            Many(kind) | Some(kind) => {
                let Value::Array(items) = value else { return Err(format!("{path}: is no array")) };
                if items.is_empty() && matches!(self, Some(_)) {
                    return Err(format!("{path}: is empty"));
                }
                let path = format!("{path}[]");
                return items.iter().try_for_each(|item| kind.check(&path, item, is_closed));
            }
        };
        if good { Ok(()) } else { Err(format!("{path}: is no {self:?}: {value}")) }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn name(path: &str) -> &str {
    if path.is_empty() { "the answer" } else { path }
}

/// `2026-01-02T03:04:05Z`, with or without a fraction.
fn is_timestamp(text: &str) -> bool {
    text.ends_with('Z') && chancery_protocol::Timestamp::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        let good = json!({"task": {"id": "t", "contextId": "c", "new": 1,
            "status": {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-02T03:04:05.678Z"}}});
        assert_eq!(SEND_MESSAGE_RESPONSE.problem(&good), None);
        for (place, value, problem) in [
            ("/task/id", json!(""), "task.id: is no Id: \"\""),
            ("/task/status", json!({}), "task.status.state: is missing"),
            ("/task/status/state", json!("working"), "task.status.state: is no State: \"working\""),
            (
                "/task/status/timestamp",
                json!("2026-01-02T03:04:05+01:00"),
                "task.status.timestamp: is no Time",
            ),
            ("/task", json!([]), "task: is no object"),
            ("", json!({}), "the answer: has 0 of task, message, not one"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(place).expect("a place") = value;
            let found = SEND_MESSAGE_RESPONSE.problem(&bad).unwrap_or_default();
            assert!(found.starts_with(problem), "{found}");
        }
    }

    #[test]
    fn a_closed_shape_has_nothing_more_and_all_that_is_recommended() {
        let status = json!({"state": "TASK_STATE_WORKING", "timestamp": "2026-01-02T03:04:05.678Z"});
        let good = json!({"task": {"id": "t", "contextId": "c", "status": status}});
        assert_eq!(SEND_MESSAGE_RESPONSE.problem_if_closed(&good), None);
        let artifact = |part: Value| json!([{"artifactId": "a", "parts": [part]}]);
        for (place, value, problem) in [
            ("/task/kind", json!("task"), "task.kind: is unknown"),
            ("/task/contextId", Value::Null, "task.contextId: is no Id"),
            ("/task/status", json!({"state": "TASK_STATE_WORKING"}), "task.status.timestamp: is missing"),
            (
                "/task/artifacts",
                artifact(json!({"raw": "dG-_"})),
                "task.artifacts[].parts[].raw: is no Base64",
            ),
            (
                "/task/artifacts",
                artifact(json!({"text": "x", "url": "y"})),
                "task.artifacts[].parts[]: has 2 of",
            ),
            (
                "/task/artifacts",
                artifact(json!({"text": "x", "filename": ""})),
                "task.artifacts[].parts[].filename: is empty",
            ),
            (
                "/message",
                json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]}),
                "the answer: has 2 of",
            ),
        ] {
            let (parent, key) = place.rsplit_once('/').expect("a place");
            let mut bad = good.clone();
            let object = bad.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
            object.insert(key.to_owned(), value);
            let found = SEND_MESSAGE_RESPONSE.problem_if_closed(&bad).unwrap_or_default();
            assert!(found.starts_with(problem), "{found}");
        }
    }
}
