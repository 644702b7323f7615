//! What callers may ask of agents: which skills, how many at once, how much, how long.
//!
//! Policies come from the operator alone. A [`Rule`] says whom it is for and what it limits; limits that it leaves open
//! come from less specific rules. For each limit the most specific rule that sets it counts:
//!
//! 1. a rule for callers by name, before one for a group, before one for everybody;
//! 2. among those, a rule for a realm before one for all realms;
//! 3. then a rule for an agent before one for all agents;
//! 4. then a rule for an operation before one for all operations;
//! 5. and of equals, the one that is written first.
//!
//! A rule in [`Mode::Observe`] changes nothing: calls are judged as if it were not there. They are judged a second time as if
//! it were enforced, and what that would have refused is [`Decision::would_deny`].
//!
//! ```
//! use chancery_control::policy::{Facts, Limits, Policy, Rule, SKILL_NOT_ALLOWED, Subject};
//! use chancery_protocol::Operation;
//! use std::sync::Arc;
//!
//! let limits = Limits { allowed_skills: Some(vec!["rag.query".into()]), ..Limits::default() };
//! let policy = Policy::new([Rule { limits, ..Rule::named("default") }]);
//!
//! let skills = [Arc::from("rag.query"), Arc::from("rag.delete")];
//! let subject = Subject { realm: "default", caller: "alice", groups: &[] };
//! let facts = Facts { skills: &skills, ..Facts::new(subject, "library", Operation::SendMessage) };
//!
//! let named = policy.decide(&Facts { named_skill: Some("rag.query"), ..facts });
//! assert!(named.denied.is_none());
//! let other = policy.decide(&Facts { named_skill: Some("rag.delete"), ..facts });
//! assert_eq!(other.denied.unwrap().reason, SKILL_NOT_ALLOWED);
//! ```

mod decide;
mod input;
mod judge;
mod rule;
mod slots;

pub use decide::{Caps, Decision, Effective, Facts, Policy, Set, Subject};
pub use input::{SKILL_EXTENSION, media_types, named_skill};
pub use judge::skill;
pub use rule::{ANY, Callers, Limits, Mode, Rule};
pub(crate) use slots::exceeded;
pub use slots::{DEFAULT_CONCURRENCY, MAX_SLOT_KEYS, Slot, SlotKey, Slots};

/// The name of the gate.
pub const GATE: &str = "policy";

/// The operation is not for this caller.
pub const OPERATION_NOT_ALLOWED: &str = "OPERATION_NOT_ALLOWED";
/// The skill is not for this caller, or the agent does not have it.
pub const SKILL_NOT_ALLOWED: &str = "SKILL_NOT_ALLOWED";
/// The caller may use some skills only, and did not say which one it wants.
pub const SKILL_REQUIRED: &str = "SKILL_REQUIRED";
/// The message is too large for this caller.
pub const INPUT_TOO_LARGE: &str = "INPUT_TOO_LARGE";
/// The message holds something of a media type that is not for this caller.
pub const INPUT_MODE_NOT_ALLOWED: &str = "INPUT_MODE_NOT_ALLOWED";
/// The call would cost more than one call may.
pub const COST_LIMIT: &str = "COST_LIMIT";
/// The call would take more tokens than one call may.
pub const TOKEN_LIMIT: &str = "TOKEN_LIMIT";
/// The caller has as many calls open for the skill as it may have.
pub const CONCURRENCY_EXCEEDED: &str = "CONCURRENCY_EXCEEDED";
