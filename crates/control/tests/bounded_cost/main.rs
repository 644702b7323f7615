//! Cost is bounded: a thousand random fleets on a virtual clock. Agents delegate, some drop, replay, forge and swap
//! their lineage, spend more than they may, never answer; the process dies between any two steps and begins again from
//! its journal. Whatever happens, no root costs more than its cap, no chain comes back to an agent or goes too deep,
//! and what is canceled takes along all that was done for it.

mod process;
mod world;

use chancery_protocol::TaskState;
use process::{AGENTS, PRICE, Setup};
use proptest::prelude::*;
use world::World;

/// What an agent does with its lineage token when it calls another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tactic {
    PassOn,
    Drop,
    /// Sends one of a call that has ended.
    Replay,
    /// Sends one made with a key of its own.
    Forge,
    /// Sends one that was given to another agent.
    Steal,
}

/// Whom an agent calls.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// One of the two that it delegates to.
    Child(usize),
    /// Somebody on the way to itself.
    Ancestor(usize),
    Anybody(usize),
}

/// What becomes of a call that is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Its task is committed at once.
    Begins,
    /// Its agent has it, and nothing is committed yet.
    IsOnItsWay,
    /// It is answered without a task.
    IsAnswered,
}

/// Where the process dies while a call is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    BeforeTheCommit,
    AfterTheCommit,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    UserCalls {
        agent: usize,
        course: Course,
    },
    AgentCalls {
        at: usize,
        tactic: Tactic,
        choice: usize,
        target: Target,
        course: Course,
    },
    /// Every agent that works delegates to its two.
    AllDelegate,
    Begins {
        at: usize,
    },
    Spends {
        at: usize,
        micro_usd: u64,
    },
    Ends {
        at: usize,
        state: TaskState,
        used: u64,
        dies: Option<Death>,
    },
    /// Nobody ever settles it.
    IsLost {
        at: usize,
    },
    /// The process dies, with so many of its records not yet written.
    Dies {
        unwritten: usize,
        agents_live_on: bool,
    },
    Time {
        ms: u64,
    },
}

fn course() -> impl Strategy<Value = Course> {
    prop_oneof![5 => Just(Course::Begins), 2 => Just(Course::IsOnItsWay), 1 => Just(Course::IsAnswered)]
}

fn tactic() -> impl Strategy<Value = Tactic> {
    prop_oneof![
        5 => Just(Tactic::PassOn),
        4 => Just(Tactic::Drop),
        1 => Just(Tactic::Replay),
        1 => Just(Tactic::Forge),
        1 => Just(Tactic::Steal),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        6 => (0usize..2).prop_map(Target::Child),
        2 => any::<usize>().prop_map(Target::Ancestor),
        1 => (0usize..AGENTS).prop_map(Target::Anybody),
    ]
}

/// Calls of late are meant more often, so that chains grow.
fn place() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(usize::MAX), 3 => 0usize..1_000]
}

fn state() -> impl Strategy<Value = TaskState> {
    prop_oneof![
        4 => Just(TaskState::Completed),
        1 => Just(TaskState::Failed),
        1 => Just(TaskState::InputRequired),
        2 => Just(TaskState::Canceled),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let dies = proptest::option::weighted(
        0.1,
        prop_oneof![Just(Death::BeforeTheCommit), Just(Death::AfterTheCommit)],
    );
    prop_oneof![
        3 => (0usize..3, course()).prop_map(|(agent, course)| Step::UserCalls { agent, course }),
        20 => (place(), tactic(), any::<usize>(), target(), course()).prop_map(
            |(at, tactic, choice, target, course)| Step::AgentCalls { at, tactic, choice, target, course }
        ),
        2 => Just(Step::AllDelegate),
        5 => place().prop_map(|at| Step::Begins { at }),
        5 => (place(), 0u64..60).prop_map(|(at, micro_usd)| Step::Spends { at, micro_usd }),
        5 => (place(), state(), 0u64..30, dies).prop_map(|(at, state, used, dies)| Step::Ends { at, state, used, dies }),
        1 => place().prop_map(|at| Step::IsLost { at }),
        1 => (0usize..3, any::<bool>()).prop_map(|(unwritten, agents_live_on)| Step::Dies { unwritten, agents_live_on }),
        3 => (1u64..20_000).prop_map(|ms| Step::Time { ms }),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let max_call_depth = prop_oneof![Just(8u16), Just(12), 1u16..8];
    (0u64..1_500, 200u64..5_000, 0u64..200, max_call_depth, proptest::option::of(0u32..40), any::<bool>())
        .prop_map(|(root_cap, global_cap, unattributed_cap, max_call_depth, max_descendants, is_metered)| {
            Setup { root_cap, global_cap, unattributed_cap, max_call_depth, max_descendants, is_metered }
        })
}

fn whole_tree(root_cap: u64, max_call_depth: u16) -> World {
    let (global_cap, unattributed_cap) = (u64::MAX / 4, 0);
    let max_descendants = None;
    World::new(Setup {
        root_cap,
        global_cap,
        unattributed_cap,
        max_call_depth,
        max_descendants,
        is_metered: true,
    })
}

#[test]
fn ten_levels_of_agents_are_bounded_by_their_budget() {
    let mut world = whole_tree(1_000 * PRICE, 12);
    let levels = world.fan_out();
    assert_eq!(levels.iter().sum::<usize>(), 1_000, "{levels:?}");
    assert_eq!(levels[..9], [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    world.complete_everything();
    world.check();
    assert_eq!(world.cost(), 1_000 * PRICE);
    world.check_that_nothing_is_left();
}

#[test]
fn ten_levels_of_agents_are_bounded_by_their_depth() {
    let mut world = whole_tree(1_000_000 * PRICE, 8);
    assert_eq!(world.fan_out(), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    world.check();
    world.cancel_everything();
    world.check_that_nothing_is_left();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_root_costs_more_than_its_cap(setup in setup(), steps in proptest::collection::vec(step(), 1..100)) {
        let mut world = World::new(setup);
        for step in steps {
            world.take(step);
            world.check();
        }
        world.cancel_everything();
        world.check_that_nothing_is_left();
    }
}
