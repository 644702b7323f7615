//! What was decided about a call, in words and figures, or why there is nobody for it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Choice, Denied, DeniedKind, Quota};

use super::breaker::Standing;
use super::peer::Snapshot;
use crate::Millis;

/// The gate that refuses.
pub const GATE: &str = "routing";
/// Every member of the pool is out, or it has none.
pub const NO_PEER_AVAILABLE: &str = "NO_PEER_AVAILABLE";
/// There are members that can be called, but none that the selector would take.
pub const NO_PEER_FITS: &str = "NO_PEER_FITS";
/// The agent, which is no pool, is out.
pub const AGENT_UNREACHABLE: &str = "AGENT_UNREACHABLE";
/// The member that has the task or the conversation is out.
pub const PEER_UNAVAILABLE: &str = "PEER_UNAVAILABLE";
/// The member that has the task has been taken out of the pool for good.
pub const TASK_PEER_GONE: &str = "TASK_PEER_GONE";
/// So many tasks are open that no further one could be remembered.
pub const TOO_MANY_OPEN_TASKS: &str = "TOO_MANY_OPEN_TASKS";

/// When to come back while another call tries a peer out: that may be over at any moment.
const TRIAL_WAIT: Duration = Duration::from_secs(1);

/// Which member was chosen, why, and of whom: for the log, for `explain` and for what the caller is told.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The pool.
    pub pool: Arc<str>,
    /// The member; none if the call is to be served in this process.
    pub peer: Option<Arc<str>>,
    /// What decided.
    pub why: Why,
    /// The reason in words.
    pub reason: Cow<'static, str>,
    /// The members that were looked at, as they looked.
    pub considered: Vec<Snapshot>,
}

/// What decided where a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The member has the task.
    Task,
    /// The member has the conversation.
    Context,
    /// The selector of this name.
    Selector(String),
    /// There was nobody else.
    Fallback,
}

// === impl Decision ===

impl Decision {
    /// The choice as the caller is told.
    pub fn choice(&self) -> Choice {
        let selector = match &self.why {
            Why::Task => "task",
            Why::Context => "context",
            Why::Selector(name) => name,
            Why::Fallback => "fallback",
        };
        Choice {
            pool: self.pool.clone(),
            peer: self.peer.clone(),
            selector: selector.to_owned(),
            reason: self.reason.clone().into_owned(),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer.as_deref().unwrap_or("this process");
        write!(f, "{peer} of pool {}: {}", self.pool, self.reason)
    }
}

// === refusals ===

fn denied(reason: &'static str, hint: impl Into<String>) -> Denied {
    Denied { hint: Some(hint.into()), ..Denied::new(GATE, DeniedKind::Unavailable, reason) }
}

/// When a peer that cannot be called now may be called again.
fn back_in(standing: Standing, now: Millis) -> Duration {
    match standing {
        Standing::OutUntil(until) => until.since(now),
        Standing::OnTrial | Standing::In => TRIAL_WAIT,
    }
}

pub(super) fn nobody_available(pool: &str, out: &[Snapshot], now: Millis) -> Denied {
    if out.is_empty() {
        return denied(
            NO_PEER_AVAILABLE,
            format!("pool `{pool}` has no members: add one to its configuration"),
        );
    }
    Denied {
        observed: Some(format!("{0} of {0} peers are out", out.len())),
        retry_after: out.iter().map(|one| back_in(one.standing, now)).min(),
        ..denied(
            NO_PEER_AVAILABLE,
            format!("no peer of pool `{pool}` can be reached at the moment; try again later"),
        )
    }
}

pub(super) fn nobody_fits(pool: &str, reason: &str) -> Denied {
    Denied {
        observed: Some(reason.to_owned()),
        ..denied(
            NO_PEER_FITS,
            format!(
                "no peer of pool `{pool}` will do for this call: change what is asked for, or have the pool fall back on another selector"
            ),
        )
    }
}

pub(super) fn bound_peer_out(peer: &str, standing: Standing, now: Millis) -> Denied {
    Denied {
        retry_after: Some(back_in(standing, now)),
        ..denied(
            PEER_UNAVAILABLE,
            format!(
                "only peer `{peer}` knows what this goes on with, and it cannot be reached at the moment; try again later"
            ),
        )
    }
}

pub(super) fn agent_out(agent: &str, standing: Standing, now: Millis) -> Denied {
    Denied {
        observed: Some(format!("agent `{agent}` could not be reached the last times")),
        retry_after: Some(back_in(standing, now)),
        ..denied(AGENT_UNREACHABLE, "try again later; it is tried by one call at a time")
    }
}

pub(super) fn bound_peer_gone(peer: &str) -> Denied {
    denied(
        TASK_PEER_GONE,
        format!("peer `{peer}`, which has this task, is no longer in the pool; begin a new task"),
    )
}

pub(super) fn too_many_tasks(limit: usize) -> Denied {
    Denied {
        kind: DeniedKind::Exhausted,
        limit: Some(format!("{limit} open tasks")),
        quota: Some(Box::new(Quota { limit: limit as u64, remaining: 0, reset: Some(TRIAL_WAIT) })),
        retry_after: Some(TRIAL_WAIT),
        ..denied(TOO_MANY_OPEN_TASKS, "wait until tasks of this pool have ended")
    }
}
