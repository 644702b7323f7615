//! What a gate is, and what a call leaves with as it passes one after the other.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{
    BoxFuture, Call, Caller, Denied, HopId, JsonObject, Operation, Principal, Request, SendMessageRequest,
    TaskId,
};

use smallvec::SmallVec;

use crate::Millis;
use crate::gates::KeyClaim;
use crate::identity::call_of;
use crate::ledger::{Account, Estimate, Reservation, Tariff};
use crate::lineage::Descent;
use crate::plane::{Governed, Plane};
use crate::policy::{Caps, Slot, Subject};
use crate::routing::{Route, Ticket};
use crate::terms::Terms;

/// Decides whether a call goes on. One file a gate, in `gates/`; an application may add its own behind them.
///
/// ```
/// use chancery_control::{Gate, Passage, Verdict};
/// use chancery_protocol::{Denied, DeniedKind};
///
/// /// Nobody works at night.
/// #[derive(Debug)]
/// struct NightRest;
///
/// impl Gate for NightRest {
///     fn name(&self) -> &'static str {
///         "night-rest"
///     }
///
///     fn admit(&self, passage: &mut Passage) -> Verdict {
///         let hour = passage.now.0 / 3_600_000 % 24;
///         if hour < 6 {
///             return Verdict::Deny(Denied::new(self.name(), DeniedKind::Forbidden, "NIGHT_REST"));
///         }
///         Verdict::Admit
///     }
/// }
/// ```
pub trait Gate: Send + Sync + fmt::Debug {
    /// What it is called, in refusals and logs.
    fn name(&self) -> &'static str;

    /// Whether it has a say about an operation. Unless it says otherwise, about what begins work, and nothing else.
    fn concerns(&self, operation: Operation) -> bool {
        is_send(operation)
    }

    /// Decides. What the call is given is put into the passage; dropping that gives it back.
    fn admit(&self, passage: &mut Passage) -> Verdict;
}

/// What a gate has decided.
pub enum Verdict {
    /// The call goes on.
    Admit,
    /// It does not.
    Deny(Denied),
    /// That is known when this is ready, and what it gives has been done.
    Wait(BoxFuture<'static, Continue>),
    /// The same, and it may take long: the call stands in line. Whoever does not wait for the outcome is answered before.
    Queue(BoxFuture<'static, Continue>),
}

/// What is done to a passage after a wait.
pub type Continue = Box<dyn FnOnce(&mut Passage) -> Verdict + Send>;

/// A call on its way through the gates, and what they have given it so far.
#[derive(Debug)]
pub struct Passage {
    /// The call.
    pub call: Call,
    /// Its id, should it be let through.
    pub hop: HopId,
    /// The time at which it came.
    pub now: Millis,
    /// The agent that is called.
    pub agent: Arc<Governed>,
    pub(crate) plane: Arc<Plane>,
    /// What it goes by, from beginning to end.
    pub(crate) terms: Arc<Terms>,
    pub(crate) given: Given,
    /// Whether the gates are only asked what they would say: nothing is taken then.
    pub(crate) rehearsal: bool,
    /// What there is to say about each gate, if somebody asks.
    pub(crate) notes: Vec<Note>,
    /// What it was let through in spite of, since that is only observed.
    pub(crate) would_deny: Vec<Denied>,
}

/// What the gates have given a call. Given back in the order of the fields, which is that of the gates in reverse.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) slots: SmallVec<[Slot; 2]>,
    pub(crate) caps: Caps,
    pub(crate) route: Option<Route>,
    /// Of an agent elsewhere that is no pool: how the call does.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) descent: Option<Descent>,
    pub(crate) reservation: Option<Reservation>,
    /// Who began what the call is made for, if that is somebody else than its caller.
    pub(crate) root_caller: Option<Caller>,
    /// Who pays.
    pub(crate) payer: Option<Caller>,
    /// The account of the root, which the calls that follow from this one are charged to as well.
    pub(crate) root: Option<Arc<Account>>,
    pub(crate) tariff: Option<Arc<Tariff>>,
    pub(crate) estimate: Option<Estimate>,
    pub(crate) skill: Option<Arc<str>>,
    /// The task of an equal call that was let through before.
    pub(crate) repeats: Option<TaskId>,
    /// Keeps equal calls waiting until the journal knows this one.
    pub(crate) key_claim: Option<KeyClaim>,
    /// Whether whoever answers here for a pool has the task that it is for.
    pub(crate) is_of_stand_in: bool,
}

/// Something to know about a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The gate.
    pub gate: &'static str,
    /// What is to be known.
    pub text: String,
}

/// Whether an operation begins work.
pub(crate) fn is_send(operation: Operation) -> bool {
    matches!(operation, Operation::SendMessage | Operation::SendStreamingMessage)
}

/// Writes down what a gate would refuse if it did not only observe.
pub(crate) fn write_down(gate: &'static str, caller: &str, agent: &str, denied: &Denied) {
    let (reason, limit) = (&*denied.reason, denied.limit.as_deref());
    tracing::warn!(gate, caller, agent, reason, limit, "would deny: {denied}");
}

// === impl Passage ===

impl Passage {
    pub(crate) fn new(
        plane: Arc<Plane>,
        terms: Arc<Terms>,
        agent: Arc<Governed>,
        call: Call,
        now: Millis,
    ) -> Self {
        Self {
            call,
            hop: HopId::generate(),
            now,
            agent,
            plane,
            terms,
            given: Given::default(),
            rehearsal: false,
            notes: Vec::new(),
            would_deny: Vec::new(),
        }
    }

    /// The operation that is asked for.
    pub fn operation(&self) -> Operation {
        self.call.request.operation()
    }

    /// What is said, if something is.
    pub fn send(&self) -> Option<&SendMessageRequest> {
        match &self.call.request {
            Request::SendMessage(request) | Request::SendStreamingMessage(request) => Some(request),
            _ => None,
        }
    }

    /// By whose rules the call is judged: those of its caller, and those of whoever began what it is made for. Who acts for
    /// a call has no rules of its own.
    pub(crate) fn judged_by(&self) -> impl Iterator<Item = (&Principal, Subject<'_>)> {
        let context = &self.call.context;
        let own = (&context.principal, &context.identity);
        let root = self.given.root_caller.as_ref().map(|root| (&root.principal, &root.identity));
        let has_own = root.is_none() || call_of(&context.principal).is_none();
        has_own
            .then_some(own)
            .into_iter()
            .chain(root)
            .map(|(principal, identity)| (principal, Subject::new(principal, identity)))
    }

    /// The skill that the call is for, as far as the gates so far know.
    pub fn skill(&self) -> Option<&Arc<str>> {
        self.given.skill.as_ref()
    }

    /// An entry of the metadata of an extension: of the message, or else of the request.
    pub(crate) fn extension<T: serde::de::DeserializeOwned>(&self, uri: &str) -> Option<T> {
        let request = self.send()?;
        let of = |metadata: &Option<JsonObject>| metadata.as_ref()?.entry(uri).ok().flatten();
        of(&request.message.metadata).or_else(|| of(&request.metadata))
    }

    /// Whether it is about something new, and its caller does not wait for the outcome.
    pub(crate) fn is_left_behind(&self) -> bool {
        let Request::SendMessage(request) = &self.call.request else { return false };
        let at_once = request.configuration.as_ref().is_some_and(|wanted| wanted.return_immediately);
        at_once && request.message.task_id.is_none() && self.call.context.new_task.is_none()
    }

    /// Writes down what would be refused if it were enforced.
    pub fn observe(&mut self, gate: &'static str, denied: Denied) {
        if !self.rehearsal {
            write_down(gate, &self.call.context.principal.id, &self.agent.name, &denied);
        }
        self.would_deny.push(denied);
    }

    pub(crate) fn note(&mut self, gate: &'static str, text: impl FnOnce() -> String) {
        if self.rehearsal {
            self.notes.push(Note { gate, text: text() });
        }
    }
}

// === impl Verdict ===

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admit => f.write_str("Admit"),
            Self::Deny(denied) => f.debug_tuple("Deny").field(denied).finish(),
            Self::Wait(_) => f.write_str("Wait"),
            Self::Queue(_) => f.write_str("Queue"),
        }
    }
}

impl From<Result<(), Denied>> for Verdict {
    fn from(decided: Result<(), Denied>) -> Self {
        match decided {
            Ok(()) => Self::Admit,
            Err(denied) => Self::Deny(denied),
        }
    }
}
