//! For how long a card may be used without asking again: RFC 9111, as far as a private cache of one document needs it.

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Used when the server says nothing about caching.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// A year, which is as good as for ever and cannot overflow.
const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the head of a response says about keeping it.
#[derive(Clone, Debug)]
pub(crate) struct Freshness {
    /// False if it must not be kept at all.
    pub(crate) may_store: bool,
    /// Whether it must never be used stale, even when the server is away.
    pub(crate) must_revalidate: bool,
    fresh_until: Instant,
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

/// When a response was asked for and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) answered: Instant,
    pub(crate) wall_clock: SystemTime,
}

impl Freshness {
    pub(crate) fn of(headers: &HeaderMap, asked: Asked) -> Self {
        let control = CacheControl::of(headers);
        let date = date(headers, &header::DATE).unwrap_or(asked.wall_clock);
        let lifetime = if control.no_cache || headers.get(header::VARY).is_some_and(|vary| vary == "*") {
            Duration::ZERO
        } else if let Some(max_age) = control.max_age {
            max_age
        } else if headers.contains_key(header::EXPIRES) {
            // A date that cannot be read has passed.
            let expires = self::date(headers, &header::EXPIRES);
            expires.and_then(|expires| expires.duration_since(date).ok()).unwrap_or_default()
        } else {
            DEFAULT_LIFETIME
        };
        let age = age(headers, date, asked);
        let left = lifetime.min(LONGEST_LIFETIME).saturating_sub(age);
        Self {
            may_store: !control.no_store,
            must_revalidate: control.must_revalidate || control.no_cache,
            fresh_until: asked.answered + left,
            etag: headers.get(header::ETAG).cloned(),
            last_modified: headers.get(header::LAST_MODIFIED).cloned(),
        }
    }

    /// The same document has been confirmed; what the confirmation does not repeat stays as it was.
    pub(crate) fn confirmed(&self, headers: &HeaderMap, asked: Asked) -> Self {
        let mut fresh = Self::of(headers, asked);
        fresh.etag = fresh.etag.or_else(|| self.etag.clone());
        fresh.last_modified = fresh.last_modified.or_else(|| self.last_modified.clone());
        fresh
    }

    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        self.may_store && now < self.fresh_until
    }

    /// Asks only for what is newer than this.
    pub(crate) fn conditions(&self) -> Vec<(HeaderName, HeaderValue)> {
        let etag = self.etag.clone().map(|etag| (header::IF_NONE_MATCH, etag));
        let since = self.last_modified.clone().map(|date| (header::IF_MODIFIED_SINCE, date));
        etag.into_iter().chain(since).collect()
    }
}

/// How old a response was when it came: what caches say, what the clocks say, whichever is more.
fn age(headers: &HeaderMap, date: SystemTime, asked: Asked) -> Duration {
    let said = headers.get(header::AGE).and_then(|value| value.to_str().ok());
    let said = Duration::from_secs(said.and_then(|text| text.trim().parse().ok()).unwrap_or_default());
    let on_the_way = asked.answered.saturating_duration_since(asked.at);
    let apparent = asked.wall_clock.duration_since(date).unwrap_or_default();
    apparent.max(said.saturating_add(on_the_way))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[derive(Default)]
struct CacheControl {
    no_store: bool,
    no_cache: bool,
    must_revalidate: bool,
    max_age: Option<Duration>,
}

impl CacheControl {
    fn of(headers: &HeaderMap) -> Self {
        let mut control = Self::default();
        let values = headers.get_all(header::CACHE_CONTROL).iter();
        let lists = values.filter_map(|value| value.to_str().ok());
        for directive in lists.flat_map(|list| list.split(',')) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => control.no_store = true,
                "no-cache" => control.no_cache = true,
                "must-revalidate" => control.must_revalidate = true,
                // Of two the shorter one; one that cannot be read is none.
                "max-age" => {
                    let seconds = value.trim().trim_matches('"').parse().unwrap_or(0);
                    let age = Duration::from_secs(seconds);
                    control.max_age = Some(control.max_age.map_or(age, |known| known.min(age)));
                }
                _ => {}
            }
        }
        control
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn asked(seconds_after_date: u64) -> Asked {
        let date = httpdate::parse_http_date(AT).unwrap();
        let now = Instant::now();
        Asked { at: now, answered: now, wall_clock: date + Duration::from_secs(seconds_after_date) }
    }

    /// For how many seconds a head with these headers is fresh, having come a second after its date.
    fn lifetime(headers: &[(&'static str, &str)]) -> u64 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let asked = asked(1);
        let fresh = Freshness::of(&map, asked);
        let left = fresh.fresh_until.saturating_duration_since(asked.answered).as_secs();
        assert_eq!(fresh.is_fresh(asked.answered), left > 0 && fresh.may_store);
        left
    }

    #[test]
    fn lifetimes_are_what_the_head_says() {
        assert_eq!(lifetime(&[]), 300);
        assert_eq!(lifetime(&[("date", AT), ("cache-control", "public, max-age=60")]), 59);
        assert_eq!(lifetime(&[("cache-control", "max-age=60"), ("age", "50")]), 10);
        assert_eq!(lifetime(&[("cache-control", "max-age=60"), ("age", "70")]), 0);
        assert_eq!(lifetime(&[("cache-control", "max-age=60, max-age=10")]), 10);
        assert_eq!(lifetime(&[("cache-control", "max-age=soon")]), 0);
        assert_eq!(lifetime(&[("cache-control", "MAX-AGE=60"), ("cache-control", "No-Cache")]), 0);
        assert_eq!(lifetime(&[("date", AT), ("expires", "Sun, 06 Nov 1994 08:59:37 GMT")]), 599);
        assert_eq!(lifetime(&[("date", AT), ("expires", "0")]), 0);
        assert_eq!(lifetime(&[("cache-control", "max-age=5"), ("expires", "0")]), 5);
        assert_eq!(lifetime(&[("cache-control", "max-age=60"), ("vary", "*")]), 0);
        assert_eq!(lifetime(&[("cache-control", "max-age=99999999999999")]), LONGEST_LIFETIME.as_secs());
    }

    #[test]
    fn what_may_not_be_kept_is_never_fresh() {
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", "no-store, max-age=60".parse().unwrap());
        let fresh = Freshness::of(&headers, asked(0));
        assert!(!fresh.may_store && !fresh.is_fresh(Instant::now()));
    }

    #[test]
    fn a_confirmation_keeps_the_validators() {
        let mut headers = HeaderMap::new();
        headers.insert("etag", "\"a\"".parse().unwrap());
        headers.insert("cache-control", "max-age=0".parse().unwrap());
        let stale = Freshness::of(&headers, asked(0));
        assert!(!stale.is_fresh(Instant::now()));
        assert_eq!(stale.conditions(), [(header::IF_NONE_MATCH, "\"a\"".parse().unwrap())]);
        let fresh = stale.confirmed(&HeaderMap::new(), asked(0));
        assert!(fresh.is_fresh(Instant::now()));
        assert_eq!(fresh.conditions(), stale.conditions());
    }
}
