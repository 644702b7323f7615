//! What can be counted, for Prometheus: calls, refusals, spend as they happen; what stands at a moment when it is asked for.
//!
//! Labels are bounded: agents, operations, gates, the codes of errors, and the few callers who call most. Who spent what is
//! a question for the ledger.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chancery_control::Booked;
use chancery_control::routing::Standing;
use chancery_protocol::{Error, OPERATIONS, Operation, Principal, Reply, TaskState};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::callers::{CallerCollector, CallerCounts};

/// How what is answered here is to be read.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a call has come out that nothing was wrong with.
const OK: &str = "OK";

/// Everything that is counted.
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    seconds: Family<WorkLabels, Histogram, fn() -> Histogram>,
    denials: Family<DenialLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    callers: Arc<CallerCounts>,
    spend: Family<SpendLabels, Counter>,
    tokens: Family<SpendLabels, Counter>,
    overruns: Family<AgentLabels, Counter>,
    overrun_micro_usd: Family<AgentLabels, Counter>,
    overrun_tokens: Family<AgentLabels, Counter>,
    refused_connections: Counter,
    standing: Standings,
    /// What stands at a moment is written by one at a time.
    reading: Mutex<()>,
}

/// What stands at a moment.
#[derive(Default)]
struct Standings {
    tasks: Family<StateLabels, Gauge>,
    open_calls: Family<AgentLabels, Gauge>,
    waiting: Gauge,
    streams: Gauge,
    contained: Family<AgentLabels, Gauge>,
    agent_up: Family<AgentLabels, Gauge>,
    member_up: Family<MemberLabels, Gauge>,
    member_open: Family<MemberLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    agent: String,
    operation: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkLabels {
    agent: String,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DenialLabels {
    agent: String,
    gate: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SpendLabels {
    agent: String,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabels {
    agent: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MemberLabels {
    agent: String,
    member: String,
}

/// What stands at a moment, as whoever knows it says.
#[derive(Default)]
pub(crate) struct Moment {
    pub(crate) tasks: Vec<(TaskState, u64)>,
    /// The agents, with how many calls to each are open.
    pub(crate) agents: Vec<(Arc<str>, usize)>,
    pub(crate) contained: Vec<Arc<str>>,
    /// Whether an agent is well, of those of which that is known.
    pub(crate) up: Vec<(Arc<str>, bool)>,
    /// Calls that wait for room in a budget.
    pub(crate) waiting: usize,
    pub(crate) streams: usize,
    pub(crate) members: Vec<Member>,
    /// How many connections have been refused so far.
    pub(crate) refused_connections: u64,
}

/// A member of a pool at a moment.
pub(crate) struct Member {
    pub(crate) agent: Arc<str>,
    pub(crate) member: Arc<str>,
    pub(crate) standing: Standing,
    pub(crate) open: u32,
}

/// Counts the calls to one agent.
pub(crate) struct Meter {
    metrics: Arc<Metrics>,
    agent: Arc<str>,
    usual: [Usual; OPERATIONS.len()],
}

/// The calls of one operation that went well, and how long each took. Made when there is a first one: a fleet has many
/// agents, and most operations are asked of few.
#[derive(Default)]
struct Usual(OnceLock<(Counter, Histogram)>);

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("chancery");
        let (calls, denials) = (Family::default(), Family::default());
        let (spend, tokens) = (Family::default(), Family::default());
        let seconds: Family<_, Histogram, fn() -> Histogram> = Family::new_with_constructor(histogram);
        registry.register("calls", "Calls, by how they came out", calls.clone());
        registry.register(
            "call_seconds",
            "Time until a call is answered, or its stream begins",
            seconds.clone(),
        );
        registry.register("denials", "Calls that a gate refused", denials.clone());
        let (refused, callers) = (Family::default(), Arc::<CallerCounts>::default());
        registry.register("refused_credentials", "Credentials that let nobody in", refused.clone());
        registry.register_collector(Box::new(CallerCollector(callers.clone())));
        registry.register("spend_micro_usd", "Charged, in millionths of a US dollar", spend.clone());
        registry.register("spend_tokens", "Charged, in tokens", tokens.clone());
        let overruns: [Family<AgentLabels, Counter>; 3] = Default::default();
        let about = [
            ("overruns", "Calls whose agent reported more than they could pay for"),
            ("overrun_micro_usd", "Reported beyond that, in millionths of a US dollar"),
            ("overrun_tokens", "Reported beyond that, in tokens"),
        ];
        for ((name, help), counter) in about.into_iter().zip(&overruns) {
            registry.register(name, help, counter.clone());
        }
        let [overruns, overrun_micro_usd, overrun_tokens] = overruns;
        let refused_connections = Counter::default();
        let help = "Connections from sources that had as many as they may";
        registry.register("refused_connections", help, refused_connections.clone());
        let standing = Standings::default();
        standing.register(&mut registry);
        Arc::new(Self {
            registry,
            calls,
            seconds,
            denials,
            refused,
            callers,
            spend,
            tokens,
            overruns,
            overrun_micro_usd,
            overrun_tokens,
            refused_connections,
            standing,
            reading: Mutex::default(),
        })
    }

    /// A credential let nobody in.
    pub(crate) fn refused_credential(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// A call was settled.
    pub(crate) fn booked(&self, call: &Booked<'_>) {
        let labels = SpendLabels { agent: call.agent.to_owned(), source: call.settled.source.as_str() };
        self.spend.get_or_create(&labels).inc_by(call.settled.charged.micro_usd);
        self.tokens.get_or_create(&labels).inc_by(call.settled.charged.tokens);
        let overrun = call.settled.overrun;
        if !overrun.is_zero() {
            let labels = AgentLabels::of(call.agent);
            self.overruns.get_or_create(&labels).inc();
            self.overrun_micro_usd.get_or_create(&labels).inc_by(overrun.micro_usd);
            self.overrun_tokens.get_or_create(&labels).inc_by(overrun.tokens);
        }
    }

    /// Everything, in the text format of OpenMetrics.
    pub(crate) fn render(&self, moment: &Moment) -> Result<String, std::fmt::Error> {
        let _alone = self.reading.lock();
        self.standing.set(moment);
        let refused = moment.refused_connections.saturating_sub(self.refused_connections.get());
        self.refused_connections.inc_by(refused);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn histogram() -> Histogram {
    // From a quarter of a millisecond to more than a minute.
    Histogram::new(exponential_buckets(0.000_25, 2.5, 15))
}

// === impl Standings ===

impl Standings {
    fn register(&self, registry: &mut Registry) {
        registry.register("tasks", "Tasks that are kept, by state", self.tasks.clone());
        registry.register(
            "open_calls",
            "Calls that are let through and not settled",
            self.open_calls.clone(),
        );
        registry.register("waiting_calls", "Calls that wait for room in a budget", self.waiting.clone());
        registry.register("open_streams", "Streams that are open", self.streams.clone());
        registry.register("contained", "Agents that are cut off", self.contained.clone());
        registry.register("agent_up", "Whether an agent is well", self.agent_up.clone());
        registry.register("member_up", "Whether a member of a pool gets calls", self.member_up.clone());
        registry.register("member_open_calls", "Calls to a member of a pool", self.member_open.clone());
    }

    fn set(&self, moment: &Moment) {
        self.tasks.clear();
        for (state, tasks) in &moment.tasks {
            self.tasks.get_or_create(&StateLabels { state: state.as_str() }).set(whole(*tasks));
        }
        self.open_calls.clear();
        for (agent, open) in &moment.agents {
            self.open_calls.get_or_create(&AgentLabels::of(agent)).set(whole(*open as u64));
        }
        self.contained.clear();
        for agent in &moment.contained {
            self.contained.get_or_create(&AgentLabels::of(agent)).set(1);
        }
        self.agent_up.clear();
        for (agent, is_well) in &moment.up {
            self.agent_up.get_or_create(&AgentLabels::of(agent)).set(i64::from(*is_well));
        }
        self.waiting.set(whole(moment.waiting as u64));
        self.streams.set(whole(moment.streams as u64));
        self.member_up.clear();
        self.member_open.clear();
        for Member { agent, member, standing, open } in &moment.members {
            let labels = MemberLabels { agent: agent.to_string(), member: member.to_string() };
            self.member_up.get_or_create(&labels).set(i64::from(!matches!(standing, Standing::OutUntil(_))));
            self.member_open.get_or_create(&labels).set(i64::from(*open));
        }
    }
}

impl AgentLabels {
    fn of(agent: &str) -> Self {
        Self { agent: agent.to_owned() }
    }
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(metrics: Arc<Metrics>, agent: Arc<str>) -> Self {
        Self { metrics, agent, usual: Default::default() }
    }

    /// Counts a call that has been answered.
    pub(crate) fn count(
        &self,
        operation: Operation,
        caller: &Principal,
        reply: &Result<Reply, Error>,
        took: Duration,
    ) {
        self.metrics.callers.count(caller);
        let (ok, seconds) = self.usual(operation);
        seconds.observe(took.as_secs_f64());
        let Err(error) = reply else {
            ok.inc();
            return;
        };
        let (agent, code) = (self.agent.to_string(), error.code().row().reason);
        let labels = CallLabels { agent: agent.clone(), operation: operation.method(), code };
        self.metrics.calls.get_or_create(&labels).inc();
        if let Some(denied) = error.denied() {
            // Our gates have names that stand in the code; no other name is a label.
            let gate = if let Cow::Borrowed(gate) = denied.gate { gate } else { "other" };
            let labels = DenialLabels { agent, gate };
            self.metrics.denials.get_or_create(&labels).inc();
        }
    }

    fn usual(&self, operation: Operation) -> &(Counter, Histogram) {
        let place = OPERATIONS.iter().position(|row| row.operation == operation).unwrap_or_default();
        self.usual[place].0.get_or_init(|| {
            let (agent, operation) = (self.agent.to_string(), operation.method());
            let ok = CallLabels { agent: agent.clone(), operation, code: OK };
            let seconds = self.metrics.seconds.get_or_create_owned(&WorkLabels { agent, operation });
            (self.metrics.calls.get_or_create_owned(&ok), seconds)
        })
    }
}
