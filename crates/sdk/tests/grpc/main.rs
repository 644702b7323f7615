//! gRPC over real sockets: every operation, failures with their details, versions, tenants, deadlines, bounds, streams.

#![cfg(feature = "server")]
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses its own part of the callers"
)]

#[path = "../support/mod.rs"]
mod support;

mod caller;
mod failures;
mod health;
mod old;
mod operations;
mod peers;
mod places;
mod reflection;
mod streams;
