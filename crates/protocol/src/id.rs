//! Identifiers. Each kind is its own type, so that a task id cannot stand where a context id belongs.
//!
//! Ids that we make are UUIDv7: time-ordered, which keeps store pages warm. Ids that others make are opaque
//! text. Cloning one is a reference count, since every event of a task carries the same two.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Reads an id straight into what it is kept in; serde would make a `String` of it first.
struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(Arc::from(text))
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(IdVisitor).map(Self)
            }
        }

        impl $name {
            /// A fresh UUIDv7.
            pub fn generate() -> Self {
                Self(Arc::from(&*Uuid::now_v7().hyphenated().encode_lower(&mut Uuid::encode_buffer())))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether there is no id: proto3 cannot tell an empty string from an absent one.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// Names a task. Made by the server that runs it, never by a client.
    TaskId
}
id! {
    /// Groups related tasks and messages into one conversation.
    ContextId
}
id! {
    /// Names a message. Made by whoever sends it; not a key for de-duplication.
    MessageId
}
id! {
    /// Names an artifact within its task.
    ArtifactId
}
id! {
    /// Names a push notification configuration within its task.
    PushConfigId
}

/// What sets a context apart from the task that opened it, in bits that are random in both.
const APART: u128 = 0x0a2a_7c0d_e5c4_96b3;

impl ContextId {
    /// The context of a task that was not told of one. Either id gives the other, so whoever keeps tasks finds this one by its
    /// context without an index.
    pub fn opened_by(task: &TaskId) -> Self {
        set_apart(task.as_str()).map_or_else(Self::generate, Self)
    }

    /// The task that would have opened it.
    pub fn opener(&self) -> Option<TaskId> {
        set_apart(self.as_str()).map(TaskId)
    }
}

/// The other of the two ids of a task and the context that it opened; none if it is not one that we make.
fn set_apart(id: &str) -> Option<Arc<str>> {
    let uuid = Uuid::try_parse(id).ok()?;
    let mut buffer = Uuid::encode_buffer();
    if *uuid.hyphenated().encode_lower(&mut buffer) != *id {
        return None;
    }
    let other = Uuid::from_u128(uuid.as_u128() ^ APART);
    Some(Arc::from(&*other.hyphenated().encode_lower(&mut buffer)))
}

/// For id fields of implicit presence: `null` and `""` on input both mean unset.
pub fn empty_as_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + std::borrow::Borrow<str>,
{
    Ok(Option::<T>::deserialize(deserializer)?.filter(|id| !id.borrow().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_and_the_context_it_opened_give_each_other() {
        let task = TaskId::generate();
        let context = ContextId::opened_by(&task);
        assert_ne!(context.as_str(), task.as_str());
        assert_eq!(Uuid::try_parse(context.as_str()).map(|uuid| uuid.get_version_num()), Ok(7));
        assert_eq!(context.opener(), Some(task.clone()));
        assert_eq!(ContextId::opened_by(&task), context);
        for foreign in ["", "session-1", &task.as_str().to_uppercase(), &task.as_str().replace('-', "")] {
            assert_eq!(ContextId::from(foreign).opener(), None, "{foreign}");
        }
        assert_ne!(ContextId::opened_by(&TaskId::from("t-1")), ContextId::opened_by(&TaskId::from("t-1")));
    }
}
