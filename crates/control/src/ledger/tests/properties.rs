//! Random histories, beside the reference, with a crash after every step.

use std::sync::Arc;

use chancery_protocol::{Amount, CostSource, Edge, HopId, Settled, Timestamp};
use proptest::prelude::*;

use super::super::limits::{METRICS, amount_of, by_metric};
use super::super::*;
use super::NOON;
use super::reference::{Reference, scopes};
use crate::Millis;

/// One step. Calls are named by a number, modulo how many there are.
#[derive(Clone, Debug)]
enum Step {
    Reserve {
        caller: u8,
        agent: u8,
        amount: Amount,
    },
    Extend {
        call: usize,
        more: Amount,
    },
    /// The next of: written as begun, written as settled, settled. What it comes to is charged as far as there is room.
    GoOn {
        call: usize,
        due: Amount,
    },
    Drop {
        call: usize,
    },
    Wait {
        ms: u64,
    },
    ClockGoesBack {
        ms: u64,
    },
    Crash,
}

struct Call {
    edge: Edge,
    reservation: Reservation,
    written: bool,
}

/// The ledger, the reference, and what the store has.
struct World {
    ledger: Ledger,
    reference: Reference,
    store: Vec<Edge>,
    calls: Vec<Call>,
    now: Millis,
    /// The clock may go back while it runs; a process does not start before what another has seen.
    latest: Millis,
}

fn amount(most: u64) -> impl Strategy<Value = Amount> {
    (0..=most, 0..=most, 0..=1_u64).prop_map(|(micro_usd, tokens, tasks)| Amount { micro_usd, tokens, tasks })
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![0..3_000_u64, 0..100_000_u64, 0..5_000_000_u64, 0..90_000_000_u64];
    prop_oneof![
        6 => (0..2_u8, 0..2_u8, amount(12))
            .prop_map(|(caller, agent, amount)| Step::Reserve { caller, agent, amount }),
        2 => (any::<usize>(), amount(6)).prop_map(|(call, more)| Step::Extend { call, more }),
        9 => (any::<usize>(), amount(14)).prop_map(|(call, due)| Step::GoOn { call, due }),
        1 => any::<usize>().prop_map(|call| Step::Drop { call }),
        3 => wait.prop_map(|ms| Step::Wait { ms }),
        1 => (0..70_000_u64).prop_map(|ms| Step::ClockGoesBack { ms }),
        1 => Just(Step::Crash),
    ]
}

fn caps() -> impl Strategy<Value = Caps> {
    let cap = || {
        let most = || proptest::option::of(5..40_u64);
        (most(), most(), most()).prop_map(|(micro_usd, tokens, tasks)| Cap { micro_usd, tokens, tasks })
    };
    (cap(), cap(), cap(), cap()).prop_map(|(per_minute, per_hour, per_day, per_month)| Caps {
        per_minute,
        per_hour,
        per_day,
        per_month,
    })
}

fn limits() -> impl Strategy<Value = Limits> {
    (caps(), caps(), caps(), caps()).prop_map(|(global, realm, caller, agent)| {
        let mut limits = Limits { global, ..Limits::default() };
        limits.realm.default = realm;
        limits.caller.default = caller;
        limits.agent.default = agent;
        limits
    })
}

impl World {
    fn new(limits: Limits) -> Self {
        let reference = Reference::new(limits.clone());
        let (store, calls) = (Vec::new(), Vec::new());
        Self { ledger: Ledger::new(limits), reference, store, calls, now: NOON, latest: NOON }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Reserve { caller, agent, amount } => self.reserve(caller, agent, amount),
            Step::Extend { call, more } => self.extend(call, more),
            Step::GoOn { call, due } => self.go_on(call, due),
            Step::Drop { call } => self.drop_call(call),
            Step::Wait { ms } => self.now.0 += ms,
            Step::ClockGoesBack { ms } => self.now.0 -= ms,
            Step::Crash => {
                self.now = self.latest;
                let ledger = Ledger::new(Limits::clone(self.ledger.edition().limits()));
                (self.calls, self.reference) = restart(&ledger, &self.store, self.now);
                self.ledger = ledger;
            }
        }
    }

    fn reserve(&mut self, caller: u8, agent: u8, reserved: Amount) {
        let hop = HopId::generate();
        let edge = Edge {
            hop,
            root: hop,
            parent: None,
            depth: 0,
            trace: None,
            realm: Arc::from("acme"),
            caller: Arc::from(format!("caller {caller}")),
            payer: None,
            groups: Vec::new(),
            used: chancery_protocol::Usage::default(),
            agent: Arc::from(format!("agent {agent}")),
            skill: None,
            peer: None,
            task: None,
            opened: Timestamp::from_millis(i64::try_from(self.now.0).unwrap()),
            reserved,
            limits: chancery_protocol::CallLimits::default(),
            origin: None,
            settled: None,
        };
        let accounts = self.ledger.accounts_of(&edge, self.now);
        let fits = self.reference.fits(&scopes(&edge), reserved, self.now);
        assert_eq!(check(&accounts, reserved, self.now).is_ok(), fits);
        match reserve(accounts, reserved, self.now) {
            Ok(reservation) => {
                assert!(fits, "let through without room");
                self.reference.hold(&scopes(&edge), reserved, self.now);
                self.calls.push(Call { edge, reservation, written: false });
            }
            Err(short) => assert!(!fits, "refused with room: {short}"),
        }
    }

    fn extend(&mut self, call: usize, more: Amount) {
        let Some(call) = pick(&mut self.calls, call) else { return };
        let fits = self.reference.fits(&scopes(&call.edge), more, self.now);
        assert_eq!(call.reservation.extend(more, self.now).is_ok(), fits);
        if fits {
            self.reference.hold(&scopes(&call.edge), more, self.now);
        }
    }

    fn go_on(&mut self, index: usize, due: Amount) {
        let Some(call) = pick(&mut self.calls, index) else { return };
        if !call.written {
            call.written = true;
            return self.store.push(call.edge.clone());
        }
        let Some(settled) = call.edge.settled else {
            let at = Timestamp::from_millis(i64::try_from(self.now.0).unwrap());
            let (scopes, held) = (scopes(&call.edge), by_metric(call.reservation.amount()));
            let more = std::array::from_fn(|metric| by_metric(due)[metric].saturating_sub(held[metric]));
            let room = self.reference.room(&scopes, amount_of(more), self.now);
            let extended = call.reservation.extend_partly(amount_of(more), self.now);
            assert_eq!(extended, amount_of(room), "it holds as much as there is room for");
            self.reference.hold(&scopes, extended, self.now);
            let charged = by_metric(call.reservation.amount());
            let charged = std::array::from_fn(|metric| by_metric(due)[metric].min(charged[metric]));
            let rest = std::array::from_fn(|metric| by_metric(due)[metric] - charged[metric]);
            let (charged, overrun) = (amount_of(charged), amount_of(rest));
            let settled = Settled { at, charged, overrun, source: CostSource::Reported, state: None };
            call.edge.settled = Some(settled);
            self.store.retain(|edge| edge.hop != call.edge.hop);
            return self.store.push(call.edge.clone());
        };
        let hop = call.edge.hop;
        let Some(ended) = self.calls.iter().position(|call| call.edge.hop == hop) else { return };
        let Call { edge, reservation, .. } = self.calls.remove(ended);
        let held = reservation.amount();
        reservation.settle(settled.charged, self.now);
        self.reference.settle(&scopes(&edge), held, settled.charged, self.now);
    }

    /// Dropped without a word, as by a panic, before it was written how it ended; the store forgets it along with it.
    fn drop_call(&mut self, index: usize) {
        let Some(call) = pick(&mut self.calls, index).filter(|call| call.edge.settled.is_none()) else {
            return;
        };
        let hop = call.edge.hop;
        self.reference.settle(&scopes(&call.edge), call.reservation.amount(), Amount::default(), Millis(0));
        self.store.retain(|edge| edge.hop != hop);
        self.calls.retain(|call| call.edge.hop != hop);
    }
}

fn pick(calls: &mut [Call], index: usize) -> Option<&mut Call> {
    let count = calls.len();
    calls.get_mut(index % count.max(1))
}

/// What a new process makes of the store.
fn restart(ledger: &Ledger, store: &[Edge], now: Millis) -> (Vec<Call>, Reference) {
    let open = ledger.restore(store, |edge| ledger.accounts_of(edge, now), now);
    let mut reference = Reference::new(Limits::clone(ledger.edition().limits()));
    for edge in store {
        match edge.settled {
            Some(settled) => {
                let at = Millis(u64::try_from(settled.at.as_millis()).unwrap()).min(now);
                reference.charge(&scopes(edge), settled.charged, at);
            }
            None => reference.hold(&scopes(edge), edge.reserved, Millis(0)),
        }
    }
    let of = |hop| store.iter().find(|edge: &&Edge| edge.hop == hop).cloned().unwrap();
    let calls = open.into_iter().map(|(hop, reservation)| Call { edge: of(hop), reservation, written: true });
    (calls.collect(), reference)
}

/// Every account is as the reference says, and holds the invariant.
fn compare(ledger: &Ledger, reference: &mut Reference, now: Millis) {
    for account in ledger.accounts() {
        for standing in account.standings(now) {
            let sums = reference.sums(account.scope(), standing.window, standing.metric as usize, now);
            assert_eq!((standing.charged, standing.held), (sums.charged, sums.held), "{}", account.scope());
            assert!(sums.charged + sums.held <= standing.cap, "{} passes its limit", account.scope());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_agrees_with_the_reference_and_survives_a_crash_after_every_step(
        limits in limits(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(limits.clone());
        for step in &steps {
            world.take(step);
            let now = world.now;
            world.latest = world.latest.max(now);
            compare(&world.ledger, &mut world.reference, now);
            let now = world.latest;
            let next = Ledger::new(limits.clone());
            let (open, mut reference) = restart(&next, &world.store, now);
            compare(&next, &mut reference, now);
            drop(open);
        }
    }

    #[test]
    fn whatever_is_counted_for_one_metric_does_not_touch_another(more in amount(1_000)) {
        let all = Cap { micro_usd: Some(1_000), tokens: Some(1_000), tasks: Some(1_000) };
        let account = [super::account(Caps { per_day: all, ..Caps::default() })];
        let kept = super::super::reserve(&account, more, NOON).unwrap();
        let left = kept.remaining(NOON);
        let left = [left.micro_usd, left.tokens, left.tasks].map(Option::unwrap);
        let expected: [u64; METRICS] = by_metric(more).map(|taken| 1_000 - taken);
        prop_assert_eq!(left, expected);
    }
}
