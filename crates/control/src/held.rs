//! What an admitted call holds, from when it is let through until it is settled: exactly once, whatever becomes of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use chancery_protocol::{
    Amount, CallLimits, CallOutcome, CostSource, Denied, DeniedKind, Edge, Hold, HopId, Principal, Settled,
    Settling, Statement, TaskId, TaskState, Usage, Whereabouts,
};
use parking_lot::Mutex;
use tracing::Span;

use crate::Millis;
use crate::gate::Given;
use crate::ledger::{Account, Estimate, Figure, Reservation, Tariff};
use crate::lineage::OpenHop;
use crate::plane::{Booked, Plane, Stop};
use crate::policy::{COST_LIMIT, Caps, GATE as POLICY, Slot, TOKEN_LIMIT};
use crate::routing::Watched;
use crate::span;

/// The reason of a call whose time is up.
pub const POLICY_TIMEOUT: &str = "PolicyTimeout";

/// What one admitted call holds.
pub(crate) struct Held {
    plane: Arc<Plane>,
    /// The place of the call in its chain.
    open: Arc<OpenHop>,
    /// Who asked for it; owns its task.
    principal: Principal,
    /// Who pays for it, and for what follows from it.
    pub(crate) payer: Principal,
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
    /// What is left to give back, in reverse order of how it was given.
    grants: Mutex<Grants>,
    spent: Mutex<Spent>,
}

struct Grants {
    slot: Option<Slot>,
    watched: Option<Arc<Watched<Clock>>>,
    reservation: Option<Reservation>,
}

/// What is known of what the call has used, and of what is to become of it.
#[derive(Debug, Default)]
struct Spent {
    /// What its task had used before.
    before: Usage,
    /// All that its task has used, if anybody has said so. What was asked for and refused has not been used.
    total: Option<Usage>,
    /// What the journal is about to be told.
    proposed: Option<Settled>,
    /// Whether the journal knows the task, so that it can be stopped.
    begun: bool,
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
    pub(crate) payer: Principal,
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
        let Given { slot, caps, reservation, root, tariff, estimate, skill, .. } = given;
        let tariff = tariff.unwrap_or_default();
        let estimate = estimate.unwrap_or(free());
        let grants = Grants { slot, watched, reservation };
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
        Box::new(Edge {
            hop: self.open.hop,
            root: self.open.root,
            parent: self.open.parent,
            depth: self.open.context.depth,
            trace: Some(self.trace.clone()),
            realm: self.open.realm.clone(),
            caller: self.open.caller.clone(),
            payer: Some(&self.payer.id).filter(|payer| **payer != self.open.caller).cloned(),
            agent: self.open.agent.clone(),
            skill: self.skill.clone(),
            peer: self.open.peer.clone(),
            task: self.open.task().cloned(),
            opened: self.opened.into(),
            reserved: self.reserved(),
            limits: self.limits(settled.is_some()),
            origin: self.open.origin.clone(),
            settled,
        })
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
    pub(crate) fn answered(&self) {
        let settled = self.settlement(CallOutcome::Answered, None).0;
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
        self.spent.lock().begun = true;
        self.watch_time();
    }

    /// Has it stopped when its time is up.
    fn watch_time(&self) {
        if let (Some(until), Some(held)) = (self.until, self.itself.get().and_then(Weak::upgrade)) {
            self.plane.watch(&held, until);
        }
    }

    fn reserved(&self) -> Amount {
        self.grants.lock().reservation.as_ref().map_or(self.estimate.hold, Reservation::amount)
    }

    /// What the call comes to, and what it has used.
    fn settlement(&self, outcome: CallOutcome, reported: Option<Usage>) -> (Settled, Usage) {
        let Spent { before, total, .. } = *self.spent.lock();
        let total = match (self.source, reported) {
            // What was set aside and not used is not charged, and what was refused has not been used.
            (CostSource::Metered, Some(reported)) => match self.afford(less(reported, before)) {
                Ok(()) => Some(reported),
                Err(denied) => {
                    let hop = self.open.hop;
                    tracing::warn!(%hop, "call {hop} reports more than it was let spend: {denied}");
                    total
                }
            },
            _ => most(total, reported),
        };
        let used = total.map(|total| less(total, before));
        let figure = self.tariff.charge(&self.estimate, used.map(|used| (used, self.source)));
        let held = self.reserved();
        let charged = match outcome {
            CallOutcome::NotDispatched => Amount::default(),
            CallOutcome::Answered | CallOutcome::Task(_) => figure.amount,
            CallOutcome::Unknown(_) => Amount {
                micro_usd: figure.amount.micro_usd.max(held.micro_usd),
                tokens: figure.amount.tokens.max(held.tokens),
                tasks: figure.amount.tasks.max(held.tasks),
            },
        };
        let at = self.plane.hands.now().into();
        let settled = Settled { at, charged, source: figure.source, state: outcome.state() };
        let mut shown = total.unwrap_or(before);
        shown.cost_micro_usd = before.cost_micro_usd.saturating_add(charged.micro_usd);
        (settled, shown)
    }

    /// Whether so much is within what one call may use, and held.
    fn afford(&self, used: Usage) -> Result<(), Denied> {
        let figure = self.tariff.charge(&self.estimate, Some((used, self.source)));
        let needed = figure.amount;
        let over = |cap: Option<u64>, needed: u64| cap.filter(|cap| needed > *cap);
        let capped = over(self.caps.micro_usd, needed.micro_usd)
            .map(|cap| (COST_LIMIT, cap, needed.micro_usd))
            .or_else(|| over(self.caps.tokens, needed.tokens).map(|cap| (TOKEN_LIMIT, cap, needed.tokens)));
        if let Some((reason, cap, needed)) = capped {
            let mut denied = Denied::new(POLICY, DeniedKind::Forbidden, reason);
            (denied.limit, denied.observed) = (Some(cap.to_string()), Some(needed.to_string()));
            denied.hint = Some("ask for less at a time, or have the policy raised".to_owned());
            return Err(denied);
        }
        let mut grants = self.grants.lock();
        let Some(reservation) = &mut grants.reservation else { return Ok(()) };
        let held = reservation.amount();
        let more = Amount {
            micro_usd: needed.micro_usd.saturating_sub(held.micro_usd),
            tokens: needed.tokens.saturating_sub(held.tokens),
            tasks: 0,
        };
        if more == Amount::default() {
            return Ok(());
        }
        reservation.extend(more, self.plane.hands.now()).map_err(Denied::from)
    }

    /// Books what the call came to and gives back what it holds; only the first time.
    fn book(&self, settled: &Settled) {
        if self.settled.swap(true, Ordering::AcqRel) {
            return;
        }
        // The moment that the record has.
        let now = Millis::from(settled.at);
        let Grants { slot, watched, reservation } = {
            let mut grants = self.grants.lock();
            Grants {
                slot: grants.slot.take(),
                watched: grants.watched.take(),
                reservation: grants.reservation.take(),
            }
        };
        drop(slot);
        if let Some(watched) = watched {
            watched.ticket().cost(settled.charged.micro_usd);
        }
        if let Some(reservation) = reservation {
            reservation.settle(settled.charged, now);
        }
        self.close();
        span::record(&self.span, &self.open, settled);
        self.plane.hands.booked(&Booked {
            hop: self.open.hop,
            root: self.open.root,
            depth: self.open.context.depth,
            trace: &self.trace,
            caller: &self.open.caller,
            agent: &self.open.agent,
            peer: self.open.peer.as_deref(),
            task: self.open.task(),
            opened: self.opened,
            settled,
        });
        let table = &self.plane.open;
        table.remove(&self.open);
        let following = match is_cut_short(settled) {
            true => table.cascade(&self.open),
            false => table.left_behind(&self.open),
        };
        let following = following.iter().filter_map(|hop| self.plane.held(hop.hop));
        following.for_each(|held| held.stop(None));
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

    fn resume(&self, consumed: Usage) {
        self.spent.lock().before = consumed;
    }

    fn begin(&self, task: &TaskId) -> Box<Edge> {
        self.open.began(task);
        self.watch_time();
        self.edge(None)
    }

    fn began(&self) {
        let mut spent = self.spent.lock();
        spent.begun = true;
        self.stop_what_has_begun(&mut spent);
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
            let mut spent = self.spent.lock();
            spent.total = most(spent.total, Some(total));
        }
        if let Err(denied) = &afforded {
            self.stop(Some(denied.to_string()));
        }
        afforded
    }

    fn settle(&self, task: &TaskId, outcome: CallOutcome, usage: Option<Usage>) -> Settling {
        self.open.began(task);
        let (settled, usage) = self.settlement(outcome, usage);
        self.spent.lock().proposed = Some(settled);
        let left = self.grants.lock().reservation.as_ref().map(|held| {
            let (left, held) = (held.remaining(Millis::from(settled.at)), held.amount());
            let after = |left: Option<u64>, held: u64, charged: u64| {
                left.map(|left| left.saturating_add(held).saturating_sub(charged))
            };
            let charged = settled.charged;
            (
                after(left.micro_usd, held.micro_usd, charged.micro_usd),
                after(left.tokens, held.tokens, charged.tokens),
            )
        });
        let (remaining_micro_usd, remaining_tokens) = left.unwrap_or_default();
        let statement =
            Statement { usage, cost_source: settled.source, remaining_micro_usd, remaining_tokens };
        let whereabouts = self.whereabouts.clone();
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

/// A call that nobody settles: what led to it failed before it came to anything, or the process winds down. What it is known
/// to have used is charged, and nothing else; but what may stand in the journal is charged as it stands there.
impl Drop for Held {
    fn drop(&mut self) {
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        let (proposed, used) = {
            let spent = self.spent.lock();
            (spent.proposed, spent.total.is_some())
        };
        let settled = proposed.unwrap_or_else(|| {
            let settled = self.settlement(CallOutcome::Answered, None).0;
            let charged = if used { settled.charged } else { Amount::default() };
            Settled { charged, ..settled }
        });
        self.book(&settled);
        if used || self.open.task().is_some() {
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
    let figure = Figure { amount: Amount::ONE_TASK, source: CostSource::Estimated, flagged: true };
    Estimate { hold: Amount::default(), expected: figure }
}

/// Whether what was done on behalf of a call that ended so is done for nobody.
pub(crate) fn is_cut_short(settled: &Settled) -> bool {
    matches!(settled.state, Some(TaskState::Canceled | TaskState::Failed))
}

/// What was used at most, of two reports.
fn most(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    Some(Usage {
        input_tokens: a.input_tokens.max(b.input_tokens),
        output_tokens: a.output_tokens.max(b.output_tokens),
        cost_micro_usd: a.cost_micro_usd.max(b.cost_micro_usd),
    })
}

fn less(total: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        cost_micro_usd: total.cost_micro_usd.saturating_sub(before.cost_micro_usd),
    }
}
