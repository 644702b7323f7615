//! Dialects: the versions of the protocol, and how each is written. Everything behind this folder knows only v1.0.
//!
//! A dialect is a version on a binding. The server decodes a request in the caller's dialect, has it answered, and
//! writes reply, events and errors in the same one; the client does the opposite. v1.0 is written by the bindings
//! themselves, and passes here without a stop.
//!
//! To add one: a folder, a variant of [`Dialect`], an arm in each of its methods, and for the client a
//! `Wire` that leads to the folder.

pub(crate) mod card;
pub(crate) mod v0_3;

#[cfg(feature = "server")]
use bytes::Bytes;
use chancery_protocol::Version;
#[cfg(feature = "server")]
use chancery_protocol::{Call, DynEndpoint, Error, EventStream, Operation, Reply, Request, Task};
#[cfg(feature = "server")]
use http::HeaderName;

use v0_3::Form;

/// A version of the protocol, as one of its bindings writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V1_0,
    V0_3(Form),
}

/// What is posted to somebody who registered in an older version: the task as it stands. In v1.0 that is the event.
#[cfg(feature = "server")]
pub(crate) fn notification(version: Version, task: &Task) -> Option<Result<Bytes, Error>> {
    (version < Version::V1_0).then(|| v0_3::notification(task))
}

impl Dialect {
    pub(crate) fn version(self) -> Version {
        match self {
            Self::V1_0 => Version::V1_0,
            Self::V0_3(_) => Version::V0_3,
        }
    }
}

#[cfg(feature = "server")]
impl Dialect {
    /// The dialect that a method of JSON-RPC belongs to, and the operation that it names.
    pub(crate) fn of_method(method: &str) -> Option<(Self, Operation)> {
        if let Some(operation) = Operation::from_method(method) {
            return Some((Self::V1_0, operation));
        }
        v0_3::jsonrpc::operation(method).map(|operation| (Self::V0_3(Form::Kind), operation))
    }

    /// Reads the parameters of an operation, as JSON-RPC has them.
    pub(crate) fn decode(self, operation: Operation, params: &[u8]) -> Result<Request, Error> {
        match self {
            Self::V1_0 => Request::decode(operation, params),
            Self::V0_3(_) => v0_3::jsonrpc::decode(operation, params),
        }
    }

    /// Has a call answered. Older versions know answers that the newest needs two calls for.
    pub(crate) async fn answer(self, endpoint: &impl DynEndpoint, call: Call) -> Result<Reply, Error> {
        match self {
            Self::V1_0 => endpoint.call(call).await,
            Self::V0_3(_) => v0_3::answer(endpoint, call).await,
        }
    }

    /// Appends a reply: the result of JSON-RPC, the body of HTTP+JSON. A stream has none.
    pub(crate) fn write_reply(self, reply: &Reply, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::V1_0 => reply.write_json(out),
            Self::V0_3(form) => v0_3::write_reply(form, reply, out),
        }
    }

    /// The events of a stream that an operation opened, in the words of the dialect.
    pub(crate) fn events(self, operation: Operation, events: EventStream) -> EventStream {
        match self {
            Self::V1_0 => events,
            Self::V0_3(form) => v0_3::events(form, operation, events),
        }
    }

    /// The code by which JSON-RPC knows an error.
    pub(crate) fn error_code(self, error: &Error) -> i32 {
        match self {
            Self::V1_0 => error.code().row().jsonrpc,
            Self::V0_3(_) => v0_3::error_code(error.code()),
        }
    }

    /// The header that names the extensions that are active.
    pub(crate) fn extensions_header(self) -> HeaderName {
        HeaderName::from_static(match self {
            Self::V1_0 => chancery_protocol::EXTENSIONS_HEADER,
            Self::V0_3(_) => v0_3::EXTENSIONS_HEADER,
        })
    }
}
