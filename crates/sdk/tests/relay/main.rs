//! An agent elsewhere, served by a relay: real sockets on both sides of it.
#![cfg(feature = "testing")]

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod card;
mod errors;
mod hostile;
mod isolation;
mod pair;
mod pool;
mod push;
mod reconnect;
mod restart;
mod streams;
mod v0_1;
mod verbatim;
