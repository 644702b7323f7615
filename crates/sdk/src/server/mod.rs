//! The HTTP server: agents at paths, all bindings on one port.
//!
//! A request passes `listener` (connections, limits), `service` (which agent, which binding, who), a binding
//! in [`crate::binding`], and then the agent's endpoint.

#[cfg(feature = "axum")]
mod axum;
mod body;
mod builder;
mod callers;
mod card;
mod connections;
mod cors;
mod cross_origin;
mod framing;
mod grpc;
mod guard;
mod hygiene;
mod jsonrpc;
mod limits;
mod listener;
mod mount;
mod mounter;
mod offer;
mod open_answers;
mod problems;
mod proxies;
mod refused;
mod revoked;
mod routes;
mod service;
mod shares;
mod shown;
mod site;
mod slots;
mod socket;
mod table;
#[cfg(feature = "tls")]
mod tls;
mod versions;
mod write_timeout;

pub use crate::binding::head::request_labels;
pub use body::Body;
pub use builder::{BuildError, ServeError, ServerBuilder, serve};
#[cfg(feature = "testing")]
pub(crate) use card::CARD_PATHS;
pub use card::{CardSigner, WELL_KNOWN_CARD, WELL_KNOWN_KEYS, asks_for_card};
pub use cors::Cors;
pub use cross_origin::{CrossOriginProtection, CrossOriginRefusal};
pub(crate) use guard::Visit;
pub use guard::{Guard, Restored, Ward, request_source};
pub use limits::ServerLimits;
pub use listener::Server;
#[cfg(feature = "testing")]
pub(crate) use mounter::JSONRPC_PATHS;
pub use offer::Offer;
pub use proxies::ForwardedBy;
pub use routes::{Refused, Routes, Visitor, Way};
pub use service::{Change, Service};
pub(crate) use shares::Share;
pub(crate) use slots::StreamSlot;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
pub(crate) use versions::Versions;
