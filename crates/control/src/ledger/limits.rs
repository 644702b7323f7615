//! What is limited, for whom, and over which time: plain settings, as the configuration gives them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, HopId};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Money, in millionths of a US dollar.
    MicroUsd,
    /// Tokens, read and written together.
    Tokens,
    /// Calls.
    Tasks,
}

/// Over which time it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    /// The last 60 seconds: 61 buckets of one second, so that nothing is forgotten too early.
    Minute,
    /// The last hour: 61 buckets of one minute.
    Hour,
    /// The calendar day, in UTC.
    Day,
    /// The calendar month, in UTC.
    Month,
    /// For as long as there is the account.
    Life,
}

/// One kind of account. The order is the one in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Everything that passes through.
    Global,
    /// A realm.
    Realm,
    /// A group of callers.
    Group,
    /// A caller.
    Caller,
    /// An agent that is called.
    Agent,
    /// What an agent has reported above what its calls could pay for.
    Overrun,
    /// A root call and all that is done on its behalf.
    Root,
    /// One call.
    Hop,
}

/// Whose account it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Of everything that passes through.
    Global,
    /// Of a realm.
    Realm(Arc<str>),
    /// Of a group of callers. The same name in another realm is another group.
    Group {
        /// The realm of its callers.
        realm: Arc<str>,
        /// Its name within the realm.
        name: Arc<str>,
    },
    /// Of a caller. The same name in another realm is another caller.
    Caller {
        /// The realm of the caller.
        realm: Arc<str>,
        /// Who it is within the realm.
        id: Arc<str>,
    },
    /// Of an agent, whoever calls it.
    Agent(Arc<str>),
    /// Of what an agent has reported above what its calls could pay for.
    Overrun(Arc<str>),
    /// Of a root call and all that is done on its behalf.
    Root(HopId),
    /// Of one call.
    Hop(HopId),
    /// Of all of a level that have none of their own, because there are too many.
    Others(Level),
}

/// The most of each metric; none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// Of money, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// Of tokens.
    pub tokens: Option<u64>,
    /// Of calls.
    pub tasks: Option<u64>,
}

/// The limits of one account, over each of its windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Over the last 60 seconds.
    pub per_minute: Cap,
    /// Over the last hour.
    pub per_hour: Cap,
    /// In a calendar day, UTC.
    pub per_day: Cap,
    /// In a calendar month, UTC.
    pub per_month: Cap,
}

/// The limits of all accounts of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelLimits {
    /// For whoever is not named.
    pub default: Caps,
    /// For whoever is: in place of the default, as a whole.
    pub named: HashMap<Arc<str>, Caps>,
}

/// What happens to a call for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It is refused.
    #[default]
    Shed,
    /// It waits for room.
    Queue {
        /// How many may wait, over all callers.
        max_depth: usize,
        /// For how long.
        max_wait: Duration,
    },
}

/// The settings of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For everything that passes through.
    pub global: Caps,
    /// By the name of the realm.
    pub realm: LevelLimits,
    /// By the name of the group within its realm.
    pub group: LevelLimits,
    /// By the name of the caller within its realm.
    pub caller: LevelLimits,
    /// What an agent may spend on calls of which nobody knows whom they are for.
    pub unattributed: Caps,
    /// By the name of the agent.
    pub agent: LevelLimits,
    /// For what each agent reports above what its calls could pay for. Beyond that it gets no calls.
    pub overrun: Caps,
    /// What happens to a call for which there is no room.
    pub overflow: Overflow,
    /// How many accounts there may be. Whoever comes when all of them are in use shares one with the others that do.
    pub max_accounts: usize,
}

/// What the account of an agent is called that does not say for whom it calls: this and its name.
pub(crate) const UNATTRIBUTED: &str = "unattributed/";

/// How many metrics there are.
pub(super) const METRICS: usize = 3;

/// No limit.
pub(super) const NO_CAP: u64 = u64::MAX;

/// More than this is never counted for one call, so that no report can make a sum overflow: a million calls would
/// have to say as much. It is 17 million dollars.
pub(crate) const MOST: u64 = 1 << 44;

// === impl Metric ===

impl Metric {
    /// All of them.
    pub const ALL: [Self; METRICS] = [Self::MicroUsd, Self::Tokens, Self::Tasks];

    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MicroUsd => "micro_usd",
            Self::Tokens => "tokens",
            Self::Tasks => "tasks",
        }
    }

    /// A quantity of it, for people to read.
    pub fn text(self, quantity: u64) -> String {
        match self {
            Self::MicroUsd => format!("{}.{:06} USD", quantity / 1_000_000, quantity % 1_000_000),
            Self::Tokens => format!("{quantity} tokens"),
            Self::Tasks => format!("{quantity} tasks"),
        }
    }
}

/// The quantities of an amount, each at the place of its metric.
pub(super) fn by_metric(amount: Amount) -> [u64; METRICS] {
    [amount.micro_usd, amount.tokens, amount.tasks].map(|quantity| quantity.min(MOST))
}

/// The amount that has these quantities.
pub(super) fn amount_of([micro_usd, tokens, tasks]: [u64; METRICS]) -> Amount {
    Amount { micro_usd, tokens, tasks }
}

// === impl Window ===

impl Window {
    /// Those that limits are set for.
    pub const ALL: [Self; 4] = [Self::Minute, Self::Hour, Self::Day, Self::Month];

    /// The name as it stands in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Life => "life",
        }
    }

    /// As it stands behind an amount.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "per minute",
            Self::Hour => "per hour",
            Self::Day => "per day",
            Self::Month => "per month",
            Self::Life => "in all",
        }
    }
}

// === impl Level ===

impl Level {
    /// The name as it stands in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Realm => "realm",
            Self::Group => "group",
            Self::Caller => "caller",
            Self::Agent => "agent",
            Self::Overrun => "overrun",
            Self::Root => "root",
            Self::Hop => "hop",
        }
    }
}

// === impl Scope ===

impl Scope {
    /// What kind of account it is.
    pub fn level(&self) -> Level {
        match self {
            Self::Global => Level::Global,
            Self::Realm(_) => Level::Realm,
            Self::Group { .. } => Level::Group,
            Self::Caller { .. } => Level::Caller,
            Self::Agent(_) => Level::Agent,
            Self::Overrun(_) => Level::Overrun,
            Self::Root(_) => Level::Root,
            Self::Hop(_) => Level::Hop,
            Self::Others(level) => *level,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("all calls"),
            Self::Realm(name) => write!(f, "realm `{name}`"),
            Self::Group { realm, name } => write!(f, "group `{name}` of realm `{realm}`"),
            Self::Caller { realm, id } => write!(f, "caller `{id}` of realm `{realm}`"),
            Self::Agent(name) => write!(f, "agent `{name}`"),
            Self::Overrun(name) => write!(f, "overruns of agent `{name}`"),
            Self::Root(hop) => write!(f, "root call `{hop}`"),
            Self::Hop(hop) => write!(f, "call `{hop}`"),
            Self::Others(level) => write!(f, "every further {}", level.as_str()),
        }
    }
}

// === impl Cap ===

impl Cap {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The same, where the caller's own word may lower it and nothing else.
    #[must_use]
    pub fn lowered(self, ceiling_micro_usd: Option<u64>) -> Self {
        let micro_usd = match (self.micro_usd, ceiling_micro_usd) {
            (Some(cap), Some(ceiling)) => Some(cap.min(ceiling)),
            (cap, ceiling) => cap.or(ceiling),
        };
        Self { micro_usd, ..self }
    }

    pub(super) fn by_metric(self) -> [u64; METRICS] {
        [self.micro_usd, self.tokens, self.tasks].map(|cap| cap.map_or(NO_CAP, |cap| cap.min(NO_CAP >> 4)))
    }
}

// === impl Caps ===

impl Caps {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The limits over one window.
    pub(super) fn over(&self, window: Window) -> Cap {
        match window {
            Window::Minute => self.per_minute,
            Window::Hour => self.per_hour,
            Window::Day => self.per_day,
            Window::Month => self.per_month,
            Window::Life => Cap::default(),
        }
    }

    /// The windows in which something is limited.
    pub(super) fn windows(&self) -> impl Iterator<Item = (Window, Cap)> {
        Window::ALL.into_iter().map(|window| (window, self.over(window))).filter(|(_, cap)| !cap.is_none())
    }
}

// === impl LevelLimits ===

impl LevelLimits {
    fn of(&self, name: &str) -> Option<&Caps> {
        let caps = self.named.get(name).unwrap_or(&self.default);
        (!caps.is_none()).then_some(caps)
    }
}

// === impl Limits ===

impl Limits {
    /// The limits that apply to an account; none if there are none. Those of single calls come with the call.
    pub fn of(&self, scope: &Scope) -> Option<&Caps> {
        match scope {
            Scope::Global => (!self.global.is_none()).then_some(&self.global),
            Scope::Realm(name) => self.realm.of(name),
            Scope::Group { name, .. } => self.group.of(name),
            Scope::Caller { id, .. } if id.starts_with(UNATTRIBUTED) => {
                (!self.unattributed.is_none()).then_some(&self.unattributed)
            }
            Scope::Caller { id, .. } => self.caller.of(id),
            Scope::Agent(name) => self.agent.of(name),
            Scope::Overrun(_) => (!self.overrun.is_none()).then_some(&self.overrun),
            Scope::Others(level) => self.default_of(*level).filter(|caps| !caps.is_none()),
            Scope::Root(_) | Scope::Hop(_) => None,
        }
    }
}

impl Limits {
    fn default_of(&self, level: Level) -> Option<&Caps> {
        match level {
            Level::Global => Some(&self.global),
            Level::Realm => Some(&self.realm.default),
            Level::Group => Some(&self.group.default),
            Level::Caller => Some(&self.caller.default),
            Level::Agent => Some(&self.agent.default),
            Level::Overrun => Some(&self.overrun),
            Level::Root | Level::Hop => None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            global: Caps::default(),
            realm: LevelLimits::default(),
            group: LevelLimits::default(),
            caller: LevelLimits::default(),
            unattributed: Caps::default(),
            agent: LevelLimits::default(),
            overrun: Caps::default(),
            overflow: Overflow::default(),
            max_accounts: 100_000,
        }
    }
}
