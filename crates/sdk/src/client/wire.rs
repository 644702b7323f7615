//! The one place where a call is turned to the wire that its interface speaks, and what comes back is turned to v1.0.

use bytes::Bytes;
use chancery_protocol::{Operation, ProtocolBinding, Request, Version};
use http::response::Parts;

use super::error::ClientError;
use super::peer::Interface;
use super::replied::Replied;
use super::transport::Outgoing;
use super::{grpc, jsonrpc, rest};

/// How calls look as bytes: a binding in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    JsonRpc,
    Rest,
    Grpc,
}

impl Wire {
    #[cfg(feature = "fuzzing")]
    pub(crate) const ALL: [Self; 2] = [Self::JsonRpc, Self::Rest];

    /// The wire of a binding and a version, if this client speaks it; if not, why not.
    pub(crate) fn of(binding: &ProtocolBinding, version: &str) -> Result<Self, &'static str> {
        let version = Version::parse(version);
        match (binding, version) {
            (ProtocolBinding::JsonRpc, Some(Version::V1_0)) => Ok(Self::JsonRpc),
            (ProtocolBinding::HttpJson, Some(Version::V1_0)) => Ok(Self::Rest),
            (ProtocolBinding::Grpc, Some(Version::V1_0)) => Ok(Self::Grpc),
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
        }
    }

    /// Whether a tenant is named in the request, and not in the URL.
    pub(crate) fn names_tenant(self) -> bool {
        match self {
            Self::JsonRpc | Self::Grpc => true,
            Self::Rest => false,
        }
    }

    /// Whether streams come as messages of gRPC, and not as server-sent events.
    pub(crate) fn is_grpc(self) -> bool {
        match self {
            Self::JsonRpc | Self::Rest => false,
            Self::Grpc => true,
        }
    }

    /// How a request looks.
    pub(crate) fn encode(
        self,
        interface: &Interface,
        id: u64,
        request: &Request,
    ) -> Result<Outgoing, ClientError> {
        match self {
            Self::JsonRpc => jsonrpc::encode(interface, id, request),
            Self::Rest => rest::encode(interface, request, false),
            Self::Grpc => grpc::encode(interface, request),
        }
    }

    /// How it looks another way, if there is one and the failure of the first may mean no more than that.
    pub(crate) fn encode_otherwise(
        self,
        interface: &Interface,
        request: &Request,
        failed: &ClientError,
    ) -> Option<Result<Outgoing, ClientError>> {
        match self {
            Self::JsonRpc | Self::Grpc => None,
            Self::Rest => {
                rest::has_other_verb(request, failed).then(|| rest::encode(interface, request, true))
            }
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
        }
    }

    /// What an answer says that has no success to tell.
    pub(crate) fn failure(self, id: u64, head: &Parts, body: &[u8]) -> ClientError {
        match self {
            Self::JsonRpc => jsonrpc::failure(head, body, id),
            Self::Rest => rest::failure(head, body),
            Self::Grpc => grpc::failure(head, body),
        }
    }

    /// The event in a frame of a stream, as v1.0 JSON.
    pub(crate) fn event(self, id: u64, data: &Bytes) -> Result<Bytes, ClientError> {
        match self {
            Self::JsonRpc => jsonrpc::event(data, id),
            Self::Rest => rest::event(data),
            Self::Grpc => grpc::event(data),
        }
    }
}
