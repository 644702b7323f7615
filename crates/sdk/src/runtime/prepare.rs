//! A turn made ready: what it knows of its call, and what runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{CallContext, Message};
use chancery_store::Scope;

use super::Core;
use super::drive::Drive;
use super::handle::{TurnHandle, status_of};
use super::live::Live;
use super::sink::Sink;
use crate::agent::Sent;
use crate::turn::{CallerWaits, Facts, Purpose, Turn};

/// Thirty years, for a timeout that the clock cannot count to.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl Core {
    /// What a turn knows of its call.
    pub(super) fn facts(
        self: &Arc<Self>,
        scope: &Scope,
        sink: &Sink,
        context: Box<CallContext>,
    ) -> Box<Facts> {
        let context = *context;
        sink.set_hold(context.hold);
        let now = Instant::now();
        let limit = now.checked_add(self.spec.turn_timeout).unwrap_or(now + NEVER);
        Box::new(Facts {
            principal: context.principal,
            configuration: None,
            metadata: None,
            task: None,
            referenced: Vec::new(),
            state: None,
            deadline: context.deadline.map_or(limit, |deadline| deadline.min(limit)),
            extensions: context.extensions,
            traceparent: context.traceparent,
            skill: context.skill,
            agent: self.spec.name.clone(),
            lineage: context.lineage,
            purpose: Purpose::Message,
            waits: CallerWaits::ForOutcome,
            #[cfg(feature = "client")]
            peer: context.peer,
            #[cfg(feature = "client")]
            peer_watch: context.peer_watch,
            handle: TurnHandle::new(self.clone(), scope.clone(), sink.task_id().clone()),
        })
    }

    pub(super) fn prepare(
        self: Arc<Self>,
        scope: Scope,
        sink: Sink,
        message: Message,
        facts: Box<Facts>,
        live: Option<Arc<Live>>,
    ) -> Box<Drive> {
        let sink = Arc::new(sink);
        let (deadline, waits) = (facts.deadline, facts.waits);
        let hold = if live.is_none() { sink.hold() } else { None };
        let found = status_of(facts.task.as_ref());
        let agent = self.spec.agent.clone().start(Turn { message, facts, sink: sink.clone() });
        Box::new(Drive {
            core: self,
            scope,
            sink,
            agent,
            deadline,
            end: Arc::default(),
            committed: live.is_some(),
            reservation: None,
            admission: None,
            is_reserved: false,
            sent: Sent::Answered,
            found,
            hold,
            live,
            waits,
            before: None,
            opened: None,
            settled: None,
        })
    }
}
