//! What stops a turn from outside: a cancel, its deadline, the end of the process.

use std::task::{Context, Poll};
use std::time::Instant;

use super::drive::Step;
use super::sink::Sink;
use crate::alarm::Alarm;
use crate::canceled::Canceled;

/// What stops a turn from outside. Armed only when the agent does not finish at once.
#[derive(Default)]
pub(super) struct Stop {
    deadline: Option<Alarm>,
    canceled: Option<Canceled>,
    /// Fires when the process winds down, for turns whose work goes on without it.
    pub(super) abandoned: Option<Canceled>,
}

// === impl Stop ===

impl Stop {
    pub(super) fn poll(&mut self, context: &mut Context<'_>, sink: &Sink, deadline: Instant) -> Poll<Step> {
        let canceled = self.canceled.get_or_insert_with(|| Canceled::new(sink.cancellation().clone()));
        if canceled.poll(context).is_ready() {
            return Poll::Ready(Step::Canceled);
        }
        if self.abandoned.as_mut().is_some_and(|abandoned| abandoned.poll(context).is_ready()) {
            return Poll::Ready(Step::Abandoned);
        }
        let alarm = self.deadline.get_or_insert_with(|| Alarm::at(deadline.into()));
        alarm.poll(context).map(|()| Step::DeadlinePassed)
    }
}
