//! The one place where a call is turned to the wire that its interface speaks, and what comes back is turned to v1.0.

use chancery_protocol::jsonrpc::write_call;
use chancery_protocol::{ErrorCode, ErrorNumbers, Operation, ProtocolBinding, Request, Version};
use http::response::Parts;

use super::error::ClientError;
use super::peer::Interface;
use super::replied::{Replied, StreamEvent};
use super::settings::Settings;
use super::sse::Frame;
use super::transport::Outgoing;
use super::{grpc, jsonrpc, rest};
use crate::dialect::{v0_1, v0_3};

/// The numbers of errors mean what they mean in v1.0.
const SAME: ErrorNumbers = |_| None;

/// How calls look as bytes: a binding in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    JsonRpc,
    Rest,
    Grpc,
    JsonRpcV0_3,
    RestV0_3(v0_3::Form),
    JsonRpcV0_1,
    GrpcV0_3(v0_3::Form),
}

impl Wire {
    #[cfg(feature = "fuzzing")]
    pub(crate) const ALL: [Self; 7] = [
        Self::JsonRpc,
        Self::Rest,
        Self::Grpc,
        Self::JsonRpcV0_3,
        Self::RestV0_3(v0_3::Form::PROTO),
        Self::JsonRpcV0_1,
        Self::GrpcV0_3(v0_3::Form::PROTO),
    ];

    /// The wire of a binding and a version, if this client speaks it; if not, why not.
    pub(crate) fn of(
        binding: &ProtocolBinding,
        version: &str,
        settings: &Settings,
    ) -> Result<Self, &'static str> {
        let version = Version::parse(version).map(|version| match version {
            Version { major: 0, minor: 2 } => Version::V0_3,
            version => version,
        });
        if settings.version.is_some() && settings.version != version {
            return Err("not the version that was asked for");
        }
        match (binding, version) {
            (ProtocolBinding::JsonRpc, Some(Version::V1_0)) => Ok(Self::JsonRpc),
            (ProtocolBinding::HttpJson, Some(Version::V1_0)) => Ok(Self::Rest),
            (ProtocolBinding::Grpc, Some(Version::V1_0)) => Ok(Self::Grpc),
            (ProtocolBinding::JsonRpc, Some(Version::V0_3)) => Ok(Self::JsonRpcV0_3),
            (ProtocolBinding::HttpJson, Some(Version::V0_3)) => Ok(Self::RestV0_3(settings.old_form)),
            (ProtocolBinding::JsonRpc, Some(Version::V0_1)) => Ok(Self::JsonRpcV0_1),
            (ProtocolBinding::Grpc, Some(Version::V0_3)) => Ok(Self::GrpcV0_3(settings.old_form)),
            (ProtocolBinding::JsonRpc | ProtocolBinding::HttpJson | ProtocolBinding::Grpc, _) => {
                Err("a version that this client does not speak")
            }
            _ => Err("a binding that this client does not speak"),
        }
    }

    /// The version that the wire is of.
    pub(crate) fn version(self) -> Version {
        match self {
            Self::JsonRpc | Self::Rest | Self::Grpc => Version::V1_0,
            Self::JsonRpcV0_3 | Self::RestV0_3(_) | Self::GrpcV0_3(_) => Version::V0_3,
            Self::JsonRpcV0_1 => Version::V0_1,
        }
    }

    /// Whether a tenant is named in the request, and not in the URL.
    pub(crate) fn names_tenant(self) -> bool {
        matches!(self, Self::JsonRpc | Self::Grpc)
    }

    /// Whether streams come as messages of gRPC, and not as server-sent events.
    pub(crate) fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcV0_3(_))
    }

    /// Whether it is the client that names a new task.
    pub(crate) fn names_tasks(self) -> bool {
        matches!(self, Self::JsonRpcV0_1)
    }

    /// How a request looks.
    pub(crate) fn encode(
        self,
        interface: &Interface,
        id: u64,
        request: &Request,
    ) -> Result<Outgoing, ClientError> {
        match self {
            Self::JsonRpc => jsonrpc::encode(interface, id, request, write_call),
            Self::Rest => rest::encode(interface, request, false),
            Self::Grpc => grpc::encode(interface, request),
            Self::JsonRpcV0_3 => jsonrpc::encode(interface, id, request, v0_3::jsonrpc::write_call),
            Self::RestV0_3(form) => v0_3::rest::ask::encode(interface, form, request, false),
            Self::JsonRpcV0_1 => jsonrpc::encode(interface, id, request, v0_1::jsonrpc::write_call),
            Self::GrpcV0_3(form) => v0_3::grpc::ask::encode(interface, form, request),
        }
    }

    /// How it looks another way, if there is one and the failure of the first may mean no more than that.
    pub(crate) fn encode_otherwise(
        self,
        interface: &Interface,
        request: &Request,
        failed: &ClientError,
    ) -> Option<Result<Outgoing, ClientError>> {
        if !rest::has_other_verb(request, failed) {
            return None;
        }
        match self {
            Self::JsonRpc | Self::Grpc | Self::JsonRpcV0_3 | Self::JsonRpcV0_1 | Self::GrpcV0_3(_) => None,
            Self::Rest => Some(rest::encode(interface, request, true)),
            Self::RestV0_3(form) => Some(v0_3::rest::ask::encode(interface, form, request, true)),
        }
    }

    /// Reads an answer.
    pub(crate) fn decode(
        self,
        operation: Operation,
        id: u64,
        head: &Parts,
        body: &[u8],
    ) -> Result<Replied, ClientError> {
        match self {
            Self::JsonRpc => jsonrpc::decode(operation, id, head, body),
            Self::Rest => rest::decode(operation, head, body),
            Self::Grpc => grpc::decode(operation, head, body),
            Self::JsonRpcV0_3 => older_reply(self, operation, jsonrpc::result(id, head, body, SAME)?),
            Self::JsonRpcV0_1 => {
                older_reply(self, operation, jsonrpc::result(id, head, body, v0_1::error_of_number)?)
            }
            Self::RestV0_3(_) => v0_3::rest::ask::decode(operation, head, body),
            Self::GrpcV0_3(_) => v0_3::grpc::ask::decode(operation, head, body),
        }
    }

    /// What an answer says that has no success to tell.
    pub(crate) fn failure(self, operation: Operation, id: u64, head: &Parts, body: &[u8]) -> ClientError {
        match self {
            Self::JsonRpc | Self::JsonRpcV0_3 => jsonrpc::failure(head, body, id, SAME),
            Self::JsonRpcV0_1 => jsonrpc::failure(head, body, id, v0_1::error_of_number),
            Self::Rest => rest::failure(head, body),
            Self::Grpc => grpc::failure(head, body),
            Self::RestV0_3(_) => v0_3::rest::ask::failure(operation, head, body),
            Self::GrpcV0_3(_) => v0_3::grpc::ask::failure(operation, head, body),
        }
    }

    /// The event in a frame of a stream, as v1.0 has it. The first of a task is the task.
    pub(crate) fn event(self, id: u64, frame: &Frame, is_first: bool) -> Result<StreamEvent, ClientError> {
        let Frame { number, data } = frame;
        let event = match self {
            Self::JsonRpc => jsonrpc::event(data, id),
            Self::Rest => rest::event(data),
            Self::Grpc => grpc::event(data),
            Self::JsonRpcV0_3 => older_event(jsonrpc::event_text(data, id, SAME)?, is_first),
            Self::JsonRpcV0_1 => older_event(jsonrpc::event_text(data, id, v0_1::error_of_number)?, is_first),
            Self::RestV0_3(_) => v0_3::rest::ask::event(data),
            Self::GrpcV0_3(_) => v0_3::grpc::ask::event(data),
        };
        event.map(|event| StreamEvent { number: *number, ..event })
    }

    /// Reads an answer that is none of v1.0, if it has the form of v0.3: some peers say in one version what belongs to the other.
    pub(crate) fn decode_older_form(
        self,
        operation: Operation,
        id: u64,
        head: &Parts,
        body: &[u8],
    ) -> Option<Replied> {
        let json = match self {
            Self::JsonRpc => jsonrpc::result(id, head, body, SAME).ok()?,
            _ => return None,
        };
        has_kind(json).then(|| v0_3::read_reply(operation, json).ok()).flatten()
    }

    /// The same of an event.
    pub(crate) fn event_of_older_form(self, id: u64, data: &[u8]) -> Option<StreamEvent> {
        let json = match self {
            Self::JsonRpc => jsonrpc::event_text(data, id, SAME).ok()?,
            Self::Rest => std::str::from_utf8(data).ok()?,
            _ => return None,
        };
        has_kind(json).then(|| v0_3::read_event(json).ok()).flatten()
    }

    /// Whether a failure proves that the peer has done nothing: it does not know what it was asked, or not in this
    /// version. Another wire may do.
    pub(crate) fn was_not_understood(self, operation: Operation, error: &ClientError) -> bool {
        // There is no list in v0.3, which its servers say in many ways, and break over in some.
        let has_no_list = operation == Operation::ListTasks && self.version() < Version::V1_0;
        match error {
            ClientError::Peer(error) => match error.code() {
                ErrorCode::MethodNotFound | ErrorCode::VersionNotSupported => true,
                ErrorCode::UnsupportedOperation | ErrorCode::Internal => has_no_list,
                _ => false,
            },
            ClientError::Status { status, .. } => {
                has_no_list && matches!(status.as_u16(), 404 | 405 | 500 | 501)
            }
            _ => false,
        }
    }
}

// v0.1 and v0.3 have methods of the same names, and a card may leave open which of the two a peer speaks. What it answers
// does not: v0.3 says of everything what `kind` it is.

fn older_reply(wire: Wire, operation: Operation, json: &str) -> Result<Replied, ClientError> {
    let is_v0_3 = match operation {
        Operation::GetTask | Operation::CancelTask => has_kind(json),
        _ => wire == Wire::JsonRpcV0_3,
    };
    if is_v0_3 { v0_3::read_reply(operation, json) } else { v0_1::read_reply(operation, json) }
}

fn older_event(json: &str, is_first: bool) -> Result<StreamEvent, ClientError> {
    if has_kind(json) { v0_3::read_event(json) } else { v0_1::read_event(json, is_first) }
}

fn has_kind(json: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_str::<Kind>(json).is_ok_and(|found| found.kind.is_some())
}
