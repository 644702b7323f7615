//! What such calls have cost before, roughly: enough to say what 95 of 100 stay below.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::limits::MOST;

/// Counts in buckets that grow by a quarter of a power of two, so that no answer is off by more than a quarter. Old
/// values fade. Counts that are lost when two halve at once do not matter.
#[derive(Debug)]
pub(super) struct Histogram {
    counts: [AtomicU32; BUCKETS],
    total: AtomicU32,
    p95: AtomicU64,
}

const BUCKETS: usize = 4 * (MOST.ilog2() as usize + 1);

/// From how many values on there is an answer.
const ENOUGH: u32 = 8;

/// At how many values all counts are halved.
const FADES_AT: u32 = 1_024;

// === impl Histogram ===

impl Histogram {
    /// Adds a value.
    pub(super) fn record(&self, value: u64) {
        self.counts[bucket(value)].fetch_add(1, Relaxed);
        let total = self.total.fetch_add(1, Relaxed).saturating_add(1);
        if total < 2 * ENOUGH || total.is_multiple_of(16) {
            self.p95.store(self.percentile_95(), Relaxed);
        }
        if total >= FADES_AT {
            self.fade();
        }
    }

    /// What 95 of 100 values stay below, if there were enough of them.
    pub(super) fn p95(&self) -> Option<u64> {
        (self.total.load(Relaxed) >= ENOUGH).then(|| self.p95.load(Relaxed))
    }

    fn percentile_95(&self) -> u64 {
        let counts = self.counts.each_ref().map(|count| u64::from(count.load(Relaxed)));
        let above = counts.iter().sum::<u64>() / 20;
        let mut seen = 0;
        for (index, count) in counts.iter().enumerate().rev() {
            seen += count;
            if seen > above {
                return highest_in(index);
            }
        }
        0
    }

    fn fade(&self) {
        let mut total = 0;
        for count in &self.counts {
            let half = count.load(Relaxed) / 2;
            count.store(half, Relaxed);
            total += half;
        }
        self.total.store(total, Relaxed);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU32::default()),
            total: AtomicU32::default(),
            p95: AtomicU64::default(),
        }
    }
}

/// Values up to 3 have a bucket each; from there on each power of two has four.
fn bucket(value: u64) -> usize {
    let value = value.min(MOST - 1);
    if value < 4 {
        return usize::try_from(value).unwrap_or(0);
    }
    let exponent = value.ilog2();
    let quarter = (value >> (exponent - 2)) & 3;
    4 * (exponent as usize - 1) + usize::try_from(quarter).unwrap_or(0)
}

fn highest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 4 {
        return bucket;
    }
    let exponent = bucket / 4 + 1;
    let next = (4 + bucket % 4 + 1) << (exponent - 2);
    next - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_highest_value() {
        let mut value = 0;
        while value < MOST {
            let bucket = bucket(value);
            assert!(value <= highest_in(bucket), "{value} in {bucket}");
            assert!(bucket == 0 || value > highest_in(bucket - 1), "{value} in {bucket}");
            assert!(highest_in(bucket) <= value + value / 4 + 1, "{value} in {bucket}");
            value += 1 + value / 7;
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn the_answer_is_close_to_the_95th_percentile_and_follows_change() {
        let seen = Histogram::default();
        assert_eq!(seen.p95(), None);
        for value in 1..=1_000 {
            seen.record(value * 10);
        }
        let p95 = seen.p95().unwrap();
        assert!((9_500..=11_900).contains(&p95), "{p95}");
        for _ in 0..5_000 {
            seen.record(40);
        }
        assert!((40..=50).contains(&seen.p95().unwrap()));
    }
}
