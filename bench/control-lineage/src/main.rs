//! What lineage and policy cost a call, in one process and one thread, beside rvagent-a2a where that has the same.
//!
//! All measures take turns, round by round; a figure is the median over rounds of the mean over a batch, in CPU time of
//! this thread, so that what else the machine does counts less.

use std::hint::black_box;
use std::sync::Arc;

use chancery_control::Millis;
use chancery_control::lineage::{
    Arrival, Departure, Keyring, Lineage, Open, OpenHop, Rules, TaskContext, Tokens, TraceId, Visit,
};
use chancery_control::policy::{Callers, Facts, Limits, Policy, Rule, SlotKey, Slots, Subject};
use chancery_protocol::{HopId, Operation};
use nix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 201;
const BATCH: u32 = 2_000;
const LATER: Millis = Millis(3_600_000);

/// One thing that is measured.
struct Measure {
    name: &'static str,
    run: Box<dyn FnMut()>,
    nanoseconds: Vec<f64>,
}

fn main() {
    let mut measures = contexts();
    measures.extend(lineage());
    measures.extend(policy());
    for _ in 0..ROUNDS {
        for measure in &mut measures {
            measure.round();
        }
    }
    println!("| measure | CPU ns, median of {ROUNDS} rounds | fastest round |\n|---|---|---|");
    for measure in &mut measures {
        measure.nanoseconds.sort_by(f64::total_cmp);
        let (fastest, median) = (measure.nanoseconds[0], measure.nanoseconds[ROUNDS / 2]);
        println!("| {} | {median:.0} | {fastest:.0} |", measure.name);
    }
}

fn measure(name: &'static str, run: impl FnMut() + 'static) -> Measure {
    Measure { name, run: Box::new(run), nanoseconds: Vec::with_capacity(ROUNDS) }
}

/// Names as long as both have them: an agent id is 64 hexadecimal digits.
fn agent_name(number: usize) -> String {
    format!("{number:064x}")
}

/// A child of a context at depth 8, its own drop included.
fn contexts() -> Vec<Measure> {
    let names: Vec<Arc<str>> = (0..10).map(|number| Arc::from(agent_name(number))).collect();
    let trace = TraceId::of(HopId::generate());
    let ours = names[1..9]
        .iter()
        .fold(TaskContext::root(names[0].clone(), trace), |context, name| context.child(name.clone()));
    assert_eq!(ours.depth, 8);

    let id = |number| rvagent_a2a::identity::AgentID(agent_name(number));
    let theirs = (1..9).fold(rvagent_a2a::context::TaskContext::new_root(id(0)), |context, number| {
        context.child(id(number))
    });
    assert_eq!(theirs.depth, 8);
    let (our_next, their_next) = (names[9].clone(), id(9));
    let with_hop = Visit { agent: names[9].clone(), peer: None, hop: Some(HopId::generate()) };
    let again = ours.clone();
    vec![
        measure("TaskContext::child at depth 8", move || {
            black_box(black_box(&ours).child(our_next.clone()));
        }),
        measure("the same, with its hop", move || {
            black_box(black_box(&again).child(with_hop.clone()));
        }),
        measure("rvagent-a2a: TaskContext::child at depth 8", move || {
            black_box(black_box(&theirs).child(their_next.clone()));
        }),
    ]
}

fn gate() -> Lineage {
    let keys = Keyring::try_new("2026-11", &[7; 32]).expect("32 bytes are enough");
    let tokens = Tokens::new("https://gateway.example", keys);
    Lineage { rules: Rules::default(), tokens, open: Arc::new(Open::default()) }
}

/// A chain of open calls, agent by agent, and its last one.
fn chain(gate: &Lineage, realm: &Arc<str>, depth: usize) -> Arc<OpenHop> {
    let mut last: Option<Arc<OpenHop>> = None;
    for number in 0..=depth {
        let agent: Arc<str> = Arc::from(format!("agent-{number}"));
        let token = last.as_ref().map(|hop| gate.tokens.mint(hop, LATER));
        let caller = last.as_ref().map(|hop| hop.agent.clone());
        let arrival =
            Arrival { realm, agent: caller.as_ref(), anonymous: false, token: token.as_deref(), trace: None };
        let descent = gate.attribute(&arrival, Millis(0)).expect("the chain is honest");
        let name = caller.clone().unwrap_or_else(|| "user".into());
        let departure = Departure::new(HopId::generate(), realm, &name, &agent);
        last = Some(gate.dispatch(&descent, departure).expect("the chain is short enough"));
    }
    last.expect("a chain has a root")
}

fn lineage() -> Vec<Measure> {
    let realm: Arc<str> = "default".into();
    let gate = Arc::new(gate());
    let (root, deep) = (chain(&gate, &realm, 0), chain(&gate, &realm, 7));
    let token = gate.tokens.mint(&deep, LATER);
    println!(
        "a token at depth 0 has {} bytes, at depth 7 {}\n",
        gate.tokens.mint(&root, LATER).len(),
        token.len()
    );
    let [mint, mint_deep, attribute, whole, fresh] = [(); 5].map(|()| gate.clone());
    let (deep_hop, realm_of, realm_too, token_too) =
        (deep.clone(), realm.clone(), realm.clone(), token.clone());
    let (agent, agent_too) = (deep.agent.clone(), deep.agent.clone());
    vec![
        measure("mint a token at depth 0", move || {
            black_box(mint.tokens.mint(black_box(&root), LATER));
        }),
        measure("mint a token at depth 7", move || {
            black_box(mint_deep.tokens.mint(black_box(&deep_hop), LATER));
        }),
        measure("attribute: verify a token of depth 7, find its hop", move || {
            let token = Some(black_box(&*token));
            let arrival =
                Arrival { realm: &realm_of, agent: Some(&agent), anonymous: false, token, trace: None };
            black_box(attribute.attribute(&arrival, Millis(0)).is_ok());
        }),
        measure("attribute, receive, dispatch at depth 8, mint, remove", {
            let (next, token) = (Arc::<str>::from("agent-8"), token_too);
            move || pass(&whole, &realm_too, Some(&agent_too), Some(&token), &next)
        }),
        measure("the same for a fresh root", {
            let next = Arc::<str>::from("agent-9");
            move || pass(&fresh, &realm, None, None, &next)
        }),
    ]
}

/// All that one call asks of the gate.
fn pass(gate: &Lineage, realm: &Arc<str>, agent: Option<&Arc<str>>, token: Option<&str>, next: &Arc<str>) {
    let arrival = Arrival { realm, agent, anonymous: false, token, trace: None };
    let descent = gate.attribute(&arrival, Millis(0)).expect("the call is honest");
    gate.receive(&descent, next).expect("the call is honest");
    let departure = Departure::new(HopId::generate(), realm, next, next);
    let hop = gate.dispatch(&descent, departure).expect("there is room");
    black_box(gate.tokens.mint(&hop, LATER));
    gate.open.remove(&hop);
}

fn policy() -> Vec<Measure> {
    let limits = Limits {
        allowed_skills: Some(vec!["rag.query".into(), "embed.vectorize".into()]),
        max_micro_usd: Some(50_000),
        input_modes: Some(vec!["text/plain".into()]),
        ..Limits::default()
    };
    let named = |number: usize| Rule {
        callers: Callers::Named([Arc::from(format!("caller-{number}"))].into()),
        limits: Limits { max_tokens: Some(10_000), ..Limits::default() },
        ..Rule::named(format!("rule-{number}"))
    };
    let policy = Policy::new((0..1_000).map(named).chain([Rule { limits, ..Rule::named("default") }]));
    let skills: [Arc<str>; 2] = ["rag.query".into(), "rag.delete".into()];
    let slots = Slots::new();
    let key = SlotKey {
        realm: "default".into(),
        caller: "caller-7".into(),
        agent: "library".into(),
        skill: Some(skills[0].clone()),
    };
    vec![
        measure("decide, with 1,001 rules", move || {
            let subject = Subject { realm: "default", caller: black_box("caller-7"), groups: &[] };
            let facts = Facts {
                skills: &skills,
                named_skill: Some("rag.query"),
                media_types: &["text/plain"],
                ..Facts::new(subject, "library", Operation::SendMessage)
            };
            assert!(black_box(policy.decide(&facts)).denied.is_none());
        }),
        measure("take a slot and give it back", move || {
            drop(black_box(slots.take(key.clone(), 16)));
        }),
    ]
}

impl Measure {
    fn round(&mut self) {
        let begun = thread_nanoseconds();
        for _ in 0..BATCH {
            (self.run)();
        }
        self.nanoseconds.push((thread_nanoseconds() - begun) / f64::from(BATCH));
    }
}

fn thread_nanoseconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
