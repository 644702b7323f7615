//! Credentials that were refused, by where they came from: who tries many is refused before the next one is looked at, and leaves
//! a trace.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chancery_protocol::{Error, ErrorCode, network_of};
use foldhash::fast::RandomState;
use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;

/// How long what a source has tried counts.
const SPAN: Duration = Duration::from_secs(60);

/// How many sources are known at most; others then share one place.
const MOST_SOURCES: usize = 65_536;

/// Where credentials are shown beside `Authorization`.
const API_KEY: &str = "x-api-key";

/// The credentials that were refused.
#[derive(Debug)]
pub(super) struct RefusedCredentials {
    /// How many there may be from one source within the span.
    most: usize,
    all: AtomicU64,
    /// How many sources there are below, for those who only want to know that there are none.
    known: AtomicUsize,
    sources: Mutex<HashMap<Option<IpAddr>, Tried, RandomState>>,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    since: Instant,
    count: usize,
}

// === impl RefusedCredentials ===

impl RefusedCredentials {
    pub(super) fn new(most: usize) -> Self {
        Self { most, all: AtomicU64::new(0), known: AtomicUsize::new(0), sources: Mutex::default() }
    }

    /// How many there have been.
    pub(super) fn count(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Refuses a request with a credential from a source that has shown too many wrong ones.
    pub(super) fn check(&self, head: &Parts, source: impl FnOnce() -> Option<IpAddr>) -> Result<(), Error> {
        if self.known.load(Ordering::Relaxed) == 0 || !shows_credential(head) {
            return Ok(());
        }
        match self.closed_for(source().map(network_of), Instant::now()) {
            None => Ok(()),
            Some(wait) => {
                let text = format!(
                    "Too many wrong credentials came from your address: {} within a minute; use the right one after the wait",
                    self.most
                );
                Err(Error::with_message(ErrorCode::ResourceExhausted, text).retry_after(wait))
            }
        }
    }

    /// Counts a request that was refused for what it showed, if it showed anything.
    pub(super) fn refused(&self, head: &Parts, source: impl FnOnce() -> Option<IpAddr>) {
        if !shows_credential(head) {
            return;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        let source = source().map(network_of);
        let count = self.add(source, Instant::now());
        let source = source.map_or_else(|| "an unknown address".to_owned(), |source| source.to_string());
        if count == 1 {
            tracing::info!(source, "a wrong credential came from {source}");
        } else if count == self.most {
            tracing::warn!(
                source,
                count,
                "{count} wrong credentials came from {source} within a minute; none is looked at for the rest of it"
            );
        }
    }

    fn closed_for(&self, source: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let sources = self.sources.lock();
        let tried = sources.get(&source).or_else(|| {
            // It may be among those who share a place.
            (sources.len() >= MOST_SOURCES).then(|| sources.get(&None)).flatten()
        })?;
        let left = SPAN.saturating_sub(now.duration_since(tried.since));
        (tried.count >= self.most && !left.is_zero()).then_some(left)
    }

    /// How many there have been from there within the span, with this one.
    fn add(&self, source: Option<IpAddr>, now: Instant) -> usize {
        let mut sources = self.sources.lock();
        let is_over = |tried: &Tried| now.duration_since(tried.since) >= SPAN;
        if sources.len() >= MOST_SOURCES && !sources.contains_key(&source) {
            sources.retain(|_, tried| !is_over(tried));
        }
        let place =
            if sources.len() >= MOST_SOURCES && !sources.contains_key(&source) { None } else { source };
        let tried = sources.entry(place).or_insert(Tried { since: now, count: 0 });
        if is_over(tried) {
            *tried = Tried { since: now, count: 0 };
        }
        tried.count += 1;
        let count = tried.count;
        self.known.store(sources.len(), Ordering::Relaxed);
        count
    }
}

fn shows_credential(head: &Parts) -> bool {
    head.headers.contains_key(AUTHORIZATION) || head.headers.contains_key(API_KEY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_closed_for_the_rest_of_its_minute_and_no_other_is() {
        let refused = RefusedCredentials::new(3);
        let (here, there) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((refused.add(here, at(0)), refused.add(here, at(30))), (1, 2));
        assert_eq!(refused.closed_for(here, at(31)), None);
        assert_eq!(refused.add(here, at(40)), 3);
        assert_eq!(refused.closed_for(here, at(45)), Some(Duration::from_secs(15)));
        assert_eq!(refused.closed_for(there, at(45)), None);
        assert_eq!(refused.closed_for(here, at(60)), None);
        assert_eq!(refused.add(here, at(60)), 1);
    }

    #[test]
    fn there_are_only_so_many_places_and_those_without_one_share() {
        let refused = RefusedCredentials::new(2);
        let now = Instant::now();
        let address = |number: u32| Some(IpAddr::from(number.to_be_bytes()));
        for number in 0..u32::try_from(MOST_SOURCES).unwrap() {
            refused.add(address(number), now);
        }
        let (one, other) = (address(u32::MAX), address(u32::MAX - 1));
        refused.add(one, now);
        refused.add(other, now);
        assert!(refused.closed_for(one, now).is_some() && refused.closed_for(other, now).is_some());
        assert_eq!(refused.closed_for(address(1), now), None, "a known one has a place of its own");
        assert!(refused.sources.lock().len() <= MOST_SOURCES + 1);
        let later = now + SPAN;
        refused.add(one, later);
        assert_eq!(refused.sources.lock().len(), 1, "what is over makes place");
    }
}
