//! Why there was no room for a call, as a value: which limit, of whom, and when there will be.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use chancery_protocol::{Denied, DeniedKind, Quota};

use super::limits::{Metric, Scope, Window};
use crate::Millis;

/// The limits of an account leave no room for the call.
pub const BUDGET_EXCEEDED: &str = "BUDGET_EXCEEDED";
/// There is no room, and as many calls wait for it as may.
pub const BUDGET_QUEUE_FULL: &str = "BUDGET_QUEUE_FULL";
/// There was no room for as long as the call could wait.
pub const BUDGET_WAIT_EXPIRED: &str = "BUDGET_WAIT_EXPIRED";
/// The agent has reported more above what its calls could pay for than it may.
pub const BUDGET_OVERRUN: &str = "BUDGET_OVERRUN";
/// What the call will cost is not known, and such calls are not let through.
pub const COST_UNKNOWN: &str = "COST_UNKNOWN";

/// The gate that these refusals come from.
pub(super) const GATE: &str = "budget";

/// The limit that leaves no room for a call: of those that do not, the one that does so for longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Whose limit it is.
    pub scope: Scope,
    /// Of what.
    pub metric: Metric,
    /// Over which time.
    pub window: Window,
    /// The limit.
    pub cap: u64,
    /// What the call asks for.
    pub asked: u64,
    /// What the call would have made of it, with what is charged and held.
    pub observed: u64,
    /// What is left.
    pub remaining: u64,
    /// When there will be room.
    pub frees: Frees,
    /// When that was found.
    pub now: Millis,
}

/// When there will be room for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frees {
    /// Once calls that hold something are settled for less. Nobody knows when that is.
    WhenSettled,
    /// Then, if nothing more is charged.
    At(Millis),
    /// It is more than there can ever be.
    Never,
}

/// Why a call was not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room.
    Short(Shortfall),
    /// There is none, and no place to wait for it.
    QueueFull {
        /// The limit that leaves no room.
        short: Shortfall,
        /// How many wait.
        depth: usize,
    },
    /// There was none for as long as the call could wait.
    Expired {
        /// The limit that left no room at the end.
        short: Shortfall,
        /// How long it waited.
        waited: Duration,
    },
}

// === impl Shortfall ===

impl Shortfall {
    /// When to try again; none if it is never of use.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.frees {
            Frees::WhenSettled => Some(Duration::from_secs(1)),
            Frees::At(at) => Some(at.since(self.now).max(Duration::from_millis(1))),
            Frees::Never => None,
        }
    }

    /// How restrictive it is: for how long, then by how much.
    pub(super) fn severity(&self) -> impl Ord + use<> {
        let how_long = match self.frees {
            Frees::WhenSettled => 0,
            Frees::At(at) => at.0.clamp(1, u64::MAX - 1),
            Frees::Never => u64::MAX,
        };
        (how_long, self.asked.saturating_sub(self.remaining))
    }

    /// The more restrictive of two.
    pub(super) fn or_worse(self, other: Self) -> Self {
        match self.severity().cmp(&other.severity()) {
            Ordering::Less => other,
            Ordering::Equal | Ordering::Greater => self,
        }
    }

    /// The refusal of an agent whose overruns have passed this limit.
    pub(crate) fn of_overruns(&self, agent: &str) -> Denied {
        let mut denied = self.denied(BUDGET_OVERRUN);
        denied.hint = Some(format!(
            "agent `{agent}` has reported more than its calls could pay for; try again later, or raise `budget.overrun`"
        ));
        denied
    }

    fn hint(&self) -> String {
        match self.frees {
            Frees::WhenSettled => format!("wait for calls of {} to finish, or raise the limit", self.scope),
            Frees::At(_) => format!("try again later, or raise the limit of {}", self.scope),
            Frees::Never => {
                format!("it does not fit the limit of {}: ask for less, or raise the limit", self.scope)
            }
        }
    }

    fn limit(&self) -> String {
        format!("{} {} for {}", self.metric.text(self.cap), self.window.as_str(), self.scope)
    }

    fn denied(&self, reason: &'static str) -> Denied {
        let mut denied = Denied::new(GATE, DeniedKind::Exhausted, reason);
        denied.limit = Some(self.limit());
        denied.observed = Some(self.metric.text(self.observed));
        denied.remaining = Some(self.metric.text(self.remaining));
        denied.retry_after = self.retry_after();
        let (limit, remaining, reset) = (self.cap, self.remaining, denied.retry_after);
        denied.quota = Some(Box::new(Quota { limit, remaining, reset }));
        denied.hint = Some(self.hint());
        denied
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} left", self.limit(), self.metric.text(self.remaining))
    }
}

impl From<Shortfall> for Denied {
    fn from(short: Shortfall) -> Self {
        short.denied(BUDGET_EXCEEDED)
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Short(short) => short.denied(BUDGET_EXCEEDED),
            Refusal::QueueFull { short, .. } => short.denied(BUDGET_QUEUE_FULL),
            Refusal::Expired { short, .. } => short.denied(BUDGET_WAIT_EXPIRED),
        }
    }
}
