//! What the server's and the client's halves of gRPC share: names, frames around messages, and how a failure looks.

#![cfg_attr(not(feature = "server"), allow(dead_code, reason = "some is for the server only"))]

pub(crate) mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzed;
pub(crate) mod status;
pub(crate) mod timeout;

/// The service of A2A v1.0.
pub(crate) const SERVICE: &str = "lf.a2a.v1.A2AService";

/// The media type of requests and answers.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

/// Request metadata of ours. Server-sent events have an `id` and a message of gRPC has not; whoever sends `1` here finds
/// the number of each event in a field that the protocol does not use, and can come back with `last-event-id`.
pub(crate) const EVENT_NUMBERS: &str = "chancery-event-numbers";
/// The number of that field of `StreamResponse`.
pub(crate) const NUMBER_FIELD: u32 = 1000;
