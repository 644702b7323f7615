//! One life of a gateway: a plane in front of 2,047 agents that work for as long as they are told to, and the journal
//! that outlives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use chancery_control::ledger::{Cap, Caps, Ledger, LevelLimits, Limits, Price, PriceSettings, Prices, Scope};
use chancery_control::lineage::{DEFAULT_OPEN_CALLS, Keyring, Lineage, Open, Rules, Tokens};
use chancery_control::policy::Policy;
use chancery_control::{Executor, Governed, Hands, Millis, Pipeline, Plane, PlaneSettings, Skills, Stop};
use chancery_protocol::{
    Amount, BoxFuture, Call, CallContext, DynEndpoint, Edge, Error, ErrorCode, Hold, HopId, Identity,
    Message, Principal, Proof, Reply, Request, SendMessageRequest, SendMessageResponse, TaskId,
};
use parking_lot::Mutex;

/// A tree with two children each, ten levels below the first.
pub(crate) const AGENTS: usize = 2_047;

/// What is declared for one call of any agent.
pub(crate) const PRICE: u64 = 10;

/// The caller of all roots.
pub(crate) const USER: &str = "user";

/// What is limited in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) root_cap: u64,
    pub(crate) global_cap: u64,
    pub(crate) unattributed_cap: u64,
    pub(crate) max_call_depth: u16,
    pub(crate) max_descendants: Option<u32>,
    /// Whether what the agents spend is counted as they go.
    pub(crate) is_metered: bool,
}

/// A call that goes on after a crash: its task, and what it holds.
pub(crate) type GoesOn = (TaskId, Arc<dyn Hold>);

/// What is kept of the calls, whatever becomes of the process. As the store has it: what is settled stays as it is.
#[derive(Default)]
pub(crate) struct Journal(pub(crate) BTreeMap<HopId, Edge>);

pub(crate) struct Process {
    pub(crate) plane: Arc<Plane>,
    pub(crate) hands: Arc<VirtualHands>,
    inbox: Arc<Inbox>,
    is_metered: bool,
}

/// The world outside of a process, with a clock that goes when it is told to.
#[derive(Debug)]
pub(crate) struct VirtualHands {
    clock: Arc<AtomicU64>,
    pub(crate) stops: Mutex<Vec<Stop>>,
    records: Mutex<Vec<Edge>>,
    /// What a process does after its end has not been done.
    is_over: AtomicBool,
}

#[derive(Default)]
struct Inbox {
    taken: Mutex<Vec<Arc<dyn Hold>>>,
    answers_directly: AtomicBool,
}

// === impl Journal ===

impl Journal {
    pub(crate) fn put(&mut self, edge: Edge) {
        let kept = self.0.entry(edge.hop).or_insert_with(|| edge.clone());
        if kept.settled.is_none() {
            *kept = edge;
        }
    }

    /// All records of roots that have something open.
    fn living(&self) -> Vec<Edge> {
        let open: BTreeSet<HopId> =
            self.0.values().filter(|edge| edge.settled.is_none()).map(|edge| edge.root).collect();
        self.0.values().filter(|edge| open.contains(&edge.root)).cloned().collect()
    }
}

// === impl Process ===

impl Process {
    /// Begins where the journal says that the last one ended. Says also which calls go on.
    pub(crate) fn start(setup: &Setup, journal: &Journal, clock: &Arc<AtomicU64>) -> (Self, Vec<GoesOn>) {
        let hands = Arc::new(VirtualHands {
            clock: clock.clone(),
            stops: Mutex::default(),
            records: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let living = journal.living();
        let plane = Arc::new(plane(setup, &living, hands.clone()));
        let mut settled: Vec<_> = journal.0.values().filter_map(|edge| Some((edge.settled?, edge))).collect();
        settled.sort_by_key(|(settled, _)| settled.at);
        for (settled, edge) in settled {
            let at = Millis(u64::try_from(settled.at.as_millis()).expect("it is after 1970"));
            plane.charged_before(&plane.ledger.accounts_of(edge, at), settled.charged, at);
        }
        let restored = plane.restore(&living).into_iter().map(|call| (call.task, call.hold)).collect();
        (Self { plane, hands, inbox: Arc::default(), is_metered: setup.is_metered }, restored)
    }

    /// Has an agent called. What it was given, if it was let through and works on it; nothing if it has answered.
    pub(crate) fn call(
        &self,
        agent: usize,
        context: Box<CallContext>,
        answers_directly: bool,
    ) -> Result<Option<Arc<dyn Hold>>, Error> {
        self.inbox.answers_directly.store(answers_directly, Ordering::Relaxed);
        let (name, skills) = (name(agent), Skills::default());
        let facts = Governed { name, skills, pool: None, reach: None, is_local: self.is_metered };
        let pipeline =
            Pipeline::new(self.plane.clone(), Arc::new(facts), Executor::Local(self.inbox.clone()));
        let message = Message::user("do it");
        let request =
            SendMessageRequest { tenant: String::new(), message, configuration: None, metadata: None };
        let outcome = now(pipeline.call(Call { request: Request::SendMessage(request.into()), context }));
        let taken = self.inbox.taken.lock().pop();
        match outcome {
            Err(error) if error.denied().is_some() => {
                assert!(taken.is_none(), "what was refused has been dispatched");
                Err(error)
            }
            _ => Ok(taken),
        }
    }

    /// The record of a call that is open.
    pub(crate) fn open_call(&self, hop: HopId) -> Edge {
        self.plane.open_call(hop).expect("what was let through is open")
    }

    /// What is recorded besides what tasks carry along.
    pub(crate) fn records(&self) -> Vec<Edge> {
        std::mem::take(&mut self.hands.records.lock())
    }

    /// Nothing that it does from now on has been done.
    pub(crate) fn crash(self) {
        self.hands.is_over.store(true, Ordering::Relaxed);
    }

    /// Held and charged, of all calls together.
    pub(crate) fn global(&self) -> (u64, u64) {
        let account = self.plane.ledger.account(&Scope::Global, self.hands.now()).expect("it is limited");
        let standing = account.standings(self.hands.now())[0];
        (standing.held, standing.charged)
    }
}

static NAMES: LazyLock<Vec<Arc<str>>> =
    LazyLock::new(|| (0..AGENTS).map(|agent| format!("agent-{agent}").into()).collect());

pub(crate) fn name(agent: usize) -> Arc<str> {
    NAMES[agent].clone()
}

/// What is known of a call that an agent makes, or the user.
pub(crate) fn context(
    caller: Option<usize>,
    token: Option<String>,
    ceiling: Option<u64>,
) -> Box<CallContext> {
    let id: Arc<str> = caller.map_or_else(|| USER.into(), name);
    let mut context = CallContext::new(Principal::new("default", &*id), "".into());
    let agent = caller.map(|_| id);
    context.identity = Arc::new(Identity { proof: Proof::ApiKey, agent, ..Identity::default() });
    (context.lineage, context.ceiling_micro_usd) = (token, ceiling);
    context
}

fn plane(setup: &Setup, living: &[Edge], hands: Arc<VirtualHands>) -> Plane {
    let usd = |most| Cap { micro_usd: Some(most), ..Cap::default() };
    let per_month = |most| Caps { per_month: usd(most), ..Caps::default() };
    let price = |name: &Arc<str>| (name.clone(), Price { per_call: PRICE, per_1k_tokens: 0 });
    let prices = PriceSettings { agents: NAMES.iter().map(price).collect(), ..PriceSettings::default() };
    let keys = Keyring::try_new("k", &[7; 32]).expect("it is long enough");
    let agent_of = |_: &str, caller: &str| caller.starts_with("agent-").then(|| Arc::from(caller));
    let (open, _) = Open::rebuild(DEFAULT_OPEN_CALLS, living, agent_of);
    let rules = Rules {
        max_call_depth: setup.max_call_depth,
        max_descendants: setup.max_descendants,
        allow_unattributed: true,
        ..Rules::default()
    };
    let settings = PlaneSettings { root_cap: usd(setup.root_cap), ..PlaneSettings::default() };
    let limits = Limits {
        global: per_month(setup.global_cap),
        caller: LevelLimits::default(),
        unattributed: per_month(setup.unattributed_cap),
        ..Limits::default()
    };
    Plane::new(
        None,
        Ledger::new(limits),
        Prices::new(prices),
        Lineage { rules, tokens: Tokens::new("here", keys), open: Arc::new(open) },
        Policy::new([]),
        settings,
        hands,
    )
}

// === impl VirtualHands ===

impl VirtualHands {
    pub(crate) fn records_so_far(&self) -> usize {
        self.records.lock().len()
    }
}

impl Hands for VirtualHands {
    fn now(&self) -> Millis {
        Millis(self.clock.load(Ordering::Relaxed))
    }

    fn stop(&self, stop: Stop) {
        self.stops.lock().push(stop);
    }

    fn record(&self, edge: Box<Edge>) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.records.lock().push(*edge);
        }
    }

    fn wake(&self) {}

    fn task_of_key(&self, _: Principal, _: Arc<str>, _: String) -> BoxFuture<'static, Option<TaskId>> {
        Box::pin(std::future::ready(None))
    }

    fn charged_under(&self, _: HopId) -> BoxFuture<'static, Option<Amount>> {
        Box::pin(std::future::ready(Some(Amount::default())))
    }
}

// === impl Inbox ===

impl DynEndpoint for Inbox {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        if self.answers_directly.load(Ordering::Relaxed) {
            let answer = SendMessageResponse::Message(Message::agent("done"));
            return Box::pin(std::future::ready(Ok(Reply::Sent(answer))));
        }
        self.taken.lock().extend(call.context.hold);
        // Nobody here waits for a task; what the gates gave is what is looked at.
        Box::pin(std::future::ready(Err(Error::new(ErrorCode::Internal))))
    }
}

/// Nothing here waits for anything but what is ready.
fn now<T>(mut future: BoxFuture<'_, T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
