//! Decisions about calls: who may come in, what it may cost, how far it may lead, who answers, under which policy. No HTTP, no
//! SQL, no clock of its own.
//!
//! A call passes the gates in their order and leaves as [`Permitted`], which is all that an [`Executor`] takes. What it was
//! given on the way, money, a place, a line of descent, goes with it as a `chancery_protocol::Hold`, and is settled exactly once:
//! by the commit that ends its task, or when it is dropped.
//!
//! ```text
//!  Call ─▶ identity ─▶ idempotency ─▶ budget ─▶ lineage ─▶ routing ─▶ policy ─▶ Permitted ─▶ Executor::{Local, Remote}
//!          who, for    have we let    hold at   depth,     which      skills,       │ Hold
//!          whom        this through   every     revisits   member     how many,     ▼
//!                      already        level                           how long   settle, in reverse
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `gate`, `gates/` | what a gate is, and those that there are |
//! | `pipeline`, `way`, `permitted` | the way through them, and to whoever answers |
//! | `plane` | what there is of calls, and the ports to the world outside |
//! | `terms` | what an operator has set, as one value |
//! | `foreign` | what is spent here for calls of other gateways |
//! | `held` | what an admitted call holds until it is settled |
//! | `span` | what is traced of it |
//! | `restore` | what an earlier process had let through |
//! | `containment` | agents that are cut off |
//! | `explain` | what the gates would say, to read |
//! | `identity` | who is calling, and whether it may come in |
//! | `ledger` | what may be spent: accounts, windows, reservations, prices |
//! | `lineage` | on whose behalf a call is made, and how far that may go |
//! | `policy` | what the operator lets callers do |
//! | `rate` | how often anybody may ask anything |
//! | `routing` | pools of equal agents, selectors, breakers |

pub mod containment;
mod explain;
mod foreign;
mod gate;
pub mod gates;
mod held;
pub mod identity;
pub mod ledger;
pub mod lineage;
mod permitted;
mod pipeline;
mod plane;
pub mod policy;
pub mod rate;
mod restore;
pub mod routing;
mod span;
mod terms;
mod time;
mod way;

pub use explain::{Explanation, GateReport};
pub use gate::{Continue, Gate, Note, Passage, Verdict};
pub use held::POLICY_TIMEOUT;
pub use permitted::{Executor, Permitted};
pub use pipeline::Pipeline;
pub use plane::{Booked, Governed, Hands, Plane, Skills, Stop};
pub use restore::RestoredCall;
pub use terms::{Mode, PlaneSettings, Proposal, Terms};
pub use time::Millis;
