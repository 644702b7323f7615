//! The way of a call: through the gates in their order, then to whoever answers; and back, settled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    BoxFuture, Call, Denied, DeniedKind, DynEndpoint, Error, ErrorCode, PeerWatch, Reply, SendMessageResponse,
};

use crate::Millis;
use crate::explain::{Explanation, GateReport};
use crate::gate::{Passage, Verdict, is_send};
use crate::held::{Clock, Held, Leaving};
use crate::lineage::{self, Allowance, DEEPEST, Departure, Lineage, Rules, Traceparent};
use crate::permitted::{Executor, Permitted};
use crate::plane::{Governed, Mode, Plane};
use crate::routing::{self, Watched};

/// For how long a token is good for a call without a time limit. It ends with the call in any case.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How much later than the plane a runtime notices by itself that the time of a call is up. The plane says why; the runtime
/// sees what the plane cannot, a turn that has not even begun a task.
const GRACE: Duration = Duration::from_secs(1);

/// The gates in front of one agent, and the agent behind them. An endpoint like any other, so it can be mounted and nested.
#[derive(Debug)]
pub struct Pipeline {
    plane: Arc<Plane>,
    agent: Arc<Governed>,
    executor: Executor,
    /// Who answers when nobody of the pool can be reached, before anything was sent.
    local: Option<Executor>,
}

impl Pipeline {
    /// The gates of a plane in front of an agent.
    pub fn new(plane: Arc<Plane>, agent: Arc<Governed>, executor: Executor) -> Self {
        Self { plane, agent, executor, local: None }
    }

    /// Has calls answered here for which the pool has nobody.
    #[must_use]
    pub fn fallback(mut self, local: Arc<dyn DynEndpoint>) -> Self {
        self.local = Some(Executor::Local(local));
        self
    }

    /// The agent behind the gates.
    pub fn agent(&self) -> &Arc<Governed> {
        &self.agent
    }

    async fn pass(&self, call: Call) -> Result<Reply, Error> {
        let operation = call.request.operation();
        let mut passage = Passage::new(self.plane.clone(), self.agent.clone(), call, self.plane.hands.now());
        self.admit(&mut passage).await?;
        if !is_send(operation) || passage.given.repeats.is_some() {
            return self.executor.dispatch(Permitted::new(passage.call)).await;
        }
        let (permitted, held, stays_here) = self.leave(passage)?;
        let executor = match (stays_here, &self.local) {
            (false, _) => &self.executor,
            (true, Some(local)) => local,
            (true, None) => return Err(nobody_here(&self.agent.name).into()),
        };
        let reply = executor.dispatch(permitted).await;
        if let Ok(Reply::Sent(SendMessageResponse::Message(_))) = &reply {
            held.answered();
        }
        reply
    }

    /// Asks one gate after the other.
    async fn admit(&self, passage: &mut Passage) -> Result<(), Error> {
        let operation = passage.operation();
        let mut place = 0;
        while let Some(gate) = self.plane.gate(place) {
            place += 1;
            if !gate.concerns(operation) {
                continue;
            }
            let mut verdict = gate.admit(passage);
            while let Verdict::Wait(ready) = verdict {
                verdict = ready.await(passage);
                passage.now = self.plane.hands.now();
            }
            if let Verdict::Deny(denied) = verdict {
                self.refused(passage, gate.name(), denied)?;
            }
            if passage.given.repeats.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// A gate has refused. Where it only observes, the call goes on all the same.
    fn refused(&self, passage: &mut Passage, gate: &str, denied: Denied) -> Result<(), Error> {
        let context = &passage.call.context;
        let (caller, agent) = (&*context.principal.id, &*self.agent.name);
        if self.plane.mode(gate) == Mode::Observe {
            tracing::info!(gate, caller, agent, reason = &*denied.reason, "would deny: {denied}");
            passage.would_deny.push(denied);
            return Ok(());
        }
        tracing::info!(gate, caller, agent, reason = &*denied.reason, "denied: {denied}");
        Err(denied.into())
    }

    /// The last look before the call leaves, by the state of its whole tree; then it is let go with all it was given. Says
    /// also whether it is answered here because nobody else can.
    fn leave(&self, passage: Passage) -> Result<(Permitted, Arc<Held>, bool), Error> {
        let Passage { mut call, hop, now, mut given, plane, .. } = passage;
        let descent = given.descent.take().ok_or_else(|| Error::new(ErrorCode::Internal))?;
        let principal = call.context.principal.clone();
        let payer = given.payer.take().unwrap_or_else(|| principal.clone());
        let route = given.route.as_ref().map(|route| &route.decision);
        let peer = route.and_then(|decision| decision.peer.clone());
        let stays_here = route.is_some_and(|decision| decision.peer.is_none());
        let reservation = given.reservation.as_ref();
        let left = reservation.map(|held| held.remaining(now));
        let departure = Departure {
            hop,
            realm: &principal.realm,
            caller: &principal.id,
            agent: &self.agent.name,
            peer: peer.as_ref(),
            reserved: reservation.map(|held| held.amount()).unwrap_or_default(),
            allowance: left.map_or_else(Allowance::default, |left| Allowance {
                micro_usd: left.micro_usd,
                tokens: left.tokens,
            }),
        };
        let observes = plane.mode(lineage::GATE) == Mode::Observe;
        let lineage = plane.lineage.load();
        let open = match lineage.dispatch(&descent, departure) {
            // The gate has written down what it would refuse.
            Err(_) if observes => {
                Lineage { rules: unruled(), ..Lineage::clone(&lineage) }.dispatch(&descent, departure)?
            }
            dispatched => dispatched?,
        };
        let expires = now + given.caps.duration.unwrap_or(LONGEST);
        let token = lineage.tokens.mint(&open, expires);
        drop(lineage);
        call.context.deadline = earliest(call.context.deadline, given.caps.duration);
        let seen = call.context.traceparent.as_deref().and_then(Traceparent::parse);
        let trace = seen.map_or_else(|| Traceparent::begun(hop), |seen| seen.continued(hop));
        call.context.traceparent = Some(trace.to_string());
        call.context.peer = peer;
        call.context.skill.clone_from(&given.skill);
        let is_local = self.agent.is_local || stays_here;
        let ticket = given.route.as_mut().and_then(|route| route.ticket.take());
        let hands = plane.hands.clone();
        let clock: Clock = Box::new(move || hands.now());
        let watched = ticket.map(|ticket| Arc::new(Watched::new(ticket, clock)));
        call.context.peer_watch = watched.clone().map(|watched| watched as Arc<dyn PeerWatch>);
        let leaving = Leaving { open, principal, payer, token, now, is_local, watched };
        let held = Held::new(plane, leaving, given);
        call.context.hold = Some(held.clone());
        Ok((Permitted::new(call), held, stays_here))
    }

    /// What the gates would say to a call, one by one, without anything being taken or sent.
    pub fn explain(&self, call: Call, now: Millis) -> Explanation {
        let operation = call.request.operation();
        let mut passage = Passage::new(self.plane.clone(), self.agent.clone(), call, now);
        passage.rehearsal = true;
        let mut reports = Vec::new();
        for gate in self.plane.gates().filter(|gate| gate.concerns(operation)) {
            let verdict = gate.admit(&mut passage);
            let mode = self.plane.mode(gate.name());
            let notes = std::mem::take(&mut passage.notes).into_iter().map(|note| note.text).collect();
            let report = GateReport::new(gate.name(), mode, verdict, notes);
            let is_final = report.refuses();
            reports.push(report);
            if is_final {
                break;
            }
        }
        let refuses = reports.last().is_some_and(GateReport::refuses);
        if !refuses
            && is_send(operation)
            && let Some(denied) = self.cannot_leave(&passage)
        {
            reports.push(GateReport::new("lineage", Mode::Enforce, Verdict::Deny(denied), Vec::new()));
        }
        Explanation { agent: self.agent.name.clone(), operation, gates: reports }
    }

    /// Why a call that every gate admits could not leave.
    fn cannot_leave(&self, passage: &Passage) -> Option<Denied> {
        if self.plane.mode(lineage::GATE) == Mode::Observe {
            return None;
        }
        let descent = passage.given.descent.as_ref()?;
        let peer = passage.given.route.as_ref()?.decision.peer.as_ref()?;
        let rules = &self.plane.lineage.load().rules;
        rules.check(peer, descent.depth, descent.visited.count(peer)).err()
    }
}

impl DynEndpoint for Pipeline {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(self.pass(call))
    }
}

/// The earlier of when the caller stops waiting and when the time of the call is up.
fn earliest(deadline: Option<Instant>, limit: Option<Duration>) -> Option<Instant> {
    let limit = limit.and_then(|limit| Instant::now().checked_add(limit + GRACE));
    deadline.into_iter().chain(limit).min()
}

/// A pool has nobody and would have this process answer, which has nobody either.
fn nobody_here(agent: &str) -> Denied {
    let mut denied = Denied::new(routing::GATE, DeniedKind::Unavailable, routing::NO_PEER_AVAILABLE);
    denied.hint =
        Some(format!("no member of `{agent}` can be reached, and nothing here answers in its place"));
    denied
}

/// The rules of a gate that only observes: there is an end to everything, but nothing before it.
fn unruled() -> Rules {
    Rules { max_call_depth: DEEPEST, deny_revisit: false, ..Rules::default() }
}
