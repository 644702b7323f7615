//! What an admitted call holds, from when it is let through until it is settled: exactly once, whatever becomes of it.
//!
//! | file | holds |
//! |---|---|
//! | `settlement` | what a call comes to, and how that is charged |

mod settlement;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use chancery_protocol::{
    Amount, CallLimits, CallOutcome, Caller, CostSource, Denied, Edge, Hold, HopId, IgnoredFields, Principal,
    Settled, Settling, Statement, TaskId, TaskState, Usage, UsageReport, Whereabouts,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tracing::Span;

use crate::Millis;
use crate::gate::Given;
use crate::gates::KeyClaim;
use crate::ledger::{Account, Estimate, Figure, Reservation, Tariff};
use crate::lineage::OpenHop;
use crate::plane::{Plane, Stop};
use crate::policy::{Caps, Slot};
use crate::routing::Watched;
use crate::span;
use settlement::{Settlement, less, most};

/// The reason of a call whose time is up.
pub const POLICY_TIMEOUT: &str = "PolicyTimeout";

/// What one admitted call holds.
pub(crate) struct Held {
    plane: Arc<Plane>,
    /// The place of the call in its chain.
    pub(crate) open: Arc<OpenHop>,
    /// Who asked for it; owns its task.
    principal: Principal,
    /// Who pays for it, and for what follows from it.
    pub(crate) payer: Caller,
    /// The account of the root.
    pub(crate) root: Option<Arc<Account>>,
    skill: Option<Arc<str>>,
    trace: Arc<str>,
    /// What its caller is told of where it stands, if there is anything to say.
    whereabouts: Option<Arc<Whereabouts>>,
    /// The most that its caller wants it to cost, with all that it leads to.
    ceiling: Option<u64>,
    span: Span,
    opened: Millis,
    /// When its time is up.
    until: Option<Millis>,
    caps: Caps,
    source: CostSource,
    /// Whether another agent answers here for the one that was called.
    stays_here: bool,
    estimate: Estimate,
    tariff: Arc<Tariff>,
    token: String,
    itself: OnceLock<Weak<Held>>,
    settled: AtomicBool,
    /// Whether it is settled and its task waits for its client.
    is_parked: AtomicBool,
    /// What is left to give back, in reverse order of how it was given.
    grants: Mutex<Grants>,
    spent: Mutex<Spent>,
}

struct Grants {
    /// Given back as soon as the journal knows the call.
    key_claim: Option<KeyClaim>,
    slots: SmallVec<[Slot; 2]>,
    watched: Option<Arc<Watched<Clock>>>,
    reservation: Option<Reservation>,
}

/// What is known of what the call has used, and of what is to become of it.
#[derive(Debug, Default)]
struct Spent {
    /// What its task had used before, by what its agent reported.
    before: Usage,
    /// What of that nobody was charged but the agent.
    overrun_before: Amount,
    /// All that its task has used, if anybody has said so. What was asked for and refused has not been used.
    total: Option<Usage>,
    /// What was reported and could not be read.
    ignored: IgnoredFields,
    /// What the journal is about to be told.
    proposed: Option<Settled>,
    /// The member of the pool that answers in the place of the one that was chosen.
    other_member: Option<Arc<str>>,
    /// Whether anything has left this process for the call.
    is_dispatched: bool,
    /// Whether the journal knows the task, so that it can be stopped.
    begun: bool,
    /// Whether it has grown since its record was made, and the journal may not know that yet.
    is_outdated: bool,
    stop: Stopping,
}

/// Whether the work is to be stopped.
#[derive(Clone, Debug, Default)]
enum Stopping {
    #[default]
    No,
    /// As soon as there is a task to be stopped; why, unless it is canceled along with what it was done for.
    Due(Option<String>),
    /// It has been asked for.
    Asked,
}

/// What a call leaves the gates with, besides what they gave it.
pub(crate) struct Leaving {
    pub(crate) open: Arc<OpenHop>,
    pub(crate) principal: Principal,
    pub(crate) payer: Caller,
    pub(crate) token: String,
    pub(crate) now: Millis,
    pub(crate) is_local: bool,
    pub(crate) stays_here: bool,
    pub(crate) ceiling: Option<u64>,
    pub(crate) whereabouts: Option<Arc<Whereabouts>>,
    /// How the member of a pool does that was chosen.
    pub(crate) watched: Option<Arc<Watched<Clock>>>,
}

/// The clock of the world outside.
pub(crate) type Clock = Box<dyn Fn() -> Millis + Send + Sync>;

// === impl Held ===

impl Held {
    pub(crate) fn new(plane: Arc<Plane>, leaving: Leaving, given: Given) -> Arc<Self> {
        let Leaving { open, principal, payer, token, now, is_local, stays_here, ceiling, .. } = leaving;
        let (whereabouts, watched) = (leaving.whereabouts, leaving.watched);
        let Given { slots, caps, reservation, root, tariff, estimate, skill, key_claim, .. } = given;
        let tariff = tariff.unwrap_or_default();
        let estimate = estimate.unwrap_or(free());
        let grants = Grants { key_claim, slots, watched, reservation };
        let trace: Arc<str> = open.context.trace_id.text().as_str().into();
        let held = Arc::new(Self {
            span: span::of(&open, &trace),
            trace,
            whereabouts,
            ceiling,
            open,
            principal,
            payer,
            root,
            skill,
            opened: now,
            until: caps.duration.map(|duration| now + duration),
            caps,
            source: if is_local { CostSource::Metered } else { CostSource::Reported },
            stays_here,
            estimate,
            tariff,
            token,
            itself: OnceLock::new(),
            settled: AtomicBool::new(false),
            is_parked: AtomicBool::new(false),
            grants: Mutex::new(grants),
            spent: Mutex::default(),
            plane,
        });
        let _ = held.itself.set(Arc::downgrade(&held));
        held.plane.keep(&held);
        held
    }

    /// The record of the call as it now stands.
    pub(crate) fn edge(&self, settled: Option<Settled>) -> Box<Edge> {
        let used = self.used_by_now(settled.is_some());
        let peer = self.spent.lock().other_member.clone().or_else(|| self.open.peer.clone());
        Box::new(Edge {
            hop: self.open.hop,
            root: self.open.root,
            parent: self.open.parent,
            depth: self.open.context.depth,
            trace: Some(self.trace.clone()),
            realm: self.open.realm.clone(),
            caller: self.open.caller.clone(),
            payer: Some(&self.payer.principal.id).filter(|payer| **payer != self.open.caller).cloned(),
            groups: self.payer.identity.groups.clone(),
            agent: self.open.agent.clone(),
            skill: self.skill.clone(),
            peer,
            task: self.open.task().cloned(),
            opened: self.opened.into(),
            reserved: self.reserved(),
            limits: self.limits(settled.is_some()),
            origin: self.open.origin.clone().filter(|_| self.open.parent.is_none()),
            used,
            settled,
        })
    }

    /// What it is known to have used, for who goes on with it.
    fn used_by_now(&self, is_settled: bool) -> Usage {
        let Spent { before, total, .. } = *self.spent.lock();
        total.filter(|_| !is_settled).map_or_else(Usage::default, |total| settlement::less(total, before))
    }

    /// It holds more than its record says, or has used more: another process is to know that.
    pub(crate) fn has_grown(&self) {
        let is_known = {
            let mut spent = self.spent.lock();
            spent.is_outdated = !spent.begun;
            spent.begun
        };
        if is_known && !self.settled.load(Ordering::Acquire) {
            self.plane.hands.record(self.edge(None));
        }
    }

    /// It goes on with what an earlier process knew of it.
    pub(crate) fn restore_used(&self, used: Usage) {
        self.spent.lock().total = Some(used).filter(|used| !used.is_zero());
    }

    /// What is to be known of its limits by who goes on with it; once it is settled, by who goes on with what it led to.
    fn limits(&self, is_settled: bool) -> CallLimits {
        let ceiling = CallLimits { ceiling_micro_usd: self.ceiling, ..CallLimits::default() };
        if is_settled {
            return ceiling;
        }
        let Caps { tokens, micro_usd, duration } = self.caps;
        let duration_ms = duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        CallLimits { micro_usd, tokens, duration_ms, ..ceiling }
    }

    /// Spans what is done for the call.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// It was answered without a task: this is all there will be.
    pub(crate) fn answered(&self, report: Option<UsageReport>) {
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        let UsageReport { usage, ignored } = report.unwrap_or_default();
        self.ignore(ignored);
        let settled = self.settlement(CallOutcome::Answered, usage).settled;
        self.book(&settled);
        self.plane.hands.record(self.edge(Some(settled)));
    }

    /// Who has the task: the agent that was called, unless another one answers for it here.
    pub(crate) fn works_at(&self) -> &Arc<str> {
        self.open.peer.as_ref().filter(|_| self.stays_here).unwrap_or(&self.open.agent)
    }

    /// Its time is up.
    pub(crate) fn time_is_up(&self) {
        let limit = self.caps.duration.unwrap_or_default();
        self.stop(Some(format!(
            "{POLICY_TIMEOUT}: the call took longer than the {limit:?} that policy allows"
        )));
    }

    /// Whether an agent was called.
    pub(crate) fn is_of(&self, agent: &str) -> bool {
        &*self.open.agent == agent
    }

    /// The agent is cut off.
    pub(crate) fn contained(&self, reason: &str) {
        self.stop(Some(format!("agent `{}` is contained: {reason}", self.open.agent)));
    }

    /// Has the work stopped, once: now, or when there is a task to be stopped.
    pub(crate) fn stop(&self, why: Option<String>) {
        let mut spent = self.spent.lock();
        if matches!(spent.stop, Stopping::No) {
            spent.stop = Stopping::Due(why);
            self.stop_what_has_begun(&mut spent);
        }
    }

    fn stop_what_has_begun(&self, spent: &mut Spent) {
        let Some(task) = self.open.task().filter(|_| spent.begun) else { return };
        let Stopping::Due(why) = &mut spent.stop else { return };
        let (agent, principal, why) = (self.works_at().clone(), self.principal.clone(), why.take());
        spent.stop = Stopping::Asked;
        self.plane.hands.stop(Stop { agent, principal, task: task.clone(), why });
    }

    /// It was let through by an earlier process, and its task is in the journal.
    pub(crate) fn has_begun(&self) {
        let mut spent = self.spent.lock();
        (spent.begun, spent.is_dispatched) = (true, true);
        drop(spent);
        self.watch_time();
    }

    /// Has it stopped when its time is up.
    fn watch_time(&self) {
        if let (Some(until), Some(held)) = (self.until, self.itself.get().and_then(Weak::upgrade)) {
            self.plane.watch(&held, until);
        }
    }

    /// What its caller is told of where it stands: by which member it is answered, if that is not the one that was chosen.
    fn whereabouts_now(&self) -> Option<Arc<Whereabouts>> {
        let told = self.whereabouts.clone()?;
        let Some(member) = self.spent.lock().other_member.clone() else { return Some(told) };
        let mut told = Arc::unwrap_or_clone(told);
        if let Some(choice) = &mut told.routing {
            let chosen = choice.peer.replace(member);
            choice.reason = format!("`{}` could not be reached", chosen.unwrap_or_default());
        }
        Some(Arc::new(told))
    }

    fn reserved(&self) -> Amount {
        self.grants.lock().reservation.as_ref().map_or(self.estimate.hold, Reservation::amount)
    }

    fn close(&self) {
        self.plane.forget(self.open.hop, self.until);
    }
}

impl Hold for Held {
    fn hop(&self) -> HopId {
        self.open.hop
    }

    fn lineage(&self) -> Option<&str> {
        Some(&self.token)
    }

    fn resume(&self, charged: Usage, overrun: Amount) {
        let mut consumed = charged;
        // Its tokens are told whole, overrun or not; its money is what was charged.
        consumed.cost_micro_usd = charged.cost_micro_usd.saturating_add(overrun.micro_usd);
        let mut spent = self.spent.lock();
        spent.overrun_before = overrun;
        let Spent { before, total, .. } = &mut *spent;
        if let Some(total) = total {
            *total = settlement::less(*total, *before);
            total.add(consumed);
        }
        *before = consumed;
    }

    fn begin(&self, task: &TaskId) -> Box<Edge> {
        self.open.began(task);
        self.watch_time();
        self.spent.lock().is_outdated = false;
        self.edge(None)
    }

    fn began(&self) {
        drop(self.grants.lock().key_claim.take());
        let is_outdated = {
            let mut spent = self.spent.lock();
            spent.begun = true;
            self.stop_what_has_begun(&mut spent);
            spent.is_outdated
        };
        if is_outdated {
            self.has_grown();
        }
    }

    fn dispatched(&self) {
        self.spent.lock().is_dispatched = true;
    }

    fn moved_to(&self, member: &Arc<str>) {
        self.spent.lock().other_member = Some(member.clone());
    }

    fn ignore(&self, fields: IgnoredFields) {
        if fields.is_empty() {
            return;
        }
        let (hop, agent) = (self.open.hop, &*self.open.agent);
        tracing::warn!(%hop, agent, ?fields, "a usage report of agent `{agent}` has fields that are no whole numbers");
        let mut spent = self.spent.lock();
        spent.ignored = spent.ignored.and(fields);
    }

    fn set_aside(&self, total: Usage) -> Result<(), Denied> {
        let before = self.spent.lock().before;
        self.afford(less(total, before))
    }

    fn spend(&self, total: Usage) -> Result<(), Denied> {
        let before = self.spent.lock().before;
        let afforded = self.afford(less(total, before));
        // An agent elsewhere tells what it has spent already; one here asks first, and does not if it is refused.
        if afforded.is_ok() || self.source != CostSource::Metered {
            let has_used_more = {
                let mut spent = self.spent.lock();
                let known = spent.total;
                spent.total = most(known, Some(total));
                spent.total != known
            };
            // One here holds what it may use, and that is on record.
            if has_used_more && self.source != CostSource::Metered {
                self.has_grown();
            }
        }
        if let Err(denied) = &afforded {
            self.stop(Some(denied.to_string()));
        }
        afforded
    }

    fn settle(&self, task: &TaskId, outcome: CallOutcome, usage: Option<Usage>) -> Settling {
        self.open.began(task);
        let Settlement { settled, token_source, used } = self.settlement(outcome, usage);
        let (ignored, overrun_before) = {
            let mut spent = self.spent.lock();
            spent.proposed = Some(settled);
            (spent.ignored, spent.overrun_before)
        };
        let (remaining_micro_usd, remaining_tokens) = self.remaining_after(&settled);
        let statement = Statement {
            usage: used,
            cost_source: settled.source,
            token_source: Some(token_source).filter(|source| *source != settled.source),
            overrun: overrun_before.plus(settled.overrun),
            ignored,
            remaining_micro_usd,
            remaining_tokens,
        };
        let whereabouts = self.whereabouts_now();
        Settling { edge: self.edge(Some(settled)), settled, statement, whereabouts }
    }

    fn settled(&self, settled: &Settled) {
        if let Some(used) = self.spent.lock().total {
            self.tariff.observe(used);
        }
        self.book(settled);
    }

    fn refused(&self) {
        self.spent.lock().proposed = None;
    }
}

/// A call that nobody settles: what led to it failed before it came to anything, or the process winds down. One that was
/// dispatched is charged what was held, since nobody knows what its agent did. Of another one, what it is known to have used
/// is charged. But what may stand in the journal is charged as it stands there.
impl Drop for Held {
    fn drop(&mut self) {
        if self.is_parked.load(Ordering::Acquire) {
            self.plane.unpark(self.open.hop);
        }
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        let (proposed, is_dispatched, has_used) = {
            let spent = self.spent.lock();
            (spent.proposed, spent.is_dispatched, spent.total.is_some())
        };
        let outcome = match (is_dispatched, has_used) {
            (true, _) => CallOutcome::Unknown(None),
            (false, true) => CallOutcome::Answered,
            (false, false) => CallOutcome::NotDispatched,
        };
        let settled = proposed.unwrap_or_else(|| self.settlement(outcome, None).settled);
        self.book(&settled);
        if is_dispatched || has_used || self.open.task().is_some() {
            self.plane.hands.record(self.edge(Some(settled)));
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("hop", &self.open.hop)
            .field("agent", &self.open.agent)
            .finish_non_exhaustive()
    }
}

/// Of a call that the budget has not seen, because it only observes and could not say.
fn free() -> Estimate {
    Estimate { hold: Amount::default(), expected: Figure::of_money(0, CostSource::Unknown) }
}

/// Whether the task of a settled call waits for its client.
pub(crate) fn is_waiting(settled: &Settled) -> bool {
    settled.state.is_some_and(TaskState::is_interrupted)
}

/// Whether what was done on behalf of a call that ended so is done for nobody.
pub(crate) fn is_cut_short(settled: &Settled) -> bool {
    matches!(settled.state, Some(TaskState::Canceled | TaskState::Failed))
}
