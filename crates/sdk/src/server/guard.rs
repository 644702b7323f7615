//! What stands in front of the agents of a server: who may ask how often, and which calls reach an agent.
//!
//! The server asks, at the places where only it can: before a request is read, and when an endpoint is mounted. What is
//! decided, and by what rules, is the guard's business.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chancery_protocol::{Caller, Denied, DynEndpoint, Error, Hold, Principal, TaskId};
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{Extensions, Response};

use super::body::Body;

/// Stands in front of every agent of a server. Written by whoever governs a fleet; a server without one lets every
/// authenticated call through.
pub trait Guard: Send + Sync + 'static {
    /// Something that answers in the place of an agent, and has what it lets through answered by the agent itself.
    fn protect(&self, agent: &str, endpoint: Arc<dyn DynEndpoint>) -> Arc<dyn DynEndpoint>;

    /// Whether somebody belongs to those for whom internal agents are there, given the proof of descent that came with the
    /// request, if one did. Nobody does unless the guard knows better.
    fn is_insider(&self, caller: &Caller, lineage: Option<&str>) -> bool {
        let _ = (caller, lineage);
        false
    }

    /// What calls of an earlier process hold for tasks of an agent that it left unfinished.
    fn restored(&self, agent: &str) -> Vec<Restored>;

    /// Counts a request, whatever it asks for: with nobody's name before it is known whose it is, then with the
    /// caller's.
    fn count(&self, source: Option<IpAddr>, caller: Option<&Caller>) -> Result<Option<Rate>, Denied>;
}

/// What a call of an earlier process holds for a task.
#[derive(Debug)]
pub struct Restored {
    /// Whose task it is.
    pub principal: Principal,
    /// The task.
    pub task: TaskId,
    /// What is held.
    pub hold: Arc<dyn Hold>,
}

/// How much of its rate a caller has used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many requests at a time.
    pub limit: u64,
    /// So many are left.
    pub remaining: u64,
    /// When all of them are there again.
    pub reset: Duration,
}

/// One request, as far as the guard is concerned. Travels in the extensions of its head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visit(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    source: Option<IpAddr>,
    rate: OnceLock<Rate>,
}

impl Visit {
    /// Counts a request of which nothing is known but where it comes from.
    pub(super) fn begin(
        guard: &dyn Guard,
        source: Option<IpAddr>,
        extensions: &mut Extensions,
    ) -> Result<Self, Error> {
        let visit = Self(Arc::new(Seen { source, rate: OnceLock::new() }));
        extensions.insert(visit.clone());
        match guard.count(source, None) {
            Ok(_) => Ok(visit),
            Err(denied) => Err(denied.into()),
        }
    }

    /// Counts it as this caller's.
    pub(super) fn count(&self, guard: &dyn Guard, caller: &Caller) -> Result<(), Error> {
        if let Some(rate) = guard.count(self.0.source, Some(caller))? {
            let _ = self.0.rate.set(rate);
        }
        Ok(())
    }

    /// The visit that a request belongs to.
    pub(crate) fn of(head: &Parts) -> Option<&Self> {
        head.extensions.get()
    }

    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.0.source
    }

    /// Tells the caller how much of its rate is left.
    pub(super) fn end(&self, response: &mut Response<Body>) {
        let Some(rate) = self.0.rate.get() else { return };
        let seconds = rate.reset.as_secs() + u64::from(rate.reset.subsec_nanos() > 0);
        let all = [
            ("ratelimit-limit", rate.limit),
            ("ratelimit-remaining", rate.remaining),
            ("ratelimit-reset", seconds),
        ];
        for (name, value) in all {
            response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
    }
}
