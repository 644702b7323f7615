//! What is kept, asked of the real binary: `chancery demo` on SQLite, killed, terminated and started again, and
//! `chancery store` beside it.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]
#![cfg(unix)]

mod load;
mod receiver;
mod server;
mod verify;
mod wire;

mod kill;
mod push;
mod store;
mod terminate;
