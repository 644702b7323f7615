//! Agents that do the same, and how one of them is found for a call.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use chancery_protocol::{Denied, Principal, TaskId};
use thiserror::Error;

use super::breaker::BreakerSettings;
use super::decision::{
    Decision, Why, bound_peer_gone, bound_peer_out, nobody_available, nobody_fits, too_many_tasks,
};
use super::member::{Member, Remeasuring};
use super::peer::{Peer, Snapshot, estimate};
use super::selector::{Choice, LowestLatency, PeerSelector, Wanted};
use super::sticky::{Binding, Bound, Sticky, StickySettings};
use super::ticket::Ticket;
use crate::Millis;

/// A pool of agents that do the same. What it learns about them it keeps to itself; it makes no calls.
#[derive(Debug)]
pub struct Pool {
    name: Arc<str>,
    roster: RwLock<Arc<Roster>>,
    sticky: Sticky,
    turns: AtomicU64,
}

/// How a pool chooses.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Who chooses.
    pub selector: Arc<dyn PeerSelector>,
    /// What is done if there is nobody.
    pub fallback: Fallback,
    /// When a member is out.
    pub breaker: BreakerSettings,
    /// When a member that nobody chooses is measured again.
    pub remeasuring: Remeasuring,
    /// How much is remembered.
    pub sticky: StickySettings,
}

/// What is done with a call for which there is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It is refused.
    #[default]
    Refuse,
    /// It is served in this process. A pool decides before anything has been sent to anybody, and is asked once: what
    /// breaks off afterwards may have been done, and is not done again.
    Local,
}

/// Where a call goes.
#[derive(Debug)]
pub struct Route {
    /// To be kept until the call is over; none if it is to be served in this process.
    pub ticket: Option<Ticket>,
    /// Why.
    pub decision: Decision,
}

/// Two members of a pool have the same name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("pool `{pool}` has two peers of the name `{peer}`")]
pub struct DuplicatePeer {
    /// The pool.
    pub pool: Arc<str>,
    /// The name.
    pub peer: Arc<str>,
}

#[derive(Debug)]
struct Roster {
    members: Vec<Member>,
    settings: PoolSettings,
}

/// The members at a moment: first those that can be called, then those that cannot.
struct Seen {
    all: Vec<Snapshot>,
    available: usize,
}

// === impl PoolSettings ===

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            selector: Arc::new(LowestLatency),
            fallback: Fallback::default(),
            breaker: BreakerSettings::default(),
            remeasuring: Remeasuring::default(),
            sticky: StickySettings::default(),
        }
    }
}

// === impl Pool ===

impl Pool {
    /// A pool of these peers, of which nothing is known yet.
    pub fn try_new(
        name: impl Into<Arc<str>>,
        peers: impl IntoIterator<Item = Peer>,
        settings: PoolSettings,
    ) -> Result<Self, DuplicatePeer> {
        let nobody = Roster { members: Vec::new(), settings: settings.clone() };
        let pool = Self {
            name: name.into(),
            roster: RwLock::new(Arc::new(nobody)),
            sticky: Sticky::default(),
            turns: AtomicU64::new(0),
        };
        pool.replace(peers, settings)?;
        Ok(pool)
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// From now on it has these peers and settings. Of a peer that stays everything is kept that was learnt; calls that are
    /// under way go on.
    pub fn replace(
        &self,
        peers: impl IntoIterator<Item = Peer>,
        settings: PoolSettings,
    ) -> Result<(), DuplicatePeer> {
        let mut roster = self.roster.write().unwrap_or_else(PoisonError::into_inner);
        let mut names = HashSet::new();
        let mut members = Vec::new();
        for peer in peers {
            if !names.insert(peer.name.clone()) {
                return Err(DuplicatePeer { pool: self.name.clone(), peer: peer.name });
            }
            members.push(match roster.member(&peer.name) {
                Some(known) => known.redeclared(peer),
                None => Member::new(peer),
            });
        }
        *roster = Arc::new(Roster { members, settings });
        Ok(())
    }

    /// Finds a peer for a call, and begins it there. To be asked once for each call, before anything is sent.
    pub fn route(&self, wanted: &Wanted<'_>, now: Millis) -> Result<Route, Denied> {
        let roster = self.roster();
        if let Some(decision) = self.bound(&roster, wanted, now)? {
            let ticket = decision.peer.as_deref().map(|peer| roster.begin(peer, None, true, now));
            return Ok(Route { ticket: ticket.transpose()?, decision });
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = Wanted { turn, ..*wanted };
        let mut seen = roster.see(turn, now);
        loop {
            let decision = self.choose(&roster, &seen, &wanted, now)?;
            let Some(peer) = decision.peer.clone() else {
                return Ok(Route { ticket: None, decision: Decision { considered: seen.all, ..decision } });
            };
            let is_measured = seen.is_measured(&peer);
            match roster.begin(&peer, Some(turn), is_measured, now) {
                Ok(ticket) => {
                    let decision = Decision { considered: seen.all, ..decision };
                    return Ok(Route { ticket: Some(ticket), decision });
                }
                // Another call was faster: it tries that peer out, or has found it to be out.
                Err(_) => seen.strike(&peer),
            }
        }
    }

    /// What [`route`](Self::route) would decide now. Nothing is begun.
    pub fn foretell(&self, wanted: &Wanted<'_>, now: Millis) -> Result<Decision, Denied> {
        let roster = self.roster();
        if let Some(decision) = self.bound(&roster, wanted, now)? {
            return Ok(decision);
        }
        let turn = self.turns.load(Ordering::Relaxed) + 1;
        let seen = roster.see(turn, now);
        let decision = self.choose(&roster, &seen, &Wanted { turn, ..*wanted }, now)?;
        Ok(Decision { considered: seen.all, ..decision })
    }

    /// Begins a call to a peer that somebody else has chosen; refused if it is out or no member.
    pub fn begin(&self, peer: &str, now: Millis) -> Result<Ticket, Denied> {
        let roster = self.roster();
        let turn = self.turns.load(Ordering::Relaxed);
        let known = roster.member(peer);
        let seen = known.map(|known| known.snapshot(&roster.settings.remeasuring, turn, now));
        roster.begin(peer, None, seen.is_some_and(|seen| seen.latency.is_some()), now)
    }

    /// What the card of a peer says that it can do.
    pub fn declares(&self, peer: &str, skills: &[Arc<str>]) {
        let mut roster = self.roster.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = roster.member(peer).is_some_and(|member| member.peer.skills != skills);
        if !is_new {
            return;
        }
        let redeclared = |member: &Member| match *member.peer.name == *peer {
            true => member.redeclared(Peer { skills: skills.to_vec(), ..Peer::clone(&member.peer) }),
            false => member.clone(),
        };
        let members = roster.members.iter().map(redeclared).collect();
        *roster = Arc::new(Roster { members, settings: roster.settings.clone() });
    }

    /// Somebody has found that a peer cannot be reached, without calling it.
    pub fn missed(&self, peer: &str, now: Millis) {
        let roster = self.roster();
        if let Some(member) = roster.member(peer) {
            member.missed(&roster.settings.breaker, now);
        }
    }

    /// How its members look now.
    pub fn members(&self, now: Millis) -> Vec<Snapshot> {
        self.roster().see(self.turns.load(Ordering::Relaxed), now).all
    }

    /// A task has begun. What goes on with it, or with its conversation, will go to the same peer. After a restart, this
    /// is said of every task that is open.
    pub fn bind(&self, binding: Binding) {
        self.sticky.bind(binding, &self.roster().settings.sticky);
    }

    /// A task has ended.
    pub fn release(&self, principal: &Principal, task: &TaskId) {
        self.sticky.release(principal, task, &self.roster().settings.sticky);
    }

    fn roster(&self) -> Arc<Roster> {
        self.roster.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where a call has to go, because what it goes on with is there.
    fn bound(&self, roster: &Roster, wanted: &Wanted<'_>, now: Millis) -> Result<Option<Decision>, Denied> {
        let (peer, why, reason) = match self.sticky.find(wanted) {
            Some(Bound::Task(peer)) => (peer, Why::Task, "it has the task"),
            Some(Bound::Context(peer)) => (peer, Why::Context, "it has the conversation"),
            None => return Ok(None),
        };
        let Some(member) = roster.member(&peer) else {
            // A conversation can go on elsewhere, a task cannot.
            return if why == Why::Task { Err(bound_peer_gone(&peer)) } else { Ok(None) };
        };
        let seen = member.snapshot(&roster.settings.remeasuring, 0, now);
        if !seen.can_be_called() {
            return Err(bound_peer_out(&peer, seen.standing, now));
        }
        let (peer, considered) = (Some(peer), vec![seen]);
        Ok(Some(Decision { pool: self.name.clone(), peer, why, reason: reason.into(), considered }))
    }

    /// Asks the selector. Whom it chose of is left out of the decision.
    fn choose(
        &self,
        roster: &Roster,
        seen: &Seen,
        wanted: &Wanted<'_>,
        now: Millis,
    ) -> Result<Decision, Denied> {
        let settings = &roster.settings;
        if self.sticky.open_tasks() >= settings.sticky.open_tasks {
            return Err(too_many_tasks(settings.sticky.open_tasks));
        }
        let decided = |peer, why, reason| {
            let considered = Vec::new();
            Ok(Decision { pool: self.name.clone(), peer, why, reason, considered })
        };
        let candidates = seen.candidates();
        let refusal = if candidates.is_empty() {
            nobody_available(&self.name, &seen.all, now)
        } else {
            let Choice { member, reason } = settings.selector.select(candidates, wanted, now);
            // A selector that names a place that is none has found nobody.
            if let Some(chosen) = member.and_then(|place| candidates.get(place)) {
                let why = Why::Selector(settings.selector.name().to_owned());
                return decided(Some(chosen.peer.name.clone()), why, reason);
            }
            nobody_fits(&self.name, &reason)
        };
        match settings.fallback {
            Fallback::Refuse => Err(refusal),
            Fallback::Local => {
                let found = refusal.observed.as_deref().unwrap_or("the pool is empty");
                let reason = Cow::Owned(format!("{found}, so it is served here"));
                decided(None, Why::Fallback, reason)
            }
        }
    }
}

// === impl Roster ===

impl Roster {
    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| *member.peer.name == *name)
    }

    fn begin(&self, peer: &str, turn: Option<u64>, is_measured: bool, now: Millis) -> Result<Ticket, Denied> {
        let Some(member) = self.member(peer) else { return Err(bound_peer_gone(peer)) };
        let begun = member.begin(self.settings.breaker, turn, is_measured, now);
        begun.map_err(|standing| bound_peer_out(peer, standing, now))
    }

    fn see(&self, turn: u64, now: Millis) -> Seen {
        let mut all: Vec<_> = self
            .members
            .iter()
            .map(|member| member.snapshot(&self.settings.remeasuring, turn, now))
            .collect();
        estimate(&mut all);
        all.sort_by_key(|one| !one.can_be_called());
        let available = all.partition_point(Snapshot::can_be_called);
        Seen { all, available }
    }
}

// === impl Seen ===

impl Seen {
    fn candidates(&self) -> &[Snapshot] {
        &self.all[..self.available]
    }

    fn is_measured(&self, peer: &str) -> bool {
        self.candidates().iter().any(|one| *one.peer.name == *peer && one.latency.is_some())
    }

    /// It cannot be called after all.
    fn strike(&mut self, peer: &str) {
        if let Some(place) = self.candidates().iter().position(|one| *one.peer.name == *peer) {
            let struck = self.all.remove(place);
            self.all.push(struck);
            self.available -= 1;
        }
    }
}
