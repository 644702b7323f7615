//! A version of the protocol on a binding: what two parties must both speak.

use std::fmt;

use chancery_sdk::protocol::{self, ProtocolBinding};

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) version: Version,
    pub(crate) binding: Binding,
}

/// The generations of the protocol, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1_0,
    V0_3,
    V0_1,
}

/// How it is put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    JsonRpc,
    HttpJson,
    Grpc,
}

/// What Chancery speaks, as server and as client. What a peer speaks besides is not tried.
pub(crate) const SPOKEN: &[Wire] =
    &[JSONRPC_1_0, HTTP_JSON_1_0, GRPC_1_0, JSONRPC_0_3, HTTP_JSON_0_3, GRPC_0_3, JSONRPC_0_1];

pub(crate) const JSONRPC_1_0: Wire = Wire { version: Version::V1_0, binding: Binding::JsonRpc };
pub(crate) const HTTP_JSON_1_0: Wire = Wire { version: Version::V1_0, binding: Binding::HttpJson };
pub(crate) const GRPC_1_0: Wire = Wire { version: Version::V1_0, binding: Binding::Grpc };
pub(crate) const JSONRPC_0_3: Wire = Wire { version: Version::V0_3, binding: Binding::JsonRpc };
pub(crate) const HTTP_JSON_0_3: Wire = Wire { version: Version::V0_3, binding: Binding::HttpJson };
pub(crate) const GRPC_0_3: Wire = Wire { version: Version::V0_3, binding: Binding::Grpc };
pub(crate) const JSONRPC_0_1: Wire = Wire { version: Version::V0_1, binding: Binding::JsonRpc };

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{} {}", self.version.as_str(), self.binding.as_str())
    }
}

impl Version {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V0_3 => "0.3",
            Self::V0_1 => "0.1",
        }
    }

    pub(crate) fn of_protocol(self) -> protocol::Version {
        protocol::Version::parse(self.as_str()).unwrap()
    }
}

impl Binding {
    /// What a card calls it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }

    pub(crate) fn of_protocol(self) -> ProtocolBinding {
        self.as_str().to_owned().into()
    }
}
