//! What stops a turn from outside: a cancel, its deadline, the end of the process.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::drive::{Drive, Step};

/// What stops a turn from outside. Armed only when the agent does not finish at once.
#[derive(Default)]
pub(super) struct Stop(Option<Armed>);

struct Armed {
    deadline: Pin<Box<Sleep>>,
    canceled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The process winds down, and the work goes on without it.
    abandoned: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Stop {
    pub(super) fn poll(&mut self, context: &mut Context<'_>, drive: &Drive) -> Poll<Step> {
        let armed = self.0.get_or_insert_with(|| Armed::for_turn(drive));
        if armed.canceled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Step::Canceled);
        }
        if armed.abandoned.as_mut().is_some_and(|abandoned| abandoned.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Step::Abandoned);
        }
        armed.deadline.as_mut().poll(context).map(|()| Step::DeadlinePassed)
    }
}

impl Armed {
    fn for_turn(drive: &Drive) -> Self {
        let wait_for = |token: &CancellationToken| Box::pin(token.clone().cancelled_owned());
        let core = &drive.core;
        Self {
            deadline: Box::pin(sleep_until(drive.deadline.into())),
            canceled: wait_for(drive.sink.cancellation()),
            abandoned: core.spec.works_elsewhere.then(|| wait_for(&core.abandoned)),
        }
    }
}
