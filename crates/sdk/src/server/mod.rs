//! The HTTP server: agents at paths, all bindings on one port.
//!
//! A request passes `listener` (connections, limits), `service` (which agent, which binding, who), a binding
//! in [`crate::binding`], and then the agent's endpoint.

#[cfg(feature = "axum")]
mod axum;
mod body;
mod builder;
mod card;
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
mod problems;
mod proxies;
mod revoked;
mod routes;
mod service;
mod shown;
mod site;
mod slots;
mod socket;
mod table;
#[cfg(feature = "tls")]
mod tls;
mod versions;

pub use crate::binding::head::request_labels;
pub use body::Body;
pub use builder::{BuildError, ServeError, ServerBuilder, serve};
pub use card::{CardSigner, WELL_KNOWN_CARD, WELL_KNOWN_KEYS};
pub use cors::Cors;
pub use cross_origin::{CrossOriginProtection, CrossOriginRefusal};
pub(crate) use guard::Visit;
pub use guard::{Guard, Restored, Ward, request_source};
pub use limits::ServerLimits;
pub use listener::Server;
pub use offer::Offer;
pub use proxies::ForwardedBy;
pub use routes::{Refused, Routes, Visitor, Way};
pub use service::{Change, Service};
pub(crate) use slots::StreamSlot;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
pub(crate) use versions::Versions;
