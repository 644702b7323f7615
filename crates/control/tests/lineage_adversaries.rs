//! Random trees of calls, made by agents of which some drop, replay, forge and swap their lineage tokens.
//!
//! The test knows what is true: on which open call an agent really works when it makes another one. The gate does not,
//! and must all the same never take a call to be less deep than it is, never let it out of its root's budget, and
//! never let a chain come back to an agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_control::Millis;
use chancery_control::lineage::*;
use chancery_protocol::{Denied, HopId};
use proptest::prelude::*;

const GATEWAY: &str = "https://gateway.example";
const AGENTS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const SOON: Millis = Millis(60_000);

/// What an agent does with its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tactic {
    PassOn,
    Drop,
    /// Of a call that has ended.
    Replay,
    /// Made with a key of its own.
    Forge,
    /// Its own, with the depth changed.
    Edit,
    /// Given to another agent.
    Swap,
    /// Given to itself, for another call.
    SwapOwn,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    UserCalls { agent: usize },
    AgentCalls { at: usize, tactic: Tactic, choice: usize, agent: usize },
    Ends { at: usize },
    IsCanceled { at: usize },
}

/// An open call, and what is true about it.
#[derive(Clone)]
struct Truth {
    hop: Arc<OpenHop>,
    token: String,
    /// The call that its caller really worked on.
    cause: Option<HopId>,
    depth: u16,
    way: Vec<Arc<str>>,
}

struct World {
    gate: Lineage,
    forger: Tokens,
    realm: Arc<str>,
    open: Vec<Truth>,
    ended: Vec<String>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tactic = prop_oneof![
        4 => Just(Tactic::PassOn),
        3 => Just(Tactic::Drop),
        1 => Just(Tactic::Replay),
        1 => Just(Tactic::Forge),
        1 => Just(Tactic::Edit),
        1 => Just(Tactic::Swap),
        1 => Just(Tactic::SwapOwn),
    ];
    let agent = 0..AGENTS.len();
    let step = prop_oneof![
        2 => agent.clone().prop_map(|agent| Step::UserCalls { agent }),
        9 => (any::<usize>(), tactic, any::<usize>(), agent)
            .prop_map(|(at, tactic, choice, agent)| Step::AgentCalls { at, tactic, choice, agent }),
        2 => any::<usize>().prop_map(|at| Step::Ends { at }),
        1 => any::<usize>().prop_map(|at| Step::IsCanceled { at }),
    ];
    prop::collection::vec(step, 1..100)
}

/// Where agents may call without saying on whose behalf, there is more to get wrong.
fn lenient() -> Rules {
    Rules { allow_unattributed: true, ..Rules::default() }
}

fn pick<T>(from: &[T], choice: usize) -> Option<&T> {
    from.get(choice.checked_rem(from.len())?)
}

impl World {
    fn new(rules: Rules) -> Self {
        let keyring = |secret| Keyring::try_new("k", &[secret; 32]).expect("32 bytes are enough");
        let gate = Lineage { rules, tokens: Tokens::new(GATEWAY, keyring(1)), open: Arc::default() };
        let forger = Tokens::new(GATEWAY, keyring(2));
        Self { gate, forger, realm: "r".into(), open: Vec::new(), ended: Vec::new() }
    }

    fn call(
        &self,
        agent: Option<&Arc<str>>,
        token: Option<&str>,
        to: &Arc<str>,
    ) -> Result<(Descent, Arc<OpenHop>), Denied> {
        let arrival = Arrival { realm: &self.realm, agent, anonymous: false, token, trace: None };
        let descent = self.gate.attribute(&arrival, Millis(0))?;
        self.gate.receive(&descent, to)?;
        let caller = agent.cloned().unwrap_or_else(|| "user".into());
        let hop =
            self.gate.dispatch(&descent, Departure::new(HopId::generate(), &self.realm, &caller, to))?;
        Ok((descent, hop))
    }

    fn enter(&mut self, hop: Arc<OpenHop>, cause: Option<&Truth>) {
        let token = self.gate.tokens.mint(&hop, SOON);
        let mut way = cause.map_or_else(Vec::new, |cause| cause.way.clone());
        way.push(hop.agent.clone());
        let depth = cause.map_or(0, |cause| cause.depth + 1);
        self.open.push(Truth { hop, token, cause: cause.map(|cause| cause.hop.hop), depth, way });
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::UserCalls { agent } => {
                let (descent, hop) = self.call(None, None, &AGENTS[agent].into()).expect("a user may call");
                assert_eq!((descent.depth, descent.payer()), (0, Payer::Caller));
                self.enter(hop, None);
            }
            Step::AgentCalls { at, tactic, choice, agent } => {
                if let Some(works_on) = pick(&self.open, at).cloned() {
                    self.agent_calls(&works_on, tactic, choice, &AGENTS[agent].into());
                }
            }
            Step::Ends { at } => {
                let Some(truth) = pick(&self.open, at).cloned() else { return };
                // Who ends while others work for it has let go of them; here nobody does.
                if !self.open.iter().any(|other| other.cause == Some(truth.hop.hop)) {
                    self.leave(&truth.hop);
                    // A call that may have been for this one, and was for one that is canceled, is nobody's now.
                    for orphan in self.gate.open.cascade(&truth.hop) {
                        self.cancel(&orphan);
                    }
                }
            }
            Step::IsCanceled { at } => {
                if let Some(truth) = pick(&self.open, at).cloned() {
                    self.cancel(&truth.hop);
                }
            }
        }
    }

    fn leave(&mut self, hop: &OpenHop) {
        assert!(self.gate.open.remove(hop));
        let place =
            self.open.iter().position(|truth| truth.hop.hop == hop.hop).expect("what is open is known");
        self.ended.push(self.open.swap_remove(place).token);
    }

    /// As whoever cancels does it: out of the table first, then all that it reaches.
    fn cancel(&mut self, hop: &Arc<OpenHop>) {
        let mut canceled = vec![hop.clone()];
        while let Some(next) = canceled.pop() {
            if self.gate.open.find(next.root, next.hop).is_some() {
                self.leave(&next);
                canceled.extend(self.gate.open.cascade(&next));
            }
        }
    }

    /// The token that an agent sends, or none if there is none of that sort.
    fn token(&self, works_on: &Truth, tactic: Tactic, choice: usize) -> Option<String> {
        let others = |same_agent: bool| -> Vec<&Truth> {
            let other = |truth: &&Truth| truth.hop.hop != works_on.hop.hop;
            let held = |truth: &&Truth| (truth.hop.agent == works_on.hop.agent) == same_agent;
            self.open.iter().filter(other).filter(held).collect()
        };
        match tactic {
            Tactic::PassOn => Some(works_on.token.clone()),
            Tactic::Drop => None,
            Tactic::Replay => pick(&self.ended, choice).cloned(),
            Tactic::Forge => Some(self.forger.mint(&works_on.hop, SOON)),
            Tactic::Edit => {
                Some(edited(&works_on.token, pick(&self.open, choice).map_or("", |other| &other.token)))
            }
            Tactic::Swap => pick(&others(false), choice).map(|other| other.token.clone()),
            Tactic::SwapOwn => pick(&others(true), choice).map(|other| other.token.clone()),
        }
    }

    fn agent_calls(&mut self, works_on: &Truth, tactic: Tactic, choice: usize, to: &Arc<str>) {
        let token = self.token(works_on, tactic, choice);
        if token.is_none() && tactic != Tactic::Drop {
            return;
        }
        let own: Vec<Arc<OpenHop>> = self.open_at(&works_on.hop.agent);
        let result = self.call(Some(&works_on.hop.agent), token.as_deref(), to);
        if matches!(tactic, Tactic::Replay | Tactic::Forge | Tactic::Edit | Tactic::Swap) {
            assert_eq!(result.expect_err("this token is not its own").reason, LINEAGE_INVALID, "{tactic:?}");
            return;
        }
        if tactic == Tactic::PassOn {
            let seen = &works_on.hop.context;
            let may = seen.depth < self.gate.rules.max_call_depth && seen.visited.count(to) == 0;
            assert_eq!(result.is_ok(), may, "an honest call is refused only for its depth or a cycle");
        }
        let Ok((descent, hop)) = result else { return };
        self.check_payer(&descent, &works_on.hop.agent, &own, tactic, works_on);
        if tactic == Tactic::SwapOwn {
            let shallowest = own.iter().map(|hop| hop.context.depth).min().expect("it works on one");
            assert!(hop.context.depth > shallowest);
            // It works for the call whose token it sends: nobody can know better.
            let named = self.open.iter().find(|truth| Some(truth.hop.hop) == hop.parent).cloned();
            return self.enter(hop, named.as_ref());
        }
        assert!(hop.context.depth > works_on.depth, "never less deep than it is");
        assert!(!works_on.way.contains(to), "a cycle was let through: {:?} to {to}", works_on.way);
        self.enter(hop, Some(works_on));
    }

    fn check_payer(
        &self,
        descent: &Descent,
        agent: &Arc<str>,
        own: &[Arc<OpenHop>],
        tactic: Tactic,
        truth: &Truth,
    ) {
        match descent.payer() {
            Payer::Caller => panic!("an agent at work got a budget of its own"),
            Payer::Root(root) => assert!(own.iter().any(|hop| hop.root == root), "another root pays"),
            Payer::Unattributed(payer) => assert!(payer == *agent && own.len() > 1 && tactic == Tactic::Drop),
        }
        if tactic == Tactic::PassOn || own.len() == 1 {
            assert_eq!(descent.payer(), Payer::Root(truth.hop.root));
        }
    }

    fn open_at(&self, agent: &Arc<str>) -> Vec<Arc<OpenHop>> {
        self.open.iter().filter(|truth| truth.hop.agent == *agent).map(|truth| truth.hop.clone()).collect()
    }

    /// What holds after every step.
    fn check(&self) {
        assert_eq!(self.gate.open.len(), self.open.len());
        for truth in &self.open {
            let names = truth.hop.context.visited.names();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a cycle in {names:?}");
            assert!(truth.hop.context.depth <= self.gate.rules.max_call_depth);
            assert_eq!(
                self.gate.open.open_at(&self.realm, &truth.hop.agent),
                self.open_at(&truth.hop.agent).len()
            );
        }
    }
}

/// The token with the payload of another, or with one of its own that says less.
fn edited(token: &str, other: &str) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let payload = other.split('.').nth(1).filter(|payload| *payload != parts[1]);
    let shorter = &parts[1][..parts[1].len() - 4];
    format!("{}.{}.{}", parts[0], payload.unwrap_or(shorter), parts[2])
}

proptest! {
    #[test]
    fn no_adversary_escapes_its_depth_its_root_or_its_own_way(depth in 1u16..9, steps in steps()) {
        let mut world = World::new(Rules { max_call_depth: depth, ..lenient() });
        for step in steps {
            world.take(step);
            world.check();
        }
        // Whoever cancels what users began stops everything.
        while let Some(root) = world.open.iter().find(|truth| truth.cause.is_none()).map(|truth| truth.hop.clone()) {
            world.cancel(&root);
        }
        prop_assert_eq!(world.open.iter().map(|truth| truth.hop.agent.clone()).collect::<Vec<_>>(), Vec::<Arc<str>>::new());
        prop_assert!(world.gate.open.is_empty());
    }

    #[test]
    fn no_root_ever_has_more_descendants_than_it_may(most in 0u32..6, steps in steps()) {
        let mut world = World::new(Rules { max_descendants: Some(most), ..lenient() });
        for step in steps {
            let Step::AgentCalls { at, tactic: Tactic::PassOn | Tactic::Drop, agent, .. } = step else {
                world.take(step);
                continue;
            };
            let Some(works_on) = pick(&world.open, at).cloned() else { continue };
            let token = Some(works_on.token.as_str());
            if let Ok((_, hop)) = world.call(Some(&works_on.hop.agent), token, &AGENTS[agent].into()) {
                prop_assert!(world.gate.open.descendants_ever(hop.root) <= most);
                world.enter(hop, Some(&works_on));
            }
        }
    }
}
