//! Dialects: the versions of the protocol, and how each is written. Everything behind this folder knows only v1.0.
//!
//! A dialect is a version on a binding. The server decodes a request in the caller's dialect, has it answered, and
//! writes reply, events and errors in the same one; the client does the opposite. v1.0 is written by the bindings
//! themselves, and passes here without a stop.
//!
//! To add one: a folder, a variant of [`Dialect`], an arm in each of its methods, and for the client a
//! `Wire` that leads to the folder.

pub(crate) mod card;
pub(crate) mod v0_1;
pub(crate) mod v0_3;

#[cfg(feature = "server")]
use bytes::Bytes;
use chancery_protocol::Version;
#[cfg(feature = "server")]
use chancery_protocol::{
    Call, DynEndpoint, Error, EventStream, Operation, Reply, Request, Task, TaskPushNotificationConfig,
};
#[cfg(feature = "server")]
use http::HeaderName;

use v0_3::Form;

/// A version of the protocol, as one of its bindings writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V1_0,
    V0_3(Form),
    V0_1,
}

/// What is posted to somebody who registered in an older version: the task as it stands. In v1.0 that is the event.
#[cfg(feature = "server")]
pub(crate) fn notification(
    version: Version,
    config: &TaskPushNotificationConfig,
    task: &Task,
) -> Option<Result<Bytes, Error>> {
    match version {
        Version::V0_1 => Some(v0_1::notification(config, task)),
        version if version < Version::V1_0 => Some(v0_3::notification(task)),
        _ => None,
    }
}

impl Dialect {
    pub(crate) fn version(self) -> Version {
        match self {
            Self::V1_0 => Version::V1_0,
            Self::V0_3(_) => Version::V0_3,
            Self::V0_1 => Version::V0_1,
        }
    }
}

#[cfg(feature = "server")]
impl Dialect {
    /// The dialect that a method of JSON-RPC belongs to, and the operation that it names. What the head of the call asks
    /// for decides where two versions have the same method; without that, it is the later one for now.
    pub(crate) fn of_method(method: &str, asked: Option<Version>) -> Option<(Self, Operation)> {
        if let Some(operation) = Operation::from_method(method) {
            return Some((Self::V1_0, operation));
        }
        let v0_3 = v0_3::jsonrpc::operation(method).map(|operation| (Self::V0_3(Form::Kind), operation));
        let v0_1 = v0_1::jsonrpc::operation(method).map(|operation| (Self::V0_1, operation));
        if asked == Some(Version::V0_1) { v0_1.or(v0_3) } else { v0_3.or(v0_1) }
    }

    /// Whether the method that a request came by is one of v0.1, too.
    pub(crate) fn may_be_v0_1(self, request: &Request) -> bool {
        self == Self::V0_3(Form::Kind) && v0_1::jsonrpc::is_shared(request.operation())
    }

    /// Reads the parameters of an operation, as JSON-RPC has them.
    pub(crate) fn decode(self, operation: Operation, params: &[u8]) -> Result<Request, Error> {
        match self {
            Self::V1_0 => Request::decode(operation, params),
            Self::V0_3(_) => v0_3::jsonrpc::decode(operation, params),
            Self::V0_1 => v0_1::jsonrpc::decode(operation, params),
        }
    }

    /// Has a call answered. Older versions know answers that the newest needs two calls for.
    pub(crate) async fn answer(
        self,
        endpoint: &(impl DynEndpoint + ?Sized),
        call: Call,
    ) -> Result<Reply, Error> {
        match self {
            Self::V1_0 => endpoint.call(call).await,
            Self::V0_3(_) => v0_3::answer(endpoint, call).await,
            Self::V0_1 => v0_1::answer(endpoint, call).await,
        }
    }

    /// Appends a reply: the result of JSON-RPC, the body of HTTP+JSON. A stream has none.
    pub(crate) fn write_reply(self, reply: &Reply, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::V1_0 => reply.write_json(out),
            Self::V0_3(form) => v0_3::write_reply(form, reply, out),
            Self::V0_1 => v0_1::write_reply(reply, out),
        }
    }

    /// The events of a stream that an operation opened, in the words of the dialect. Those of v0.1 are so already: how
    /// they are to be written is known only where they are answered.
    pub(crate) fn events(self, operation: Operation, events: EventStream) -> EventStream {
        match self {
            Self::V1_0 | Self::V0_1 => events,
            Self::V0_3(form) => v0_3::events(form, operation, events),
        }
    }

    /// The code by which JSON-RPC knows an error.
    pub(crate) fn error_code(self, error: &Error) -> i32 {
        match self {
            Self::V1_0 => error.code().row().jsonrpc,
            Self::V0_3(_) => v0_3::error_code(error.code()),
            Self::V0_1 => v0_1::error_code(error),
        }
    }

    /// The header that names the extensions that are active.
    pub(crate) fn extensions_header(self) -> HeaderName {
        HeaderName::from_static(match self {
            Self::V1_0 | Self::V0_1 => chancery_protocol::EXTENSIONS_HEADER,
            Self::V0_3(_) => v0_3::EXTENSIONS_HEADER,
        })
    }
}
