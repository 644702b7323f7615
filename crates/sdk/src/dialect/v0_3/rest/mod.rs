//! HTTP+JSON below `/v1`: the verbs and paths are those of v1.0, the bodies are ProtoJSON of the proto of that time.

pub(crate) mod ask;
#[cfg(feature = "server")]
mod serve;

#[cfg(feature = "server")]
pub(crate) use serve::*;

/// What stands before every path.
pub(crate) const PREFIX: &str = "/v1";
/// The card for callers who are known.
pub(crate) const CARD: &str = "/card";
