//! A call that was let through: its record, and the handle that whoever serves it keeps until it is settled.
//!
//! Nothing here decides. The gates make a [`Hold`]; the runtime asks it what to write along with the
//! events of the task, in the same transaction, and tells it what was committed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::denied::Denied;
use crate::id::TaskId;
use crate::task::TaskState;
use crate::time::Timestamp;
use crate::usage::{Amount, CostSource, Usage};
use crate::usage_report::IgnoredFields;

/// The header that says on whose behalf a call is made.
pub const LINEAGE_HEADER: &str = "chancery-lineage";
/// The extension under which the same stands in metadata, where headers cannot be set.
pub const LINEAGE_EXTENSION: &str = "urn:chancery:ext:lineage:v1";
/// The header that says what a call may cost at most, in US dollars.
pub const BUDGET_HEADER: &str = "x-budget-usd";

/// Names one admitted call. A UUIDv7, so that later ones sort after earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HopId(Uuid);

/// The record of one admitted call: who called whom, under which root, what was held for it and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// The call.
    pub hop: HopId,
    /// The call that all of this goes back to; itself if nobody was called before. What is made for a call of another gateway
    /// goes back to an id that stands for that one.
    pub root: HopId,
    /// The call on whose behalf this one was made.
    pub parent: Option<HopId>,
    /// How many calls lie between the root and this one, this one included.
    pub depth: u16,
    /// The W3C trace that it was seen in.
    pub trace: Option<Arc<str>>,
    /// What isolates.
    pub realm: Arc<str>,
    /// Who called.
    pub caller: Arc<str>,
    /// Who pays, by the name of the account in the same realm, if that is not the caller: whoever began what this is done
    /// for, or the allowance of an agent that does not say for whom it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<Arc<str>>,
    /// The groups of who pays, which are charged as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Arc<str>>,
    /// Which agent was called.
    pub agent: Arc<str>,
    /// For which of its skills, if that is known.
    pub skill: Option<Arc<str>>,
    /// Which member of a pool answered, if the agent is a pool.
    pub peer: Option<Arc<str>>,
    /// The task, once there is one.
    pub task: Option<TaskId>,
    /// When it was let through.
    pub opened: Timestamp,
    /// What was held for it.
    pub reserved: Amount,
    /// What it may use up besides what the budgets allow.
    #[serde(default, skip_serializing_if = "CallLimits::is_none")]
    pub limits: CallLimits,
    /// Where it comes from, if another gateway let through the call that it is made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<CallOrigin>>,
    /// What it is known to have used while it is open.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub used: Usage,
    /// What came of it, once it is over or waits for its caller.
    pub settled: Option<Settled>,
}

/// Who is charged for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BilledParty<'a> {
    /// What isolates.
    pub realm: &'a Arc<str>,
    /// The name of the account; none if all that was theirs has been deleted.
    pub name: Option<&'a Arc<str>>,
    /// The groups it belongs to.
    pub groups: &'a [Arc<str>],
}

/// What one call may use up, besides what the budgets allow. None is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallLimits {
    /// Millionths of a US dollar, with all that it leads to, as its caller has said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_micro_usd: Option<u64>,
    /// Millionths of a US dollar, as policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Tokens, as policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Milliseconds from when it was let through, as policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// What another gateway has said of the call that one here is made for. All that is made for it has one root here, which is
/// nobody's call, and together costs no more than it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallOrigin {
    /// The gateway, by its name here.
    pub gateway: Arc<str>,
    /// The call there.
    pub call: HopId,
    /// The agent that the chain of calls begins with.
    pub root_agent: Arc<str>,
    /// The agents on the way, the first one first.
    pub path: Vec<Arc<str>>,
    /// Millionths of a US dollar that all that is done for it here may cost. None is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Tokens, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// What came of an admitted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// When.
    pub at: Timestamp,
    /// What was charged.
    pub charged: Amount,
    /// What the agent has reported above that, for which no budget of the call had room. Nobody but the agent is charged.
    #[serde(default, skip_serializing_if = "Amount::is_zero")]
    pub overrun: Amount,
    /// Where the figures come from.
    pub source: CostSource,
    /// The state that the task was left in; none if there was no task.
    pub state: Option<TaskState>,
}

/// What a caller is told when its call is settled: stands under the usage extension in the metadata of the last status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    /// What was consumed.
    #[serde(flatten)]
    pub usage: Usage,
    /// Where the figures come from.
    pub cost_source: CostSource,
    /// Where the tokens come from, if from elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_source: Option<CostSource>,
    /// What the agent has reported for the task above what its calls could pay for, which is not charged to the caller.
    #[serde(skip_serializing_if = "Amount::is_zero")]
    pub overrun: Amount,
    /// What the agent reported and nobody could read.
    #[serde(skip_serializing_if = "IgnoredFields::is_empty")]
    pub ignored: IgnoredFields,
    /// Millionths of a US dollar that the caller may still spend, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_micro_usd: Option<u64>,
    /// Tokens that the caller may still spend, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_tokens: Option<u64>,
}

/// Where a call stands among others, as its caller is told: under the lineage extension, beside the statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Whereabouts {
    /// What all calls of one purpose have in common, in traces.
    pub trace_id: Arc<str>,
    /// The task on whose behalf the call was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<TaskId>,
    /// How many calls lie between the root and this one, this one included.
    pub depth: u16,
    /// The agents on the way that the caller may know of, the one that was called last.
    pub path: Vec<Arc<str>>,
    /// Who of several answers, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Choice>,
}

/// Which member of a pool answers, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The pool.
    pub pool: Arc<str>,
    /// The member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Arc<str>>,
    /// What has chosen: the name of a selector, or `task`, `context` or `fallback`.
    pub selector: String,
    /// Why, in words.
    pub reason: String,
}

/// What came of an admitted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Nothing left this process for it. It is free.
    NotDispatched,
    /// A direct message or an error answered it, without a task.
    Answered,
    /// It left its task in this state.
    Task(TaskState),
    /// It was dispatched, and nobody knows what the agent did. What was held is charged. The task, if there is one, is in
    /// this state.
    Unknown(Option<TaskState>),
}

/// What is to be written with the batch that ends a turn.
#[derive(Clone, Debug)]
pub struct Settling {
    /// For the journal.
    pub edge: Box<Edge>,
    /// What stands there of the outcome.
    pub settled: Settled,
    /// For the caller.
    pub statement: Statement,
    /// For the caller as well, if there is anything to say.
    pub whereabouts: Option<Arc<Whereabouts>>,
}

/// What an admitted call holds: money, a place, a line of descent. Made by the gates, kept by whoever serves the call.
///
/// A batch that begins the task carries [`begin`](Self::begin), one that ends or parks it [`settle`](Self::settle). When
/// it has been committed [`began`](Self::began) or [`settled`](Self::settled) is called, and only then is anything
/// booked; [`refused`](Self::refused) if it has not. Dropped before, a hold lets go of what it holds.
pub trait Hold: Send + Sync + fmt::Debug {
    /// The call.
    fn hop(&self) -> HopId;

    /// What the agent passes on when it calls others for this call, so that they are known to be its doing.
    fn lineage(&self) -> Option<&str>;

    /// The call is for a task for which so much was charged before, and so much reported above that. What is said of the task
    /// from now on includes both.
    fn resume(&self, charged: Usage, overrun: Amount);

    /// The call has a task, which is about to be committed.
    fn begin(&self, task: &TaskId) -> Box<Edge>;

    /// That has been committed: from now on whoever wants the work stopped finds the task.
    fn began(&self);

    /// So much in all may come to be spent; is it to be had? It is held, and not counted as spent. A refusal stops nothing:
    /// whoever asks may ask for less.
    fn set_aside(&self, total: Usage) -> Result<(), Denied>;

    /// Something is about to leave this process for the call. From now on it costs what was held, unless it is
    /// [settled](Self::settle) otherwise.
    fn dispatched(&self) {}

    /// Nothing could be sent to the member of the pool that was chosen: this one is asked instead.
    fn moved_to(&self, _member: &Arc<str>) {}

    /// Fields of a usage report could not be read. They count for nothing, and the statement names them.
    fn ignore(&self, _fields: IgnoredFields) {}

    /// So much has been spent by now. If that is too much, the work must stop.
    fn spend(&self, total: Usage) -> Result<(), Denied>;

    /// The turn is about to be committed as ended. Asking books nothing.
    fn settle(&self, task: &TaskId, outcome: CallOutcome, usage: Option<Usage>) -> Settling;

    /// That has been committed. More than once is as good as once.
    fn settled(&self, settled: &Settled);

    /// That has not been committed, and will not be.
    fn refused(&self);
}

// === impl Edge ===

impl Edge {
    /// Who pays, by the name of the account.
    pub fn paid_by(&self) -> &Arc<str> {
        self.payer.as_ref().unwrap_or(&self.caller)
    }

    /// Who is charged.
    pub fn billed(&self) -> BilledParty<'_> {
        BilledParty { realm: &self.realm, name: Some(self.paid_by()), groups: &self.groups }
    }
}

// === impl CallOutcome ===

impl CallOutcome {
    /// The state that the task was left in, if there is one.
    pub fn state(self) -> Option<TaskState> {
        match self {
            Self::NotDispatched | Self::Answered => None,
            Self::Task(state) => Some(state),
            Self::Unknown(state) => state,
        }
    }
}

// === impl CallLimits ===

impl CallLimits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

// === impl HopId ===

impl HopId {
    /// A fresh one.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// From its bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// From its text.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for HopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for HopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
