//! `chancery serve` as a process, with agents of every kind that it runs itself.

mod command;
mod crash;
mod endpoint;
mod gateway;
#[path = "../fleet/http.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod http;
mod inbox;
mod model;
mod revoked;
#[cfg(target_os = "linux")]
#[path = "../crash/wire.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "what finds nothing has failed; the other tests use the rest"
)]
mod wire;
mod within;
