//! How often anybody may ask anything: a token bucket for each caller and for each address that requests come from, and one
//! more for each address that anonymous callers share.
//! Whoever has used theirs up can still cancel what they have begun: that has buckets of its own, which are larger.
//!
//! A bucket is one number, the time at which it will be full again (GCRA). There are only so many buckets: when there is no
//! place, those that are full are dropped, which loses nothing; if all are in use, newcomers share one.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use chancery_protocol::{Denied, DeniedKind, Principal, Quota, network_of};
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::Millis;
use crate::explain::GateReport;
use crate::terms::Mode;

/// The name of the gate.
pub const GATE: &str = "rate";

/// Somebody asks too often.
pub const RATE_LIMITED: &str = "RATE_LIMITED";

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// So many a second in the long run; at least one.
    pub per_second: u32,
    /// So many at once; at least one.
    pub burst: u32,
}

/// The limits of a gateway.
///
/// ```
/// use chancery_control::Millis;
/// use chancery_control::rate::{RateLimit, Rates};
/// use chancery_protocol::Principal;
///
/// let rates = Rates::new(Some(RateLimit { per_second: 1, burst: 2 }), None, None);
/// let alice = Principal::new("default", "alice");
/// assert_eq!(rates.caller(&alice, Millis(0)).unwrap().unwrap().remaining, 1);
/// assert!(rates.caller(&alice, Millis(0)).is_ok());
/// assert!(rates.caller(&alice, Millis(0)).is_err());
/// assert!(rates.caller(&alice, Millis(1000)).is_ok());
/// ```
#[derive(Debug, Default)]
pub struct Rates {
    /// Whether what is too often is refused.
    mode: Mode,
    callers: Option<Buckets<Principal>>,
    sources: Option<Buckets<IpAddr>>,
    /// Anonymous callers are one caller; these keep one address from using up what belongs to all of them.
    anonymous: Option<Buckets<Option<IpAddr>>>,
    /// For cancels alone, where the others are used up.
    cancels_of_callers: Option<Buckets<Principal>>,
    cancels_of_sources: Option<Buckets<IpAddr>>,
    cancels_of_anonymous: Option<Buckets<Option<IpAddr>>>,
}

/// How many cancels there are for each request that there is otherwise, and at least; of those at once, ten times as many.
const CANCELS: u32 = 10;
const FEWEST_CANCELS: u32 = 100;

/// How many buckets there are of each kind.
const MOST: usize = 100_000;

/// How often full ones are looked for, while there is no place. To look through all of them takes a while, and whoever
/// has many addresses could have it done with each request.
const SWEEP_EVERY_MICROS: u64 = 100_000;

#[derive(Debug)]
struct Buckets<K> {
    limit: RateLimit,
    most: usize,
    full_at: Mutex<Table<K>>,
}

#[derive(Debug)]
struct Table<K> {
    of: HashMap<K, u64, RandomState>,
    /// For all who came when there was no place.
    others: u64,
    /// When full ones were last looked for.
    swept: u64,
}

// === impl Rates ===

impl Rates {
    /// For each caller, for each address, and for the anonymous callers of each address; none is no limit.
    pub fn new(caller: Option<RateLimit>, source: Option<RateLimit>, anonymous: Option<RateLimit>) -> Self {
        Self {
            mode: Mode::Enforce,
            callers: caller.map(Buckets::new),
            sources: source.map(Buckets::new),
            anonymous: anonymous.map(Buckets::new),
            cancels_of_callers: caller.map(|limit| Buckets::new(limit.for_cancels())),
            cancels_of_sources: source.map(|limit| Buckets::new(limit.for_cancels())),
            cancels_of_anonymous: anonymous.map(|limit| Buckets::new(limit.for_cancels())),
        }
    }

    /// Has what is too often only written down, or refused.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// What comes too often, unless that is only observed.
    fn judged(&self, counted: Result<Quota, Denied>) -> Result<Option<Quota>, Denied> {
        match (counted, self.mode) {
            (Err(denied), Mode::Observe) => {
                let (reason, limit) = (&*denied.reason, denied.limit.as_deref());
                tracing::warn!(gate = GATE, reason, limit, "would deny: {denied}");
                Ok(denied.quota.map(|quota| *quota))
            }
            (counted, _) => counted.map(Some),
        }
    }

    /// Counts a request of a caller.
    pub fn caller(&self, principal: &Principal, now: Millis) -> Result<Option<Quota>, Denied> {
        let Some(buckets) = &self.callers else { return Ok(None) };
        let counted = buckets.count(principal, now);
        self.judged(
            counted.map_err(|wait| refusal(buckets.limit, wait, || format!("caller `{}`", principal.id))),
        )
    }

    /// Counts a request of an anonymous caller. Those whose address is not known share one bucket.
    pub fn anonymous(&self, source: Option<IpAddr>, now: Millis) -> Result<Option<Quota>, Denied> {
        let Some(buckets) = &self.anonymous else { return Ok(None) };
        let counted = buckets.count(&source.map(network_of), now);
        self.judged(counted.map_err(|wait| refusal(buckets.limit, wait, || anonymous_from(source))))
    }

    /// How much of its limit a caller has left. Nothing is counted.
    pub fn left(&self, principal: &Principal, now: Millis) -> Option<Quota> {
        Some(self.callers.as_ref()?.left(principal, now))
    }

    /// What would become of a request of a caller, if that is limited. Nothing is counted.
    pub fn foretell(&self, principal: &Principal, now: Millis) -> Option<GateReport> {
        let buckets = self.callers.as_ref()?;
        let left = buckets.left(principal, now);
        let wait = left.reset.unwrap_or_default();
        let denied = (left.remaining == 0)
            .then(|| refusal(buckets.limit, wait, || format!("caller `{}`", principal.id)));
        let notes = vec![format!("{} of {} requests left", left.remaining, left.limit)];
        Some(GateReport { gate: GATE, mode: self.mode, denied, waits: false, notes })
    }

    /// Counts a request from an address. What comes from nowhere is not counted.
    pub fn source(&self, source: Option<IpAddr>, now: Millis) -> Result<Option<Quota>, Denied> {
        let (Some(buckets), Some(source)) = (&self.sources, source.map(network_of)) else { return Ok(None) };
        let counted = buckets.count(&source, now);
        self.judged(counted.map_err(|wait| refusal(buckets.limit, wait, || source.to_string())))
    }

    /// Counts a request to cancel a task, for which there was no room otherwise.
    pub fn cancel(&self, source: Option<IpAddr>, principal: &Principal, now: Millis) -> Result<(), Denied> {
        if let Some(buckets) = self.cancels_of_anonymous.as_ref().filter(|_| principal.is_anonymous()) {
            let counted = buckets.count(&source.map(network_of), now);
            counted.map_err(|wait| refusal(buckets.limit, wait, || anonymous_from(source)))?;
        }
        if let (Some(buckets), Some(source)) = (&self.cancels_of_sources, source.map(network_of)) {
            let counted = buckets.count(&source, now);
            counted.map_err(|wait| refusal(buckets.limit, wait, || source.to_string()))?;
        }
        if let Some(buckets) = &self.cancels_of_callers {
            let counted = buckets.count(principal, now);
            counted.map_err(|wait| refusal(buckets.limit, wait, || format!("caller `{}`", principal.id)))?;
        }
        Ok(())
    }
}

fn anonymous_from(source: Option<IpAddr>) -> String {
    match source.map(network_of) {
        Some(source) => format!("anonymous callers at {source}"),
        None => "anonymous callers whose address is not known".to_owned(),
    }
}

fn refusal(limit: RateLimit, wait: Duration, who: impl Fn() -> String) -> Denied {
    let mut denied = Denied::new(GATE, DeniedKind::Exhausted, RATE_LIMITED);
    denied.limit = Some(format!("{} requests a second for {}", limit.per_second, who()));
    denied.remaining = Some("0".to_owned());
    denied.quota = Some(Box::new(Quota { limit: limit.burst.into(), remaining: 0, reset: Some(wait) }));
    denied.retry_after = Some(wait);
    denied.hint = Some("ask less often".to_owned());
    denied
}

// === impl RateLimit ===

impl RateLimit {
    /// How often tasks may be canceled by somebody who may ask so often.
    fn for_cancels(self) -> Self {
        let more = |often: u32| often.saturating_mul(CANCELS).max(FEWEST_CANCELS);
        Self { per_second: more(self.per_second), burst: more(self.burst).saturating_mul(10) }
    }
}

// === impl Buckets ===

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn new(limit: RateLimit) -> Self {
        let limit = RateLimit { per_second: limit.per_second.max(1), burst: limit.burst.max(1) };
        Self { limit, most: MOST, full_at: Mutex::new(Table { of: HashMap::default(), others: 0, swept: 0 }) }
    }

    /// Takes one, or says how long to wait for one. Times are in microseconds, so that they divide well.
    fn count(&self, key: &K, now: Millis) -> Result<Quota, Duration> {
        let now = now.0.saturating_mul(1000);
        let each = (1_000_000 / u64::from(self.limit.per_second)).max(1);
        let depth = each.saturating_mul(u64::from(self.limit.burst));
        let mut table = self.full_at.lock();
        let full_at = table.bucket(key, self.most, now);
        // A clock that goes back must not keep anybody waiting for longer than an empty bucket would.
        let before = (*full_at).clamp(now, now.saturating_add(depth));
        let after = before.saturating_add(each);
        if after > now.saturating_add(depth) {
            *full_at = before;
            return Err(Duration::from_micros(after - now - depth));
        }
        *full_at = after;
        let reset = after - now;
        Ok(Quota {
            limit: u64::from(self.limit.burst),
            remaining: (depth - reset) / each,
            reset: Some(Duration::from_micros(reset)),
        })
    }
}

impl<K: Eq + Hash> Buckets<K> {
    fn left(&self, key: &K, now: Millis) -> Quota {
        let now = now.0.saturating_mul(1000);
        let each = (1_000_000 / u64::from(self.limit.per_second)).max(1);
        let depth = each.saturating_mul(u64::from(self.limit.burst));
        let full_at = self.full_at.lock().of.get(key).copied().unwrap_or_default();
        let reset = full_at.clamp(now, now.saturating_add(depth)) - now;
        Quota {
            limit: u64::from(self.limit.burst),
            remaining: (depth - reset) / each,
            reset: Some(Duration::from_micros(reset)),
        }
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn bucket(&mut self, key: &K, most: usize, now: u64) -> &mut u64 {
        let no_place = self.of.len() >= most && !self.of.contains_key(key);
        if no_place && now.abs_diff(self.swept) >= SWEEP_EVERY_MICROS {
            self.swept = now;
            self.of.retain(|_, full_at| *full_at > now);
        }
        if self.of.len() >= most && !self.of.contains_key(key) {
            return &mut self.others;
        }
        self.of.entry(key.clone()).or_insert(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(per_second: u32, burst: u32) -> Buckets<u32> {
        Buckets::new(RateLimit { per_second, burst })
    }

    #[test]
    fn no_more_get_through_than_the_limit_says_whenever_they_come() {
        let buckets = buckets(10, 5);
        let through = (0..10_000).filter(|ms| buckets.count(&1, Millis(*ms)).is_ok()).count();
        assert!((100..=105).contains(&through), "{through}");
    }

    #[test]
    fn cancels_have_room_of_their_own_and_there_is_an_end_to_that() {
        let rates = Rates::new(Some(RateLimit { per_second: 1, burst: 1 }), None, None);
        let (alice, bob) = (Principal::new("r", "alice"), Principal::new("r", "bob"));
        rates.caller(&alice, Millis(0)).unwrap();
        rates.caller(&alice, Millis(0)).unwrap_err();
        let through = (0..5_000).filter(|_| rates.cancel(None, &alice, Millis(0)).is_ok()).count();
        assert_eq!(through, 1_000);
        assert_eq!(rates.cancel(None, &alice, Millis(0)).unwrap_err().reason, RATE_LIMITED);
        rates.cancel(None, &bob, Millis(0)).unwrap();
        rates.cancel(None, &alice, Millis(10)).unwrap();
    }

    #[test]
    fn one_address_cannot_use_up_what_belongs_to_all_anonymous_callers() {
        let rates = Rates::new(None, None, Some(RateLimit { per_second: 1, burst: 2 }));
        let (here, there) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        let through = (0..10).filter(|_| rates.anonymous(here, Millis(0)).is_ok()).count();
        assert_eq!(through, 2);
        let denied = rates.anonymous(here, Millis(0)).unwrap_err();
        assert_eq!(denied.limit.as_deref(), Some("1 requests a second for anonymous callers at 192.0.2.1"));
        rates.anonymous(there, Millis(0)).unwrap();
        rates.anonymous(None, Millis(0)).unwrap();
        let cancels =
            (0..5_000).filter(|_| rates.cancel(here, &Principal::anonymous(), Millis(0)).is_ok()).count();
        assert_eq!(cancels, 1_000);
        rates.cancel(here, &Principal::new("default", "alice"), Millis(0)).unwrap();
    }

    #[test]
    fn who_waits_as_long_as_it_is_told_gets_through() {
        let buckets = buckets(3, 1);
        let mut now = Millis(0);
        for _ in 0..50 {
            match buckets.count(&1, now) {
                Ok(_) => {}
                Err(wait) => {
                    now = now + wait + Duration::from_millis(1);
                    buckets.count(&1, now).unwrap();
                }
            }
        }
    }

    #[test]
    fn to_look_at_what_is_left_takes_nothing() {
        let buckets = buckets(1, 3);
        assert_eq!(buckets.left(&1, Millis(0)).remaining, 3);
        let counted = buckets.count(&1, Millis(0)).unwrap();
        assert_eq!(buckets.left(&1, Millis(0)), counted);
        assert_eq!(buckets.left(&1, Millis(0)), counted);
    }

    #[test]
    fn nobody_uses_up_anothers() {
        let buckets = buckets(1, 1);
        buckets.count(&1, Millis(0)).unwrap();
        assert!(buckets.count(&1, Millis(0)).is_err());
        buckets.count(&2, Millis(0)).unwrap();
    }

    #[test]
    fn a_clock_that_goes_back_locks_nobody_out() {
        let buckets = buckets(1, 1);
        buckets.count(&1, Millis(1_000_000)).unwrap();
        let wait = buckets.count(&1, Millis(0)).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn where_there_is_no_place_newcomers_share_and_the_known_keep_theirs() {
        let buckets = Buckets { most: 2, ..buckets(1, 1) };
        for key in [1, 2, 3] {
            buckets.count(&key, Millis(0)).unwrap();
        }
        assert!(buckets.count(&4, Millis(0)).is_err(), "they share one");
        assert!(buckets.count(&1, Millis(0)).is_err(), "a known one has its own, used up");
        // Those that are full again make place.
        buckets.count(&4, Millis(2000)).unwrap();
        assert!(buckets.full_at.lock().of.contains_key(&4));
    }

    #[test]
    fn a_crowd_does_not_have_the_table_looked_through_each_time() {
        let buckets = Buckets { most: 1, ..buckets(1_000, 1) };
        buckets.count(&1, Millis(1_000)).unwrap();
        buckets.count(&2, Millis(1_000)).unwrap();
        // The first is full again, but nobody looks so soon.
        buckets.count(&3, Millis(1_050)).unwrap();
        assert!(buckets.full_at.lock().of.contains_key(&1));
        buckets.count(&3, Millis(1_100)).unwrap();
        assert!(buckets.full_at.lock().of.contains_key(&3));
    }

    #[test]
    fn an_address_of_the_sixth_version_stands_for_its_network() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
