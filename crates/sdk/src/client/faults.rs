//! What a peer does wrong, told once: one line of the log for each fault of each peer, whether the call got over it or not.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use chancery_protocol::Operation;
use parking_lot::Mutex;
use serde_json::Value;

use super::secrets::Secrets;
use super::settings::Settings;

/// The faults of one peer that have been told. There are as many as there are kinds of them and operations.
#[derive(Debug)]
pub(crate) struct Faults {
    /// What the log calls the peer.
    peer: String,
    told: Mutex<BTreeSet<(Fault, &'static str)>>,
    settings: Arc<Settings>,
}

/// Something that a peer does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Its answer cannot be read.
    UnreadableAnswer,
    /// An event of its stream cannot be read.
    UnreadableEvent,
    /// What it says in v1.0 has the form of v0.3.
    OlderForm,
    /// It does not understand the version that its card names, or leaves open.
    OtherVersion,
    /// What it does with a task cannot be.
    ImpossibleTask,
}

/// What form a peer's bytes have, for a line of the log. What stands in them is not shown: a peer may repeat what it was sent,
/// and that is nobody's business but its caller's.
struct Outline<'a>(&'a [u8]);

/// How many members of an object are shown, how deep, and how long a name may be.
const MEMBERS: usize = 8;
const DEPTH: usize = 3;
const LONGEST_NAME: usize = 32;

// === impl Faults ===

impl Faults {
    pub(crate) fn of(peer: String, settings: Arc<Settings>) -> Self {
        Self { peer, told: Mutex::default(), settings }
    }

    /// What the peer was sent that nobody is to read.
    pub(crate) fn secrets(&self, lineage: Option<&str>) -> Secrets {
        Secrets::of(&self.settings, lineage)
    }

    /// What the log calls the peer.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// Tells of a fault, unless that has been done.
    pub(crate) fn tell(&self, fault: Fault, operation: Operation, cause: &dyn fmt::Display, bytes: &[u8]) {
        let method = operation.method();
        if !self.told.lock().insert((fault, method)) {
            return;
        }
        let Self { peer, .. } = self;
        let cause = self.secrets(None).without(&cause.to_string());
        tracing::warn!(agent = %peer, method, cause, form = %Outline(bytes), "agent {peer}: {}", fault.text());
    }
}

// === impl Fault ===

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Self::UnreadableAnswer => "its answer cannot be read",
            Self::UnreadableEvent => "an event of its stream cannot be read",
            Self::OlderForm => "it says in version 1.0 what has the form of 0.3, and is read so",
            Self::OtherVersion => "it does not understand the version that it was called in",
            Self::ImpossibleTask => "it says of a task what cannot be",
        }
    }
}

// === impl Outline ===

impl fmt::Display for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::from_slice(self.0) {
            Ok(value) => outline(&value, DEPTH, f),
            Err(_) => write!(f, "{} bytes, no JSON", self.0.len()),
        }
    }
}

fn outline(value: &Value, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let members = match value {
        Value::Null => return f.write_str("null"),
        Value::Bool(_) => return f.write_str("bool"),
        Value::Number(_) => return f.write_str("number"),
        Value::String(_) => return f.write_str("string"),
        Value::Array(items) => return write!(f, "array of {}", items.len()),
        Value::Object(_) if depth == 0 => return f.write_str("object"),
        Value::Object(members) => members,
    };
    f.write_char('{')?;
    for (place, (name, value)) in members.iter().take(MEMBERS).enumerate() {
        let is_plain = name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let separator = if place > 0 { ", " } else { "" };
        write!(f, "{separator}{}: ", if is_plain { name } else { "…" })?;
        outline(value, depth - 1, f)?;
    }
    f.write_str(if members.len() > MEMBERS { ", …}" } else { "}" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_short_and_repeats_nothing() {
        let shown = |bytes: &[u8]| Outline(bytes).to_string();
        assert_eq!(
            shown(br#"{"id":1,"task":{"id":"secret","parts":[1,2]}}"#),
            "{id: number, task: {id: string, parts: array of 2}}"
        );
        assert_eq!(shown(b"secret"), "6 bytes, no JSON");
        assert_eq!(shown(br#"{"sk-secret":{"a":{"b":{"c":1}}}}"#), "{…: {a: {b: object}}}");
        let many: serde_json::Map<_, _> = (0..100).map(|n| (n.to_string(), Value::Null)).collect();
        assert!(shown(&serde_json::to_vec(&many).unwrap()).len() < 100);
    }
}
