//! Which limits hold for a call, and whether it is within them. A function of the rules and the facts alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, Denied, Identity, Operation, Principal};
use foldhash::fast::RandomState;

use super::judge;
use super::rule::{Callers, Limits, Mode, Rule};
use super::slots::DEFAULT_CONCURRENCY;

/// The rules of the operator, in the order in which they count.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    /// Where the rules are that name a caller: there may be many of those.
    named: HashMap<Arc<str>, Vec<usize>, RandomState>,
    /// Where the others begin.
    general: usize,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What isolates.
    pub realm: &'a str,
    /// The caller.
    pub caller: &'a str,
    /// The groups that it belongs to.
    pub groups: &'a [Arc<str>],
}

/// All that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Who calls.
    pub subject: Subject<'a>,
    /// Which agent.
    pub agent: &'a str,
    /// For what.
    pub operation: Operation,
    /// The skills that the agent has.
    pub skills: &'a [Arc<str>],
    /// The skill that the path of the call stands for.
    pub path_skill: Option<&'a str>,
    /// The skill that the message names, by the skill extension.
    pub named_skill: Option<&'a str>,
    /// How large the message is.
    pub input_bytes: u64,
    /// What the message holds: [`media_types`](super::media_types).
    pub media_types: &'a [&'a str],
    /// What is to be held for the call.
    pub reserved: Amount,
}

/// A limit that holds, and the rule that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'p, T> {
    /// The limit.
    pub to: T,
    /// The name of the rule.
    pub by: &'p str,
}

/// The limits that hold for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effective<'p> {
    /// The operations that may be asked for.
    pub operations: Option<Set<'p, &'p [Operation]>>,
    /// The skills that may be used.
    pub allowed_skills: Option<Set<'p, &'p [Arc<str>]>>,
    /// How many calls of one caller for one skill may be open at once.
    pub max_concurrency: Option<Set<'p, u32>>,
    /// How many tokens one call may take.
    pub max_tokens: Option<Set<'p, u64>>,
    /// How much one call may cost, in millionths of a US dollar.
    pub max_micro_usd: Option<Set<'p, u64>>,
    /// How long one call may take.
    pub max_duration: Option<Set<'p, Duration>>,
    /// How large one message may be.
    pub max_input_bytes: Option<Set<'p, u64>>,
    /// The media types that a message may hold.
    pub input_modes: Option<Set<'p, &'p [Arc<str>]>>,
}

/// What a call may use up while it runs. None is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Tokens, read and written together.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// From when it is let through to its end.
    pub duration: Option<Duration>,
}

/// What the policy says about a call.
#[derive(Clone, Debug)]
pub struct Decision<'p> {
    /// The limits that are enforced.
    pub enforced: Effective<'p>,
    /// The limits as they would be if every rule were enforced, where some are only observed.
    pub rehearsed: Option<Effective<'p>>,
    /// The skill that the call is for, if that is known and the agent has it.
    pub skill: Option<Arc<str>>,
    /// Why the call is refused, if it is.
    pub denied: Option<Denied>,
    /// Why a call that passes would be refused if every rule were enforced.
    pub would_deny: Option<Denied>,
}

// === impl Subject ===

impl<'a> Subject<'a> {
    /// A caller, as it was proven.
    pub fn new(principal: &'a Principal, identity: &'a Identity) -> Self {
        Self { realm: &principal.realm, caller: &principal.id, groups: &identity.groups }
    }
}

// === impl Caps ===

impl Caps {
    /// What both allow.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Self {
            tokens: lower(self.tokens, other.tokens),
            micro_usd: lower(self.micro_usd, other.micro_usd),
            duration: lower(self.duration, other.duration),
        }
    }
}

// === impl Policy ===

impl Policy {
    /// Of these rules, written in this order.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.specificity()));
        let mut named: HashMap<_, Vec<_>, _> = HashMap::default();
        let mut general = 0;
        for (place, rule) in rules.iter().enumerate() {
            let Callers::Named(callers) = &rule.callers else { continue };
            general = place + 1;
            for caller in callers {
                named.entry(caller.clone()).or_default().push(place);
            }
        }
        Self { rules, named, general }
    }

    /// The rules that are for such a call, the most specific first.
    pub fn matching(
        &self,
        subject: Subject<'_>,
        agent: &str,
        operation: Operation,
    ) -> impl Iterator<Item = &Rule> {
        let named = self.named.get(subject.caller).into_iter().flatten().map(|place| &self.rules[*place]);
        let matches = move |rule: &&Rule| rule.is_for(&subject, agent, operation);
        named.chain(&self.rules[self.general..]).filter(matches)
    }

    /// Whether a caller may ask this of an agent at all. Needs to know nothing about the agent or the message.
    pub fn authorize(&self, subject: Subject<'_>, agent: &str, operation: Operation) -> Decision<'_> {
        self.judged(subject, agent, operation, None, |limits| judge::operation(limits, operation))
    }

    /// What is to become of a call. Operations other than sending a message are only looked up among those allowed.
    pub fn decide(&self, facts: &Facts<'_>) -> Decision<'_> {
        let Facts { subject, agent, operation, .. } = *facts;
        if !matches!(operation, Operation::SendMessage | Operation::SendStreamingMessage) {
            return self.authorize(subject, agent, operation);
        }
        self.judged(subject, agent, operation, judge::skill(facts), |limits| judge::message(limits, facts))
    }

    /// Judges by the rules that are enforced and, if others are to be rehearsed, by all of them.
    fn judged(
        &self,
        subject: Subject<'_>,
        agent: &str,
        operation: Operation,
        skill: Option<&Arc<str>>,
        judge: impl Fn(&Effective<'_>) -> Result<(), Denied>,
    ) -> Decision<'_> {
        let mut enforced = Effective::default();
        let mut rehearsed: Option<Effective<'_>> = None;
        for rule in self.matching(subject, agent, operation) {
            if rule.mode == Mode::Observe {
                rehearsed.get_or_insert(enforced).fill(&rule.name, &rule.limits);
                continue;
            }
            enforced.fill(&rule.name, &rule.limits);
            if let Some(rehearsed) = &mut rehearsed {
                rehearsed.fill(&rule.name, &rule.limits);
            }
        }
        let denied = judge(&enforced).err();
        let would_deny =
            rehearsed.as_ref().filter(|_| denied.is_none()).and_then(|limits| judge(limits).err());
        Decision { enforced, rehearsed, skill: skill.cloned(), denied, would_deny }
    }
}

// === impl Facts ===

impl<'a> Facts<'a> {
    /// A call about which nothing else is known.
    pub fn new(subject: Subject<'a>, agent: &'a str, operation: Operation) -> Self {
        Self {
            subject,
            agent,
            operation,
            skills: &[],
            path_skill: None,
            named_skill: None,
            input_bytes: 0,
            media_types: &[],
            reserved: Amount::default(),
        }
    }
}

// === impl Effective ===

impl<'p> Effective<'p> {
    /// Takes over what a rule limits and no rule before it did.
    fn fill(&mut self, rule: &'p str, limits: &'p Limits) {
        fn take<'p, T>(place: &mut Option<Set<'p, T>>, limit: Option<T>, by: &'p str) {
            if place.is_none() {
                *place = limit.map(|to| Set { to, by });
            }
        }
        take(&mut self.operations, limits.operations.as_deref(), rule);
        take(&mut self.allowed_skills, limits.allowed_skills.as_deref(), rule);
        take(&mut self.max_concurrency, limits.max_concurrency, rule);
        take(&mut self.max_tokens, limits.max_tokens, rule);
        take(&mut self.max_micro_usd, limits.max_micro_usd, rule);
        take(&mut self.max_duration, limits.max_duration, rule);
        take(&mut self.max_input_bytes, limits.max_input_bytes, rule);
        take(&mut self.input_modes, limits.input_modes.as_deref(), rule);
    }

    /// What a call may use up while it runs.
    pub fn caps(&self) -> Caps {
        Caps {
            tokens: self.max_tokens.map(|set| set.to),
            micro_usd: self.max_micro_usd.map(|set| set.to),
            duration: self.max_duration.map(|set| set.to),
        }
    }

    /// How many calls of one caller for one skill may be open at once.
    pub fn concurrency(&self) -> u32 {
        self.max_concurrency.map_or(DEFAULT_CONCURRENCY, |set| set.to)
    }
}

/// The limits that are set, each with the rule that sets it.
impl fmt::Display for Effective<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut limits = Vec::new();
        fn say<T: fmt::Debug>(limits: &mut Vec<String>, name: &str, set: &Option<Set<'_, T>>) {
            limits.extend(set.as_ref().map(|set| format!("{name} {:?} by policy `{}`", set.to, set.by)));
        }
        say(&mut limits, "operations", &self.operations);
        say(&mut limits, "skills", &self.allowed_skills);
        say(&mut limits, "calls at a time", &self.max_concurrency);
        say(&mut limits, "tokens", &self.max_tokens);
        say(&mut limits, "micro-USD", &self.max_micro_usd);
        say(&mut limits, "time", &self.max_duration);
        say(&mut limits, "input bytes", &self.max_input_bytes);
        say(&mut limits, "media types", &self.input_modes);
        f.write_str(if limits.is_empty() { "no policy limits it" } else { "" })?;
        f.write_str(&limits.join(", "))
    }
}
