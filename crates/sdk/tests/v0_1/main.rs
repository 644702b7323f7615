//! Version 0.1 of the protocol, over real sockets: every method as a client of that time says it, and our client against
//! our server.

#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod agents;
mod client;
mod names;
mod ruvector;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod versions;
