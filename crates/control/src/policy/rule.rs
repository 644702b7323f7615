//! One rule of the operator: whom it is for, and what it limits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::Operation;

use super::decide::Subject;

/// Stands for every skill in a list of skills.
pub const ANY: &str = "*";

/// One rule of the operator.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// What the operator calls it.
    pub name: Arc<str>,
    /// Which callers it is for.
    pub callers: Callers,
    /// Which realms it is for; all if none.
    pub realms: Option<BTreeSet<Arc<str>>>,
    /// Which agents it is for; all if none.
    pub agents: Option<BTreeSet<Arc<str>>>,
    /// Which operations it is for; all if none.
    pub operations: Option<Vec<Operation>>,
    /// Whether it is enforced.
    pub mode: Mode,
    /// What it limits.
    pub limits: Limits,
}

/// Callers that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Callers {
    /// Everybody.
    #[default]
    Any,
    /// These.
    Named(BTreeSet<Arc<str>>),
    /// Those that belong to any of these groups.
    Groups(BTreeSet<Arc<str>>),
}

/// Whether a rule is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is.
    #[default]
    Enforce,
    /// It is only recorded what would happen if it were.
    Observe,
}

/// What a rule limits. What is none is left to less specific rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The operations that may be asked for.
    pub operations: Option<Vec<Operation>>,
    /// The skills that may be used; [`ANY`] for all of them.
    pub allowed_skills: Option<Vec<Arc<str>>>,
    /// How many calls of one caller for one skill may be open at once.
    pub max_concurrency: Option<u32>,
    /// How many tokens one call may take, when it is let through and while it runs.
    pub max_tokens: Option<u64>,
    /// How much one call may cost, in millionths of a US dollar, when it is let through and while it runs.
    pub max_micro_usd: Option<u64>,
    /// How long one call may take.
    pub max_duration: Option<Duration>,
    /// How large one message may be.
    pub max_input_bytes: Option<u64>,
    /// The media types that a message may hold; `type/*` and `*/*` included.
    pub input_modes: Option<Vec<Arc<str>>>,
}

// === impl Rule ===

impl Rule {
    /// For everybody and everything, with no limit yet.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Whether it is for this caller, agent and operation.
    pub fn is_for(&self, subject: &Subject<'_>, agent: &str, operation: Operation) -> bool {
        self.callers.hold(subject)
            && self.realms.as_ref().is_none_or(|realms| realms.contains(subject.realm))
            && self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
            && self.operations.as_ref().is_none_or(|operations| operations.contains(&operation))
    }

    /// Rules with more of it count before rules with less.
    pub(super) fn specificity(&self) -> (u8, bool, bool, bool) {
        let callers = match self.callers {
            Callers::Any => 0,
            Callers::Groups(_) => 1,
            Callers::Named(_) => 2,
        };
        (callers, self.realms.is_some(), self.agents.is_some(), self.operations.is_some())
    }
}

// === impl Callers ===

impl Callers {
    fn hold(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.contains(subject.caller),
            Self::Groups(groups) => subject.groups.iter().any(|group| groups.contains(group)),
        }
    }
}
