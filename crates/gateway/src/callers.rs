//! Who calls most: a fixed number of callers as labels of a metric, and all others together. Counts of all of them add up to
//! the number of calls.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use chancery_control::identity::is_reserved;
use chancery_protocol::Principal;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;

/// How many callers have a label.
const NAMED: usize = 20;
/// How many are told apart to find those.
const TRACKED: usize = 1024;
/// How often it is looked anew who they are.
const WINDOW: Duration = Duration::from_secs(60);
/// How long a label may be, in bytes.
const LONGEST: usize = 128;
/// All who have no label of their own.
const OTHERS: &str = "other";

/// Calls, counted by caller.
#[derive(Debug, Default)]
pub(crate) struct CallerCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    callers: HashMap<Principal, Count>,
    /// The calls of all who are not named.
    others: u64,
    began: Option<Instant>,
}

#[derive(Debug, Default)]
struct Count {
    /// Calls since it is named; none if it is not.
    named: Option<u64>,
    /// Calls in this window.
    recent: u64,
}

impl CallerCounts {
    /// Counts a call.
    pub(crate) fn count(&self, caller: &Principal) {
        self.0.lock().count(caller, Instant::now());
    }
}

impl Counts {
    fn count(&mut self, caller: &Principal, now: Instant) {
        if now.duration_since(*self.began.get_or_insert(now)) >= WINDOW {
            self.began = Some(now);
            self.choose();
        }
        if let Some(count) = self.callers.get_mut(caller) {
            count.recent += 1;
            match &mut count.named {
                Some(named) => *named += 1,
                None => self.others += 1,
            }
            return;
        }
        // There is a name like that for each call that leads to another.
        let may_be_named = !is_reserved(&caller.id) && self.callers.len() < TRACKED;
        let named = (may_be_named && self.callers.len() < NAMED).then_some(1);
        if named.is_none() {
            self.others += 1;
        }
        if may_be_named {
            self.callers.insert(caller.clone(), Count { named, recent: 1 });
        }
    }

    /// Names those who called most in the window that is over. Whoever loses the name is counted among the others.
    fn choose(&mut self) {
        let mut order: Vec<_> =
            self.callers.iter().map(|(caller, count)| (Reverse(count.recent), caller.clone())).collect();
        order.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
        for (place, (Reverse(recent), caller)) in order.into_iter().enumerate() {
            let Some(count) = self.callers.get_mut(&caller) else { continue };
            count.recent = 0;
            if place < NAMED {
                count.named.get_or_insert(0);
            } else {
                self.others += count.named.take().unwrap_or_default();
                if recent == 0 {
                    self.callers.remove(&caller);
                }
            }
        }
    }
}

/// The same, for a registry.
#[derive(Debug)]
pub(crate) struct CallerCollector(pub(crate) std::sync::Arc<CallerCounts>);

impl Collector for CallerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (mut named, others) = {
            let counts = self.0.0.lock();
            let named =
                counts.callers.iter().filter_map(|(caller, count)| Some((caller.clone(), count.named?)));
            (named.collect::<Vec<_>>(), counts.others)
        };
        named.sort();
        let kind = prometheus_client::metrics::MetricType::Counter;
        let help = "Calls, by those who call most and all others";
        let mut metric = encoder.encode_descriptor("caller_calls", help, None, kind)?;
        let each = named.iter().map(|(caller, count)| (label(&caller.realm), label(&caller.id), *count));
        for (realm, caller, count) in each.chain([(String::new(), OTHERS.to_owned(), others)]) {
            let labels = [("realm", realm), ("caller", caller)];
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn label(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(counts: &Counts) -> Vec<String> {
        let mut named: Vec<_> = counts
            .callers
            .iter()
            .filter(|(_, count)| count.named.is_some())
            .map(|(caller, _)| caller.id.to_string())
            .collect();
        named.sort();
        named
    }

    fn total(counts: &Counts) -> u64 {
        counts.others + counts.callers.values().filter_map(|count| count.named).sum::<u64>()
    }

    #[test]
    fn those_who_call_most_are_named_and_every_call_is_counted_once() {
        let (mut counts, start) = (Counts::default(), Instant::now());
        let caller = |number: u64| Principal::new("default", format!("caller {number:05}"));
        for number in 0..10_000 {
            counts.count(&caller(number), start);
        }
        assert_eq!((named(&counts).len(), counts.callers.len(), total(&counts)), (NAMED, TRACKED, 10_000));
        // Somebody who came late calls most of all.
        for _ in 0..50 {
            counts.count(&caller(500), start);
        }
        counts.count(&caller(500), start + WINDOW);
        assert!(named(&counts).contains(&"caller 00500".to_owned()));
        assert_eq!((named(&counts).len(), total(&counts)), (NAMED, 10_051));
        // Those who call no more are forgotten.
        counts.count(&caller(7), start + WINDOW * 2);
        counts.count(&caller(7), start + WINDOW * 3);
        assert!(counts.callers.len() <= NAMED + 1, "{}", counts.callers.len());
        assert_eq!(total(&counts), 10_053);
    }

    #[test]
    fn callers_whose_names_are_made_for_one_call_are_never_named() {
        let mut counts = Counts::default();
        counts.count(&Principal::new("default", "call:1/agent"), Instant::now());
        assert_eq!((counts.callers.len(), counts.others), (0, 1));
    }
}
