//! What all the gates together add to a unary call: the same call to the same runtime, by itself and behind a pipeline with
//! every gate configured, an API key looked up, the request counted, and a lineage token sealed.
//!
//! Both take turns, round by round, in one thread; a figure is the median over rounds of the mean over a batch, in CPU time
//! of this thread, so that what else the machine does counts less. The store is in memory: the record of the call goes
//! along in the same batch.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use chancery_control::identity::{
    AllowList, AllowRule, ApiKey, Authenticator, Credentials, KeyRecord, KeyRing, ServerSecret, Who,
};
use chancery_control::ledger::{Cap, Caps, Ledger, LevelLimits, Limits, Price, PriceSettings, Prices};
use chancery_control::lineage::{Keyring, Lineage, Open, Rules, Tokens};
use chancery_control::policy::{Limits as PolicyLimits, Policy, Rule};
use chancery_control::rate::{RateLimit, Rates};
use chancery_control::routing::{Peer, Pool, PoolSettings};
use chancery_control::{Executor, Governed, Hands, Millis, Pipeline, Plane, PlaneSettings, Stop};
use chancery_protocol::{
    AgentCard, Amount, BoxFuture, Call, CallContext, DynEndpoint, Edge, HopId, Message, Principal, Request,
    SendMessageRequest, TaskId, Timestamp,
};
use chancery_sdk::store::Store;
use chancery_sdk::{AgentSpec, Runtime, agent_fn};
use nix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 201;
const BATCH: u32 = 500;

/// What stands in front of the runtime.
struct Gates {
    authenticator: Authenticator,
    key: String,
    rates: Rates,
    pipeline: Pipeline,
    hands: Arc<World>,
}

#[derive(Debug)]
struct World;

fn main() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let alone = runtime();
    let (one, pool) = (gates(false), gates(true));
    let mut figures = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        figures[0].push(nanoseconds(|| {
            let context = CallContext::new(Principal::new("default", "alice"), "echo".into());
            drop(black_box(tokio.block_on(alone.call(call(context)))).expect("it answers"));
        }));
        for (gates, figures) in [&one, &pool].into_iter().zip(&mut figures[1..]) {
            figures.push(nanoseconds(|| tokio.block_on(gates.pass())));
        }
    }
    let names = ["the runtime alone", "behind all gates", "behind all gates, the agent a pool of three"];
    println!("| | CPU ns, median of {ROUNDS} rounds | fastest round |\n|---|---:|---:|");
    let mut medians = Vec::new();
    for (name, figures) in names.into_iter().zip(&mut figures) {
        figures.sort_by(f64::total_cmp);
        medians.push((figures[ROUNDS / 2], figures[0]));
        println!("| {name} | {:.0} | {:.0} |", figures[ROUNDS / 2], figures[0]);
    }
    for (name, (median, fastest)) in ["added by all gates", "the same, with a pool"].iter().zip(&medians[1..])
    {
        println!("| {name} | {:.0} | {:.0} |", median - medians[0].0, fastest - medians[0].1);
    }
}

fn nanoseconds(mut run: impl FnMut()) -> f64 {
    let now =
        || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("there is such a clock"));
    let before = now();
    for _ in 0..BATCH {
        run();
    }
    (now() - before).as_nanos() as f64 / f64::from(BATCH)
}

fn runtime() -> Arc<dyn DynEndpoint> {
    let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
    Arc::new(Runtime::new(
        AgentSpec::new("echo", echo),
        Arc::new(AgentCard::new("echo", "", "1")),
        Arc::new(Store::memory()),
    ))
}

fn call(context: Box<CallContext>) -> Call {
    let message = Message::user("How far is it from Lisbon to Porto, and how long does the train take?");
    let request = SendMessageRequest { tenant: String::new(), message, configuration: None, metadata: None };
    Call { request: Request::SendMessage(Box::new(request)), context }
}

/// Every gate has something to look at, and lets everything through.
fn gates(is_pool: bool) -> Gates {
    let secret = ServerSecret::generate().expect("there is chance");
    let (keys, key) = (Arc::new(KeyRing::new(&secret)), ApiKey::generate().expect("there is chance"));
    let record = KeyRecord::new(&key, &secret, "default", "alice", Timestamp::now());
    keys.replace(&[record]).expect("it is a good record");
    let hands = Arc::new(World);
    let pool = is_pool.then(|| {
        let peers = ["one", "two", "three"].map(Peer::new);
        Arc::new(Pool::try_new("echo", peers, PoolSettings::default()).expect("three names"))
    });
    let governed = Governed { name: "echo".into(), skills: vec!["echo".into()], pool, is_local: true };
    let pipeline =
        Pipeline::new(Arc::new(plane(hands.clone())), Arc::new(governed), Executor::Local(runtime()));
    let limit = Some(RateLimit { per_second: 10_000_000, burst: 10_000_000 });
    let key = format!("Bearer {}", key.text());
    Gates {
        authenticator: Authenticator::default().with_keys(keys),
        key,
        rates: Rates::new(limit, limit, None),
        pipeline,
        hands,
    }
}

fn plane(hands: Arc<World>) -> Plane {
    let most = Cap { micro_usd: Some(u64::MAX / 4), tokens: Some(u64::MAX / 4), tasks: Some(u64::MAX / 4) };
    let caps = Caps { per_minute: most, per_hour: most, per_day: most, per_month: most };
    let level = || LevelLimits { default: caps, ..LevelLimits::default() };
    let limits =
        Limits { global: caps, realm: level(), caller: level(), agent: level(), ..Limits::default() };
    let price = Price { per_call: 10, per_1k_tokens: 10 };
    let prices = PriceSettings { agents: [("echo".into(), price)].into(), ..PriceSettings::default() };
    let keys = Keyring::try_new("2026-11", &[7; 32]).expect("32 bytes are enough");
    let rules = Rules { max_descendants: Some(1_000), ..Rules::default() };
    let tokens = Tokens::new("https://gateway.example", keys);
    let policy = PolicyLimits {
        allowed_skills: Some(["echo".into(), "rag.query".into()].into()),
        max_concurrency: Some(16),
        max_tokens: Some(1_000_000),
        max_micro_usd: Some(50_000_000),
        max_duration: Some(Duration::from_secs(30)),
        max_input_bytes: Some(1 << 20),
        input_modes: Some(["text/plain".into()].into()),
        ..PolicyLimits::default()
    };
    let allowed = AllowList::new([AllowRule::new(Who::Caller("alice".into()))]);
    Plane::new(
        Some(Arc::new(allowed)),
        Ledger::new(limits),
        Prices::new(prices),
        Lineage { rules, tokens, open: Arc::new(Open::default()) },
        Policy::new([Rule { limits: policy, ..Rule::named("default") }]),
        PlaneSettings { root_cap: most, call_cap: most, ..PlaneSettings::default() },
        hands,
    )
}

impl Gates {
    /// As the server does it: counts the address, asks who is calling, counts that, and calls.
    async fn pass(&self) {
        let now = self.hands.now();
        self.rates.source(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), now).expect("it is not too often");
        let credentials = Credentials { authorization: Some(&self.key), api_key: None };
        let known = self.authenticator.authenticate(&credentials, now).expect("the key is known");
        let caller = known.for_any_body().expect("it is for any");
        self.rates.caller(&caller.principal, now).expect("it is not too often");
        let mut context = CallContext::new(caller.principal, "echo".into());
        context.identity = caller.identity;
        drop(black_box(self.pipeline.call(call(context)).await.expect("it is let through")));
    }
}

impl Hands for World {
    fn now(&self) -> Millis {
        Millis(u64::try_from(Timestamp::now().as_millis()).unwrap_or_default())
    }

    fn stop(&self, stop: Stop) {
        panic!("nothing is stopped here: {stop:?}");
    }

    fn record(&self, edge: Box<Edge>) {
        drop(edge);
    }

    fn wake(&self) {}

    fn task_of_key(&self, _: Principal, _: Arc<str>, _: String) -> BoxFuture<'static, Option<TaskId>> {
        Box::pin(std::future::ready(None))
    }

    fn charged_under(&self, _: HopId) -> BoxFuture<'static, Option<Amount>> {
        Box::pin(std::future::ready(Some(Amount::default())))
    }
}
