//! Protocol Buffers to ProtoJSON and back, by tables of messages.
//!
//! The model of this workspace reads and writes ProtoJSON, and a stream's events are kept as such. So gRPC needs no
//! second family of types with conversions between the two, and no generated code: a table says which field has which
//! number, and what comes in as Protocol Buffers goes on as the JSON that every other binding has, with the same
//! decoder, the same checks and the same words for mistakes behind it. docs/adr/0013-grpc.md says more.
//!
//! | file | holds |
//! |---|---|
//! | `wire` | varints, tags, records |
//! | `read`, `write` | a message to JSON, and JSON to a message |
//! | `user` | JSON of users, which is `google.protobuf.Value` here |
//! | `json` | a walk over JSON that is neither validated nor copied twice |
//! | `a2a_v1`, `a2a_v0_3`, `rpc` | the tables |

#![cfg_attr(
    not(feature = "server"),
    allow(dead_code, unused_imports, reason = "some is for the server only")
)]

pub(crate) mod a2a_v0_3;
pub(crate) mod a2a_v1;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzed;
mod json;
mod read;
pub(crate) mod rpc;
#[cfg(test)]
mod tests;
mod user;
pub(crate) mod wire;
mod write;

pub(crate) use read::{request_to_json, to_json};
pub(crate) use write::from_json;

/// A message: its name and its fields.
#[derive(Debug)]
pub(crate) struct Message {
    /// As the `.proto` file has it, with the package.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name in JSON.
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
    pub(crate) kind: Kind,
}

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// When it differs from its default.
    Implicit,
    /// The same as bytes; as JSON always, if it is no message.
    Required,
    /// When it is set, also to its default.
    Explicit,
    /// As `Explicit`; of all such fields of a message at most one is set.
    OneOf,
    /// Any number of times.
    Repeated,
    /// The same; as JSON also when there is none.
    RequiredList,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    /// By the names of its numbers.
    Enum(&'static [&'static str]),
    Message(&'static Message),
    /// From text to one of the others; repeated in itself.
    Map(&'static Kind),
    /// `google.protobuf.Struct`.
    Object,
    /// `google.protobuf.Value`.
    Value,
    Timestamp,
    Duration,
    /// `google.protobuf.Any` with one of these in it. What is none of them is passed over.
    Any(&'static [&'static Message]),
}

/// What is wrong with the bytes of a message, or with the JSON of one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// The most seconds that a duration has, either way.
const DURATION_SECONDS: u64 = 315_576_000_000;

const fn field(number: u32, name: &'static str, presence: Presence, kind: Kind) -> Field {
    Field { number, name, presence, kind }
}

impl Message {
    /// The field that a key of JSON means. Writers of ProtoJSON may also use the names of the `.proto` file.
    fn by_key(&self, key: &str) -> Option<&'static Field> {
        self.fields
            .iter()
            .find(|field| field.name == key)
            .or_else(|| self.fields.iter().find(|field| is_same_name(field.name, key)))
    }
}

/// `taskId` and `task_id` are the same.
fn is_same_name(camel: &str, other: &str) -> bool {
    let mut others = other.bytes().filter(|byte| *byte != b'_');
    other.contains('_')
        && camel.bytes().all(|byte| others.next().is_some_and(|other| other.eq_ignore_ascii_case(&byte)))
        && others.next().is_none()
}
