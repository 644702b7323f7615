//! Whether an agent elsewhere can be reached that is no pool: nobody else could answer in its place, so calls to one that is
//! away are refused at once, but for one now and then that tries it out.

use chancery_protocol::Denied;

use super::breaker::{BreakerSettings, Standing};
use super::decision::agent_out;
use super::member::{Member, Remeasuring};
use super::peer::{Peer, Snapshot};
use super::ticket::Ticket;
use crate::Millis;

/// What is known of how an agent elsewhere can be reached.
#[derive(Debug)]
pub struct Reach {
    member: Member,
    breaker: BreakerSettings,
}

impl Reach {
    /// Of an agent of which nothing is known yet.
    pub fn new(agent: impl Into<std::sync::Arc<str>>, breaker: BreakerSettings) -> Self {
        Self { member: Member::new(Peer::new(agent)), breaker }
    }

    /// Begins a call, unless the agent is out.
    pub fn begin(&self, now: Millis) -> Result<Ticket, Denied> {
        let begun = self.member.begin(self.breaker, None, true, now);
        begun.map_err(|standing| agent_out(&self.member.peer.name, standing, now))
    }

    /// What [`begin`](Self::begin) would decide now. Nothing is begun.
    pub fn foretell(&self, now: Millis) -> Result<(), Denied> {
        let seen = self.snapshot(now);
        match seen.can_be_called() {
            true => Ok(()),
            false => Err(agent_out(&self.member.peer.name, seen.standing, now)),
        }
    }

    /// Somebody has found that it cannot be reached, without calling it.
    pub fn missed(&self, now: Millis) {
        self.member.missed(&self.breaker, now);
    }

    /// How it looks now.
    pub fn snapshot(&self, now: Millis) -> Snapshot {
        self.member.snapshot(&Remeasuring::default(), 0, now)
    }

    /// Whether it gets calls.
    pub fn is_out(&self, now: Millis) -> bool {
        self.snapshot(now).standing != Standing::In
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_that_cannot_be_reached_gets_one_call_that_tries_it_and_is_back_when_that_goes_well() {
        let settings = BreakerSettings { failures: 3, cooldown: Duration::from_secs(5) };
        let reach = Reach::new("far", settings);
        (0..2).for_each(|_| reach.begin(Millis(0)).unwrap().transport_failure(Millis(0)));
        reach.foretell(Millis(0)).unwrap();
        reach.missed(Millis(0));
        let denied = reach.foretell(Millis(1_000)).unwrap_err();
        assert_eq!(
            (&*denied.reason, denied.retry_after),
            ("AGENT_UNREACHABLE", Some(Duration::from_secs(4)))
        );
        assert_eq!(reach.begin(Millis(4_999)).unwrap_err().reason, "AGENT_UNREACHABLE");

        let trial = reach.begin(Millis(5_000)).unwrap();
        reach.begin(Millis(5_000)).unwrap_err();
        reach.foretell(Millis(9_999)).unwrap_err();
        // One that says nothing must not keep all others away.
        reach.foretell(Millis(10_000)).unwrap();
        let other = reach.begin(Millis(10_000)).unwrap();
        drop(trial);
        reach.begin(Millis(10_000)).unwrap_err();
        other.succeeded(Millis(10_001));
        assert!(!reach.is_out(Millis(10_001)));
        reach.begin(Millis(10_001)).unwrap();
    }
}
