//! What may stand in the configuration. The doc comments are the reference: `chancery config-schema` prints them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{
    AdminSection, AgentSection, AuditSection, CardsSection, DiscoverSection, FleetSection, MarkdownSection,
    OutboundSection, PushSection, ServerSection, StoreLimitsSection,
};
use super::units::{UnknownCost, Usd};

/// Everything that `chancery serve` can be told.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Where and how it listens.
    pub(crate) server: ServerSection,
    /// How it is looked after.
    pub(crate) admin: AdminSection,
    /// How long the audit log is kept.
    pub(crate) audit: AuditSection,
    /// Where tasks are kept.
    pub(crate) store: StoreSection,
    /// Who may come in.
    pub(crate) identity: IdentitySection,
    /// How cards are signed.
    pub(crate) cards: CardsSection,
    /// Where notifications may be posted.
    pub(crate) push: PushSection,
    /// How often anyone may ask anything.
    pub(crate) rate: RateSection,
    /// What may be spent.
    pub(crate) budget: BudgetSection,
    /// How far calls may lead to calls.
    pub(crate) recursion: RecursionSection,
    /// Which member of a pool is called.
    pub(crate) routing: RoutingSection,
    /// Who may do what, by name. `default` is for everyone whom no other policy is for.
    pub(crate) policy: BTreeMap<String, PolicySection>,
    /// The fleet as a whole.
    pub(crate) fleet: FleetSection,
    /// How agents elsewhere are called.
    pub(crate) outbound: OutboundSection,
    /// The agents.
    pub(crate) agent: Vec<AgentSection>,
    /// Other fleets, whose members are members here too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) discover: Vec<DiscoverSection>,
    /// Folders of files that describe agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) markdown: Vec<MarkdownSection>,
}

/// Whether what a gate refuses is refused, or only written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// It is refused.
    #[default]
    Enforce,
    /// It is let through, and the log says that it would have been refused.
    Observe,
}

/// Where tasks are kept.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreSection {
    /// `sqlite:PATH`, `sqlite:PATH?durability=power` or `memory:`. By default a database in the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// The directory of everything that is kept: the database, keys.
    pub(crate) data: PathBuf,
    /// How much is kept.
    pub(crate) limits: StoreLimitsSection,
}

/// Who may come in.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct IdentitySection {
    /// Refused or only written down.
    pub(crate) mode: Mode,
    /// Who may come in: `caller:NAME`, `group:NAME`, `agent:AGENT-ID`. Everyone who proves who they are, if empty.
    pub(crate) allow: Vec<String>,
    /// Who tokens that agents sign themselves must be for. The public URL unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<String>,
    /// Agents that are known by their own keys.
    pub(crate) agent: Vec<KnownAgent>,
    /// Other gateways that lineage is shared with, if they list this one as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub(crate) gateway: Vec<KnownGateway>,
}

/// An agent that is known by its own key.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownAgent {
    /// The name of the agent in this fleet that it is; or a name of its own.
    pub(crate) name: String,
    /// Its agent id: 64 hexadecimal digits, made from its public key.
    pub(crate) id: String,
    /// What isolates it from others.
    #[serde(default = "default_realm")]
    pub(crate) realm: String,
    /// The groups that it belongs to.
    #[serde(default)]
    pub(crate) groups: Vec<String>,
}

/// Another gateway. Chains of calls are known through both, and what is done here for a call there costs no more than that one
/// holds for it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownGateway {
    /// A name for it here. Two entries may have the same name while the gateway changes its key.
    pub(crate) name: String,
    /// Its agent id, as `chancery key signing` says it there: 64 hexadecimal digits.
    pub(crate) id: String,
}

/// How often anyone may ask anything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RateSection {
    /// Refused or only written down.
    pub(crate) mode: Mode,
    /// For each caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<RateLimit>,
    /// For each address that requests come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<RateLimit>,
    /// For the anonymous callers of each address, who are one caller to all other limits; 1000 a second and 2000 at once
    /// unless said otherwise.
    pub(crate) anonymous: RateLimit,
}

/// How many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimit {
    /// So many a second in the long run.
    #[schemars(range(min = 1))]
    pub(crate) per_second: u32,
    /// So many at once; as many as in a second unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) burst: Option<u32>,
}

/// What may be spent.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BudgetSection {
    /// Refused or only written down.
    pub(crate) mode: Mode,
    /// By everyone together.
    pub(crate) global: BudgetLevel,
    /// In each realm.
    pub(crate) realm: BudgetLevel,
    /// By each group, its callers together.
    pub(crate) group: BudgetLevel,
    /// By each caller.
    pub(crate) caller: BudgetLevel,
    /// On each agent.
    pub(crate) agent: BudgetLevel,
    /// By each agent with calls of which nobody knows on whose behalf it makes them. Such calls are refused if nothing is limited
    /// here.
    pub(crate) unattributed: BudgetLevel,
    /// By a call from outside and all the calls it leads to.
    pub(crate) root: TaskCap,
    /// By one call.
    pub(crate) task: TaskCap,
    /// In these realms, instead of `realm`.
    pub(crate) realms: BTreeMap<String, BudgetLevel>,
    /// By these groups, instead of `group`.
    pub(crate) groups: BTreeMap<String, BudgetLevel>,
    /// By these callers, instead of `caller`.
    pub(crate) callers: BTreeMap<String, BudgetLevel>,
    /// On these agents, instead of `agent`.
    pub(crate) agents: BTreeMap<String, BudgetLevel>,
    /// What each agent may report above what its calls could pay for, before it gets no more calls until that is in the past.
    /// Such overruns are charged to nobody else, and are always logged.
    pub(crate) overrun: OverrunSection,
    /// What is done about a call of an agent without a price, where US dollars are limited: `"deny"`, or `"hold:AMOUNT"` to hold
    /// that many US dollars, which are charged if the agent reports nothing. If nothing is said, every agent needs a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unknown_cost: Option<UnknownCost>,
}

/// How much an agent may report above what its calls could pay for, in how long.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OverrunSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_minute: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_hour: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_day: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_month: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_hour: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_month: Option<u64>,
}

/// How much may be spent in how long.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BudgetLevel {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_minute: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_hour: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_day: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd_per_month: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_hour: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_per_month: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tasks_per_minute: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tasks_per_hour: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tasks_per_day: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tasks_per_month: Option<u64>,
    /// What is done about a call that is too much now and may not be later. There is one line to wait in: if any level says
    /// `queue`, calls wait for room at every level, in the longest line and for the longest time that any level says.
    pub(crate) overflow: Overflow,
}

/// What is done about a call that is too much now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Overflow {
    /// It is refused.
    #[default]
    Shed,
    /// It waits.
    Queue(QueueSection),
}

/// How many calls wait, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueSection {
    /// So many at a time.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max_depth: usize,
    /// So long, in milliseconds.
    #[serde(rename = "max_wait")]
    #[schemars(range(min = 1))]
    pub(crate) max_wait_ms: u64,
}

/// How much one thing may cost from its beginning to its end.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TaskCap {
    /// In US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_usd: Option<Usd>,
    /// In tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
}

/// How far calls may lead to calls.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RecursionSection {
    /// Refused or only written down.
    pub(crate) mode: Mode,
    /// The depth of the deepest call; the one from outside has depth 0.
    #[schemars(range(max = 256))]
    pub(crate) max_call_depth: u16,
    /// Whether an agent that is in the chain of calls already may not be called again.
    pub(crate) deny_revisit: bool,
    /// Agents that may be called again all the same.
    pub(crate) revisit_allowlist: Vec<String>,
    /// How often an agent may be called again, where it may at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_revisits: Option<u16>,
    /// How many calls one call from outside may lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_descendants: Option<u32>,
}

/// Which member of a pool is called.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RoutingSection {
    /// Refused or only written down. A call for which there is nobody then goes to the first member, or to the agent that could not
    /// be reached.
    pub(crate) mode: Mode,
    /// How a member is chosen where the agent does not say otherwise.
    pub(crate) default_selector: String,
    /// What `cheapest_under_latency` counts as fast enough, in milliseconds.
    #[schemars(range(min = 1))]
    pub(crate) latency_budget_ms: u64,
    /// How a member is chosen where that finds none; or `local`: whom a pool's `stand_in` names answers then, if nothing has been
    /// sent to anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<String>,
    /// What `round_robin` begins with.
    pub(crate) seed: u64,
    /// After so many failures in a row an agent elsewhere, or a member of a pool, gets no calls: connections that cannot be made or
    /// break, answers with HTTP 500 or above, probes that find nobody,
    #[schemars(range(min = 1))]
    pub(crate) breaker_failures: u32,
    /// for so long, in milliseconds; then one call tries it, as often as that.
    pub(crate) breaker_cooldown_ms: u64,
}

/// Who may do what. What is not said is not limited.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicySection {
    /// Refused or only written down.
    pub(crate) mode: Mode,
    /// For these callers; for all if empty.
    pub(crate) callers: Vec<String>,
    /// For callers in one of these groups; for all if empty.
    pub(crate) groups: Vec<String>,
    /// For calls to these agents; to all if empty.
    pub(crate) agents: Vec<String>,
    /// The operations that are allowed, by their names in the protocol; all if empty.
    pub(crate) operations: Vec<String>,
    /// The skills that may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed_skills: Option<Vec<String>>,
    /// So many calls at a time, for each caller and skill; 16 unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_concurrency: Option<u32>,
    /// So many tokens for one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
    /// So many US dollars for one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_cost_usd: Option<Usd>,
    /// So many milliseconds for one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) max_duration_ms: Option<u64>,
    /// So many bytes in one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_input_bytes: Option<u64>,
    /// The media types that may be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_modes: Option<Vec<String>>,
}

impl BudgetSection {
    /// Every level that is set, by its path.
    fn levels_by_path(&self) -> impl Iterator<Item = (String, &BudgetLevel)> {
        let named = |section: &'static str, levels| {
            let levels: &BTreeMap<String, BudgetLevel> = levels;
            levels.iter().map(move |(name, level)| (format!("{section}.{name}"), level))
        };
        let general = [
            ("global", &self.global),
            ("realm", &self.realm),
            ("group", &self.group),
            ("caller", &self.caller),
            ("agent", &self.agent),
            ("unattributed", &self.unattributed),
        ];
        general
            .into_iter()
            .map(|(path, level)| (path.to_owned(), level))
            .chain(named("realms", &self.realms))
            .chain(named("groups", &self.groups))
            .chain(named("callers", &self.callers))
            .chain(named("agents", &self.agents))
    }

    /// Every level that is set.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &BudgetLevel> {
        self.levels_by_path().map(|(_, level)| level)
    }

    /// The first limit in US dollars, by its path, that a call to an agent can meet.
    pub(super) fn usd_limit_on(&self, agent: &str) -> Option<String> {
        let own = format!("agents.{agent}");
        let concerns = |path: &str| match path {
            "agent" => !self.agents.contains_key(agent),
            path => !path.starts_with("agents.") || path == own,
        };
        let levels = self.levels_by_path().filter(|(path, _)| concerns(path));
        let of_levels = levels.filter_map(|(path, level)| Some(format!("{path}.{}", level.usd_limit()?)));
        let of_calls = [("root.max_usd", self.root.max_usd), ("task.max_usd", self.task.max_usd)];
        let of_calls = of_calls.into_iter().filter(|(_, most)| most.is_some());
        of_calls.map(|(path, _)| path.to_owned()).chain(of_levels).next()
    }
}

impl BudgetLevel {
    fn usd_limit(&self) -> Option<&'static str> {
        let limits = [
            ("max_usd_per_minute", self.max_usd_per_minute),
            ("max_usd_per_hour", self.max_usd_per_hour),
            ("max_usd_per_day", self.max_usd_per_day),
            ("max_usd_per_month", self.max_usd_per_month),
        ];
        limits.into_iter().find_map(|(key, most)| most.map(|_| key))
    }
}

fn default_realm() -> String {
    "default".to_owned()
}

// === defaults ===

impl Default for StoreSection {
    fn default() -> Self {
        Self { url: None, data: PathBuf::from("chancery-data"), limits: StoreLimitsSection::default() }
    }
}

impl Default for RateSection {
    fn default() -> Self {
        let anonymous = RateLimit { per_second: 1000, burst: Some(2000) };
        Self { mode: Mode::default(), caller: None, source: None, anonymous }
    }
}

impl Default for RecursionSection {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            max_call_depth: 8,
            deny_revisit: true,
            revisit_allowlist: Vec::new(),
            max_revisits: None,
            max_descendants: None,
        }
    }
}

impl Default for RoutingSection {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            default_selector: "power_of_two_choices".to_owned(),
            latency_budget_ms: 2000,
            fallback: None,
            seed: 0,
            breaker_failures: 5,
            breaker_cooldown_ms: 5_000,
        }
    }
}
