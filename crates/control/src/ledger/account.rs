//! One account: what has been used of its limits, over all its windows at once.
//!
//! Two counts for each metric say it all. `used` is everything ever charged and everything that is held now; `spent` is
//! everything ever charged. Both only ever grow, but for what is given back. A window allows `used` to rise up to
//! what was spent when it began and its limit. The lowest of these is the ceiling, which is kept at hand; one
//! compare-and-swap against it takes something, and no interleaving can take more than there is.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use smallvec::{SmallVec, smallvec};

use super::atomic::AtomicU64;
use super::ceiling::Ceilings;
use super::edition::{Edition, Measure, PLACES};
use super::frame::Frame;
use super::limits::{Cap, Caps, METRICS, Metric, NO_CAP, Scope, Window};
use super::queue::WaitQueue;
use super::shortfall::{Frees, Shortfall};
use super::tally::Tally;
use crate::Millis;

/// What may be spent by somebody, or on something, and how much of it has been.
#[derive(Debug)]
pub struct Account {
    used: [AtomicU64; METRICS],
    pub(super) spent: Tally,
    pub(super) ceilings: Ceilings,
    pub(super) frames: Frames,
    /// Whether any window has ever limited the metric. What was not is not counted.
    limited: [bool; METRICS],
    scope: Scope,
    /// Who waits for room.
    pub(super) queue: Arc<WaitQueue>,
}

/// The windows of an account. One is at hand, since accounts that end with a call are made for every call.
pub(super) type Frames = SmallVec<[Frame; 1]>;

/// How one limit of an account stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What is limited.
    pub metric: Metric,
    /// Over which time.
    pub window: Window,
    /// The limit, with what was added to it for now.
    pub cap: u64,
    /// Held for calls that are not settled.
    pub held: u64,
    /// Charged within the window.
    pub charged: u64,
    /// What can still be reserved.
    pub remaining: u64,
    /// When something is free again, if nothing is left now and time alone will free it.
    pub frees_at: Option<Millis>,
}

/// How much is left of each metric; none where nothing is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Money, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Calls.
    pub tasks: Option<u64>,
}

// === impl Account ===

impl Account {
    /// With the caps of each edition at its place. A window that any of them limits is counted.
    pub(super) fn new(scope: Scope, caps: [Caps; PLACES], queue: Arc<WaitQueue>) -> Self {
        let over = |window| caps.map(|caps| caps.over(window));
        let windows = Window::ALL.into_iter().map(|window| (window, over(window)));
        let limited = windows.filter(|(_, caps)| caps.iter().any(|cap| !cap.is_none()));
        let frames = limited.map(|(window, caps)| Frame::new(window, caps)).collect();
        let yet_to_come = Ceilings::new(0, [[0; METRICS]; PLACES]);
        Self::with_frames(scope, frames, yet_to_come, Tally::of_many(), queue)
    }

    pub(super) fn for_life(scope: Scope, cap: Cap, queue: Arc<WaitQueue>) -> Self {
        let frames = smallvec![Frame::new(Window::Life, [cap; PLACES])];
        let for_ever = Ceilings::new(u64::MAX, [cap.by_metric(); PLACES]);
        Self::with_frames(scope, frames, for_ever, Tally::of_few(), queue)
    }

    fn with_frames(
        scope: Scope,
        frames: Frames,
        ceilings: Ceilings,
        spent: Tally,
        queue: Arc<WaitQueue>,
    ) -> Self {
        let limits =
            |metric, frame: &Frame| (0..PLACES).any(|place| frame.limits(metric, Measure::Kept(place)));
        let limited = std::array::from_fn(|metric| frames.iter().any(|frame| limits(metric, frame)));
        Self { used: Default::default(), spent, ceilings, frames, limited, scope, queue }
    }

    /// Whose it is.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether an edition limits this metric here.
    pub fn limits(&self, metric: Metric, by: &Edition) -> bool {
        let measure = self.measure(Some(by));
        self.frames.iter().any(|frame| frame.limits(metric.index(), measure))
    }

    #[inline]
    fn measure<'a>(&self, by: Option<&'a Edition>) -> Measure<'a> {
        self.queue.generations.measure(by, &self.scope)
    }

    /// How each of its limits stands.
    pub fn standings(&self, now: Millis) -> Vec<Standing> {
        self.standings_under(self.measure(None), now)
    }

    /// The same by the limits of an edition.
    pub fn standings_by(&self, edition: &Edition, now: Millis) -> Vec<Standing> {
        self.standings_under(self.measure(Some(edition)), now)
    }

    fn standings_under(&self, measure: Measure<'_>, now: Millis) -> Vec<Standing> {
        self.turn(now);
        let each = |frame| Metric::ALL.map(|metric| self.standing(frame, metric, measure, now));
        self.frames.iter().flat_map(each).flatten().collect()
    }

    /// How much is left of each metric, in the window that leaves the least.
    pub fn remaining(&self, now: Millis) -> Remaining {
        self.remaining_by(None, now)
    }

    pub(super) fn remaining_by(&self, by: Option<&Edition>, now: Millis) -> Remaining {
        let ceilings = self.ceilings(by, now);
        let left = |metric: Metric| {
            let metric = metric.index();
            let used = self.used[metric].load(SeqCst);
            (ceilings[metric] != NO_CAP).then(|| ceilings[metric].saturating_sub(used))
        };
        Remaining {
            micro_usd: left(Metric::MicroUsd),
            tokens: left(Metric::Tokens),
            tasks: left(Metric::Tasks),
        }
    }

    /// Whether what these limits are about has been counted here.
    pub(super) fn can_hold(&self, caps: &Caps) -> bool {
        caps.windows().all(|(window, cap)| {
            let counted = |(cap, limited): (u64, &bool)| cap == NO_CAP || *limited;
            self.frames.iter().any(|frame| frame.window == window)
                && cap.by_metric().into_iter().zip(&self.limited).all(counted)
        })
    }

    /// Writes down the limits of an edition, about what has been counted.
    pub(super) fn set_caps(&self, place: usize, caps: &Caps) {
        let _amending = self.ceilings.amend();
        for frame in &self.frames {
            frame.set_cap(place, caps.over(frame.window));
        }
    }

    /// Whether it is as good as new.
    pub(super) fn is_idle(&self, now: Millis) -> bool {
        self.turn(now);
        let untouched = |frame: &Frame| {
            let used = self.used.each_ref().map(|used| used.load(SeqCst));
            frame.is_plain(now) && frame.starts() == used
        };
        self.frames.iter().all(untouched)
    }

    /// Begins what new periods it is time for.
    #[inline]
    pub(super) fn turn(&self, now: Millis) {
        if !self.ceilings.hold(now) {
            self.begin_periods(now);
        }
    }

    #[cold]
    fn begin_periods(&self, now: Millis) {
        let begun = self.frames.iter().filter(|frame| frame.turn(now, &self.spent)).count();
        if begun > 0 {
            self.ceilings.period_begun();
        }
        self.ceilings.renew(|| {
            let until = self.frames.iter().map(|frame| frame.stands_until(now)).min();
            let lowest = std::array::from_fn(|place| self.lowest(Measure::Kept(place), now));
            (until.unwrap_or(u64::MAX), lowest)
        });
    }

    /// How far `used` may rise, in what periods it is now.
    #[inline]
    fn ceilings(&self, by: Option<&Edition>, now: Millis) -> [u64; METRICS] {
        self.turn(now);
        let ceilings = self.ceilings_by(self.measure(by), now);
        match by {
            // The caps were those of the edition if they are still kept.
            Some(edition) if !self.queue.generations.keeps(edition) => {
                self.ceilings_by(self.measure(by), now)
            }
            _ => ceilings,
        }
    }

    #[inline]
    fn ceilings_by(&self, measure: Measure<'_>, now: Millis) -> [u64; METRICS] {
        match measure {
            Measure::Kept(place) if self.ceilings.hold(now) => self.ceilings.at(place),
            _ => self.lowest(measure, now),
        }
    }

    #[cold]
    fn lowest(&self, measure: Measure<'_>, now: Millis) -> [u64; METRICS] {
        let mut lowest = [NO_CAP; METRICS];
        for frame in &self.frames {
            for (lowest, ceiling) in lowest.iter_mut().zip(frame.ceilings(measure, now)) {
                *lowest = ceiling.min(*lowest);
            }
        }
        lowest
    }

    /// Takes all of it or nothing.
    #[inline]
    pub(super) fn take(&self, asked: [u64; METRICS], by: Option<&Edition>, now: Millis) -> bool {
        let ceilings = self.ceilings(by, now);
        for metric in 0..METRICS {
            if self.limited[metric] && !self.take_one(metric, asked[metric], ceilings[metric]) {
                self.give_back_first(metric, asked);
                return false;
            }
        }
        true
    }

    #[inline]
    fn take_one(&self, metric: usize, asked: u64, ceiling: u64) -> bool {
        self.take_between(metric, asked, asked, ceiling) == asked
    }

    /// Takes as much as there is room for, of each metric by itself, and says how much that is.
    pub(super) fn take_partly(
        &self,
        asked: [u64; METRICS],
        by: Option<&Edition>,
        now: Millis,
    ) -> [u64; METRICS] {
        let ceilings = self.ceilings(by, now);
        std::array::from_fn(|metric| match self.limited[metric] {
            true => self.take_between(metric, 0, asked[metric], ceilings[metric]),
            false => asked[metric],
        })
    }

    /// Takes what there is room for up to `most`, or nothing if that is less than `least`.
    #[inline]
    fn take_between(&self, metric: usize, least: u64, most: u64, ceiling: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let mut used = self.used[metric].load(SeqCst);
        loop {
            let taken = most.min(ceiling.saturating_sub(used));
            if taken == 0 || taken < least {
                return 0;
            }
            match self.used[metric].compare_exchange(used, used + taken, SeqCst, SeqCst) {
                Ok(_) => return taken,
                Err(newer) => used = newer,
            }
        }
    }

    /// Takes it whether there is room or not.
    pub(super) fn force(&self, asked: [u64; METRICS], now: Millis) {
        self.turn(now);
        for (metric, asked) in asked.into_iter().enumerate() {
            if self.limited[metric] && asked > 0 {
                self.used[metric].fetch_add(asked, SeqCst);
            }
        }
    }

    /// Gives back what was taken and is not needed.
    pub(super) fn give_back(&self, taken: [u64; METRICS]) {
        self.give_back_first(METRICS, taken);
    }

    fn give_back_first(&self, metrics: usize, taken: [u64; METRICS]) {
        for (metric, taken) in taken.into_iter().enumerate().take(metrics) {
            if self.limited[metric] && taken > 0 {
                self.used[metric].fetch_sub(taken, SeqCst);
            }
        }
    }

    /// The limit that charges alone have passed, if any has. Only what needs no room passes one: overruns.
    pub(super) fn exceeded(&self, by: Option<&Edition>, now: Millis) -> Option<Shortfall> {
        let ceilings = self.ceilings(by, now);
        let is_over = |metric: usize| self.used[metric].load(SeqCst) > ceilings[metric];
        if !(0..METRICS).any(is_over) {
            return None;
        }
        let limits = self.limits_against([0; METRICS], by, now).map(|(_, short)| short);
        limits.filter(|short| short.observed > short.cap).reduce(Shortfall::or_worse)
    }

    /// Turns what was held into a charge. `used` comes first, so that it is never less than `spent`.
    #[inline]
    pub(super) fn book(&self, held: [u64; METRICS], charged: [u64; METRICS], now: Millis) {
        self.turn(now);
        let spent = self.spent.mine();
        for metric in 0..METRICS {
            if !self.limited[metric] {
                continue;
            }
            let (held, charged) = (held[metric], charged[metric]);
            if charged < held {
                self.used[metric].fetch_sub(held - charged, SeqCst);
            } else if charged > held {
                self.used[metric].fetch_add(charged - held, SeqCst);
            }
            if charged > 0 {
                spent.add(metric, charged);
            }
        }
    }

    /// The limit that refuses this for longest, if any does.
    pub(super) fn shortfall(
        &self,
        asked: [u64; METRICS],
        by: Option<&Edition>,
        now: Millis,
    ) -> Option<Shortfall> {
        let refusing =
            self.limits_against(asked, by, now).filter_map(|(refuses, short)| refuses.then_some(short));
        refusing.reduce(Shortfall::or_worse)
    }

    /// The limit that comes closest to refusing this. None if there are no limits.
    pub(super) fn tightest(
        &self,
        asked: [u64; METRICS],
        by: Option<&Edition>,
        now: Millis,
    ) -> Option<Shortfall> {
        self.limits_against(asked, by, now).map(|(_, short)| short).min_by_key(|short| short.remaining)
    }

    /// What each limit would say to this, and whether it refuses.
    fn limits_against(
        &self,
        asked: [u64; METRICS],
        by: Option<&Edition>,
        now: Millis,
    ) -> impl Iterator<Item = (bool, Shortfall)> {
        self.turn(now);
        let measure = self.measure(by);
        let limits = self.frames.iter().flat_map(|frame| Metric::ALL.map(|metric| (frame, metric)));
        limits.filter_map(move |(frame, metric)| {
            let standing = self.standing(frame, metric, measure, now)?;
            let asked = asked[metric.index()];
            let short = Shortfall {
                scope: self.scope.clone(),
                metric,
                window: standing.window,
                cap: standing.cap,
                asked,
                observed: standing.charged.saturating_add(standing.held).saturating_add(asked),
                remaining: standing.remaining,
                frees: self.frees(frame, metric.index(), asked, standing.cap),
                now,
            };
            Some((asked > standing.remaining, short))
        })
    }

    fn standing(&self, frame: &Frame, metric: Metric, by: Measure<'_>, now: Millis) -> Option<Standing> {
        let index = metric.index();
        if !frame.limits(index, by) {
            return None;
        }
        // In this order, so that each is at least the one before, whatever others do meanwhile.
        let start = frame.starts()[index];
        let spent = self.spent.sum(index);
        let used = self.used[index].load(SeqCst);
        let cap = frame.caps(by, now)[index];
        let in_window = used.saturating_sub(start);
        let remaining = cap.saturating_sub(in_window);
        let frees_at = match self.frees(frame, index, 1, cap) {
            Frees::At(at) if remaining == 0 => Some(at),
            _ => None,
        };
        Some(Standing {
            metric,
            window: frame.window,
            cap,
            held: used.saturating_sub(spent),
            charged: spent.saturating_sub(start),
            remaining,
            frees_at,
        })
    }

    /// When the window will let that much through.
    fn frees(&self, frame: &Frame, metric: usize, asked: u64, cap: u64) -> Frees {
        let spent = self.spent.sum(metric);
        let used = self.used[metric].load(SeqCst);
        if asked > cap {
            return Frees::Never;
        }
        let start_needed = used.saturating_add(asked).saturating_sub(cap);
        match frame.reaches(metric, start_needed, spent) {
            Some(at) => Frees::At(at),
            None if frame.window == Window::Life
                && spent.saturating_sub(frame.starts()[metric]).saturating_add(asked) > cap =>
            {
                Frees::Never
            }
            None => Frees::WhenSettled,
        }
    }
}

// === impl Remaining ===

impl Remaining {
    /// The least of both.
    pub fn least(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            micro_usd: least(self.micro_usd, other.micro_usd),
            tokens: least(self.tokens, other.tokens),
            tasks: least(self.tasks, other.tasks),
        }
    }
}
