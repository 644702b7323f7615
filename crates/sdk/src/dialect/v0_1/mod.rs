//! Version 0.1: JSON-RPC only, and clients name their tasks.
//!
//! | file | holds |
//! |---|---|
//! | `model` | the messages, to and from those of v1.0 |
//! | `jsonrpc` | the methods and their parameters |
//! | `name` | which task of ours a client means |
//! | `ruvector` | what peers of an older design put into metadata, as the extensions that took its place |
//! | `serve` | the server's half: where one call is two of v1.0, and the codes of errors |
//! | `telling` | the events of a stream, in this version's words |
//! | `ask` | the client's half: answers and events, read |

mod ask;
pub(crate) mod jsonrpc;
mod model;
#[cfg(feature = "server")]
mod name;
mod ruvector;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod telling;

#[cfg(feature = "server")]
pub(crate) use serve::{answer, error_code, is_of_this, notification, write_reply};

pub(crate) use ask::{error_of_number, read_event, read_reply};
