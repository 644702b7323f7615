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

/// What happens to a call whose cost nobody has declared or seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownCost {
    /// It is let through and its figures are flagged: for nothing where no money is limited, else at the default.
    #[default]
    AllowAndFlag,
    /// It is let through at the default, and flagged.
    Default,
    /// It is refused.
    Deny,
}

/// The settings of the prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceSettings {
    /// By agent.
    pub agents: HashMap<Arc<str>, Price>,
    /// By agent and skill; comes before that of the agent.
    pub skills: HashMap<(Arc<str>, Arc<str>), Price>,
    /// Agents that nobody trusts: what they report may raise a charge above what was expected, and never lower it, and nothing
    /// is learnt from it.
    pub untrusted: BTreeSet<Arc<str>>,
    /// What happens to a call whose cost is not known.
    pub unknown: UnknownCost,
    /// What such a call is taken to cost.
    pub default: Amount,
    /// For how many pairs of agent and skill it is remembered what they cost.
    pub max_tariffs: usize,
}

/// What calls cost, for all agents and skills.
#[derive(Debug)]
pub struct Prices {
    settings: PriceSettings,
    tariffs: RwLock<HashMap<AgentAndSkill, Arc<Tariff>, RandomState>>,
}

type AgentAndSkill = (Arc<str>, Option<Arc<str>>);

/// What calls of one agent, for one skill, cost: the price that is declared, and what was seen.
#[derive(Debug, Default)]
pub struct Tariff {
    price: Option<Price>,
    /// Whether a report may only raise what is charged.
    only_raises: bool,
    unknown: UnknownCost,
    default: Amount,
    seen: Arc<Seen>,
}

/// What calls were seen to use, by whatever is declared.
#[derive(Debug, Default)]
struct Seen {
    micro_usd: Histogram,
    tokens: Histogram,
}

/// An amount and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// How much.
    pub amount: Amount,
    /// Where it comes from.
    pub source: CostSource,
    /// Nobody knows what it costs; somebody should say so.
    pub flagged: bool,
}

/// What is known of a call before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What to hold.
    pub hold: Amount,
    /// What is charged if nobody reports anything.
    pub expected: Figure,
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
            default: Amount { micro_usd: 10_000, tokens: 2_000, tasks: 1 },
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
            let seen = known.seen.clone();
            ((agent.clone(), skill.clone()), Arc::new(Tariff { seen, ..declared }))
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
            only_raises: settings.untrusted.contains(agent),
            unknown: settings.unknown,
            default: settings.default,
            ..Tariff::default()
        }
    }
}

// === impl Tariff ===

impl Tariff {
    /// What to hold for a call: the caller's own maximum, or else the declared price, what 95 of 100 such calls stayed
    /// below, or the default. `money_is_limited` says whether any of its accounts limits money.
    pub fn estimate(
        &self,
        ceiling_micro_usd: Option<u64>,
        money_is_limited: bool,
    ) -> Result<Estimate, Denied> {
        let mut expected = match self.expected(money_is_limited) {
            Some(expected) => expected,
            // The cost is not known, but the caller says what it is good for.
            None if ceiling_micro_usd.is_some() => {
                self.figure(self.default.micro_usd, CostSource::Estimated, true)
            }
            None => return Err(cost_unknown()),
        };
        let mut hold = expected.amount;
        if let Some(ceiling) = ceiling_micro_usd {
            match self.price {
                // What is declared is due in any case: a lower ceiling is refused by the account of the call.
                Some(_) => hold.micro_usd = ceiling.max(hold.micro_usd),
                // What is only guessed is never more than what the caller is good for.
                None => {
                    hold.micro_usd = ceiling;
                    expected.amount.micro_usd = expected.amount.micro_usd.min(ceiling);
                }
            }
        }
        Ok(Estimate { hold, expected })
    }

    /// What is known of a call for which so much was held before a restart: it costs no more than that, unless somebody
    /// says so.
    pub(crate) fn held_before(&self, held: Amount) -> Estimate {
        let unknown = || self.figure(self.default.micro_usd, CostSource::Estimated, true);
        let mut expected = self.expected(true).unwrap_or_else(unknown);
        expected.amount.micro_usd = expected.amount.micro_usd.min(held.micro_usd);
        expected.amount.tokens = expected.amount.tokens.min(held.tokens);
        Estimate { hold: held, expected }
    }

    /// What a call is charged: what was reported or metered, but never less than what is declared.
    pub fn charge(&self, estimate: &Estimate, usage: Option<(Usage, CostSource)>) -> Figure {
        let Some((usage, source)) = usage else { return estimate.expected };
        let declared = self.price.map(|price| price.of(usage.tokens()));
        let (micro_usd, source, flagged) = match declared {
            Some(declared) if declared >= usage.cost_micro_usd => (declared, CostSource::Declared, false),
            _ if usage.cost_micro_usd > 0 => (usage.cost_micro_usd, source, false),
            // Tokens were reported and no price: what they cost is as unknown as before.
            _ => {
                let expected = &estimate.expected;
                (expected.amount.micro_usd, expected.source, expected.flagged)
            }
        };
        let amount = Amount { micro_usd, tokens: usage.tokens(), tasks: 1 };
        self.raised(Figure { amount, source, flagged }, &estimate.expected)
    }

    /// What is charged for what an agent says that nobody trusts: no less than if it had said nothing.
    fn raised(&self, said: Figure, expected: &Figure) -> Figure {
        if !self.only_raises {
            return said;
        }
        let tokens = said.amount.tokens.max(expected.amount.tokens);
        let dearer = if said.amount.micro_usd > expected.amount.micro_usd { said } else { *expected };
        Figure { amount: Amount { tokens, ..dearer.amount }, ..dearer }
    }

    /// Remembers what a call has used.
    pub fn observe(&self, usage: Usage) {
        if self.only_raises {
            return;
        }
        if usage.cost_micro_usd > 0 {
            self.seen.micro_usd.record(usage.cost_micro_usd);
        }
        if usage.tokens() > 0 {
            self.seen.tokens.record(usage.tokens());
        }
    }

    /// The price that is declared.
    pub fn price(&self) -> Option<Price> {
        self.price
    }

    /// What a call is taken to cost if nobody says more. None if that is not known and such calls are refused.
    fn expected(&self, money_is_limited: bool) -> Option<Figure> {
        if let Some(price) = self.price {
            return Some(self.figure(price.of(self.expected_tokens()), CostSource::Declared, false));
        }
        if let Some(seen) = self.learnt(&self.seen.micro_usd) {
            return Some(self.figure(seen, CostSource::Estimated, false));
        }
        let micro_usd = match self.unknown {
            UnknownCost::AllowAndFlag if !money_is_limited => 0,
            UnknownCost::AllowAndFlag | UnknownCost::Default => self.default.micro_usd,
            UnknownCost::Deny => return None,
        };
        Some(self.figure(micro_usd, CostSource::Estimated, true))
    }

    fn expected_tokens(&self) -> u64 {
        self.learnt(&self.seen.tokens).unwrap_or(self.default.tokens)
    }

    /// What 95 of 100 calls stayed below. Of one that nobody trusts any more, what it once said is worth nothing.
    fn learnt(&self, seen: &Histogram) -> Option<u64> {
        if self.only_raises { None } else { seen.p95() }
    }

    fn figure(&self, micro_usd: u64, source: CostSource, flagged: bool) -> Figure {
        Figure { amount: Amount { micro_usd, tokens: self.expected_tokens(), tasks: 1 }, source, flagged }
    }
}

fn cost_unknown() -> Denied {
    let mut denied = Denied::new(GATE, DeniedKind::Exhausted, COST_UNKNOWN);
    denied.hint = Some("declare a price for the agent, or name the most that the call may cost".to_owned());
    denied
}
