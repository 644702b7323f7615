//! What is learnt about one member of a pool. Each has a lock of its own, held for a few instructions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::breaker::{Breaker, BreakerSettings, Standing};
use super::peer::{Peer, Snapshot};
use super::ticket::Ticket;
use crate::Millis;

/// When a peer that nobody chooses is measured again: what was learnt about it may no longer be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remeasuring {
    /// Not before this long after the last time.
    pub after: Duration,
    /// Nor before so many calls have gone to others, so that few callers pay for it.
    pub passed_over: u64,
}

/// A peer of the pool, with what is known of it. Clones share that.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) peer: Arc<Peer>,
    record: Arc<Mutex<Record>>,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    latency: Option<Latency>,
    cost_micro_usd: Option<u64>,
    open: u32,
    failed_permille: u16,
    breaker: Breaker,
    /// The ticket of the call by which it is being tried out, and until when no other is let do that.
    trial: Option<(u64, Millis)>,
    last_turn: u64,
    tickets: u64,
}

/// In microseconds.
#[derive(Clone, Copy, Debug)]
struct Latency {
    mean: u64,
    peak: u64,
    at: Millis,
}

/// The ticket of no call.
const NO_TICKET: u64 = 0;

/// How fast a bad moment is forgotten: about two thirds of it in this time.
const PEAK_DECAY: Duration = Duration::from_secs(10);

// === impl Remeasuring ===

impl Default for Remeasuring {
    fn default() -> Self {
        Self { after: Duration::from_secs(60), passed_over: 20 }
    }
}

// === impl Member ===

impl Member {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer: Arc::new(peer), record: Arc::default() }
    }

    /// The same member, which declares something else now.
    pub(super) fn redeclared(&self, peer: Peer) -> Self {
        Self { peer: Arc::new(peer), record: self.record.clone() }
    }

    /// A panic elsewhere leaves figures behind that are as good as any.
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it looks now, at this turn. What is estimated by the others is left out.
    pub(super) fn snapshot(&self, remeasuring: &Remeasuring, turn: u64, now: Millis) -> Snapshot {
        let record = self.record();
        let passed_over = turn.saturating_sub(record.last_turn);
        let is_fresh = |latency: &Latency| {
            now.since(latency.at) < remeasuring.after || passed_over < remeasuring.passed_over
        };
        let latency = record.latency.filter(is_fresh);
        Snapshot {
            latency: latency.map(|latency| Duration::from_micros(latency.mean)),
            peak_latency: latency.map(|latency| latency.peak_by(now)),
            cost_micro_usd: record.cost_micro_usd,
            open: record.open,
            failed_permille: record.failed_permille,
            standing: record.breaker.standing(now),
            on_trial: record.is_on_trial(now),
            last_turn: record.last_turn,
            ..Snapshot::new(self.peer.clone())
        }
    }

    /// Begins a call, unless the peer is out. Whether it tries the peer out is decided here, where no two can be first.
    pub(super) fn begin(
        &self,
        breaker: BreakerSettings,
        turn: Option<u64>,
        is_measured: bool,
        now: Millis,
    ) -> Result<Ticket, Standing> {
        let mut record = self.record();
        let standing = record.breaker.standing(now);
        let tries = match standing {
            Standing::In => !is_measured && record.trial.is_none(),
            Standing::OnTrial if !record.is_on_trial(now) => true,
            Standing::OnTrial | Standing::OutUntil(_) => return Err(standing),
        };
        record.tickets += 1;
        let id = record.tickets;
        if tries {
            record.trial = Some((id, now + breaker.cooldown));
        }
        record.open += 1;
        if let Some(turn) = turn {
            record.last_turn = record.last_turn.max(turn);
        }
        drop(record);
        Ok(Ticket::new(self.clone(), id, breaker, now))
    }

    /// Somebody has found that it cannot be reached, without calling it.
    pub(super) fn missed(&self, breaker: &BreakerSettings, now: Millis) {
        self.record().failed(NO_TICKET, breaker, now);
    }
}

// === impl Record ===

impl Record {
    /// The first that is heard of a call.
    pub(super) fn first_event(&mut self, ticket: u64, took: Duration, now: Millis) {
        let tried = self.is_tried_by(ticket);
        if self.breaker.standing(now) != Standing::In {
            if !tried {
                // It began before the peer was taken out.
                return;
            }
            self.breaker.let_back();
        }
        let sample = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency = Some(match self.latency {
            // What was known before it was tried out anew is not known any more.
            Some(known) if !tried => known.with(sample, now),
            _ => Latency { mean: sample, peak: sample, at: now },
        });
        self.end_trial(ticket);
    }

    pub(super) fn cost(&mut self, micro_usd: u64) {
        self.cost_micro_usd = Some(match self.cost_micro_usd {
            Some(mean) => (mean - mean / 4).saturating_add(micro_usd.div_ceil(4)),
            None => micro_usd,
        });
    }

    pub(super) fn succeeded(&mut self) {
        self.breaker.succeeded();
        self.failed_permille -= self.failed_permille.div_ceil(8);
    }

    pub(super) fn failed(&mut self, ticket: u64, breaker: &BreakerSettings, now: Millis) {
        self.failed_permille += (1000 - self.failed_permille).div_ceil(8);
        let tried = self.is_tried_by(ticket);
        self.end_trial(ticket);
        if self.breaker.failed(breaker, tried, now) {
            // Whatever it was before, it has to show anew; and who began before that has no part in it.
            self.latency = None;
            self.trial = None;
        }
    }

    pub(super) fn close(&mut self, ticket: u64) {
        self.open = self.open.saturating_sub(1);
        self.end_trial(ticket);
    }

    fn is_tried_by(&self, ticket: u64) -> bool {
        self.trial.is_some_and(|(id, _)| id == ticket)
    }

    /// Whether nobody else may try it. A call that takes long must not keep all others from one that is out.
    fn is_on_trial(&self, now: Millis) -> bool {
        self.trial.is_some_and(|(_, until)| now < until || self.breaker.standing(now) == Standing::In)
    }

    fn end_trial(&mut self, ticket: u64) {
        if self.is_tried_by(ticket) {
            self.trial = None;
        }
    }
}

// === impl Latency ===

impl Latency {
    fn with(self, sample: u64, now: Millis) -> Self {
        let peak = u64::try_from(self.peak_by(now).as_micros()).unwrap_or(u64::MAX);
        let mean = (self.mean - self.mean / 4).saturating_add(sample / 4);
        Self { mean, peak: peak.max(sample), at: now }
    }

    /// The peak, as far as it is not forgotten by now.
    fn peak_by(&self, now: Millis) -> Duration {
        let left = (-now.since(self.at).as_secs_f64() / PEAK_DECAY.as_secs_f64()).exp();
        let above = Duration::from_micros(self.peak.saturating_sub(self.mean));
        Duration::from_micros(self.mean.min(self.peak)).saturating_add(above.mul_f64(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKER: BreakerSettings = BreakerSettings { failures: 2, cooldown: Duration::from_secs(10) };

    fn seen(member: &Member, now: u64) -> Snapshot {
        member.snapshot(&Remeasuring::default(), 0, Millis(now))
    }

    fn begin(member: &Member, now: u64) -> Ticket {
        let is_measured = seen(member, now).latency.is_some();
        member.begin(BREAKER, None, is_measured, Millis(now)).unwrap()
    }

    #[test]
    fn latency_is_an_average_and_its_peak_is_forgotten_slowly() {
        let member = Member::new(Peer::new("a"));
        begin(&member, 0).first_event(Millis(100));
        begin(&member, 100).first_event(Millis(600));
        let at_once = seen(&member, 600);
        assert_eq!(at_once.latency, Some(Duration::from_millis(200)));
        assert_eq!(at_once.peak_latency, Some(Duration::from_millis(500)));
        let later = seen(&member, 10_600).peak_latency.unwrap();
        assert!(later > Duration::from_millis(300) && later < Duration::from_millis(320), "{later:?}");
    }

    #[test]
    fn cost_and_failures_are_averages() {
        let member = Member::new(Peer::new("a"));
        let ticket = begin(&member, 0);
        ticket.cost(400);
        ticket.cost(800);
        assert_eq!(seen(&member, 0).cost_micro_usd, Some(500));
        ticket.transport_failure(Millis(1));
        assert_eq!(seen(&member, 1).failed_permille, 125);
        (0..100).for_each(|_| begin(&member, 1).succeeded(Millis(1)));
        assert_eq!(seen(&member, 1).failed_permille, 0);
    }

    #[test]
    fn a_ticket_counts_as_open_until_it_is_dropped() {
        let member = Member::new(Peer::new("a"));
        let (one, two) = (begin(&member, 0), begin(&member, 0));
        one.succeeded(Millis(1));
        assert_eq!(seen(&member, 1).open, 2);
        drop((one, two));
        assert_eq!(seen(&member, 1).open, 0);
    }

    #[test]
    fn one_that_is_passed_over_for_long_counts_as_not_measured() {
        let member = Member::new(Peer::new("a"));
        begin(&member, 0).first_event(Millis(5));
        let settings = Remeasuring::default();
        let seen = |turn, now| member.snapshot(&settings, turn, Millis(now)).latency;
        assert!(seen(19, 1_000_000).is_some());
        assert!(seen(20, 60_004).is_some());
        assert!(seen(20, 60_005).is_none());
    }

    #[test]
    fn what_began_before_a_peer_was_taken_out_does_not_speak_for_it() {
        let member = Member::new(Peer::new("a"));
        let slow = begin(&member, 0);
        for _ in 0..2 {
            begin(&member, 0).transport_failure(Millis(0));
        }
        slow.first_event(Millis(10_000));
        assert_eq!(seen(&member, 10_000).standing, Standing::OnTrial);
        assert_eq!(seen(&member, 10_000).latency, None);
        let trial = begin(&member, 10_000);
        assert!(member.begin(BREAKER, None, false, Millis(10_000)).is_err());
        drop(slow);
        assert!(member.begin(BREAKER, None, false, Millis(10_000)).is_err());
        trial.first_event(Millis(10_010));
        assert_eq!(seen(&member, 10_010).standing, Standing::In);
    }
}
