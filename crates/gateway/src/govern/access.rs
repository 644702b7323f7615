//! The log of calls: one line when a call is answered, and one when what it led to is settled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_control::{Booked, Millis};
use chancery_protocol::{Admitted, CallContext, Error, Operation, Principal, Reply, SendMessageResponse};

use crate::audit::{Audit, Origin};

/// A call on its way.
pub(super) struct Visit {
    began: Instant,
    /// Who calls.
    pub(super) caller: Principal,
    origin: Origin,
}

impl Visit {
    pub(super) fn begin(context: &CallContext) -> Self {
        Self { began: Instant::now(), caller: context.principal.clone(), origin: Origin::of(context) }
    }

    pub(super) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// It has been answered.
    pub(super) fn end(
        self,
        agent: &Arc<str>,
        operation: Operation,
        reply: &Result<Reply, Error>,
        audit: &Audit,
    ) {
        if let Some(denied) = reply.as_ref().err().and_then(Error::denied) {
            audit.denied(&self.caller, agent, &self.origin, denied);
        }
        if !tracing::enabled!(target: "chancery::access", tracing::Level::INFO) {
            return;
        }
        let Principal { realm, id: caller } = &self.caller;
        let task = match reply {
            Ok(Reply::Sent(SendMessageResponse::Task(task))) => Some(task.task.id().as_str()),
            _ => None,
        };
        let code = reply.as_ref().err().map_or("OK", |error| error.code().row().reason);
        let millis = self.took().as_secs_f64() * 1e3;
        let (agent, operation) = (&**agent, operation.method());
        let source = self.origin.source.map(tracing::field::display);
        let labels = self.origin.labels.as_deref();
        let request_id = labels.and_then(|labels| labels.request_id.as_deref());
        let agent_id = labels.and_then(|labels| labels.agent_id.as_deref());
        tracing::info!(
            target: "chancery::access",
            agent, operation, realm = &**realm, caller = &**caller, source, request_id, agent_id, task, code, millis,
            "{operation} {agent} {code}"
        );
    }

    /// It waits to be let through. Nobody may be there any more when it is not.
    pub(super) fn admitted(self, agent: Arc<str>, audit: Arc<Audit>, admitted: Admitted) -> Admitted {
        Box::pin(async move {
            let outcome = admitted.await;
            if let Some(denied) = outcome.as_ref().err().and_then(Error::denied) {
                audit.denied(&self.caller, &agent, &self.origin, denied);
            }
            outcome
        })
    }
}

/// A call is over.
pub(super) fn booked(call: &Booked<'_>, now: Millis) {
    let (charged, overrun) = (call.settled.charged, call.settled.overrun);
    tracing::info!(
        target: "chancery::access",
        agent = call.agent,
        caller = call.caller,
        member = call.peer,
        call = %call.hop,
        root = %call.root,
        depth = call.depth,
        trace = call.trace,
        task = call.task.map(|task| task.as_str()),
        state = call.settled.state.map(|state| state.as_str()),
        millis = now.0.saturating_sub(call.opened.0),
        actual_tokens = charged.tokens,
        actual_cost_usd = charged.micro_usd as f64 / 1e6,
        cost_source = call.settled.source.as_str(),
        overrun_tokens = Some(overrun.tokens).filter(|_| !overrun.is_zero()),
        overrun_usd = Some(overrun.micro_usd as f64 / 1e6).filter(|_| !overrun.is_zero()),
        "settled"
    );
}
