//! For your own tests: an agent on a free port, peers that misbehave, a clock that stands still, and a conformance
//! check.
//!
//! | you have | and want to know | use |
//! |---|---|---|
//! | an agent | what it answers | [`spawn`], and [`Client`](crate::Client) |
//! | an agent | what happens a day later | [`Spawn::clock`] with a [`Clock`] that you move |
//! | an agent, of whatever make | whether it keeps to the protocol | [`Conformance`] |
//! | something in front of agents | whether it has seen to every path | [`served_routes`] |
//! | a client | what it makes of peers that lie, stall or break off | [`HOSTILE`], or a [`Peer`] with a script of yours |
//!
//! ```
//! use chancery_sdk::testing::spawn;
//! use chancery_sdk::{AgentSpec, Message, agent_fn};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), chancery_sdk::ClientError> {
//! let agent = agent_fn(|message: Message| async move { format!("Hello {}", message.text()) });
//! let greeter = spawn(AgentSpec::new("greeter", agent)).await;
//! assert_eq!(greeter.client().await?.send("Ada").await?.text(), "Hello Ada");
//! greeter.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! This is for tests, so it may panic where a test should fail; each such place says so.

mod conformance;
mod peer;
mod routes;
mod spawn;

pub use chancery_store::Clock;
pub use conformance::{Checked, Conformance, Level, Report, Verdict, shape};
pub use peer::{Exchange, HOSTILE, Heard, Hostile, Must, Peer, Reply, Script};
pub use routes::{ServedRoute, served_routes};
pub use spawn::{Spawn, Spawned, spawn};
