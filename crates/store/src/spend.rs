//! What was charged, added up: so that whoever watches budgets knows after a restart what has been spent, without
//! reading every call of the month, and whatever has become of the calls themselves.
//!
//! A sum is of one caller, one agent and one span of time, by when it was charged. It is written in the transaction
//! of the edge that it counts. Spans grow with age: seconds for two minutes, minutes for an hour, then days (UTC).
//!
//! What [`Store::delete_owner`] deletes stays in the sums, without the name of who it was: the realm has still
//! spent it.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, BilledParty, Edge, Settled, Timestamp};

use crate::Store;
use crate::edge::{MOST_EDGES, Realms};
use crate::error::StoreError;
use crate::record::Scope;

/// What was charged to one caller for one agent in one span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// When the span begins.
    pub from: Timestamp,
    /// How long it is: a second, a minute or a day.
    pub span: Duration,
    /// What isolates.
    pub realm: Arc<str>,
    /// Who paid: the caller, or whoever it called for; none if all that was theirs has been deleted.
    pub caller: Option<Arc<str>>,
    /// The groups of who paid.
    pub groups: Vec<Arc<str>>,
    /// Which agent was called.
    pub agent: Arc<str>,
    /// What was charged.
    pub charged: Amount,
    /// What the agent reported above what the calls could pay for.
    pub overrun: Amount,
    /// For how many calls.
    pub calls: u64,
}

/// Who pays for calls to which agent: each has its own sums.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpendParty {
    /// The owner is who pays.
    pub(crate) names: Scope,
    pub(crate) groups: Vec<Arc<str>>,
}

/// Sums: shorter spans first, then older ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendPage {
    /// The sums.
    pub sums: Vec<Spend>,
    /// Where the next page begins, if there is one.
    pub next: Option<SpendPlace>,
}

/// A place in the order of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpendPlace {
    /// How long the span is, in seconds.
    pub(crate) span: i64,
    /// When it begins, in seconds.
    pub(crate) at: i64,
    /// Whose it is.
    pub(crate) party: i64,
}

/// What a sum adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) charged: Amount,
    pub(crate) overrun: Amount,
    pub(crate) calls: u64,
}

/// Sums of one span that are old enough to become sums of the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    pub(crate) from: i64,
    pub(crate) into: i64,
    /// Those that begin before this second.
    pub(crate) before: i64,
}

pub(crate) const SECOND: i64 = 1;
pub(crate) const MINUTE: i64 = 60;
pub(crate) const DAY: i64 = 24 * 60 * 60;
/// From the shortest to the longest.
pub(crate) const SPANS: [i64; 3] = [SECOND, MINUTE, DAY];

impl Store {
    /// The sums of all spans that end after a time: after a place, and at most so many, [`MOST_EDGES`] at the most.
    pub async fn spend(
        &self,
        realms: &Realms,
        since: Timestamp,
        after: Option<SpendPlace>,
        limit: usize,
    ) -> Result<SpendPage, StoreError> {
        let limit = limit.min(MOST_EDGES);
        match self {
            Self::Memory(store) => Ok(store.spend(realms, since, after, limit)),
            Self::Sqlite(store) => Box::pin(store.spend(realms, since, after, limit)).await,
        }
    }
}

// === impl Spend ===

impl Spend {
    pub(crate) fn new(
        place: SpendPlace,
        (realm, caller, agent): (Arc<str>, Option<Arc<str>>, Arc<str>),
        groups: Vec<Arc<str>>,
        sum: Sum,
    ) -> Self {
        let from = Timestamp::from_millis(place.at.saturating_mul(1_000));
        let span = Duration::from_secs(place.span.unsigned_abs());
        Self {
            from,
            span,
            realm,
            caller,
            groups,
            agent,
            charged: sum.charged,
            overrun: sum.overrun,
            calls: sum.calls,
        }
    }

    /// Who was charged.
    pub fn billed(&self) -> BilledParty<'_> {
        BilledParty { realm: &self.realm, name: self.caller.as_ref(), groups: &self.groups }
    }
}

// === impl SpendParty ===

impl SpendParty {
    /// Who pays for a call.
    pub(crate) fn of(edge: &Edge) -> Self {
        let names =
            Scope { realm: edge.realm.clone(), owner: edge.paid_by().clone(), agent: edge.agent.clone() };
        Self { names, groups: edge.groups.clone() }
    }
}

// === impl SpendPlace ===

impl SpendPlace {
    /// Where a charge at this time is counted first.
    pub(crate) fn of(time: Timestamp, party: i64) -> Self {
        Self { span: SECOND, at: seconds(time), party }
    }

    pub(crate) fn widen(self, span: i64) -> Self {
        Self { span, at: self.at - self.at.rem_euclid(span), ..self }
    }

    /// The last place of all spans of a length that end by a time.
    pub(crate) fn last_by(span: i64, time: Timestamp) -> Self {
        Self { span, at: seconds(time) - span, party: i64::MAX }
    }
}

// === impl Sum ===

impl Sum {
    pub(crate) fn of_one(settled: &Settled) -> Self {
        let mut sum = Self { calls: 1, ..Self::default() };
        add(&mut sum.charged, settled.charged);
        add(&mut sum.overrun, settled.overrun);
        sum
    }

    pub(crate) fn add(&mut self, more: Self) {
        add(&mut self.charged, more.charged);
        add(&mut self.overrun, more.overrun);
        self.calls = self.calls.saturating_add(more.calls);
    }
}

// === impl Fold ===

impl Fold {
    /// What is old enough at a time. A minute is folded when it is over for at least a minute, so that what was
    /// charged in the last minute is known to the second; a day's minutes when they are over for an hour.
    pub(crate) fn due(now: Timestamp) -> [Self; 2] {
        let now = seconds(now);
        let minute = now - now.rem_euclid(MINUTE);
        [
            Self { from: SECOND, into: MINUTE, before: minute - MINUTE },
            Self { from: MINUTE, into: DAY, before: minute - 61 * MINUTE },
        ]
    }
}

/// Adds up to as much as SQLite can count. Nothing ever overflows, whatever an agent says that it has spent.
pub(crate) fn add(sum: &mut Amount, more: Amount) {
    let most = i64::MAX.unsigned_abs();
    let plus = |a: u64, b: u64| a.saturating_add(b).min(most);
    sum.micro_usd = plus(sum.micro_usd, more.micro_usd);
    sum.tokens = plus(sum.tokens, more.tokens);
    sum.tasks = plus(sum.tasks, more.tasks);
}

/// So long before a time.
pub(crate) fn ago(now: Timestamp, span: Duration) -> Timestamp {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}

fn seconds(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(1_000)
}
