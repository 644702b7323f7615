//! What is true of the calls in a run, which no gate can know, and what must hold of them after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chancery_control::lineage::{Keyring, LINEAGE_INVALID, Tokens};
use chancery_control::{Millis, Stop};
use chancery_protocol::{CallOutcome, Denied, Edge, Hold, HopId, Settled, TaskId, TaskState, Usage};

use crate::process::{AGENTS, Journal, Process, Setup, context, name};
use crate::{Course, Death, Step, Tactic, Target};

pub(crate) struct World {
    setup: Setup,
    clock: Arc<AtomicU64>,
    process: Process,
    journal: Journal,
    /// The calls that an agent has, oldest first.
    open: Vec<Work>,
    /// Tokens of calls that have ended.
    ended: Vec<String>,
    forger: Tokens,
    /// Of every call there ever was: on whose behalf the gateway takes it to be.
    parents: BTreeMap<HopId, Option<HopId>>,
    /// Calls that were canceled or have failed.
    cut_short: BTreeSet<HopId>,
    /// Calls that ended otherwise, or were forgotten: who worked for them goes on.
    let_go: BTreeSet<HopId>,
    /// Who really caused each call.
    causes: BTreeMap<HopId, Option<HopId>>,
    /// What this process has charged to each agent's own account.
    unattributed: BTreeMap<Arc<str>, u64>,
    tasks: u64,
}

/// A call that an agent has, and what is true of it.
#[derive(Clone)]
struct Work {
    hold: Arc<dyn Hold>,
    /// As it was let through.
    edge: Edge,
    token: String,
    task: TaskId,
    is_begun: bool,
    /// Whether another process let it through. Who pays for what an agent does by itself is not written down.
    is_restored: bool,
    agent: usize,
    depth: u16,
    /// The agents on the way to it, itself included.
    way: Vec<usize>,
    used: u64,
}

// === impl Work ===

impl Work {
    fn hop(&self) -> HopId {
        self.edge.hop
    }

    /// Whether its agent answers for it itself, since nobody knows whom it is for.
    fn is_unattributed(&self) -> bool {
        self.edge.parent.is_none() && self.edge.caller.starts_with("agent-")
    }
}

// === impl World ===

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let clock = Arc::new(AtomicU64::new(1_767_323_045_670));
        let journal = Journal::default();
        let (process, _) = Process::start(&setup, &journal, &clock);
        let keys = Keyring::try_new("k", &[8; 32]).expect("it is long enough");
        Self {
            setup,
            clock,
            process,
            journal,
            open: Vec::new(),
            ended: Vec::new(),
            forger: Tokens::new("here", keys),
            parents: BTreeMap::new(),
            cut_short: BTreeSet::new(),
            let_go: BTreeSet::new(),
            causes: BTreeMap::new(),
            unattributed: BTreeMap::new(),
            tasks: 0,
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::UserCalls { agent, course } => {
                let let_in =
                    self.process.call(agent, context(None, None, None), course == Course::IsAnswered);
                if let Ok(Some(hold)) = let_in {
                    self.enter(hold, agent, None, course);
                }
            }
            Step::AgentCalls { at, tactic, choice, target, course } => {
                if let Some(caller) = self.pick(at).cloned() {
                    self.agent_calls(&caller, tactic, choice, target, course);
                }
            }
            Step::AllDelegate => {
                for caller in self.open.clone() {
                    for child in 0..2 {
                        self.agent_calls(&caller, Tactic::PassOn, 0, Target::Child(child), Course::Begins);
                    }
                }
            }
            Step::Begins { at } => {
                if let Some(hop) = self.pick(at).map(Work::hop) {
                    self.begin(hop);
                }
            }
            Step::Spends { at, micro_usd } => {
                if let Some(hop) = self.pick(at).map(Work::hop) {
                    self.spend(hop, micro_usd);
                }
            }
            Step::Ends { at, state, used, dies } => {
                if let Some(hop) = self.pick(at).map(Work::hop) {
                    self.end(hop, state, used, dies);
                }
            }
            Step::IsLost { at } => {
                if let Some(hop) = self.pick(at).map(Work::hop) {
                    self.leave(hop);
                }
            }
            Step::Dies { unwritten, agents_live_on } => self.die(unwritten, agents_live_on),
            Step::Time { ms } => _ = self.clock.fetch_add(ms, Ordering::Relaxed),
        }
        self.obey();
        self.write_records(0);
    }

    /// The user calls the first agent, and every agent that is called delegates to its two, level by level. Says how many
    /// calls there were at each level.
    pub(crate) fn fan_out(&mut self) -> Vec<usize> {
        self.take(Step::UserCalls { agent: 0, course: Course::Begins });
        let mut levels = vec![self.open.len()];
        while let Some(width) = levels.last().copied().filter(|width| *width > 0) {
            let callers = self.open[self.open.len() - width..].to_vec();
            let before = self.open.len();
            for caller in callers.iter().filter(|caller| caller.agent * 2 + 2 < AGENTS) {
                for child in 0..2 {
                    self.agent_calls(caller, Tactic::PassOn, 0, Target::Child(child), Course::Begins);
                }
            }
            levels.push(self.open.len() - before);
        }
        levels.pop();
        levels
    }

    /// What the journal says that all calls have cost.
    pub(crate) fn cost(&self) -> u64 {
        self.journal.0.values().filter_map(|edge| Some(edge.settled?.charged.micro_usd)).sum()
    }

    /// Every agent that works is done.
    pub(crate) fn complete_everything(&mut self) {
        while let Some(hop) = self.open.last().map(Work::hop) {
            self.end(hop, TaskState::Completed, 0, None);
        }
    }

    fn pick(&self, at: usize) -> Option<&Work> {
        match at {
            usize::MAX => self.open.last(),
            _ => self.open.get(at.checked_rem(self.open.len())?),
        }
    }

    fn find(&mut self, hop: HopId) -> Option<&mut Work> {
        self.open.iter_mut().find(|work| work.hop() == hop)
    }

    /// An agent was given a call.
    fn enter(&mut self, hold: Arc<dyn Hold>, agent: usize, cause: Option<&Work>, course: Course) {
        let hop = hold.hop();
        let edge = self.process.open_call(hop);
        let mut way = cause.map_or_else(Vec::new, |cause| cause.way.clone());
        way.push(agent);
        self.tasks += 1;
        let work = Work {
            token: hold.lineage().expect("it has one").to_owned(),
            task: TaskId::from(format!("t-{}", self.tasks)),
            is_begun: false,
            is_restored: false,
            agent,
            depth: cause.map_or(0, |cause| cause.depth + 1),
            way,
            used: 0,
            hold,
            edge,
        };
        assert!(work.edge.depth >= work.depth, "taken to be less deep than it is");
        self.parents.insert(hop, work.edge.parent);
        self.causes.insert(hop, cause.map(Work::hop));
        self.open.push(work);
        if course == Course::Begins {
            self.begin(hop);
        }
    }

    fn token(&self, caller: &Work, tactic: Tactic, choice: usize) -> Option<String> {
        let pick = |tokens: Vec<&String>| {
            tokens.get(choice.checked_rem(tokens.len())?).map(|token| (*token).clone())
        };
        match tactic {
            Tactic::PassOn => Some(caller.token.clone()),
            Tactic::Drop => None,
            Tactic::Replay => pick(self.ended.iter().collect()),
            Tactic::Forge => {
                let open = self.process.plane.open.find(caller.edge.root, caller.hop())?;
                Some(self.forger.mint(&open, Millis(u64::MAX / 2)))
            }
            Tactic::Steal => {
                let others = self.open.iter().filter(|work| work.agent != caller.agent);
                pick(others.map(|work| &work.token).collect())
            }
        }
    }

    fn agent_calls(&mut self, caller: &Work, tactic: Tactic, choice: usize, target: Target, course: Course) {
        let token = self.token(caller, tactic, choice).filter(|token| !token.is_empty());
        if token.is_none() && tactic != Tactic::Drop {
            return;
        }
        let to = match target {
            Target::Child(child) => (caller.agent * 2 + 1 + child) % AGENTS,
            Target::Ancestor(choice) => caller.way[choice % caller.way.len()],
            Target::Anybody(agent) => agent,
        };
        let context = context(Some(caller.agent), token, None);
        let was_known = self.process.hands.records_so_far();
        match self.process.call(to, context, course == Course::IsAnswered) {
            Ok(hold) => {
                let is_honest = matches!(tactic, Tactic::PassOn | Tactic::Drop);
                assert!(is_honest, "{tactic:?}: a token that is not its own was believed");
                assert!(!caller.way.contains(&to), "{:?} came back to {to}", caller.way);
                assert!(caller.depth < self.setup.max_call_depth, "it is too deep");
                if let Some(hold) = hold {
                    self.enter(hold, to, Some(caller), course);
                }
            }
            Err(error) => {
                let Denied { reason, .. } = error.denied().expect("the gates have refused it");
                let is_false = matches!(tactic, Tactic::Replay | Tactic::Forge | Tactic::Steal);
                let is_over = self.is_for_what_was_cut_short(caller);
                let is_invalid = *reason == *LINEAGE_INVALID;
                assert!(if is_invalid { is_false || is_over } else { !is_false }, "{tactic:?}: {error}");
                assert_eq!(self.process.hands.records_so_far(), was_known, "what is refused costs nothing");
            }
        }
    }

    /// The batch that begins its task is committed.
    fn begin(&mut self, hop: HopId) {
        let Some(work) = self.find(hop).filter(|work| !work.is_begun) else { return };
        work.is_begun = true;
        let (hold, task) = (work.hold.clone(), work.task.clone());
        self.journal.put(*hold.begin(&task));
        hold.began();
    }

    /// An agent asks before it spends, and does not spend what it is refused. One elsewhere tells afterwards, also of more
    /// than there is.
    fn spend(&mut self, hop: HopId, more: u64) {
        let is_metered = self.setup.is_metered;
        let Some(work) = self.find(hop) else { return };
        let total = Usage { cost_micro_usd: work.used + more, ..Usage::default() };
        if work.hold.spend(total).is_ok() || !is_metered {
            work.used += more;
        }
    }

    /// The batch that ends its turn is committed, unless the process dies before.
    fn end(&mut self, hop: HopId, state: TaskState, reports: u64, dies: Option<Death>) {
        let Some(work) = self.find(hop).map(|work| work.clone()) else { return };
        // What was not asked for may be told in the end all the same.
        let used = work.used + reports;
        let usage = (used > 0).then(|| Usage { cost_micro_usd: used, ..Usage::default() });
        let settling = work.hold.settle(&work.task, CallOutcome::Task(state), usage);
        if dies == Some(Death::BeforeTheCommit) {
            return self.die(0, true);
        }
        self.journal.put(*settling.edge);
        if matches!(state, TaskState::Canceled | TaskState::Failed) {
            self.cut_short.insert(hop);
        }
        if dies == Some(Death::AfterTheCommit) {
            return self.die(0, true);
        }
        work.hold.settled(&settling.settled);
        self.count_unattributed(&work, &settling.settled);
        self.leave(hop);
    }

    fn count_unattributed(&mut self, work: &Work, settled: &Settled) {
        if work.is_unattributed() && !work.is_restored {
            *self.unattributed.entry(work.edge.caller.clone()).or_default() += settled.charged.micro_usd;
        }
    }

    fn leave(&mut self, hop: HopId) {
        if let Some(place) = self.open.iter().position(|work| work.hop() == hop) {
            let work = self.open.remove(place);
            self.ended.push(work.token);
            if !self.cut_short.contains(&hop) {
                self.let_go.insert(hop);
            }
        }
    }

    /// Does what the gateway wants stopped, and what agents stop by themselves.
    fn obey(&mut self) {
        loop {
            let stops = std::mem::take(&mut *self.process.hands.stops.lock());
            if stops.is_empty() {
                return;
            }
            for Stop { agent, task, why, .. } in stops {
                let state = if why.is_some() { TaskState::Failed } else { TaskState::Canceled };
                let work = self.open.iter().find(|work| work.task == task && name(work.agent) == agent);
                if let Some(work) = work {
                    assert!(work.is_begun, "what is not committed cannot be found to be stopped");
                    self.end(work.hop(), state, 0, None);
                }
            }
        }
    }

    /// What is not in a batch is written by and by.
    fn write_records(&mut self, unwritten: usize) {
        let records = self.process.records();
        let written = records.len().saturating_sub(unwritten);
        for edge in records.into_iter().take(written) {
            self.parents.entry(edge.hop).or_insert(edge.parent);
            self.journal.put(edge);
        }
    }

    fn die(&mut self, unwritten: usize, agents_live_on: bool) {
        self.write_records(unwritten);
        let (process, restored) = Process::start(&self.setup, &self.journal, &self.clock);
        let before = std::mem::take(&mut self.open);
        std::mem::replace(&mut self.process, process).crash();
        self.unattributed.clear();
        for work in before {
            let again = restored.iter().find(|(task, _)| *task == work.task);
            // What a call without a token may have been for is not written down.
            let is_on_its_own = again.is_some() && work.is_unattributed();
            if is_on_its_own || again.is_none() && !self.cut_short.contains(&work.hop()) {
                self.let_go.insert(self.causes[&work.hop()].filter(|_| is_on_its_own).unwrap_or(work.hop()));
            }
            match again {
                Some((_, hold)) => {
                    let way = self.way_from_an_agent(&work.edge).unwrap_or(work.way);
                    self.open.push(Work {
                        hold: hold.clone(),
                        is_begun: true,
                        is_restored: true,
                        way,
                        ..work
                    });
                }
                None => self.ended.push(work.token),
            }
        }
        // Agents that run in the process die with it, and with them what they have not told.
        if self.setup.is_metered || !agents_live_on {
            for hop in self.open.iter().map(Work::hop).collect::<Vec<_>>() {
                self.find(hop).expect("it is open").used = 0;
                self.end(hop, TaskState::Failed, 0, None);
            }
        }
    }

    /// The way to a call, as far as it can be known after a crash, if it goes back to an agent that lost its token.
    fn way_from_an_agent(&self, edge: &Edge) -> Option<Vec<usize>> {
        let agent = |name: &str| name.strip_prefix("agent-")?.parse::<usize>().ok();
        let above = |edge: &&Edge| self.journal.0.get(&edge.parent?);
        let edges: Vec<&Edge> = std::iter::successors(Some(edge), above).collect();
        let origin = agent(&edges.last()?.caller)?;
        let called = edges.iter().rev().filter_map(|edge| agent(&edge.agent));
        Some(std::iter::once(origin).chain(called).collect())
    }

    /// What holds after every step.
    pub(crate) fn check(&self) {
        let mut charged: BTreeMap<HopId, u64> = BTreeMap::new();
        for edge in self.journal.0.values() {
            let settled = edge.settled.map_or(0, |settled| settled.charged.micro_usd);
            *charged.entry(edge.root).or_default() += settled;
            assert!(edge.depth <= self.setup.max_call_depth);
        }
        for (root, charged) in &charged {
            assert!(
                *charged <= self.setup.root_cap,
                "root {root} has cost {charged} of {}",
                self.setup.root_cap
            );
        }
        let sum: u64 = charged.values().sum();
        let (held, booked) = self.process.global();
        assert_eq!(booked, sum, "what is booked is what is written down");
        assert!(booked + held <= self.setup.global_cap);
        for (agent, charged) in &self.unattributed {
            assert!(*charged <= self.setup.unattributed_cap, "{agent} has spent {charged} of its own");
        }
        assert_eq!(self.process.plane.open_calls().len(), self.open.len());
        for work in &self.open {
            if self.is_for_what_was_cut_short(work) {
                assert!(!work.is_begun, "{:?} was canceled, and this goes on", work.way);
            }
        }
    }

    fn is_for_what_was_cut_short(&self, work: &Work) -> bool {
        let above = |hop: &HopId| self.parents.get(hop).copied().flatten();
        std::iter::successors(work.edge.parent, above).any(|hop| self.cut_short.contains(&hop))
    }

    pub(crate) fn cancel_everything(&mut self) {
        for hop in self.open.iter().filter(|work| !work.is_begun).map(Work::hop).collect::<Vec<_>>() {
            self.begin(hop);
        }
        self.obey();
        // What users began, and what goes on although what it was done for is over.
        let is_to_be_canceled = |world: &Self, work: &&Work| {
            world.causes[&work.hop()].is_none_or(|cause| world.let_go.contains(&cause))
        };
        loop {
            let next = self.open.iter().find(|work| is_to_be_canceled(self, work)).map(Work::hop);
            let Some(hop) = next else { return };
            self.end(hop, TaskState::Canceled, 0, None);
            self.obey();
            self.write_records(0);
            self.check();
        }
    }

    pub(crate) fn check_that_nothing_is_left(&self) {
        let left: Vec<_> = self.open.iter().map(|work| &work.way).collect();
        assert!(left.is_empty(), "{left:?} goes on although all roots were canceled");
        assert!(self.process.plane.open_calls().is_empty());
        assert!(self.process.plane.open.is_empty());
        assert_eq!(self.process.global().0, 0, "something is held for nothing");
    }
}
