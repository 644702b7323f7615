//! The log of calls: one line when a call is answered, and one when what it led to is settled.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use chancery_control::{Booked, Millis};
use chancery_protocol::{Call, Error, Operation, Principal, Reply, SendMessageResponse};

/// A call on its way.
pub(super) struct Visit {
    began: Instant,
    /// Who calls, if anybody reads the log.
    caller: Option<Principal>,
    /// Where the call comes from.
    source: Option<IpAddr>,
}

impl Visit {
    pub(super) fn begin(call: &Call) -> Self {
        let is_read = tracing::enabled!(target: "chancery::access", tracing::Level::INFO);
        let caller = is_read.then(|| call.context.principal.clone());
        Self { began: Instant::now(), caller, source: call.context.source }
    }

    pub(super) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// It has been answered.
    pub(super) fn end(self, agent: &str, operation: Operation, reply: &Result<Reply, Error>) {
        let Some(Principal { realm, id: caller }) = &self.caller else { return };
        let task = match reply {
            Ok(Reply::Sent(SendMessageResponse::Task(task))) => Some(task.task.id().as_str()),
            _ => None,
        };
        let code = reply.as_ref().err().map_or("OK", |error| error.code().row().reason);
        let millis = self.took().as_secs_f64() * 1e3;
        let operation = operation.method();
        let source = self.source.map(tracing::field::display);
        tracing::info!(
            target: "chancery::access",
            agent, operation, realm = &**realm, caller = &**caller, source, task, code, millis,
            "{operation} {agent} {code}"
        );
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
