//! Write, serve and call A2A agents.
//!
//! An agent with state, served over JSON-RPC, HTTP+JSON and gRPC, in fifteen lines:
//!
//! ```no_run
//! use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, ServeError, Turn, serve};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! #[derive(Default)]
//! struct Greeter(AtomicU64);
//!
//! impl Agent for Greeter {
//!     async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
//!         let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
//!         Ok(Outcome::text(format!("Hello {}, you are number {count}", turn.text())))
//!     }
//! }
//! #[tokio::main]
//! async fn main() -> Result<(), ServeError> {
//!     serve("127.0.0.1:8080", AgentSpec::new("greeter", Greeter::default())).await
//! }
//! ```
//!
//! Three names, three things: an [`Agent`] is what you write; an [`Endpoint`] answers the eleven operations, as
//! a [`Runtime`] with your agent in it does, or a [`Client`] to an agent elsewhere; a [`Server`] puts endpoints at paths.
//!
//! | feature | what it adds |
//! |---|---|
//! | `client` (default) | [`Client`], for calling agents elsewhere; what dials out goes only where [`egress`] lets it |
//! | `server` (default) | the HTTP server with its bindings, push notifications ([`push`]), and `client` |
//! | `axum` | the site as an [axum](https://docs.rs/axum) router |
//! | `tls` | TLS by rustls: for what dials out, and for the server, certificates reloaded when their files change |
//! | `testing` | for your own tests: an agent on a free port, hostile peers, a manual clock, a conformance check |

mod agent;
#[cfg(feature = "server")]
mod binding;
#[cfg(feature = "client")]
mod client;
mod delegate;
#[cfg(feature = "client")]
#[cfg_attr(
    not(feature = "server"),
    allow(dead_code, unused_imports, reason = "half of it is for the server")
)]
mod dialect;
#[cfg(feature = "client")]
pub mod egress;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "client")]
mod grpc;
#[cfg(feature = "client")]
mod protobuf;
#[cfg(feature = "server")]
pub mod push;
#[cfg(feature = "client")]
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "half of it is for the server"))]
mod relay;
mod runtime;
#[cfg(feature = "server")]
mod server;
mod spec;
#[cfg(feature = "testing")]
pub mod testing;
mod turn;

pub use agent::{Agent, Cancellation, Failure, IntoOutcome, Outcome, TaskHandle, WhileRunning, agent_fn};
pub use chancery_protocol as protocol;
pub use chancery_protocol::{
    AgentCard, AgentExtension, AgentSkill, Artifact, Call, CallContext, Content, Endpoint, Error, ErrorCode,
    Event, EventStream, Json, JsonObject, Message, Part, Principal, Role, Task, TaskId, TaskState, TaskView,
};
pub use chancery_protocol::{USAGE_EXTENSION, Usage};
pub use chancery_store as store;
#[cfg(feature = "client")]
pub use client::*;
#[cfg(feature = "client")]
pub use relay::{Relay, RelayPeers};
pub use runtime::{Notifier, Runtime};
#[cfg(feature = "server")]
pub use server::*;
pub use spec::{AgentSpec, is_agent_name};
pub use turn::{ArtifactWriter, Turn, TurnOver};

/// The extension by which a card says that `Idempotency-Key` is honoured.
pub const IDEMPOTENCY_EXTENSION: &str = "urn:chancery:ext:idempotency:v1";

/// The extension by which a card says where it comes from. Its parameters: the `kind` of the agent and its `trust_tier`; of
/// an agent elsewhere also `upstream`, where it is; `upstream_digest`, the SHA-256 of the card that it showed;
/// `upstream_key`, the key that this was signed with, if that was verified; and `upstream_card_fetch_error`, why its card
/// could not be had when it was last asked for.
pub const PROVENANCE_EXTENSION: &str = "urn:chancery:ext:provenance:v1";

#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../../../docs/guide/write-an-agent.md")]
mod guide_write_an_agent {}

#[cfg(all(doctest, feature = "axum", feature = "tls"))]
#[doc = include_str!("../../../docs/guide/serve.md")]
mod guide_serve {}

#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../docs/guide/call-an-agent.md")]
mod guide_call_an_agent {}

#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guide/test-an-agent.md")]
mod guide_test_an_agent {}
