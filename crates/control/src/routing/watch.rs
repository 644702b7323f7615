//! How a pool hears of its peers from whoever calls them: the ports of the protocol, put to tickets and tasks.

use std::fmt;

use chancery_protocol::{ContextId, PeerWatch, PoolWatch, Principal, TaskId};

use super::pool::Pool;
use super::sticky::Binding;
use super::ticket::Ticket;
use crate::Millis;

/// A ticket that is told by events, with a clock that says when they were. The ticket is over when nobody watches for
/// it any more.
pub struct Watched<C> {
    ticket: Ticket,
    clock: C,
}

impl<C: Fn() -> Millis> Watched<C> {
    /// Watches for this ticket.
    pub fn new(ticket: Ticket, clock: C) -> Self {
        Self { ticket, clock }
    }

    /// The ticket.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

impl<C: Fn() -> Millis + Send + Sync> PeerWatch for Watched<C> {
    fn heard(&self) {
        self.ticket.first_event((self.clock)());
    }

    fn answered(&self) {
        self.ticket.succeeded((self.clock)());
    }

    fn broke_off(&self) {
        self.ticket.transport_failure((self.clock)());
    }
}

impl<C> fmt::Debug for Watched<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ticket, f)
    }
}

impl PoolWatch for Pool {
    fn began(&self, principal: &Principal, task: &TaskId, context: Option<&ContextId>, peer: &str) {
        let (principal, task, context) = (principal.clone(), task.clone(), context.cloned());
        self.bind(Binding { principal, task, context, peer: peer.into() });
    }

    fn ended(&self, principal: &Principal, task: &TaskId) {
        self.release(principal, task);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::routing::{Peer, PoolSettings, Standing, Wanted, Why};

    #[test]
    fn what_is_heard_of_a_call_is_told_to_its_ticket() {
        let pool = Pool::try_new("p", [Peer::new("a")], PoolSettings::default()).unwrap();
        let watched = Watched::new(pool.begin("a", Millis(0)).unwrap(), || Millis(40));
        watched.heard();
        assert_eq!(pool.members(Millis(40))[0].latency, Some(Duration::from_millis(40)));
        (0..5).for_each(|_| watched.broke_off());
        assert_eq!(pool.members(Millis(40))[0].standing, Standing::OutUntil(Millis(10_040)));
        drop(watched);
        assert_eq!(pool.members(Millis(40))[0].open, 0);
    }

    #[test]
    fn a_pool_that_is_told_of_tasks_keeps_them_where_they_are() {
        let peers = [Peer::new("a"), Peer::new("b")];
        let pool = Pool::try_new("p", peers, PoolSettings::default()).unwrap();
        let (me, task, context) = (Principal::anonymous(), TaskId::from("t"), ContextId::from("c"));
        pool.began(&me, &task, Some(&context), "b");
        let wanted = Wanted { task: Some(&task), ..Wanted::by(&me) };
        let decision = pool.foretell(&wanted, Millis(0)).unwrap();
        assert_eq!((decision.peer.as_deref(), decision.why), (Some("b"), Why::Task));
        pool.ended(&me, &task);
        assert!(matches!(pool.foretell(&wanted, Millis(0)).unwrap().why, Why::Selector(_)));
    }
}
