//! The shapes of the protocol, closed: what is required is there, and nothing that is unknown or `null`.

use serde_json::{Map, Value, json};

/// An object of the protocol.
#[derive(Debug)]
pub(crate) struct Shape {
    required: &'static [(&'static str, Kind)],
    optional: &'static [(&'static str, Kind)],
    /// Of these, exactly one is there.
    one_of: &'static [(&'static str, Kind)],
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
}

use Kind::{Any, Base64, Count, Flag, Id, Many, One, Role, State, Struct, Text, Time};

pub(crate) const STATES: [&str; 8] = [
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
};

static MESSAGE: Shape = Shape {
    required: &[("messageId", Id), ("role", Role), ("parts", Many(&One(&PART)))],
    optional: &[
        ("contextId", Id),
        ("taskId", Id),
        ("metadata", Struct),
        ("extensions", Many(&Text)),
        ("referenceTaskIds", Many(&Id)),
    ],
    one_of: &[],
};

static STATUS: Shape = Shape {
    required: &[("state", State), ("timestamp", Time)],
    optional: &[("message", One(&MESSAGE))],
    one_of: &[],
};

static ARTIFACT: Shape = Shape {
    required: &[("artifactId", Id), ("parts", Many(&One(&PART)))],
    optional: &[("name", Text), ("description", Text), ("metadata", Struct), ("extensions", Many(&Text))],
    one_of: &[],
};

pub(crate) static TASK: Shape = Shape {
    required: &[("id", Id), ("contextId", Id), ("status", One(&STATUS))],
    optional: &[
        ("artifacts", Many(&One(&ARTIFACT))),
        ("history", Many(&One(&MESSAGE))),
        ("metadata", Struct),
    ],
    one_of: &[],
};

static STATUS_UPDATE: Shape = Shape {
    required: &[("taskId", Id), ("contextId", Id), ("status", One(&STATUS))],
    optional: &[("metadata", Struct)],
    one_of: &[],
};

static ARTIFACT_UPDATE: Shape = Shape {
    required: &[("taskId", Id), ("contextId", Id), ("artifact", One(&ARTIFACT))],
    optional: &[("append", Flag), ("lastChunk", Flag), ("metadata", Struct)],
    one_of: &[],
};

pub(crate) static SEND_MESSAGE_RESPONSE: Shape =
    Shape { required: &[], optional: &[], one_of: &[("task", One(&TASK)), ("message", One(&MESSAGE))] };

pub(crate) static STREAM_RESPONSE: Shape = Shape {
    required: &[],
    optional: &[],
    one_of: &[
        ("task", One(&TASK)),
        ("message", One(&MESSAGE)),
        ("statusUpdate", One(&STATUS_UPDATE)),
        ("artifactUpdate", One(&ARTIFACT_UPDATE)),
    ],
};

pub(crate) static LIST_TASKS_RESPONSE: Shape = Shape {
    required: &[
        ("tasks", Many(&One(&TASK))),
        ("nextPageToken", Text),
        ("pageSize", Count),
        ("totalSize", Count),
    ],
    optional: &[],
    one_of: &[],
};

static INTERFACE: Shape = Shape {
    required: &[("url", Id), ("protocolBinding", Id), ("protocolVersion", Id)],
    optional: &[("tenant", Text)],
    one_of: &[],
};

static EXTENSION: Shape = Shape {
    required: &[("uri", Id)],
    optional: &[("description", Text), ("required", Flag), ("params", Struct)],
    one_of: &[],
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
};

static SKILL: Shape = Shape {
    required: &[("id", Id), ("name", Id), ("description", Text), ("tags", Many(&Text))],
    optional: &[
        ("examples", Many(&Text)),
        ("inputModes", Many(&Text)),
        ("outputModes", Many(&Text)),
        ("securityRequirements", Many(&Struct)),
    ],
    one_of: &[],
};

static PROVIDER: Shape = Shape { required: &[("url", Id), ("organization", Id)], optional: &[], one_of: &[] };

pub(crate) static AGENT_CARD: Shape = Shape {
    required: &[
        ("name", Id),
        ("description", Id),
        ("supportedInterfaces", Many(&One(&INTERFACE))),
        ("version", Id),
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
};

// === impl Shape ===

impl Shape {
    /// Fails the test that looks at a value of another shape.
    pub(crate) fn check(&self, value: &Value) {
        if let Err(problem) = self.find_problem("", value) {
            panic!("{problem}, in {value}");
        }
    }

    fn find_problem(&self, path: &str, value: &Value) -> Result<(), String> {
        let object = value.as_object().ok_or_else(|| format!("{path}: is no object"))?;
        for (key, value) in object {
            let mut known = self.required.iter().chain(self.optional).chain(self.one_of);
            let (_, kind) = known.find(|(name, _)| name == key).ok_or(format!("{path}.{key}: is unknown"))?;
            kind.find_problem(&format!("{path}.{key}"), value)?;
        }
        if let Some((missing, _)) = self.required.iter().find(|(key, _)| !object.contains_key(*key)) {
            return Err(format!("{path}.{missing}: is missing"));
        }
        let chosen = self.one_of.iter().filter(|(key, _)| object.contains_key(*key)).count();
        if !self.one_of.is_empty() && chosen != 1 {
            return Err(format!("{path}: has {chosen} of what it must have one of"));
        }
        Ok(())
    }
}

// === impl Kind ===

impl Kind {
    fn find_problem(&self, path: &str, value: &Value) -> Result<(), String> {
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
            Base64 => text.is_some_and(is_base64),
            One(shape) => return shape.find_problem(path, value),
            Many(kind) => {
                let items = value.as_array().ok_or_else(|| format!("{path}: is no array"))?;
                return items.iter().try_for_each(|item| kind.find_problem(&format!("{path}[]"), item));
            }
        };
        if good { Ok(()) } else { Err(format!("{path}: is no {self:?}: {value}")) }
    }
}

/// `2026-01-02T03:04:05Z`, with or without a fraction.
fn is_timestamp(text: &str) -> bool {
    let Some(text) = text.strip_suffix('Z') else { return false };
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let shape: String = seconds.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00"
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// The standard alphabet, padded.
fn is_base64(text: &str) -> bool {
    let payload = text.trim_end_matches('=');
    let in_alphabet = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    text.len().is_multiple_of(4) && text.len() - payload.len() <= 2 && payload.chars().all(in_alphabet)
}

#[test]
fn shapes_are_closed() {
    let status = json!({"state": "TASK_STATE_WORKING", "timestamp": "2026-01-02T03:04:05.678Z"});
    let good = json!({"task": {"id": "t", "contextId": "c", "status": status}});
    SEND_MESSAGE_RESPONSE.check(&good);
    let damage: [(&str, Value); 9] = [
        ("/task/id", json!("")),
        ("/task/contextId", Value::Null),
        ("/task/kind", json!("task")),
        ("/task/status", json!({"state": "TASK_STATE_WORKING"})),
        ("/task/status/state", json!("working")),
        ("/task/status/timestamp", json!("2026-01-02T03:04:05+00:00")),
        ("/task/artifacts", json!([{"artifactId": "a", "parts": [{"text": "x", "url": "y"}]}])),
        ("/task/artifacts", json!([{"artifactId": "a", "parts": [{"raw": "dG-_"}]}])),
        ("/message", json!({"messageId": "m", "role": "ROLE_AGENT", "parts": []})),
    ];
    for (place, value) in damage {
        let (parent, key) = place.rsplit_once('/').unwrap();
        let mut bad = good.clone();
        let object: &mut Map<_, _> = bad.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        object.insert(key.to_owned(), value);
        assert!(SEND_MESSAGE_RESPONSE.find_problem("", &bad).is_err(), "{bad}");
    }
}
