//! Version 0.3, and 0.2 before it, of which it is the one with more fields.
//!
//! | file | holds |
//! |---|---|
//! | `model` | the messages, to and from those of v1.0, in both forms that v0.3 has |
//! | `jsonrpc` | the methods and their parameters |
//! | `rest` | HTTP+JSON below `/v1` |
//! | `grpc` | gRPC of package `a2a.v1` |
//! | `card` | the card of that time, beside the one of v1.0 |
//! | `serve` | what both bindings of a server share: where one call is two of v1.0, the codes of errors, the notification |
//! | `ask` | what both bindings of a client share: answers and events, read |

mod ask;
#[cfg(feature = "server")]
pub(crate) mod card;
pub(crate) mod grpc;
pub(crate) mod jsonrpc;
mod model;
pub(crate) mod rest;
#[cfg(feature = "server")]
mod serve;

#[cfg(feature = "server")]
pub(crate) use serve::*;

pub(crate) use ask::{error_by_status, read_event, read_reply};
pub(crate) use model::{Form, Newer, Older, OlderReceiver, older_data};

/// The header that names extensions.
pub(crate) const EXTENSIONS_HEADER: &str = "x-a2a-extensions";
