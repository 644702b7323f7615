//! One window of one account: how much had been spent in all when each of its periods began.
//!
//! Sums are never taken. An account counts what it has spent since it was made, and a frame writes that count down
//! when a period begins; what was spent within the window is the count now less the count at its start. So a charge costs
//! the same however many windows there are and however much lies in them, and nothing has to be taken out again.

use std::sync::atomic::AtomicU64 as Plain;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use jiff::ToSpan;
use jiff::tz::Offset;
use smallvec::SmallVec;

use super::atomic::AtomicU64;
use super::edition::{Measure, PLACES};
use super::limits::{Cap, METRICS, NO_CAP, Window};
use super::tally::Tally;
use crate::Millis;

/// A window, its limits, and where it starts.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) window: Window,
    /// Of each edition, at its place. Written before anybody goes by them, and no part of what is model-checked.
    caps: [[Plain; METRICS]; PLACES],
    /// When the current period ends. Whoever moves it has the new period's start to write.
    until: AtomicU64,
    /// The count when a period began, at the period's number modulo their number. One of those is at hand: accounts that
    /// end with a call are made for every call.
    starts: SmallVec<[[AtomicU64; METRICS]; 1]>,
    /// What has been added to the limits for a while.
    extra: [AtomicU64; METRICS],
    extra_until: AtomicU64,
}

/// How many periods count besides the current one, where a window rolls.
const KEPT: u64 = 60;

/// Periods that are written down: some more than count, so that a reader who is overtaken finds out.
const SLOTS: u64 = 64;

/// The end of the year 9999. Time stands still there.
const LATEST: u64 = 253_402_300_799_999;

// === impl Window ===

impl Window {
    /// The length of a period, for windows that roll.
    fn rolls_by(self) -> Option<u64> {
        match self {
            Self::Minute => Some(1_000),
            Self::Hour => Some(60_000),
            Self::Day | Self::Month | Self::Life => None,
        }
    }

    /// Whether it begins and ends with the calendar.
    pub(super) fn is_calendar(self) -> bool {
        matches!(self, Self::Day | Self::Month)
    }

    /// How many whole periods there were until then. Divides by constants, which is multiplying.
    fn periods(self, until: u64) -> u64 {
        match self {
            Self::Minute => until / 1_000,
            Self::Hour => until / 60_000,
            Self::Day | Self::Month | Self::Life => 0,
        }
    }

    /// When the period ends that is now.
    fn end_of_period(self, now: u64) -> u64 {
        const DAY: u64 = 86_400_000;
        match self {
            Self::Minute => now - now % 1_000 + 1_000,
            Self::Hour => now - now % 60_000 + 60_000,
            Self::Day => now - now % DAY + DAY,
            Self::Month => end_of_month(now),
            Self::Life => u64::MAX,
        }
    }
}

fn end_of_month(now: u64) -> u64 {
    let next = i64::try_from(now)
        .ok()
        .and_then(|now| jiff::Timestamp::from_millisecond(now).ok())
        .and_then(|now| Offset::UTC.to_datetime(now).first_of_month().checked_add(1.month()).ok())
        .and_then(|next| Offset::UTC.to_timestamp(next.start_of_day()).ok());
    next.and_then(|next| u64::try_from(next.as_millisecond()).ok()).unwrap_or(u64::MAX)
}

// === impl Frame ===

impl Frame {
    pub(super) fn new(window: Window, caps: [Cap; PLACES]) -> Self {
        let slots = if window.rolls_by().is_some() { SLOTS } else { 1 };
        Self {
            window,
            caps: caps.map(|cap| cap.by_metric().map(Plain::new)),
            until: AtomicU64::new(if window == Window::Life { u64::MAX } else { 0 }),
            starts: (0..slots).map(|_| Default::default()).collect(),
            extra: Default::default(),
            extra_until: AtomicU64::new(0),
        }
    }

    /// Whether anything of this metric is limited here.
    pub(super) fn limits(&self, metric: usize, by: Measure<'_>) -> bool {
        self.bare_caps(by)[metric] != NO_CAP
    }

    #[inline]
    fn bare_caps(&self, by: Measure<'_>) -> [u64; METRICS] {
        match by {
            Measure::Kept(place) => self.caps[place].each_ref().map(|cap| cap.load(Acquire)),
            Measure::Brought(caps) => {
                caps.map_or([NO_CAP; METRICS], |caps| caps.over(self.window).by_metric())
            }
        }
    }

    /// The limits, with what was added to them for now. No limit and something is no limit.
    #[inline]
    pub(super) fn caps(&self, by: Measure<'_>, now: Millis) -> [u64; METRICS] {
        let mut caps = self.bare_caps(by);
        if now.0 < self.extra_until.load(SeqCst) {
            for (cap, extra) in caps.iter_mut().zip(&self.extra) {
                *cap = cap.saturating_add(extra.load(SeqCst));
            }
        }
        caps
    }

    /// How far each count may rise within this window: what had been spent when it began, and its limit.
    #[inline]
    pub(super) fn ceilings(&self, by: Measure<'_>, now: Millis) -> [u64; METRICS] {
        let (starts, caps) = (self.starts(), self.caps(by, now));
        std::array::from_fn(|metric| starts[metric].saturating_add(caps[metric]))
    }

    /// Whether nothing was added to the limits for now.
    pub(super) fn is_plain(&self, now: Millis) -> bool {
        now.0 >= self.extra_until.load(SeqCst) || self.extra.iter().all(|extra| extra.load(SeqCst) == 0)
    }

    /// Writes down another limit.
    pub(super) fn set_cap(&self, place: usize, cap: Cap) {
        for (kept, cap) in self.caps[place].iter().zip(cap.by_metric()) {
            kept.store(cap, Release);
        }
    }

    /// Until when limits and start are what they are now.
    pub(super) fn stands_until(&self, now: Millis) -> u64 {
        let (until, extra_until) = (self.until.load(SeqCst), self.extra_until.load(SeqCst));
        if now.0 < extra_until { until.min(extra_until) } else { until }
    }

    /// Begins a new period if it is time, and says whether it did. A clock that goes back begins none.
    pub(super) fn turn(&self, now: Millis, spent: &Tally) -> bool {
        let now = now.0.min(LATEST);
        let mut until = self.until.load(SeqCst);
        while now >= until {
            // Read before the period begins. Whoever charges something in the new period has seen that it has begun, so
            // none of that is in here; what comes late from the old one counts as of the new one.
            let so_far = spent.sums();
            let end = self.window.end_of_period(now);
            match self.until.compare_exchange(until, end, SeqCst, SeqCst) {
                Ok(_) => {
                    self.write_starts(until, end, so_far);
                    return true;
                }
                Err(newer) => until = newer,
            }
        }
        false
    }

    /// Only who has moved the end from there to here comes here. Until all is written, readers see starts from before,
    /// which are lower: they count too much, never too little.
    fn write_starts(&self, from: u64, to: u64, so_far: [u64; METRICS]) {
        let end = self.window.periods(to).max(1);
        for period in self.window.periods(from).max(end.saturating_sub(KEPT + 1))..end {
            for (start, so_far) in self.slot(period).iter().zip(so_far) {
                // A reset may have been here meanwhile.
                if start.load(SeqCst) < so_far {
                    start.store(so_far, Release);
                }
            }
        }
    }

    /// The count at the start of the window.
    #[inline]
    pub(super) fn starts(&self) -> [u64; METRICS] {
        loop {
            let until = self.until.load(SeqCst);
            let oldest = self.window.periods(until) + SLOTS - (KEPT + 1);
            let starts = self.slot(oldest).each_ref().map(|start| start.load(SeqCst));
            // A reader who was overtaken by a whole round would have read the start of a far later period.
            if self.until.load(SeqCst) == until {
                return starts;
            }
        }
    }

    /// When the start of the window will have reached this count, if nothing more is spent. None if it will not.
    pub(super) fn reaches(&self, metric: usize, count: u64, spent: u64) -> Option<Millis> {
        let until = self.until.load(SeqCst);
        let Some(length) = self.window.rolls_by() else {
            return (self.window != Window::Life && spent >= count).then_some(Millis(until));
        };
        let current = self.window.periods(until).saturating_sub(1);
        let known = (current.saturating_sub(KEPT)..=current)
            .find(|period| self.slot(*period)[metric].load(SeqCst) >= count);
        let period = known.or_else(|| (spent >= count).then_some(current + 1))?;
        Some(Millis((period + KEPT) * length))
    }

    /// Adds to the limits: until the period ends, or for as long as the window is.
    pub(super) fn top_up(&self, more: [u64; METRICS], now: Millis) {
        let end = self.window.end_of_period(now.0.min(LATEST));
        let until = self.window.rolls_by().map_or(end, |length| end + KEPT * length);
        if now.0 >= self.extra_until.load(SeqCst) {
            for extra in &self.extra {
                extra.store(0, SeqCst);
            }
        }
        self.extra_until.fetch_max(until, SeqCst);
        for (extra, more) in self.extra.iter().zip(more) {
            extra.fetch_add(more, SeqCst);
        }
    }

    /// Forgets what was spent so far.
    pub(super) fn forget(&self, spent: [u64; METRICS]) {
        for slot in &self.starts {
            for (start, spent) in slot.iter().zip(spent) {
                start.fetch_max(spent, SeqCst);
            }
        }
    }

    /// Takes back what was forgotten beyond what was spent. Only while nobody else has the account.
    pub(super) fn forget_at_most(&self, spent: [u64; METRICS]) {
        for slot in &self.starts {
            for (start, spent) in slot.iter().zip(spent) {
                let known = start.load(SeqCst).min(spent);
                start.store(known, SeqCst);
            }
        }
    }

    /// Their number is a power of two.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that counts")]
    #[inline]
    fn slot(&self, period: u64) -> &[AtomicU64; METRICS] {
        &self.starts[period as usize & (self.starts.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_where_the_calendar_says() {
        let at =
            |text: &str| u64::try_from(text.parse::<jiff::Timestamp>().unwrap().as_millisecond()).unwrap();
        let cases = [
            ("2026-01-31T23:59:59.999Z", "2026-02-01T00:00:00Z"),
            ("2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"),
            ("2028-02-29T12:00:00Z", "2028-03-01T00:00:00Z"),
            ("2026-12-31T23:00:00Z", "2027-01-01T00:00:00Z"),
        ];
        for (now, end) in cases {
            assert_eq!(Window::Month.end_of_period(at(now)), at(end), "{now}");
        }
        assert_eq!(Window::Month.end_of_period(LATEST), u64::MAX);
    }

    #[test]
    fn a_day_ends_at_midnight_in_utc() {
        assert_eq!(Window::Day.end_of_period(86_399_999), 86_400_000);
        assert_eq!(Window::Day.end_of_period(86_400_000), 172_800_000);
    }
}
