//! The gates in front of an agent, and the agent behind them.

use std::sync::Arc;

use chancery_protocol::{
    Admitted, BoxFuture, Call, CallContext, Denied, DynEndpoint, Error, ErrorCode, GetTaskRequest, Queued,
    Reply, Request, SendMessageResponse, UsageReport,
};

use tracing::Instrument as _;

use crate::Millis;
use crate::explain::{Explanation, GateReport};
use crate::gate::{Passage, Verdict, is_send};
use crate::lineage;
use crate::permitted::{Executor, Permitted};
use crate::plane::{Governed, Plane};
use crate::terms::{Mode, Terms};
use crate::way::{Left, Way, admit, go_on, leave, let_through, nobody_here};

/// The gates in front of one agent, and the agent behind them. An endpoint like any other, so it can be mounted and nested.
#[derive(Debug)]
pub struct Pipeline {
    plane: Arc<Plane>,
    /// What its calls go by.
    terms: Arc<Terms>,
    agent: Arc<Governed>,
    executor: Executor,
    /// Who answers when nobody of the pool can be reached, before anything was sent.
    local: Option<Executor>,
}

impl Pipeline {
    /// The gates of a plane in front of an agent, on the terms in force.
    pub fn new(plane: Arc<Plane>, agent: Arc<Governed>, executor: Executor) -> Self {
        let terms = plane.terms();
        Self { plane, terms, agent, executor, local: None }
    }

    /// Has calls go by other terms than those that were in force when it was made.
    #[must_use]
    pub fn under(mut self, terms: Arc<Terms>) -> Self {
        self.terms = terms;
        self
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
        let is_of_stand_in = match &self.local {
            Some(local) => Box::pin(knows(local, &call)).await,
            None => false,
        };
        let mut passage = self.passage(call);
        passage.given.is_of_stand_in = is_of_stand_in;
        let way = admit(&mut passage, 0).await?;
        if let Way::Queued { .. } = &way {
            if passage.is_left_behind() && self.executor.has_queue() {
                return Box::pin(self.enqueue(passage, way)).await;
            }
            Box::pin(go_on(&mut passage, way)).await?;
        }
        if !is_send(operation) || passage.given.repeats.is_some() {
            let executor = self.local.as_ref().filter(|_| is_of_stand_in).unwrap_or(&self.executor);
            return executor.dispatch(Permitted::new(passage.call)).await;
        }
        let Left { permitted, held, stays_here } = leave(passage)?;
        let executor = match (stays_here, &self.local) {
            (false, _) => &self.executor,
            (true, Some(local)) => local,
            (true, None) => return Err(nobody_here(&self.agent.name).into()),
        };
        let reply = executor.dispatch(permitted).instrument(held.span().clone()).await;
        if let Ok(Reply::Sent(SendMessageResponse::Message(message))) = &reply {
            held.answered(message.metadata.as_ref().and_then(UsageReport::in_metadata));
        }
        reply
    }

    /// A message that stands in line, and whose sender does not wait for the outcome: its task is opened, and worked on when
    /// there is room.
    async fn enqueue(&self, mut passage: Passage, way: Way) -> Result<Reply, Error> {
        let key_claim = passage.given.key_claim.take();
        let Request::SendMessage(request) = passage.call.request.clone() else {
            return Err(Error::new(ErrorCode::Internal));
        };
        let call = Call { request, context: passage.call.context.clone() };
        let queued = Queued { call, admitted: Box::pin(let_through(passage, way)) };
        let task = self.executor.enqueue(Box::new(queued)).await?;
        drop(key_claim);
        Ok(Reply::Sent(SendMessageResponse::Task(task)))
    }

    /// Has a call pass the gates for work that is begun or goes on without its caller: what an earlier process had waiting, or
    /// a task that goes on after its caller has authenticated elsewhere.
    pub fn readmit(&self, call: Call) -> Admitted {
        let mut passage = self.passage(call);
        Box::pin(async move {
            let way = admit(&mut passage, 0).await?;
            let_through(passage, way).await
        })
    }

    fn passage(&self, call: Call) -> Passage {
        self.passage_at(call, self.plane.hands.now())
    }

    fn passage_at(&self, call: Call, now: Millis) -> Passage {
        Passage::new(self.plane.clone(), self.terms.clone(), self.agent.clone(), call, now)
    }

    /// What the gates would say to a call, one by one, without anything being taken or sent.
    pub fn explain(&self, call: Call, now: Millis) -> Explanation {
        let operation = call.request.operation();
        let mut passage = self.passage_at(call, now);
        passage.rehearsal = true;
        let mut reports = Vec::new();
        for gate in self.terms.gates().filter(|gate| gate.concerns(operation)) {
            let verdict = gate.admit(&mut passage);
            let observed = std::mem::take(&mut passage.would_deny).pop();
            let (verdict, mode) = match (verdict, observed) {
                (Verdict::Admit, Some(denied)) => (Verdict::Deny(denied), Mode::Observe),
                (Verdict::Deny(denied), _) if self.terms.observes(gate.name(), &denied) => {
                    (Verdict::Deny(denied), Mode::Observe)
                }
                (verdict, _) => (verdict, self.terms.mode(gate.name())),
            };
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
        if self.terms.mode(lineage::GATE) == Mode::Observe {
            return None;
        }
        let descent = passage.given.descent.as_ref()?;
        let peer = passage.given.route.as_ref()?.decision.peer.as_ref()?;
        self.terms.lineage.rules.check(peer, descent.depth, descent.visited.count(peer)).err()
    }
}

/// Whether whoever answers here has the task that a call is about. It is asked before the gates, and nobody is told what it says.
async fn knows(local: &Executor, call: &Call) -> bool {
    let Some(id) = call.request.task().cloned() else { return false };
    let request = GetTaskRequest { tenant: String::new(), id, history_length: Some(0) };
    let context = CallContext::new(call.context.principal.clone(), call.context.agent.clone());
    local.dispatch(Permitted::new(Call { request: Request::GetTask(request), context })).await.is_ok()
}

impl DynEndpoint for Pipeline {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(self.pass(call))
    }
}
