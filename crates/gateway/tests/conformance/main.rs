//! What the protocol asks of a server, asked of the real one: `chancery demo`, over the wire, on both HTTP
//! bindings. It covers what the public conformance kits look at, and follows v1.0.1 of the specification.
//!
//! Each test starts a server of its own, which goes when the test does.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod client;
mod http;
mod receiver;
mod schema;
mod server;

mod artifacts;
mod behaviours;
mod card;
mod errors;
mod extensions;
mod history;
mod jsonrpc;
mod list;
mod multi_turn;
mod push;
mod push_configs;
mod push_delivery;
mod rest;
mod send;
mod serialization;
mod stream;
mod subscribe;
mod tasks;
mod validation;
mod version;
