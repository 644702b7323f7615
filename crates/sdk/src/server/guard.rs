//! What stands in front of the agents of a server: who may ask how often, and which calls reach an agent.
//!
//! The server asks, at the places where only it can: before a request is read, and when an endpoint is mounted. What is
//! decided, and by what rules, is the guard's business.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use chancery_protocol::{
    Admitted, AgentCard, Call, CallContext, Caller, Denied, DynEndpoint, Error, Hold, LINEAGE_HEADER,
    Operation, Principal, Quota, SendMessageRequest, TaskId,
};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Response};

use super::body::Body;
use super::shown::Shown;
use super::site::View;
use crate::binding::head::{is_told, put_quota};

/// Stands in front of every agent of a server. Written by whoever governs a fleet; a server without one lets every
/// authenticated call through.
pub trait Guard: Send + Sync + 'static {
    /// Something that answers in the place of an agent, and has what it lets through answered by the agent itself. Asked for
    /// all agents before requests come to it.
    fn protect(&self, ward: &Ward) -> Arc<dyn DynEndpoint>;

    /// Whether somebody belongs to those for whom internal agents are there, given the proof of descent that came with the
    /// request, if one did. Nobody does unless the guard knows better.
    fn is_insider(&self, caller: &Caller, lineage: Option<&str>) -> bool {
        let _ = (caller, lineage);
        false
    }

    /// Who it is that comes with this proof of descent. Whoever has proven nothing else may be somebody by it; the guard knows.
    fn acting(&self, caller: Caller, lineage: Option<&str>) -> Caller {
        let _ = lineage;
        caller
    }

    /// Has a call let through that nobody waits for: one that was waiting when an earlier process ended, or that goes on after
    /// its caller has authenticated elsewhere. None if nobody has to let calls to this agent through.
    fn readmit(&self, agent: &str, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        let _ = (agent, call);
        None
    }

    /// Whether it answers, in the place of every agent, who asks for a card of their own (GetExtendedAgentCard); the cards
    /// then say that there is one.
    fn extends_cards(&self) -> bool {
        false
    }

    /// What calls of an earlier process hold for tasks of an agent that it left unfinished.
    fn restored(&self, agent: &str) -> Vec<Restored>;

    /// Counts a request, whatever it asks for: with nobody's name before it is known whose it is, then with the
    /// caller's. What is left is told in the answer.
    fn count(&self, source: Option<IpAddr>, caller: Option<&Caller>) -> Result<Option<Quota>, Denied>;

    /// Hears of a request that is refused because of what it has said when the request was counted.
    fn refused(&self, head: &Parts, caller: Option<&Caller>, denied: &Denied) {
        let _ = (head, caller, denied);
    }

    /// Counts a request to cancel a task, for which there was no room otherwise. Whoever has asked too often must still be
    /// able to stop what was begun, so there should be room of its own for these. Lets all of them through unless the guard
    /// knows better.
    fn count_cancel(&self, source: Option<IpAddr>, caller: &Caller) -> Result<(), Denied> {
        let _ = (source, caller);
        Ok(())
    }
}

/// An agent that a guard is to stand in front of.
#[derive(Clone)]
pub struct Ward {
    /// Its name.
    pub name: Arc<str>,
    /// Whoever answers.
    pub endpoint: Arc<dyn DynEndpoint>,
    /// Whether another has its name now, and it is asked only about tasks that it has begun.
    pub is_retired: bool,
    pub(super) shown: Arc<Shown>,
}

/// What a call of an earlier process holds for a task.
#[derive(Debug)]
pub struct Restored {
    /// Whose task it is.
    pub principal: Principal,
    /// The task.
    pub task: TaskId,
    /// What is held.
    pub hold: Arc<dyn Hold>,
}

/// One request, as far as the guard is concerned. Travels in the extensions of its head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visit(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    source: Option<IpAddr>,
    rate: OnceLock<Quota>,
    /// Why it is refused, unless it turns out to be one to cancel a task.
    refused: OnceLock<Denied>,
}

impl Ward {
    /// Its card, as it is shown now.
    pub fn card(&self) -> Arc<AgentCard> {
        self.shown.now().card.clone()
    }
}

impl std::fmt::Debug for Ward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ward").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A request to cancel a task is not longer than this, where only its body says that it is one.
pub(super) const CANCEL_BYTES: usize = 4 << 10;

impl Visit {
    /// Counts a request of which nothing is known but where it comes from.
    pub(super) fn begin(guard: &dyn Guard, source: Option<IpAddr>, head: &mut Parts) -> Result<Self, Error> {
        let seen = Seen { source, rate: OnceLock::new(), refused: OnceLock::new() };
        let visit = Self(Arc::new(seen));
        head.extensions.insert(visit.clone());
        match guard.count(source, None) {
            Ok(_) => Ok(visit),
            Err(denied) => visit.refuse_unless_cancel(guard, head, None, denied).map(|()| visit),
        }
    }

    /// Counts it as this caller's, before it is known what is asked for.
    pub(super) fn count(&self, guard: &dyn Guard, head: &Parts, caller: &Caller) -> Result<(), Error> {
        if self.is_refused() {
            return Ok(());
        }
        match guard.count(self.0.source, Some(caller)) {
            Ok(Some(rate)) => drop(self.0.rate.set(rate)),
            Ok(None) => {}
            Err(denied) => self.refuse_unless_cancel(guard, head, Some(caller), denied)?,
        }
        Ok(())
    }

    /// Now it is known what is asked for.
    pub(super) fn asks_for(
        &self,
        guard: &dyn Guard,
        head: &Parts,
        caller: &Caller,
        operation: Option<Operation>,
    ) -> Result<(), Error> {
        let allowed = match self.0.refused.get() {
            None => return Ok(()),
            Some(_) if operation == Some(Operation::CancelTask) => guard.count_cancel(self.0.source, caller),
            Some(denied) => Err(denied.clone()),
        };
        allowed.map_err(|denied| refuse(guard, head, Some(caller), denied))
    }

    /// Whether it is refused unless it turns out to be one to cancel a task.
    pub(super) fn is_refused(&self) -> bool {
        self.0.refused.get().is_some()
    }

    /// Refuses at once what cannot be a request to cancel a task, and leaves the rest to be read.
    fn refuse_unless_cancel(
        &self,
        guard: &dyn Guard,
        head: &Parts,
        caller: Option<&Caller>,
        denied: Denied,
    ) -> Result<(), Error> {
        if !may_cancel(head) {
            return Err(refuse(guard, head, caller, denied));
        }
        let _ = self.0.refused.set(denied);
        Ok(())
    }

    /// The visit that a request belongs to.
    pub(crate) fn of(head: &Parts) -> Option<&Self> {
        head.extensions.get()
    }

    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.0.source
    }

    /// Tells the caller how much of its rate is left, unless the answer tells of a limit that refused it.
    pub(super) fn end(&self, response: &mut Response<Body>) {
        if let Some(rate) = self.0.rate.get().filter(|_| !is_told(response.headers())) {
            put_quota(response.headers_mut(), rate);
        }
    }
}

/// The address that a request comes from, as far as that is known: for whoever authenticates callers.
pub fn request_source(head: &Parts) -> Option<IpAddr> {
    Visit::of(head).and_then(Visit::source)
}

impl View {
    /// Whether a request comes from somebody for whom internal agents are there.
    pub(super) fn is_insider(&self, head: &Parts) -> bool {
        self.guard().is_some_and(|guard| {
            self.authenticated(head).is_ok_and(|caller| guard.is_insider(&caller, lineage_of(head)))
        })
    }

    /// The same of a call.
    pub(super) fn is_inside(&self, context: &CallContext) -> bool {
        let caller = Caller { principal: context.principal.clone(), identity: context.identity.clone() };
        self.guard().is_some_and(|guard| guard.is_insider(&caller, context.lineage.as_deref()))
    }
}

/// The guard hears of what is refused in its name.
fn refuse(guard: &dyn Guard, head: &Parts, caller: Option<&Caller>, denied: Denied) -> Error {
    guard.refused(head, caller, &denied);
    denied.into()
}

/// The proof of descent that a request brings, as it came.
pub(super) fn lineage_of(head: &Parts) -> Option<&str> {
    head.headers.get(LINEAGE_HEADER).and_then(|value| value.to_str().ok())
}

/// Whether a request may be one to cancel a task, as far as its head says.
fn may_cancel(head: &Parts) -> bool {
    let path = head.uri.path();
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_short = length.is_none_or(|length: usize| length <= CANCEL_BYTES);
    head.method == Method::POST && (path.ends_with(":cancel") || path.ends_with("/CancelTask") || is_short)
}
