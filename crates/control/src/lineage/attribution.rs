//! On whose behalf a call is made: what its token proves, or, where an agent lost its token, what is open at it.

use std::sync::Arc;

use chancery_protocol::{CallOrigin, Caller, Denied, HopId};

use super::Lineage;
use super::context::{TaskContext, Visit, Visited};
use super::open::OpenHop;
use super::rules::{LINEAGE_REQUIRED, invalid, refusal};
use super::seats::Standing;
use super::token::{Foreign, Proven};
use super::trace::TraceId;
use crate::Millis;
use crate::identity::caller_within;

/// A call as it comes: what was proven about its caller, and what it brought.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The realm of the caller.
    pub realm: &'a Arc<str>,
    /// The agent of the fleet that the caller is, if it has proven to be one.
    pub agent: Option<&'a Arc<str>>,
    /// Whether nothing at all was proven about the caller.
    pub anonymous: bool,
    /// The lineage token, as it came.
    pub token: Option<&'a str>,
    /// The trace that the call was seen in.
    pub trace: Option<TraceId>,
}

/// What a call descends from, and so what it may do and who pays for it.
#[derive(Clone, Debug)]
pub struct Descent {
    /// How that is known.
    pub basis: Basis,
    /// The open call on whose behalf it is made.
    pub parent: Option<Arc<OpenHop>>,
    /// Its depth: 0 for a root.
    pub depth: u16,
    /// The agents on the way to it, its caller included if that is an agent, the one that is called not.
    pub visited: Visited,
    /// The root that stands for a call of another gateway, and what that says of the call.
    foreign: Option<(HopId, Arc<CallOrigin>)>,
    /// The root of the settled call that this one goes on for, if that was made on nobody's behalf.
    continued_root: Option<HopId>,
    root_agent: Option<Arc<str>>,
    trace: Option<TraceId>,
    perhaps_for: Box<[HopId]>,
}

/// How it is known what a call descends from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The caller is no agent, so nobody was called before.
    Fresh,
    /// A token of this gateway says so.
    Token,
    /// The caller is an agent without a token, and works on one call only.
    OnlyOpenCall,
    /// The caller is an agent without a token that works on nothing, or on several: it answers for the call itself.
    Unattributed(Arc<str>),
    /// A token of this other gateway says so, which is listed here by this name.
    Foreign(Arc<str>),
}

/// Whose money a call spends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payer {
    /// The caller's own.
    Caller,
    /// That of the root that it goes back to.
    Root(HopId),
    /// The allowance that an agent has for calls of which nobody knows whom they are for.
    Unattributed(Arc<str>),
}

// === impl Descent ===

impl Descent {
    /// Whose money the call spends.
    pub fn payer(&self) -> Payer {
        match (&self.basis, &self.parent) {
            (_, Some(parent)) => Payer::Root(parent.root),
            (Basis::Unattributed(agent), None) => Payer::Unattributed(agent.clone()),
            (_, None) => Payer::Caller,
        }
    }

    /// The root of the call, if it has this id itself.
    pub fn root(&self, hop: HopId) -> HopId {
        self.root_above().unwrap_or(hop)
    }

    /// The root of the call, if that is not the call itself.
    pub fn root_above(&self) -> Option<HopId> {
        let parent = self.parent.as_ref().map(|parent| parent.root);
        parent.or_else(|| self.foreign.as_ref().map(|(root, _)| *root)).or(self.continued_root)
    }

    /// What another gateway says of the call that all of this is done for, if it is done for one there.
    pub fn origin(&self) -> Option<&Arc<CallOrigin>> {
        self.foreign.as_ref().map(|(_, origin)| origin)
    }

    /// The place of the call in its chain, once it is known who answers.
    pub(super) fn context(&self, visit: Visit, hop: HopId) -> TaskContext {
        if let Some(parent) = &self.parent {
            let parent_task_id = parent.task().cloned();
            return TaskContext { parent_task_id, ..parent.context.child(visit) };
        }
        TaskContext {
            trace_id: self.trace.unwrap_or_else(|| TraceId::of(hop)),
            parent_task_id: None,
            depth: self.depth,
            root_agent_id: self.root_agent.clone().unwrap_or_else(|| visit.agent.clone()),
            visited: self.visited.then(visit),
        }
    }

    /// See [`Lineage::caller_within`].
    pub(crate) fn caller_within(&self, arrival: &Arrival<'_>, token: &str) -> Option<Caller> {
        let parent = self.parent.as_ref().filter(|_| arrival.anonymous && self.basis == Basis::Token)?;
        Some(caller_within(parent, token))
    }

    pub(super) fn perhaps_for(&self) -> Box<[HopId]> {
        self.perhaps_for.clone()
    }

    fn under(parent: Arc<OpenHop>, basis: Basis) -> Self {
        Self {
            basis,
            depth: parent.context.depth.saturating_add(1),
            visited: parent.context.visited.clone(),
            foreign: parent.origin.clone().map(|origin| (parent.root, origin)),
            continued_root: None,
            root_agent: None,
            trace: None,
            perhaps_for: Box::default(),
            parent: Some(parent),
        }
    }

    fn fresh(basis: Basis, trace: Option<TraceId>) -> Self {
        Self {
            basis,
            parent: None,
            depth: 0,
            visited: Visited::default(),
            foreign: None,
            continued_root: None,
            root_agent: None,
            trace,
            perhaps_for: Box::default(),
        }
    }
}

// === impl Lineage ===

impl Lineage {
    /// On whose behalf a call is made. Asked before anything is reserved, since it says who pays.
    pub fn attribute(&self, arrival: &Arrival<'_>, now: Millis) -> Result<Descent, Denied> {
        let descent = self.descent(arrival, now)?;
        match &descent.basis {
            Basis::Unattributed(agent) if !self.rules.allow_unattributed => Err(required(agent)),
            _ => Ok(descent),
        }
    }

    /// What a call descends from that goes on for a settled one whose task waited for its client.
    pub(crate) fn continued(&self, settled: &OpenHop) -> Result<Descent, Denied> {
        let OpenHop { root, parent, origin, context, .. } = settled;
        if let Some(parent) = parent {
            let parent = self.open.find(*root, *parent);
            let parent = parent.ok_or_else(|| invalid("the call that the task was begun for has ended"))?;
            return Ok(Descent::under(parent, Basis::Token));
        }
        Ok(Descent {
            foreign: origin.clone().map(|origin| (*root, origin)),
            continued_root: Some(*root),
            root_agent: Some(context.root_agent_id.clone()),
            ..Descent::fresh(Basis::Fresh, Some(context.trace_id))
        })
    }

    /// The same, as it would be without what is refused: for gates that only observe.
    pub(crate) fn assume(&self, arrival: &Arrival<'_>) -> Descent {
        match arrival.agent {
            Some(agent) => self.without_token(arrival, agent),
            None => Descent::fresh(Basis::Fresh, arrival.trace),
        }
    }

    /// Whether the caller works on a call that is open here, by the token of that. That it is an agent of the fleet is not enough.
    pub fn is_insider(&self, arrival: &Arrival<'_>, now: Millis) -> bool {
        let descent = self.descent(arrival, now);
        descent.is_ok_and(|descent| descent.basis == Basis::Token)
    }

    /// Who it is that has proven nothing but that it works on a call that is open here, if it has.
    pub fn caller_within(&self, arrival: &Arrival<'_>, now: Millis) -> Option<Caller> {
        let token = arrival.token.filter(|_| arrival.anonymous)?;
        self.descent(arrival, now).ok()?.caller_within(arrival, token)
    }

    fn descent(&self, arrival: &Arrival<'_>, now: Millis) -> Result<Descent, Denied> {
        match arrival.token.map(|token| self.tokens.verify(token, arrival.realm, now)).transpose()? {
            Some(Proven::Own { root, hop }) => self.by_own_token(arrival, root, hop),
            Some(Proven::Foreign(foreign)) => self.by_foreign_token(arrival, foreign),
            None | Some(Proven::Elsewhere) => Ok(self.assume(arrival)),
        }
    }

    fn by_own_token(&self, arrival: &Arrival<'_>, root: HopId, hop: HopId) -> Result<Descent, Denied> {
        let parent =
            self.open.find(root, hop).ok_or_else(|| invalid("the call that the token is of has ended"))?;
        let given_to_caller = match arrival.agent {
            Some(agent) => parent.is_borne_by(agent),
            None => arrival.anonymous,
        };
        if !given_to_caller {
            return Err(invalid("the token was given to another agent"));
        }
        Ok(Descent::under(parent, Basis::Token))
    }

    /// What another gateway says can make a call deeper, never take it out of what is open here.
    fn by_foreign_token(&self, arrival: &Arrival<'_>, foreign: Foreign) -> Result<Descent, Denied> {
        let Foreign { root, depth, trace, origin } = foreign;
        let basis = match arrival.agent {
            None => Basis::Foreign(origin.gateway.clone()),
            Some(agent) if self.open.open_at(arrival.realm, agent) == 0 => Basis::Unattributed(agent.clone()),
            Some(_) => {
                return Err(invalid(
                    "the token is of another gateway, but the caller works on calls of this one",
                ));
            }
        };
        Ok(Descent {
            depth: depth.saturating_add(1),
            visited: Visited::from_elsewhere(&origin, arrival.agent),
            root_agent: Some(origin.root_agent.clone()),
            foreign: Some((root, Arc::new(origin))),
            ..Descent::fresh(basis, trace.or(arrival.trace))
        })
    }

    /// An agent that lost its token, or that calls by itself.
    fn without_token(&self, arrival: &Arrival<'_>, agent: &Arc<str>) -> Descent {
        let (depth, kin, perhaps_for) = match self.open.standing(arrival.realm, agent) {
            Standing::One(parent) => return Descent::under(parent, Basis::OnlyOpenCall),
            Standing::Idle => (0, Vec::new(), Box::default()),
            Standing::Several { deepest, kin, hops } => (deepest.saturating_add(1), kin, hops),
        };
        Descent {
            depth,
            visited: Visited::from_origin(agent.clone(), kin),
            root_agent: Some(agent.clone()),
            perhaps_for,
            ..Descent::fresh(Basis::Unattributed(agent.clone()), arrival.trace)
        }
    }
}

fn required(agent: &str) -> Denied {
    let hint = "pass on the header `Chancery-Lineage` of the call that the agent works on; for what it begins by itself, the \
                operator sets a limit under `budget.unattributed`";
    Denied {
        observed: Some(format!(
            "`{agent}` is an agent of this fleet, sent no lineage token of it, and does not work on exactly one call"
        )),
        hint: Some(hint.into()),
        ..refusal(LINEAGE_REQUIRED)
    }
}
