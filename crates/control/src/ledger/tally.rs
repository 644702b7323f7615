//! What an account has spent in all: every call that is settled adds to it, and hardly anybody reads it.
//!
//! So each thread adds to a row of its own, by a load and a store, and whoever wants to know takes the sum. An atomic change
//! is most of what a level costs; this way what is settled for just what was held needs none, but at accounts that end with
//! their call, which have no rows. A sum may miss what is being added. That is on the safe side: it is read to know where a
//! window starts, and a start that is too low leaves less room, never more.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU64 as Plain;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::atomic::{self, AtomicU64};
use super::limits::METRICS;

/// Counts that only grow.
#[derive(Debug)]
pub(super) struct Tally {
    /// Of threads that have no row.
    shared: [AtomicU64; METRICS],
    /// Each at the seat of its thread.
    rows: Box<[Row]>,
}

/// A cache line of its own, so that no thread waits for another's.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row([AtomicU64; METRICS]);

/// Where one thread adds to a tally.
pub(super) enum Mine<'a> {
    Own(&'a [AtomicU64; METRICS]),
    Shared(&'a [AtomicU64; METRICS]),
}

/// A number that no other thread has while this one lives.
struct Seat(Option<usize>);

/// Rows for more threads than settle calls at the same time.
static SEATS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(4, |cores| (2 * cores.get()).min(64)));

/// The seats that are taken, a bit each.
static TAKEN: Plain = Plain::new(0);

thread_local! {
    static SEAT: Seat = Seat::take();
}

// === impl Tally ===

impl Tally {
    /// For an account that lives long, with rows.
    pub(super) fn of_many() -> Self {
        Self { shared: Default::default(), rows: (0..*SEATS).map(|_| Row::default()).collect() }
    }

    /// For an account that ends with its call.
    pub(super) fn of_few() -> Self {
        Self { shared: Default::default(), rows: Box::default() }
    }

    /// What this thread adds to.
    #[inline]
    pub(super) fn mine(&self) -> Mine<'_> {
        match seat().and_then(|seat| self.rows.get(seat)) {
            Some(Row(own)) => Mine::Own(own),
            None => Mine::Shared(&self.shared),
        }
    }

    pub(super) fn sum(&self, metric: usize) -> u64 {
        let own = self.rows.iter().map(|Row(own)| own[metric].load(SeqCst));
        own.fold(self.shared[metric].load(SeqCst), u64::wrapping_add)
    }

    pub(super) fn sums(&self) -> [u64; METRICS] {
        std::array::from_fn(|metric| self.sum(metric))
    }
}

// === impl Mine ===

impl Mine<'_> {
    #[inline]
    pub(super) fn add(&self, metric: usize, more: u64) {
        match self {
            // Nobody else writes here. Who reads it has not seen the period that this belongs to, or has begun it.
            Self::Own(row) => row[metric].store(row[metric].load(Relaxed).wrapping_add(more), Release),
            Self::Shared(row) => {
                row[metric].fetch_add(more, SeqCst);
            }
        }
    }
}

// === impl Seat ===

impl Seat {
    fn take() -> Self {
        let free = |taken: u64| (0..*SEATS).find(|seat| taken & (1 << seat) == 0);
        let taken = TAKEN.try_update(AcqRel, Acquire, |taken| Some(taken | 1 << free(taken)?));
        Self(taken.ok().and_then(free))
    }
}

impl Drop for Seat {
    /// Whoever takes it next finds the rows as this thread has left them.
    fn drop(&mut self) {
        if let Some(seat) = self.0 {
            TAKEN.fetch_and(!(1 << seat), Release);
        }
    }
}

/// The seat of this thread; none if all were taken, or when the thread is about to end.
#[inline]
fn seat() -> Option<usize> {
    atomic::thread_of_model().or_else(|| SEAT.try_with(|seat| seat.0).ok().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_seats_lose_nothing() {
        const EACH: u64 = 1_000;
        let tally = Tally::of_many();
        let threads = 3 * *SEATS as u64;
        // Twice: the second time on seats that others have left.
        for round in 1..=2 {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..EACH).for_each(|_| tally.mine().add(0, 2)));
                }
            });
            assert_eq!(tally.sums(), [round * threads * EACH * 2, 0, 0]);
        }
    }
}
