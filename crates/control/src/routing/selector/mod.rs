//! Who chooses, of the peers that can be called. Selectors are pure: the same question has the same answer, which is
//! what lets `explain` foretell a choice without making it.

mod chained;
mod cheapest;
mod load;
mod lowest_latency;
mod registry;
mod round_robin;
mod skill;

use std::borrow::Cow;
use std::fmt;

use chancery_protocol::{ContextId, Principal, TaskId};

use super::peer::Snapshot;
use crate::Millis;

pub use chained::Chained;
pub use cheapest::CheapestUnderLatency;
pub use load::PowerOfTwoChoices;
pub use lowest_latency::LowestLatency;
pub use registry::{SelectorSettings, Selectors, UnknownSelector};
pub use round_robin::RoundRobin;
pub use skill::CapabilityMatch;

/// Chooses a peer for a call. Those of this crate can be named in a configuration ([`Selectors`]); an application may
/// have its own.
///
/// ```
/// use chancery_control::Millis;
/// use chancery_control::routing::{Choice, PeerSelector, Snapshot, Wanted};
///
/// /// Keeps to the first of the list for as long as it can be called.
/// #[derive(Debug)]
/// struct InOrder;
///
/// impl PeerSelector for InOrder {
///     fn name(&self) -> &str {
///         "in_order"
///     }
///
///     fn select(&self, candidates: &[Snapshot], _: &Wanted<'_>, _: Millis) -> Choice {
///         if candidates.is_empty() { Choice::none("nobody is left") } else { Choice::of(0, "the first") }
///     }
/// }
/// ```
pub trait PeerSelector: Send + Sync + fmt::Debug {
    /// What it is called, in configurations and logs.
    fn name(&self) -> &str;

    /// Chooses one of these, all of which can be called, or none of them.
    fn select(&self, candidates: &[Snapshot], wanted: &Wanted<'_>, now: Millis) -> Choice;
}

/// What a call wants of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose call it is.
    pub principal: &'a Principal,
    /// The task that it goes on with.
    pub task: Option<&'a TaskId>,
    /// The conversation that it belongs to.
    pub context: Option<&'a ContextId>,
    /// The skill that it is for, if that is known.
    pub skill: Option<&'a str>,
    /// How many choices the pool has made, this one included. The pool counts; what chance there is comes from here.
    pub turn: u64,
}

/// A choice, and why it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place among the candidates; none if none of them will do.
    pub member: Option<usize>,
    /// Why, for people.
    pub reason: Cow<'static, str>,
}

// === impl Wanted ===

impl<'a> Wanted<'a> {
    /// Something new, from this caller.
    pub fn by(principal: &'a Principal) -> Self {
        Self { principal, task: None, context: None, skill: None, turn: 0 }
    }
}

// === impl Choice ===

impl Choice {
    /// The candidate at this place.
    pub fn of(member: usize, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { member: Some(member), reason: reason.into() }
    }

    /// None of the candidates.
    pub fn none(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { member: None, reason: reason.into() }
    }
}

const NOBODY: &str = "nobody is left to choose from";

/// Those that can be compared: who has been measured, and who is to be. While one is being tried out it gets nothing
/// else, unless nobody has been measured yet.
fn comparable(candidates: &[Snapshot]) -> impl Iterator<Item = (usize, &Snapshot)> {
    let is_known = |one: &Snapshot| one.latency.is_some() || !one.on_trial;
    let any_known = candidates.iter().any(is_known);
    candidates.iter().enumerate().filter(move |(_, one)| !any_known || is_known(one))
}

/// What decides where all else is equal: who breaks off less, has less to do, was chosen longer ago.
fn at_leisure(one: &Snapshot) -> (u16, u32, u64) {
    (one.failed_permille, one.open, one.last_turn)
}
