//! Version 0.3 of the protocol, over real sockets: all operations over JSON-RPC and HTTP+JSON, and our client against
//! our server.

#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod agents;
mod card;
mod client;
mod jsonrpc;
mod peers;
mod push;
mod rest;
#[path = "../support/mod.rs"]
mod support;
mod versions;
