//! What holds of every pool, whatever happens to it, on a clock that is turned by hand.
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_control::Millis;
use chancery_control::routing::{
    Binding, CheapestUnderLatency, LowestLatency, NO_PEER_AVAILABLE, PEER_UNAVAILABLE, Peer, PeerSelector,
    Pool, PoolSettings, PowerOfTwoChoices, RoundRobin, Selectors, Snapshot, TASK_PEER_GONE, Ticket, Wanted,
    Why,
};
use chancery_protocol::{Principal, TaskId};
use proptest::prelude::*;

const COOLDOWN: u64 = 10_000;
const FAILURES: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    Route { goes_on: Option<usize> },
    Answer { ticket: usize },
    Finish { ticket: usize },
    Break { ticket: usize },
    Drop { ticket: usize },
    Bind { ticket: usize },
    Wait { ms: u64 },
    Members { mask: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let ticket = 0usize..64;
    prop_oneof![
        8 => proptest::option::weighted(0.2, 0usize..64).prop_map(|goes_on| Step::Route { goes_on }),
        3 => ticket.clone().prop_map(|ticket| Step::Answer { ticket }),
        2 => ticket.clone().prop_map(|ticket| Step::Finish { ticket }),
        6 => ticket.clone().prop_map(|ticket| Step::Break { ticket }),
        2 => ticket.clone().prop_map(|ticket| Step::Drop { ticket }),
        2 => ticket.prop_map(|ticket| Step::Bind { ticket }),
        3 => (0u64..6_000).prop_map(|ms| Step::Wait { ms }),
        1 => (1u8..16).prop_map(|mask| Step::Members { mask }),
    ]
}

/// What must be true of a peer, told from outside.
#[derive(Clone, Debug, Default)]
struct Expected {
    in_a_row: u32,
    out_until: Option<u64>,
    /// The call that tries it after it was out.
    trial: Option<u64>,
    /// Until when no other call may try it.
    trial_until: u64,
    /// Whether somebody has heard of it, since it was last out.
    is_measured: bool,
    /// The call by which it is to be measured.
    probe: Option<u64>,
}

struct Open {
    id: u64,
    ticket: Ticket,
    is_answered: bool,
}

struct World {
    pool: Pool,
    settings: PoolSettings,
    now: u64,
    members: Vec<&'static str>,
    expected: HashMap<String, Expected>,
    open: Vec<Open>,
    bound: Vec<(TaskId, String)>,
    calls: u64,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl World {
    fn new(selector: Arc<dyn PeerSelector>) -> Self {
        let settings = PoolSettings { selector, ..PoolSettings::default() };
        let peers = NAMES.map(|name| Peer::new(name).price_micro_usd(u64::from(name.as_bytes()[0])));
        let pool = Pool::try_new("p", peers, settings.clone()).unwrap();
        let expected = NAMES.map(|name| (name.to_owned(), Expected::default())).into();
        let members = NAMES.to_vec();
        Self { pool, settings, now: 0, members, expected, open: Vec::new(), bound: Vec::new(), calls: 0 }
    }

    fn of(&mut self, peer: &str) -> &mut Expected {
        self.expected.get_mut(peer).expect("a known peer")
    }

    fn can_be_called(&self, peer: &str) -> bool {
        let one = &self.expected[peer];
        self.members.contains(&peer)
            && match one.out_until {
                None => true,
                Some(until) => until <= self.now && (one.trial.is_none() || one.trial_until <= self.now),
            }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Route { goes_on } => self.route(*goes_on),
            Step::Wait { ms } => self.now += ms,
            Step::Members { mask } => self.replace(*mask),
            Step::Answer { ticket }
            | Step::Finish { ticket }
            | Step::Break { ticket }
            | Step::Drop { ticket }
            | Step::Bind { ticket } => {
                if !self.open.is_empty() {
                    let at = ticket % self.open.len();
                    self.happen(step, at);
                }
            }
        }
    }

    fn route(&mut self, goes_on: Option<usize>) {
        let principal = Principal::anonymous();
        let bound = goes_on.and_then(|at| self.bound.get(at % self.bound.len().max(1)).cloned());
        let task = bound.as_ref().map(|(task, _)| task);
        let wanted = Wanted { task, ..Wanted::by(&principal) };
        let foretold = self.pool.foretell(&wanted, Millis(self.now)).map(|decision| decision.peer);
        let callable: Vec<_> = NAMES.into_iter().filter(|name| self.can_be_called(name)).collect();
        match self.pool.route(&wanted, Millis(self.now)) {
            Ok(route) => {
                let peer = route.decision.peer.clone().expect("a peer").to_string();
                assert!(
                    callable.contains(&&*peer),
                    "{peer} gets a call, but only {callable:?} can be called"
                );
                assert_eq!(foretold.unwrap().as_deref(), Some(&*peer), "what was foretold");
                if let Some((_, home)) = &bound {
                    assert_eq!((&peer, &route.decision.why), (home, &Why::Task));
                } else {
                    self.check_probe(&peer, &callable);
                }
                self.begin(&peer, route.ticket.expect("a ticket"), bound.is_none());
            }
            Err(denied) => {
                assert_eq!(foretold.unwrap_err(), denied);
                let expected = match &bound {
                    Some((_, home)) if !self.members.contains(&&**home) => TASK_PEER_GONE,
                    Some((_, home)) => {
                        assert!(!self.can_be_called(home));
                        PEER_UNAVAILABLE
                    }
                    None => {
                        assert!(callable.is_empty(), "{callable:?} could be called: {denied}");
                        NO_PEER_AVAILABLE
                    }
                };
                assert_eq!(denied.reason, expected);
            }
        }
    }

    /// Who is being measured gets nothing else, unless there is nobody else to compare with.
    fn check_probe(&self, peer: &str, callable: &[&str]) {
        let one = &self.expected[peer];
        // A call that tries it for too long does not keep others from doing so.
        let is_late = |one: &Expected| one.out_until.is_some() && one.trial_until <= self.now;
        let is_busy = |name: &str| {
            let one = &self.expected[name];
            !one.is_measured && one.probe.is_some() && !is_late(one)
        };
        let compares = !matches!(self.settings.selector.name(), "round_robin" | "capability_match");
        if !compares || one.is_measured || one.probe.is_none() || is_late(one) {
            return;
        }
        assert!(callable.iter().all(|name| is_busy(name)), "{peer} is tried out twice beside {callable:?}");
    }

    fn begin(&mut self, peer: &str, ticket: Ticket, is_chosen: bool) {
        self.calls += 1;
        let (id, now) = (self.calls, self.now);
        let one = self.of(peer);
        if one.out_until.is_some() {
            (one.trial, one.trial_until, one.probe) = (Some(id), now + COOLDOWN, None);
        }
        if one.probe.is_none() && !one.is_measured && (is_chosen || one.trial.is_some()) {
            one.probe = Some(id);
        }
        self.open.push(Open { id, ticket, is_answered: false });
    }

    fn happen(&mut self, step: &Step, at: usize) {
        let now = self.now;
        let call = &mut self.open[at];
        let (id, peer) = (call.id, call.ticket.peer().to_string());
        match step {
            Step::Bind { .. } => {
                let (principal, task) = (Principal::anonymous(), TaskId::generate());
                self.bound.push((task.clone(), peer.clone()));
                self.pool.bind(Binding { principal, task, context: None, peer: peer.into() });
                return;
            }
            Step::Answer { .. } => call.ticket.first_event(Millis(now)),
            Step::Finish { .. } => call.ticket.succeeded(Millis(now)),
            Step::Break { .. } => call.ticket.transport_failure(Millis(now)),
            _ => drop(self.open.swap_remove(at)),
        }
        let mut was_answered = true;
        if !matches!(step, Step::Drop { .. }) {
            let call = &mut self.open[at];
            was_answered = call.is_answered;
            call.is_answered |= !matches!(step, Step::Break { .. });
        }
        self.expect(step, &peer, id, was_answered);
    }

    fn expect(&mut self, step: &Step, peer: &str, id: u64, was_answered: bool) {
        let now = self.now;
        let one = self.of(peer);
        let tries = one.trial == Some(id);
        let ends = |slot: &mut Option<u64>| *slot = slot.filter(|other| *other != id);
        match step {
            Step::Break { .. } => {
                ends(&mut one.trial);
                ends(&mut one.probe);
                if one.out_until.is_none() || tries {
                    one.in_a_row += 1;
                    if tries || one.in_a_row >= FAILURES {
                        let out_until = Some(now + COOLDOWN);
                        *one = Expected { in_a_row: one.in_a_row, out_until, ..Expected::default() };
                    }
                }
            }
            Step::Answer { .. } | Step::Finish { .. } => {
                if !was_answered && (one.out_until.is_none() || tries) {
                    one.out_until = None;
                    one.is_measured = true;
                    ends(&mut one.trial);
                    ends(&mut one.probe);
                }
                if matches!(step, Step::Finish { .. }) && one.out_until.is_none() {
                    one.in_a_row = 0;
                }
            }
            _ => {
                ends(&mut one.trial);
                ends(&mut one.probe);
            }
        }
    }

    fn replace(&mut self, mask: u8) {
        let members: Vec<_> = NAMES
            .into_iter()
            .enumerate()
            .filter(|(at, _)| mask & (1 << at) != 0)
            .map(|(_, name)| name)
            .collect();
        for name in NAMES {
            if !members.contains(&name) {
                // Nothing of it is remembered, and calls that are open do not speak for one that comes anew.
                self.expected.insert(name.to_owned(), Expected::default());
                self.open.retain(|call| **call.ticket.peer() != *name);
            }
        }
        self.members.clone_from(&members);
        let peers =
            members.into_iter().map(|name| Peer::new(name).price_micro_usd(u64::from(name.as_bytes()[0])));
        self.pool.replace(peers, self.settings.clone()).unwrap();
    }
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let latency = proptest::option::of(0u64..4_000);
    (latency, 0u64..1_000, 0u32..4, any::<bool>()).prop_map(|(latency, price, open, on_trial)| {
        let mut one = Snapshot::new(Peer::new("x").price_micro_usd(price));
        one.latency = latency.map(Duration::from_millis);
        one.likely_latency = one.latency.or(Some(Duration::from_millis(1_500)));
        (one.open, one.on_trial) = (open, on_trial);
        one
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn whatever_happens_who_is_out_gets_nothing_one_tries_and_tasks_stay(
        which in 0usize..5,
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let selectors = Selectors::default();
        let names: Vec<_> = selectors.names().collect();
        let mut world = World::new(selectors.make(names[which], &Default::default()).unwrap());
        // A selector that finds nobody fast enough is another property.
        if which == 1 {
            let budget = Duration::from_secs(1 << 40);
            world = World::new(Arc::new(CheapestUnderLatency { budget }));
        }
        for step in &steps {
            world.take(step);
        }
        world.open.clear();
        prop_assert!(world.pool.members(Millis(world.now)).iter().all(|one| one.open == 0 && !one.on_trial));
    }

    #[test]
    fn one_above_the_budget_is_never_taken_while_one_below_it_is_there(
        candidates in proptest::collection::vec(snapshot(), 1..8),
        budget in 0u64..4_000,
    ) {
        let budget = Duration::from_millis(budget);
        let principal = Principal::anonymous();
        let choice = CheapestUnderLatency { budget }.select(&candidates, &Wanted::by(&principal), Millis(0));
        let is_below = |one: &Snapshot| one.latency.is_some_and(|latency| latency <= budget);
        let cheapest = candidates.iter().filter(|one| is_below(one)).map(|one| one.likely_cost_micro_usd).min();
        if let Some(cheapest) = cheapest {
            let chosen = &candidates[choice.member.unwrap()];
            prop_assert!(chosen.likely_latency.unwrap() <= budget);
            prop_assert!(chosen.likely_cost_micro_usd <= cheapest);
        } else if let Some(chosen) = choice.member {
            prop_assert!(candidates[chosen].latency.is_none());
        }
    }

    #[test]
    fn everybody_has_their_turn(seed in any::<u64>(), count in 1usize..9, rounds in 1usize..20) {
        let names: Vec<_> = (0..count).map(|at| format!("{at}")).collect();
        let settings = PoolSettings { selector: Arc::new(RoundRobin { seed }), ..PoolSettings::default() };
        let pool = Pool::try_new("p", names.iter().map(|name| Peer::new(&**name)), settings).unwrap();
        let principal = Principal::anonymous();
        for _ in 0..rounds {
            let mut round: Vec<_> = (0..count)
                .map(|_| pool.route(&Wanted::by(&principal), Millis(0)).unwrap().decision.peer.unwrap().to_string())
                .collect();
            round.sort_unstable();
            prop_assert_eq!(&round, &names);
        }
    }

    #[test]
    fn every_selector_answers_with_a_place_that_there_is(
        candidates in proptest::collection::vec(snapshot(), 0..6),
        turn in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let principal = Principal::anonymous();
        let wanted = Wanted { turn, ..Wanted::by(&principal) };
        let selectors: [&dyn PeerSelector; 3] =
            [&LowestLatency, &RoundRobin { seed }, &PowerOfTwoChoices { seed }];
        for selector in selectors {
            let choice = selector.select(&candidates, &wanted, Millis(0));
            prop_assert_eq!(choice.member.is_some(), !candidates.is_empty());
            prop_assert!(choice.member.is_none_or(|place| place < candidates.len()));
        }
    }
}
