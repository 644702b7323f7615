//! The span of a call, for who traces: what it is from the beginning, and what it came to.

use chancery_protocol::Settled;
use tracing::Span;
use tracing::field::Empty;

use crate::lineage::OpenHop;

/// The span of a call that is let through.
pub(crate) fn of(open: &OpenHop, trace: &str) -> Span {
    tracing::info_span!(
        target: "chancery::call",
        "call",
        trace,
        call = %open.hop,
        root = %open.root,
        depth = open.context.depth,
        caller = &*open.caller,
        agent = &*open.agent,
        member = open.peer.as_deref(),
        task = Empty,
        state = Empty,
        actual_tokens = Empty,
        actual_cost_usd = Empty,
        overrun_tokens = Empty,
        overrun_usd = Empty,
        cost_source = Empty,
    )
}

/// Says what the call came to.
pub(crate) fn record(span: &Span, open: &OpenHop, settled: &Settled) {
    if span.is_disabled() {
        return;
    }
    if let Some(task) = open.task() {
        span.record("task", task.as_str());
    }
    if let Some(state) = settled.state {
        span.record("state", state.as_str());
    }
    span.record("actual_tokens", settled.charged.tokens);
    span.record("actual_cost_usd", settled.charged.micro_usd as f64 / 1e6);
    span.record("cost_source", settled.source.as_str());
    if !settled.overrun.is_zero() {
        span.record("overrun_tokens", settled.overrun.tokens);
        span.record("overrun_usd", settled.overrun.micro_usd as f64 / 1e6);
    }
}
