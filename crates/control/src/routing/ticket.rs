//! One call to a peer, from when it is chosen until the call is over: how a pool learns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::breaker::BreakerSettings;
use super::member::Member;
use crate::Millis;

/// One call to a peer. Whoever makes the call says how it goes; what is never said is never held against the peer.
/// Dropped, it is over.
///
/// That an agent says FAILED is a success of the peer: it could be reached, and it answered.
pub struct Ticket {
    member: Member,
    id: u64,
    began: Millis,
    breaker: BreakerSettings,
    is_heard: AtomicBool,
}

impl Ticket {
    pub(super) fn new(member: Member, id: u64, breaker: BreakerSettings, began: Millis) -> Self {
        Self { member, id, began, breaker, is_heard: AtomicBool::new(false) }
    }

    /// The peer that it is for.
    pub fn peer(&self) -> &Arc<str> {
        &self.member.peer.name
    }

    /// The peer has said something, be it an event or its answer. Only the first time counts.
    pub fn first_event(&self, now: Millis) {
        if !self.is_heard.swap(true, Ordering::Relaxed) {
            self.member.record().first_event(self.id, now.since(self.began), now);
        }
    }

    /// What the call has cost, in millionths of a US dollar.
    pub fn cost(&self, micro_usd: u64) {
        self.member.record().cost(micro_usd);
    }

    /// An exchange with the peer has come to its end as it should. A call may take several; each counts.
    pub fn succeeded(&self, now: Millis) {
        self.first_event(now);
        self.member.record().succeeded();
    }

    /// The peer could not be reached, or what it said broke off. Each time counts.
    pub fn transport_failure(&self, now: Millis) {
        self.member.record().failed(self.id, &self.breaker, now);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.member.record().close(self.id);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("peer", &self.member.peer.name)
            .field("began", &self.began)
            .finish_non_exhaustive()
    }
}
