//! What the configuration says, in the words of the control plane.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chancery_control::ledger::{
    Cap, Caps, LevelLimits, Limits, Overflow, Price, PriceSettings, UnknownCost as Unknown,
};
use chancery_control::lineage::Rules;
use chancery_control::policy::{Callers, Limits as PolicyLimits, Mode as PolicyMode, Policy, Rule};
use chancery_control::rate::{RateLimit, Rates};
use chancery_control::routing::{
    BreakerSettings, Fallback, PoolSettings, SelectorSettings, Selectors, UnknownSelector,
};
use chancery_control::{Mode, PlaneSettings, Proposal};
use chancery_protocol::{OPERATIONS, Operation};

use crate::config::{
    BudgetLevel, BudgetSection, Config, Mode as ConfigMode, Overflow as ConfigOverflow, OverrunSection,
    PolicySection, PriceSection, RateLimit as ConfigRate, RateSection, RoutingSection, TaskCap, Trust,
    UnknownCost, Usd,
};
use crate::identity;
use crate::limits::{AllLimits, LimitsGate};

/// All that a configuration says, with what its agents take in one message.
pub(super) fn proposal(config: &Config, input: &AllLimits) -> Proposal {
    Proposal {
        resolver: identity::allow_list(&config.identity.allow),
        limits: limits(&config.budget),
        prices: prices(config),
        rules: rules(config),
        policy: policy(config),
        settings: plane(config),
        gates: vec![Box::new(LimitsGate(input.clone()))],
    }
}

/// The fallback that is no selector: somebody here answers.
pub(crate) const LOCAL: &str = "local";

/// What may be spent.
pub(super) fn limits(budget: &BudgetSection) -> Limits {
    let level = |default: &BudgetLevel, named: &BTreeMap<String, BudgetLevel>| LevelLimits {
        default: caps(default),
        named: named.iter().map(|(name, level)| (name.as_str().into(), caps(level))).collect(),
    };
    Limits {
        global: caps(&budget.global),
        realm: level(&budget.realm, &budget.realms),
        group: level(&budget.group, &budget.groups),
        caller: level(&budget.caller, &budget.callers),
        unattributed: caps(&budget.unattributed),
        agent: level(&budget.agent, &budget.agents),
        overrun: overrun(&budget.overrun),
        overflow: overflow(budget),
        ..Limits::default()
    }
}

/// Calls wait in one line, so it is as long as the longest that any level asks for.
fn overflow(budget: &BudgetSection) -> Overflow {
    let queues = budget.levels().filter_map(|level| match level.overflow {
        ConfigOverflow::Shed => None,
        ConfigOverflow::Queue(queue) => Some((queue.max_depth, Duration::from_millis(queue.max_wait_ms))),
    });
    queues
        .reduce(|(depth, wait), (other_depth, other_wait)| (depth.max(other_depth), wait.max(other_wait)))
        .map_or(Overflow::Shed, |(max_depth, max_wait)| Overflow::Queue { max_depth, max_wait })
}

fn overrun(section: &OverrunSection) -> Caps {
    let cap = |usd: Option<Usd>, tokens| Cap { micro_usd: usd.map(|usd| usd.0), tokens, tasks: None };
    Caps {
        per_minute: cap(section.max_usd_per_minute, section.max_tokens_per_minute),
        per_hour: cap(section.max_usd_per_hour, section.max_tokens_per_hour),
        per_day: cap(section.max_usd_per_day, section.max_tokens_per_day),
        per_month: cap(section.max_usd_per_month, section.max_tokens_per_month),
    }
}

pub(super) fn caps(level: &BudgetLevel) -> Caps {
    let cap = |usd: Option<Usd>, tokens, tasks| Cap { micro_usd: usd.map(|usd| usd.0), tokens, tasks };
    Caps {
        per_minute: cap(level.max_usd_per_minute, level.max_tokens_per_minute, level.max_tasks_per_minute),
        per_hour: cap(level.max_usd_per_hour, level.max_tokens_per_hour, level.max_tasks_per_hour),
        per_day: cap(level.max_usd_per_day, level.max_tokens_per_day, level.max_tasks_per_day),
        per_month: cap(level.max_usd_per_month, level.max_tokens_per_month, level.max_tasks_per_month),
    }
}

/// What calls cost.
pub(super) fn prices(config: &Config) -> PriceSettings {
    let priced = config.agent.iter();
    let priced =
        priced.filter_map(|agent| Some((agent.name.as_str().into(), price(&agent.declared_price()?))));
    let untrusted = config.agent.iter().filter(|agent| agent.trust == Trust::Untrusted);
    PriceSettings {
        agents: priced.collect(),
        untrusted: untrusted.map(|agent| agent.name.as_str().into()).collect(),
        unknown: match config.budget.unknown_cost {
            // Agents of the file have a price then; what is found later is refused.
            None | Some(UnknownCost::Deny) => Unknown::Deny,
            Some(UnknownCost::Hold(usd)) => Unknown::Hold(usd.0),
        },
        ..PriceSettings::default()
    }
}

pub(super) fn price(section: &PriceSection) -> Price {
    let micro_usd = |usd: Option<Usd>| usd.map_or(0, |usd| usd.0);
    Price { per_call: micro_usd(section.per_call), per_1k_tokens: micro_usd(section.per_1k_tokens) }
}

/// How far calls may lead to calls.
pub(super) fn rules(config: &Config) -> Rules {
    let recursion = &config.recursion;
    Rules {
        max_call_depth: recursion.max_call_depth,
        deny_revisit: recursion.deny_revisit,
        revisit_allowlist: recursion.revisit_allowlist.iter().map(|name| name.as_str().into()).collect(),
        max_revisits: recursion.max_revisits,
        max_descendants: recursion.max_descendants,
        allow_unattributed: !caps(&config.budget.unattributed).is_none(),
    }
}

/// What is set for all calls.
pub(super) fn plane(config: &Config) -> PlaneSettings {
    let modes = [
        ("identity", config.identity.mode),
        ("budget", config.budget.mode),
        ("lineage", config.recursion.mode),
        ("routing", config.routing.mode),
    ];
    PlaneSettings {
        modes: modes.into_iter().map(|(gate, set)| (gate, mode(set))).collect::<HashMap<_, _>>(),
        root_cap: task_cap(config.budget.root),
        call_cap: task_cap(config.budget.task),
        stand_ins: stand_ins(config),
    }
}

/// Who answers here for which pool.
fn stand_ins(config: &Config) -> HashMap<Arc<str>, Arc<str>> {
    let named = config.agent.iter().filter_map(|agent| Some((&agent.name, agent.stand_in.as_ref()?)));
    named.map(|(pool, name)| (pool.as_str().into(), name.as_str().into())).collect()
}

fn mode(mode: ConfigMode) -> Mode {
    match mode {
        ConfigMode::Enforce => Mode::Enforce,
        ConfigMode::Observe => Mode::Observe,
    }
}

fn task_cap(cap: TaskCap) -> Cap {
    Cap { micro_usd: cap.max_usd.map(|usd| usd.0), tokens: cap.max_tokens, tasks: None }
}

/// Who may do what.
pub(super) fn policy(config: &Config) -> Policy {
    Policy::new(config.policy.iter().flat_map(|(name, section)| policy_rules(name, section)))
}

/// A policy for callers by name and for groups is a rule for each.
fn policy_rules(name: &str, section: &PolicySection) -> Vec<Rule> {
    let names =
        |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect::<BTreeSet<Arc<str>>>();
    let mut callers = Vec::new();
    if !section.callers.is_empty() {
        callers.push(Callers::Named(names(&section.callers)));
    }
    if !section.groups.is_empty() {
        callers.push(Callers::Groups(names(&section.groups)));
    }
    if callers.is_empty() {
        callers.push(Callers::Any);
    }
    let rule = |callers| Rule {
        callers,
        agents: (!section.agents.is_empty()).then(|| names(&section.agents)),
        mode: match section.mode {
            ConfigMode::Enforce => PolicyMode::Enforce,
            ConfigMode::Observe => PolicyMode::Observe,
        },
        limits: policy_limits(section),
        ..Rule::named(name)
    };
    callers.into_iter().map(rule).collect()
}

fn policy_limits(section: &PolicySection) -> PolicyLimits {
    let texts = |texts: &Option<Vec<String>>| {
        texts.as_ref().map(|texts| texts.iter().map(|text| Arc::from(text.as_str())).collect())
    };
    PolicyLimits {
        operations: (!section.operations.is_empty()).then(|| operations(&section.operations)),
        allowed_skills: texts(&section.allowed_skills),
        max_concurrency: section.max_concurrency,
        max_tokens: section.max_tokens,
        max_micro_usd: section.max_cost_usd.map(|usd| usd.0),
        max_duration: section.max_duration_ms.map(Duration::from_millis),
        max_input_bytes: section.max_input_bytes,
        input_modes: texts(&section.input_modes),
    }
}

fn operations(names: &[String]) -> Vec<Operation> {
    let known = |name: &String| OPERATIONS.iter().find(|row| row.method == *name).map(|row| row.operation);
    names.iter().filter_map(known).collect()
}

/// When an agent elsewhere gets no calls.
pub(crate) fn breaker(routing: &RoutingSection) -> BreakerSettings {
    BreakerSettings {
        failures: routing.breaker_failures,
        cooldown: Duration::from_millis(routing.breaker_cooldown_ms),
    }
}

/// How a member of a pool is chosen.
pub(super) fn pool(
    routing: &RoutingSection,
    selector: Option<&str>,
) -> Result<PoolSettings, UnknownSelector> {
    let selectors = Selectors::default();
    let settings = SelectorSettings {
        latency_budget: Duration::from_millis(routing.latency_budget_ms),
        seed: routing.seed,
    };
    let name = selector.unwrap_or(&routing.default_selector);
    let is_local = routing.fallback.as_deref() == Some(LOCAL);
    let other = routing.fallback.as_deref().filter(|_| !is_local);
    let names: Vec<_> = std::iter::once(name).chain(other).collect();
    let selector = selectors.chain(&names, &settings)?;
    let breaker = breaker(routing);
    let fallback = if is_local { Fallback::Local } else { Fallback::Refuse };
    Ok(PoolSettings { selector, breaker, fallback, ..PoolSettings::default() })
}

/// How often anybody may ask anything.
pub(super) fn rates(rate: &RateSection) -> Rates {
    let limit = |limit: ConfigRate| RateLimit {
        per_second: limit.per_second,
        burst: limit.burst.unwrap_or(limit.per_second),
    };
    Rates::new(rate.caller.map(limit), rate.source.map(limit), Some(limit(rate.anonymous)))
        .mode(mode(rate.mode))
}
