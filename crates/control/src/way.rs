//! The way of a call: through the gates, one after the other, and out behind them with all that it was given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    BoxFuture, CallContext, Caller, Denied, DeniedKind, Error, ErrorCode, PeerWatch, Whereabouts,
};

use crate::gate::{Continue, Passage, Verdict, write_down};
use crate::held::{Clock, Held, Leaving};
use crate::lineage::{
    self, Allowance, Basis, DEEPEST, Departure, Descent, LINEAGE_EXTENSION, Lineage, OpenHop, Rules,
    TaskContext, Traceparent,
};
use crate::permitted::Permitted;
use crate::routing::{self, Decision, Watched};
use crate::terms::Mode;

/// For how long a token is good for a call without a time limit. It ends with the call in any case.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How much later than the plane a runtime notices by itself that the time of a call is up. The plane says why; the runtime
/// sees what the plane cannot, a turn that has not even begun a task.
const GRACE: Duration = Duration::from_secs(1);

/// How far a call has come.
pub(crate) enum Way {
    /// Through all gates.
    Through,
    /// It stands in line at one of them.
    Queued {
        gate: &'static str,
        /// The place of the gate behind it.
        next: usize,
        ready: BoxFuture<'static, Continue>,
    },
}

/// A call that leaves.
pub(crate) struct Left {
    pub(crate) permitted: Permitted,
    pub(crate) held: Arc<Held>,
    /// Whether it is answered here because nobody else can.
    pub(crate) stays_here: bool,
}

/// Asks one gate after the other, from a place on, until all have been asked or the call has to stand in line.
pub(crate) async fn admit(passage: &mut Passage, mut place: usize) -> Result<Way, Error> {
    let (terms, operation) = (passage.terms.clone(), passage.operation());
    while let Some(gate) = terms.gate(place) {
        place += 1;
        if !gate.concerns(operation) {
            continue;
        }
        let mut verdict = gate.admit(passage);
        while let Verdict::Wait(ready) = verdict {
            verdict = ready.await(passage);
            passage.now = passage.plane.hands.now();
        }
        match verdict {
            Verdict::Deny(denied) => refused(passage, gate.name(), denied)?,
            Verdict::Queue(ready) => return Ok(Way::Queued { gate: gate.name(), next: place, ready }),
            Verdict::Admit | Verdict::Wait(_) => {}
        }
        if passage.given.repeats.is_some() {
            break;
        }
    }
    Ok(Way::Through)
}

/// Waits where there is a line, and goes on to the end.
pub(crate) async fn go_on(passage: &mut Passage, mut way: Way) -> Result<(), Error> {
    while let Way::Queued { gate, next, ready } = way {
        let verdict = ready.await(passage);
        passage.now = passage.plane.hands.now();
        way = match verdict {
            Verdict::Admit => admit(passage, next).await?,
            Verdict::Deny(denied) => {
                refused(passage, gate, denied)?;
                admit(passage, next).await?
            }
            Verdict::Wait(ready) | Verdict::Queue(ready) => Way::Queued { gate, next, ready },
        };
    }
    Ok(())
}

/// Goes on to the end, and gives what the call leaves with: for whoever has its message already.
pub(crate) async fn let_through(mut passage: Passage, way: Way) -> Result<Box<CallContext>, Error> {
    go_on(&mut passage, way).await?;
    let agent = passage.agent.name.clone();
    let left = leave(passage)?;
    match left.stays_here {
        // Whoever has the message is not who would answer it here.
        true => Err(nobody_here(&agent).into()),
        false => Ok(left.permitted.into_context()),
    }
}

/// A gate has refused. Where it only observes, the call goes on all the same.
fn refused(passage: &mut Passage, gate: &'static str, denied: Denied) -> Result<(), Error> {
    if passage.terms.observes(gate, &denied) {
        passage.observe(gate, denied);
        return Ok(());
    }
    let (caller, agent) = (&*passage.call.context.principal.id, &*passage.agent.name);
    let (reason, limit) = (&*denied.reason, denied.limit.as_deref());
    tracing::info!(gate, caller, agent, reason, limit, "denied: {denied}");
    Err(denied.into())
}

/// The last look before the call leaves, by the state of its whole tree; then it is let go with all it was given.
pub(crate) fn leave(passage: Passage) -> Result<Left, Error> {
    let Passage { mut call, hop, now, mut given, plane, terms, agent, would_deny, .. } = passage;
    let descent = given.descent.take().ok_or_else(|| Error::new(ErrorCode::Internal))?;
    let principal = call.context.principal.clone();
    let caller = || Caller { principal: principal.clone(), identity: call.context.identity.clone() };
    let payer = given.payer.take().unwrap_or_else(caller);
    let route = given.route.as_ref().map(|route| &route.decision);
    let stays_here = given.is_of_stand_in || route.is_some_and(|decision| decision.peer.is_none());
    let peer = match stays_here {
        true => terms.stand_in(&agent.name).cloned(),
        false => route.and_then(|decision| decision.peer.clone()),
    };
    if let Some(stand_in) = peer.as_ref().filter(|_| stays_here) {
        plane.containment.check(None, stand_in)?;
    }
    let reservation = given.reservation.as_ref();
    let left = reservation.map(|held| held.remaining(now));
    let departure = Departure {
        hop,
        realm: &principal.realm,
        caller: &principal.id,
        agent: &agent.name,
        peer: peer.as_ref(),
        reserved: reservation.map(|held| held.amount()).unwrap_or_default(),
        allowance: left.map_or_else(Allowance::default, Allowance::from),
    };
    let observes = terms.mode(lineage::GATE) == Mode::Observe;
    let lineage = &terms.lineage;
    let open = match lineage.dispatch(&descent, departure) {
        Err(denied) if observes => {
            // What depends on the whole tree the gate could not know yet.
            if would_deny.iter().all(|known| known.reason != denied.reason) {
                write_down(lineage::GATE, &principal.id, &agent.name, &denied);
            }
            Lineage { rules: unruled(), ..lineage.clone() }.dispatch(&descent, departure)?
        }
        dispatched => dispatched?,
    };
    let whereabouts = whereabouts(&call.context, &descent, &open, route);
    let expires = now + given.caps.duration.unwrap_or(LONGEST);
    let token = lineage.tokens.mint(&open, expires);
    call.context.deadline = earliest(call.context.deadline, given.caps.duration);
    let seen = call.context.traceparent.as_deref().and_then(Traceparent::parse);
    let trace = seen.map_or_else(|| Traceparent::begun(hop), |seen| seen.continued(hop));
    call.context.traceparent = Some(trace.to_string());
    call.context.peer = peer.filter(|_| !stays_here);
    call.context.skill.clone_from(&given.skill);
    let is_local = agent.is_local || stays_here;
    let ticket = given.route.as_mut().and_then(|route| route.ticket.take()).or_else(|| given.ticket.take());
    let watched = ticket.map(|ticket| {
        let hands = plane.hands.clone();
        let clock: Clock = Box::new(move || hands.now());
        Arc::new(Watched::new(ticket, clock))
    });
    call.context.peer_watch = watched.clone().map(|watched| watched as Arc<dyn PeerWatch>);
    let ceiling = call.context.ceiling_micro_usd;
    let leaving =
        Leaving { open, principal, payer, token, now, is_local, stays_here, ceiling, whereabouts, watched };
    let held = Held::new(plane, leaving, given);
    call.context.hold = Some(held.clone());
    Ok(Left { permitted: Permitted::new(call), held, stays_here })
}

/// What the caller is told of where its call stands: where there are others on the way, a choice was made, or it asks for it.
fn whereabouts(
    context: &CallContext,
    descent: &Descent,
    open: &OpenHop,
    route: Option<&Decision>,
) -> Option<Arc<Whereabouts>> {
    let TaskContext { trace_id, parent_task_id, depth, visited, .. } = &open.context;
    let is_asked_for = context.extensions.iter().any(|uri| uri == LINEAGE_EXTENSION);
    if !is_asked_for && *depth == 0 && route.is_none() {
        return None;
    }
    // Who comes with a token has been told who was before it; who comes without one is not told here.
    let knows_way = matches!(descent.basis, Basis::Token | Basis::Fresh | Basis::Foreign(_));
    let known = if knows_way { usize::MAX } else { 1 };
    let mut path: Vec<_> = visited.iter().take(known).map(|visit| visit.agent.clone()).collect();
    path.reverse();
    let (trace_id, parent_task_id) = (trace_id.text().as_str().into(), parent_task_id.clone());
    let routing = route.map(Decision::choice);
    Some(Arc::new(Whereabouts { trace_id, parent_task_id, depth: *depth, path, routing }))
}

/// The earlier of when the caller stops waiting and when the time of the call is up.
fn earliest(deadline: Option<Instant>, limit: Option<Duration>) -> Option<Instant> {
    let limit = limit.and_then(|limit| Instant::now().checked_add(limit + GRACE));
    deadline.into_iter().chain(limit).min()
}

/// A pool has nobody and would have this process answer, which has nobody either.
pub(crate) fn nobody_here(agent: &str) -> Denied {
    let mut denied = Denied::new(routing::GATE, DeniedKind::Unavailable, routing::NO_PEER_AVAILABLE);
    denied.hint =
        Some(format!("no member of `{agent}` can be reached, and nothing here answers in its place"));
    denied
}

/// The rules of a gate that only observes: there is an end to everything, but nothing before it.
fn unruled() -> Rules {
    Rules { max_call_depth: DEEPEST, deny_revisit: false, ..Rules::default() }
}
