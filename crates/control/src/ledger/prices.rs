//! What a call will cost, before it runs, and what it has cost, after: each figure with where it comes from.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chancery_protocol::{Amount, CostSource, Denied, DeniedKind, Usage};
use foldhash::fast::RandomState;
use parking_lot::RwLock;

use super::histogram::Histogram;
use super::shortfall::{COST_UNKNOWN, GATE};

/// What somebody asks for a call, in millionths of a US dollar. Charges round up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// For each call.
    pub per_call: u64,
    /// For each 1,000 tokens, read or written.
    pub per_1k_tokens: u64,
}

/// What happens to a call of an agent without a price, where money is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownCost {
    /// It is refused.
    #[default]
    Deny,
    /// So much is held for it, in millionths of a US dollar, and charged if nobody reports what it has cost.
    Hold(u64),
}

/// The settings of the prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceSettings {
    /// By agent.
    pub agents: HashMap<Arc<str>, Price>,
    /// By agent and skill; comes before that of the agent.
    pub skills: HashMap<(Arc<str>, Arc<str>), Price>,
    /// Agents that nobody trusts: what they report may raise a charge up to what was held, and never lower it, and nothing is
    /// learnt from it.
    pub untrusted: BTreeSet<Arc<str>>,
    /// What happens to a call of an agent without a price, where money is limited.
    pub unknown: UnknownCost,
    /// For how many pairs of agent and skill it is remembered what they use.
    pub max_tariffs: usize,
}

/// What calls cost, for all agents and skills.
#[derive(Debug)]
pub struct Prices {
    settings: PriceSettings,
    tariffs: RwLock<HashMap<AgentAndSkill, Arc<Tariff>, RandomState>>,
}

type AgentAndSkill = (Arc<str>, Option<Arc<str>>);

/// What calls of one agent, for one skill, cost: the price that is declared, and the tokens that were seen.
#[derive(Debug, Default)]
pub struct Tariff {
    price: Option<Price>,
    /// Whether a report may only raise what is charged, and never above what was held.
    is_untrusted: bool,
    unknown: UnknownCost,
    /// The tokens that calls were seen to use, by whatever is declared.
    seen_tokens: Arc<Histogram>,
}

/// An amount and where it comes from. What nobody knows is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// How much.
    pub amount: Amount,
    /// Where the money comes from.
    pub source: CostSource,
    /// Where the tokens come from.
    pub token_source: CostSource,
}

/// What is known of a call before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What to hold.
    pub hold: Amount,
    /// What is charged if nobody reports anything.
    pub expected: Figure,
}

/// What the operator limits for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Whether money is.
    pub money: bool,
    /// Whether tokens are.
    pub tokens: bool,
}

// === impl Price ===

impl Price {
    /// What a call with so many tokens costs.
    pub fn of(self, tokens: u64) -> u64 {
        let for_tokens = (u128::from(tokens) * u128::from(self.per_1k_tokens)).div_ceil(1_000);
        self.per_call.saturating_add(u64::try_from(for_tokens).unwrap_or(u64::MAX))
    }
}

// === impl PriceSettings ===

impl Default for PriceSettings {
    fn default() -> Self {
        Self {
            agents: HashMap::new(),
            skills: HashMap::new(),
            untrusted: BTreeSet::new(),
            unknown: UnknownCost::default(),
            max_tariffs: 4_096,
        }
    }
}

// === impl Prices ===

impl Prices {
    /// With these settings, and nothing seen.
    pub fn new(settings: PriceSettings) -> Self {
        Self { settings, tariffs: RwLock::default() }
    }

    /// The settings.
    pub fn settings(&self) -> &PriceSettings {
        &self.settings
    }

    /// With other settings in the place of these. What was seen stays known, and both go on learning from what they see.
    #[must_use]
    pub fn amended(&self, settings: PriceSettings) -> Self {
        let amended = Self::new(settings);
        let seen = |((agent, skill), known): (&AgentAndSkill, &Arc<Tariff>)| {
            let declared = amended.declared(agent, skill.as_ref());
            let seen_tokens = known.seen_tokens.clone();
            ((agent.clone(), skill.clone()), Arc::new(Tariff { seen_tokens, ..declared }))
        };
        let tariffs = self.tariffs.read().iter().map(seen).collect();
        Self { tariffs: RwLock::new(tariffs), ..amended }
    }

    /// What calls of this agent, for this skill, cost. Skills beyond the number that is remembered share what is known
    /// of their agent.
    pub fn tariff(&self, agent: &Arc<str>, skill: Option<&Arc<str>>) -> Arc<Tariff> {
        let key = (agent.clone(), skill.cloned());
        if let Some(tariff) = self.tariffs.read().get(&key) {
            return tariff.clone();
        }
        let mut tariffs = self.tariffs.write();
        // The agents are the operator's; what skills there are may be the callers' word.
        if skill.is_some() && tariffs.len() >= self.settings.max_tariffs {
            drop(tariffs);
            return self.tariff(agent, None);
        }
        tariffs.entry(key).or_insert_with(|| Arc::new(self.declared(agent, skill))).clone()
    }

    fn declared(&self, agent: &Arc<str>, skill: Option<&Arc<str>>) -> Tariff {
        let settings = &self.settings;
        let of_skill = skill.and_then(|skill| settings.skills.get(&(agent.clone(), skill.clone())));
        Tariff {
            price: of_skill.or_else(|| settings.agents.get(agent)).copied(),
            is_untrusted: settings.untrusted.contains(agent),
            unknown: settings.unknown,
            ..Tariff::default()
        }
    }
}

// === impl Tariff ===

impl Tariff {
    /// Whether what its agent reports counts up to what was held, and no further.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// What to hold for a call: the caller's own maximum, or else the declared price, with the tokens that 95 of 100 such
    /// calls stayed below. Only what is held is guessed from what was seen, never what is charged.
    pub fn estimate(&self, ceiling_micro_usd: Option<u64>, limited: Limited) -> Result<Estimate, Denied> {
        let expected = match (self.price, self.unknown) {
            (Some(price), _) => Figure::of_money(price.of(0), CostSource::Declared),
            (None, _) if !limited.money => Figure::of_money(0, CostSource::Unknown),
            (None, UnknownCost::Hold(micro_usd)) => Figure::of_money(micro_usd, CostSource::Held),
            (None, UnknownCost::Deny) => return Err(cost_unknown()),
        };
        let seen = self.usual_tokens();
        // Where tokens are limited a call holds one at least, so that a limit that is used up lets none in.
        let tokens = seen.max(u64::from(limited.tokens));
        let price = self.price.map_or(expected.amount.micro_usd, |price| price.of(seen));
        // What is declared is due in any case: a lower ceiling is refused by the account of the call.
        let micro_usd = price.max(ceiling_micro_usd.unwrap_or_default());
        Ok(Estimate { hold: Amount { micro_usd, tokens, tasks: 1 }, expected })
    }

    /// What is known of a call for which so much was held before a restart: it costs no more than that, unless somebody
    /// says so.
    pub(crate) fn held_before(&self, held: Amount) -> Estimate {
        let expected = match self.price {
            Some(price) => Figure::of_money(price.of(0).min(held.micro_usd), CostSource::Declared),
            None if held.micro_usd == 0 => Figure::of_money(0, CostSource::Unknown),
            None => Figure::of_money(held.micro_usd, CostSource::Held),
        };
        Estimate { hold: held, expected }
    }

    /// What a call comes to: what was reported or metered, but never less than what is declared.
    pub fn charge(&self, estimate: &Estimate, usage: Option<(Usage, CostSource)>) -> Figure {
        let Some((usage, said_by)) = usage else { return estimate.expected };
        let declared = self.price.map(|price| price.of(usage.tokens()));
        let expected = (estimate.expected.amount.micro_usd, estimate.expected.source);
        let (micro_usd, source) = match declared {
            Some(declared) if declared >= usage.cost_micro_usd => (declared, CostSource::Declared),
            _ if usage.cost_micro_usd == 0 => expected,
            // What nobody trusts may only raise it.
            _ if self.is_untrusted && usage.cost_micro_usd <= expected.0 => expected,
            _ => (usage.cost_micro_usd, said_by),
        };
        let amount = Amount { micro_usd, tokens: usage.tokens(), tasks: 1 };
        Figure { amount, source, token_source: said_by }
    }

    /// Remembers what a call has used.
    pub fn observe(&self, usage: Usage) {
        if !self.is_untrusted && usage.tokens() > 0 {
            self.seen_tokens.record(usage.tokens());
        }
    }

    /// The price that is declared.
    pub fn price(&self) -> Option<Price> {
        self.price
    }

    /// What 95 of 100 calls stayed below; nothing if that is not known. Of an agent that nobody trusts any more, what it
    /// once said is worth nothing.
    fn usual_tokens(&self) -> u64 {
        if self.is_untrusted { 0 } else { self.seen_tokens.p95().unwrap_or_default() }
    }
}

// === impl Figure ===

impl Figure {
    /// Of a call of which nobody has said how many tokens it used.
    pub(crate) fn of_money(micro_usd: u64, source: CostSource) -> Self {
        let amount = Amount { micro_usd, tokens: 0, tasks: 1 };
        Self { amount, source, token_source: CostSource::Unknown }
    }
}

fn cost_unknown() -> Denied {
    let mut denied = Denied::new(GATE, DeniedKind::Exhausted, COST_UNKNOWN);
    denied.hint = Some(
        "the operator can give the agent a `price` (0 is one), or set `budget.unknown_cost = \"hold:AMOUNT\"`"
            .to_owned(),
    );
    denied
}
