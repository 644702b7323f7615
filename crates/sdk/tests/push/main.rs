//! Push notifications: what receivers on real sockets get, in which order, and what becomes of those that fail.
//!
//! Time passes by a clock that the tests set, so no test waits for a retry and none depends on how fast it runs.

#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod failures;
#[cfg(feature = "tls")]
mod https;
mod neighbours;
mod receiver;
mod restart;
mod secrets;
mod wire;
