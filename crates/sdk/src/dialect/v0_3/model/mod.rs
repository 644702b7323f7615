//! The messages of v0.3, to and from those of v1.0.
//!
//! v0.3 has two written forms. JSON-RPC and notifications name by `kind` what each object is; HTTP+JSON writes what
//! ProtoJSON makes of the proto of that time. What is read may be in either form, with either spelling of names, since
//! real peers mix them. What is written is exactly one of the two: readers of ProtoJSON refuse a field that they do
//! not know.

mod event;
#[cfg(feature = "server")]
mod form;
mod message;
mod push;
mod request;
mod task;
#[cfg(all(test, feature = "server"))]
mod tests;

pub(crate) use event::{Heard, OlderEvent};
pub(crate) use message::older_data;
pub(crate) use push::{OlderReceiver, newer_configs};
pub(crate) use request::{ConfigParams, GetParams, IdParams, ListParams, OlderSend, SendParams};
pub(crate) use task::OlderPage;

/// How v0.3 is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Objects say what they are in their `kind`.
    Kind,
    /// ProtoJSON of `a2a.v1`.
    Proto {
        /// Whether the bytes of a file are base64 of base64: two of the three SDKs put base64 into a field of bytes.
        twice: bool,
    },
}

/// A value of v1.0, as v0.3 writes it.
pub(crate) struct Older<'a, T: ?Sized>(pub(crate) Form, pub(crate) &'a T);

/// A value of v0.3, read as one of v1.0.
#[derive(Clone, Debug)]
pub(crate) struct Newer<T>(pub(crate) T);

impl Form {
    /// The form of HTTP+JSON, as most peers read it.
    pub(crate) const PROTO: Self = Self::Proto { twice: true };

    fn is_kind(self) -> bool {
        self == Self::Kind
    }
}

/// All of these, in the same form.
fn each<T>(form: Form, values: &[T]) -> Vec<Older<'_, T>> {
    values.iter().map(|value| Older(form, value)).collect()
}

impl<T> Newer<T> {
    pub(crate) fn all(values: Vec<Self>) -> Vec<T> {
        values.into_iter().map(|Self(value)| value).collect()
    }
}
