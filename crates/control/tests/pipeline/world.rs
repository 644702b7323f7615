//! What the tests are made in: a world that stands still, agents, and planes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chancery_control::ledger::{Cap, Caps, Ledger, LevelLimits, Limits, Price, PriceSettings, Prices, Scope};
use chancery_control::lineage::{Federation, Keyring, Lineage, Open, Rules, Tokens};
use chancery_control::policy::{Limits as PolicyLimits, Policy, Rule};
use chancery_control::routing::{Choice, PeerSelector, Snapshot, Wanted};
use chancery_control::{
    Executor, Governed, Hands, Millis, Mode, Pipeline, Plane, PlaneSettings, Skills, Stop,
};
use chancery_protocol::{
    Amount, BoxFuture, Call, CallContext, DynEndpoint, Edge, Error, ErrorCode, Hold, HopId, Identity,
    JsonObject, Message, Principal, Proof, Reply, Request, SendMessageRequest, SendMessageResponse, TaskId,
    USAGE_EXTENSION,
};
use parking_lot::Mutex;

/// A world outside that stands still unless it is told otherwise.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) now: AtomicU64,
    pub(crate) stops: Mutex<Vec<Stop>>,
    pub(crate) records: Mutex<Vec<Edge>>,
}

impl Hands for World {
    fn now(&self) -> Millis {
        Millis(self.now.load(Ordering::Relaxed))
    }

    fn stop(&self, stop: Stop) {
        self.stops.lock().push(stop);
    }

    fn record(&self, edge: Box<Edge>) {
        self.records.lock().push(*edge);
    }

    fn wake(&self) {}

    fn task_of_key(&self, _: Principal, _: Arc<str>, key: String) -> BoxFuture<'static, Option<TaskId>> {
        Box::pin(std::future::ready((key == "known").then(|| TaskId::from("t-known"))))
    }

    fn charged_under(&self, root: HopId) -> BoxFuture<'static, Option<Amount>> {
        let mut charged = Amount::default();
        for edge in self.records.lock().iter().filter(|edge| edge.root == root) {
            charged.micro_usd += edge.settled.map_or(edge.reserved, |settled| settled.charged).micro_usd;
        }
        Box::pin(std::future::ready(Some(charged)))
    }
}

/// An agent that answers directly, and keeps what its calls hold if it is told to work on.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) calls: Mutex<Vec<CallContext>>,
    pub(crate) works_on: bool,
}

impl DynEndpoint for Worker {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        if self.works_on {
            self.calls.lock().push(*call.context);
            return Box::pin(std::future::ready(Err(Error::new(ErrorCode::Internal))));
        }
        self.calls.lock().push(CallContext { hold: None, ..*call.context });
        let answer = SendMessageResponse::Message(Message::agent("done"));
        Box::pin(std::future::ready(Ok(Reply::Sent(answer))))
    }
}

/// An agent elsewhere: something leaves this process for each call, and the answer is an error.
#[derive(Default)]
pub(crate) struct Failing {
    pub(crate) executions: AtomicU64,
}

impl DynEndpoint for Failing {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        call.context.hold.as_ref().expect("it was let through").dispatched();
        self.executions.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Err(Error::new(ErrorCode::Internal))))
    }
}

/// An agent that answers directly, with a usage report.
pub(crate) struct Reporting(pub(crate) &'static str);

impl DynEndpoint for Reporting {
    fn call(&self, _: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let metadata = format!("{{\"{USAGE_EXTENSION}\":{}}}", self.0);
        let mut message = Message::agent("done");
        message.metadata = Some(JsonObject::parse(&metadata).expect("a report"));
        Box::pin(std::future::ready(Ok(Reply::Sent(SendMessageResponse::Message(message)))))
    }
}

pub(crate) struct Never;

impl DynEndpoint for Never {
    fn call(&self, _: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        panic!("a call that was refused has been dispatched");
    }
}

#[derive(Debug)]
pub(crate) struct NeverSelects;

impl PeerSelector for NeverSelects {
    fn name(&self) -> &str {
        "never"
    }

    fn select(&self, _: &[Snapshot], _: &Wanted<'_>, _: Millis) -> Choice {
        panic!("a spent budget has paid for a choice");
    }
}

/// What a plane is made of, as far as these tests want it otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) tasks_per_minute: Option<u64>,
    pub(crate) usd_per_minute: Option<u64>,
    pub(crate) tokens_per_minute: Option<u64>,
    /// Of everybody together, in US dollars.
    pub(crate) global_usd_per_minute: Option<u64>,
    /// Of each group, in millionths of a US dollar.
    pub(crate) group_usd_per_minute: Option<u64>,
    /// Rules beside the one for everybody.
    pub(crate) rules: Vec<Rule>,
    /// What an agent may report above what its calls could pay for.
    pub(crate) overrun_per_minute: Option<u64>,
    pub(crate) root_cap: Cap,
    pub(crate) max_call_depth: Option<u16>,
    pub(crate) allow_unattributed: bool,
    /// The other gateways that there are.
    pub(crate) federation: Option<Arc<Federation>>,
    pub(crate) policy: PolicyLimits,
    pub(crate) price: Option<u64>,
    /// Whether nobody trusts the worker.
    pub(crate) untrusted: bool,
    pub(crate) observed: &'static [&'static str],
    /// What a call to the planner costs.
    pub(crate) planner_price: Option<u64>,
    /// What an earlier process had let through.
    pub(crate) edges: Vec<Edge>,
}

pub(crate) fn plane(setup: &Setup, world: &Arc<World>) -> Arc<Plane> {
    let cap = Cap {
        tasks: setup.tasks_per_minute,
        micro_usd: setup.usd_per_minute,
        tokens: setup.tokens_per_minute,
    };
    let usd = |micro_usd| Caps { per_minute: Cap { micro_usd, ..Cap::default() }, ..Caps::default() };
    let (global, overrun) = (usd(setup.global_usd_per_minute), usd(setup.overrun_per_minute));
    let caller =
        LevelLimits { default: Caps { per_minute: cap, ..Caps::default() }, ..LevelLimits::default() };
    let group = LevelLimits { default: usd(setup.group_usd_per_minute), ..LevelLimits::default() };
    let mut prices = PriceSettings::default();
    if let Some(per_call) = setup.price {
        prices.agents.insert("worker".into(), Price { per_call, per_1k_tokens: 0 });
    }
    if setup.untrusted {
        prices.untrusted.insert("worker".into());
    }
    if let Some(per_call) = setup.planner_price {
        prices.agents.insert("planner".into(), Price { per_call, per_1k_tokens: 0 });
    }
    let keys = Keyring::try_new("k", &[7; 32]).expect("it is long enough");
    let mut rules = Rules { allow_unattributed: setup.allow_unattributed, ..Rules::default() };
    rules.max_call_depth = setup.max_call_depth.unwrap_or(rules.max_call_depth);
    let mut tokens = Tokens::new("here", keys);
    if let Some(federation) = &setup.federation {
        tokens = tokens.shared_with(federation.clone());
    }
    let settings = PlaneSettings {
        modes: setup.observed.iter().map(|gate| (*gate, Mode::Observe)).collect(),
        root_cap: setup.root_cap,
        ..PlaneSettings::default()
    };
    let is_agent = |_: &str, caller: &str| (caller == "planner").then(|| caller.into());
    let (open, _) = Open::rebuild(1_000, &setup.edges, is_agent);
    Arc::new(Plane::new(
        None,
        Ledger::new(Limits { caller, group, global, overrun, ..Limits::default() }),
        Prices::new(prices),
        Lineage { rules, tokens, open: Arc::new(open) },
        Policy::new(
            setup
                .rules
                .iter()
                .cloned()
                .chain([Rule { limits: setup.policy.clone(), ..Rule::named("default") }]),
        ),
        settings,
        world.clone(),
    ))
}

pub(crate) fn pipeline(plane: &Arc<Plane>, name: &str, agent: Arc<dyn DynEndpoint>) -> Pipeline {
    let skills = ["read", "write"].into_iter().collect();
    let agent_facts = Governed { name: name.into(), skills, pool: None, reach: None, is_local: true };
    Pipeline::new(plane.clone(), Arc::new(agent_facts), Executor::Local(agent))
}

/// The same in front of an agent that runs elsewhere.
pub(crate) fn remote(plane: &Arc<Plane>, name: &str, agent: Arc<dyn DynEndpoint>) -> Pipeline {
    let facts =
        Governed { name: name.into(), skills: Skills::default(), pool: None, reach: None, is_local: false };
    Pipeline::new(plane.clone(), Arc::new(facts), Executor::Remote(agent))
}

pub(crate) fn call(caller: &str) -> Call {
    let message = Message::user("do it");
    let request = SendMessageRequest { tenant: String::new(), message, configuration: None, metadata: None };
    let context = CallContext::new(Principal::new("default", caller), "worker".into());
    Call { request: Request::SendMessage(request.into()), context }
}

/// The same by a caller of a group.
pub(crate) fn call_of(caller: &str, group: &str) -> Call {
    let mut call = call(caller);
    let identity = Identity { proof: Proof::ApiKey, groups: vec![group.into()], ..Identity::default() };
    call.context.identity = Arc::new(identity);
    call
}

pub(crate) fn run(pipeline: &Pipeline, call: Call) -> Result<Reply, Error> {
    futures(pipeline.call(call))
}

/// Nothing here waits for anything but what is ready.
pub(crate) fn futures<T>(mut future: BoxFuture<'_, T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

pub(crate) fn reason(outcome: &Result<Reply, Error>) -> Option<String> {
    outcome.as_ref().err().and_then(|error| error.denied()).map(|denied| denied.reason.to_string())
}

pub(crate) fn held(plane: &Plane, caller: &str) -> (u64, u64) {
    stands(plane, &Scope::Caller { realm: "default".into(), id: caller.into() })
}

/// What is held and what was charged, over all limits of an account.
pub(crate) fn stands(plane: &Plane, scope: &Scope) -> (u64, u64) {
    let account = plane.ledger.account(scope, plane.hands.now()).expect("it is limited");
    let standings = account.standings(plane.hands.now());
    (
        standings.iter().map(|standing| standing.held).sum(),
        standings.iter().map(|standing| standing.charged).sum(),
    )
}

/// What a call of an agent looks like, made on behalf of another.
pub(crate) fn on_behalf_of(agent: &str, hold: &dyn Hold) -> Call {
    let mut call = call(agent);
    call.context.lineage = hold.lineage().map(str::to_owned);
    call.context.identity =
        Arc::new(Identity { proof: Proof::ApiKey, agent: Some(agent.into()), ..Identity::default() });
    call
}

/// Lets a call through to an agent that works on, and gives what it holds.
pub(crate) fn begun(pipeline: &Pipeline, worker: &Worker, call: Call, task: &str) -> Arc<dyn Hold> {
    let _ = run(pipeline, call);
    let hold =
        worker.calls.lock().last().and_then(|context| context.hold.clone()).expect("it was let through");
    hold.begin(&TaskId::from(task));
    hold.began();
    hold
}

pub(crate) fn working() -> Arc<Worker> {
    Arc::new(Worker { works_on: true, ..Worker::default() })
}
