//! Whether a call would be let through as somebody wants it, with less, or not at all. Decided by the gates themselves, the
//! card and how the agent is; nothing is taken for it.

use std::sync::Arc;

use chancery_control::ledger::{Limited, Metric};
use chancery_control::policy::{Facts, SKILL_EXTENSION, Subject};
use chancery_control::{Explanation, Millis};
use chancery_protocol::{
    BilledParty, Call, CallContext, Caller, Denied, JsonObject, Message, Operation, Request,
    SendMessageRequest, Timestamp, media_type_matches,
};
use chancery_sdk::Visitor;

use super::Plain;
use super::agreement::{Agreement, VALID_MS};
use super::body::{NegotiateRequest, NegotiateResponse, Outcome, Reason, Terms};
use super::failure::Failure;
use crate::config::{Trust, Usd};
use crate::fleet::{Member, Seen};
use crate::limits::InputLimits;

/// What is found out, one thing after the other.
struct Talk<'a> {
    plain: &'a Plain,
    caller: &'a Caller,
    seen: Seen,
    wanted: NegotiateRequest,
    limits: InputLimits,
    terms: Terms,
    /// Why it is less than what was wanted.
    less: Vec<Reason>,
    /// Why it is nothing.
    refused: Vec<Reason>,
}

impl Plain {
    /// Negotiates with an agent; with whoever the fleet would choose, if none is named.
    pub(super) fn negotiate(
        &self,
        visitor: &Visitor,
        caller: &Caller,
        agent: Option<&Member>,
        mut wanted: NegotiateRequest,
    ) -> Result<NegotiateResponse, Failure> {
        let chosen = match agent {
            Some(member) => Ok(member.clone()),
            None => self.choose(caller, &wanted),
        };
        let member = match chosen {
            Ok(member) => member,
            Err(reason) => return Ok(refusal(None, vec![reason])),
        };
        let Some(seen) = self.fleet.seen(caller, &member) else {
            let reason = reason("NOT_ALLOWED", format!("you may not send messages to `{}`", member.name));
            return Ok(refusal(Some(&member.name), vec![reason]));
        };
        let context = visitor.context(&member.name, caller.clone())?;
        // What the header says is asked for, too, and the lower one counts.
        let budget = [wanted.budget_usd.map(|Usd(micro)| micro), context.ceiling_micro_usd];
        wanted.budget_usd = budget.into_iter().flatten().min().map(Usd);
        let limits = self.regime().input.at(&member.name);
        let mut talk = Talk {
            plain: self,
            caller,
            seen,
            wanted,
            limits,
            terms: Terms::default(),
            less: Vec::new(),
            refused: Vec::new(),
        };
        talk.health();
        talk.card();
        talk.input();
        talk.time();
        talk.gates(&context);
        Ok(talk.end())
    }

    /// Somebody to negotiate with: of those who have the skill, our own and those who are well come first.
    fn choose(&self, caller: &Caller, wanted: &NegotiateRequest) -> Result<Member, Reason> {
        let roster = &self.regime().roster;
        if let Some(only) = roster.only_exposed() {
            return Ok(only.clone());
        }
        let seen = self.fleet.seen_by(caller);
        let mut ids: Vec<_> = seen.iter().flat_map(|seen| &seen.believed).map(|skill| &*skill.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let skill = match (wanted.skills.first(), &ids[..]) {
            (Some(skill), _) => skill.as_str(),
            (None, [only]) => only,
            (None, _) => {
                return Err(reason("SKILL_REQUIRED", "name the skill that it is about, in `skills`"));
            }
        };
        let rank = |seen: &&Seen| {
            (seen.member.trust == Trust::Untrusted, self.fleet.health(&seen.member).is_unhealthy())
        };
        let able = seen.iter().filter(|seen| seen.believed.iter().any(|known| known.id == skill));
        let best = able.min_by_key(rank).map(|seen| seen.member.clone());
        best.ok_or_else(|| {
            reason("SKILL_NOT_OFFERED", format!("nobody here has the skill `{skill}` for you"))
        })
    }
}

impl Talk<'_> {
    fn agent(&self) -> &Arc<str> {
        &self.seen.member.name
    }

    fn now(&self) -> Millis {
        self.plain.regime().plane().hands.now()
    }

    fn health(&mut self) {
        let health = self.plain.fleet.health(&self.seen.member);
        if health.is_unhealthy() {
            let why = health.reason().unwrap_or("it is not well");
            self.refused.push(reason("AGENT_UNAVAILABLE", why));
        }
    }

    /// What the card offers of what is wanted.
    fn card(&mut self) {
        let (card, wanted) = (&self.seen.card, &self.wanted);
        let usable = || self.seen.skills.iter().map(|skill| skill.id.clone());
        let (skills, reasons, none) = offered(&wanted.skills, "SKILL_NOT_OFFERED", "skill", |wanted| {
            self.seen.skills.iter().any(|skill| skill.id == *wanted)
        });
        self.terms.skills = if wanted.skills.is_empty() { usable().collect() } else { skills };
        if none { &mut self.refused } else { &mut self.less }.extend(reasons);
        let matches =
            |modes: &[String], wanted: &str| modes.iter().any(|mode| media_type_matches(mode, wanted));
        let modes = [
            (
                &wanted.input_modes,
                &card.default_input_modes,
                "INPUT_MODE_NOT_OFFERED",
                &mut self.terms.input_modes,
            ),
            (
                &wanted.output_modes,
                &card.default_output_modes,
                "OUTPUT_MODE_NOT_OFFERED",
                &mut self.terms.output_modes,
            ),
        ];
        for (wanted, there, code, terms) in modes {
            let (found, reasons, none) = offered(wanted, code, "media type", |wanted| matches(there, wanted));
            *terms = if wanted.is_empty() { there.clone() } else { found };
            if none { &mut self.refused } else { &mut self.less }.extend(reasons);
        }
        let known =
            |wanted: &str| card.capabilities.extensions.iter().any(|extension| extension.uri == wanted);
        let (extensions, reasons, _) =
            offered(&wanted.extensions, "EXTENSION_NOT_OFFERED", "extension", |wanted| known(wanted));
        self.terms.extensions = extensions;
        self.less.extend(reasons);
        self.terms.streaming = card.capabilities.streaming == Some(true);
        if wanted.streaming && !self.terms.streaming {
            self.less.push(reason("STREAMING_NOT_OFFERED", "the agent answers as a whole"));
        }
    }

    /// What the agent takes in one message.
    fn input(&mut self) {
        let limits = self.limits;
        self.terms.max_input_tokens = limits.max_input_tokens;
        self.terms.max_payload_bytes = limits.max_payload_bytes;
        self.terms.minimum_cost_usd = limits.minimum_micro_usd.map(Usd);
        let bytes = self.wanted.input_tokens.map_or(0, |tokens| tokens.saturating_mul(4));
        self.refused.extend(limits.refusal(bytes).map(|denied| denial(&denied)));
    }

    /// How long a call may take.
    fn time(&mut self) {
        let most = {
            let Caller { principal, identity } = &*self.plain.regime().judged_as(self.caller);
            let subject =
                Subject { realm: &principal.realm, caller: &principal.id, groups: &identity.groups };
            let policy = &self.plain.regime().terms.policy;
            let decided = policy.decide(&Facts::new(subject, self.agent(), Operation::SendMessage));
            decided.enforced.max_duration.map(|set| u64::try_from(set.to.as_millis()).unwrap_or(u64::MAX))
        };
        self.terms.timeout_ms = [self.wanted.timeout_ms, most].into_iter().flatten().min();
        if let (Some(wanted), Some(most)) = (self.wanted.timeout_ms, most)
            && wanted > most
        {
            self.less.push(reason("TIMEOUT_REDUCED", format!("a call may take {most} ms")));
        }
    }

    /// What the gates would say. No more is promised than there is left.
    fn gates(&mut self, context: &CallContext) {
        let skill = self.skill();
        let tariff = self.plain.regime().terms.prices.tariff(self.agent(), skill.as_ref());
        let known = tariff.estimate(None, Limited { money: true, tokens: false }).ok();
        // A price by the token says nothing until it is known how many tokens such calls use.
        let by_token = tariff.price().is_some_and(|price| price.per_1k_tokens > 0);
        let known = known.filter(|estimate| !by_token || estimate.hold.tokens > 0);
        self.terms.expected_cost_usd = known.map(|estimate| Usd(estimate.hold.micro_usd));
        let wanted = self.wanted.budget_usd.map(|Usd(micro)| micro);
        let offered = wanted.map(|wanted| wanted.min(self.money_left()));
        self.terms.budget_usd = offered.map(Usd);
        let Some(explanation) = self.explain(context, offered) else {
            return self.refused.push(reason("AGENT_UNAVAILABLE", "the agent has just gone"));
        };
        if let Some(denied) = explanation.denied() {
            return self.refused.push(denial(denied));
        }
        if offered < wanted {
            self.less.push(reason("BUDGET_REDUCED", "the rest of it is not left in a budget"));
        }
        if explanation.gates.iter().any(|gate| gate.waits) {
            self.less.push(reason("MAY_WAIT", "the call may wait until there is room in a budget"));
        }
    }

    /// What the budgets that a call would be paid from have left, in millionths of a US dollar.
    fn money_left(&self) -> u64 {
        let (regime, now) = (self.plain.regime(), self.now());
        let edition = &regime.terms.edition;
        let Caller { principal, identity } = &*self.plain.regime().judged_as(self.caller);
        let billed =
            BilledParty { realm: &principal.realm, name: Some(&principal.id), groups: &identity.groups };
        let accounts = regime.plane().ledger.accounts_charged(edition, billed, self.agent(), now);
        let standings = accounts.iter().flat_map(|account| account.standings_by(edition, now));
        let money = standings.filter(|standing| standing.metric == Metric::MicroUsd);
        money.map(|standing| standing.remaining).min().unwrap_or(u64::MAX)
    }

    /// The skill that a call would be for.
    fn skill(&self) -> Option<Arc<str>> {
        self.terms
            .skills
            .first()
            .filter(|_| !self.wanted.skills.is_empty())
            .map(|skill| skill.as_str().into())
    }

    fn explain(&self, context: &CallContext, ceiling: Option<u64>) -> Option<Explanation> {
        let mut context = Box::new(context.clone());
        context.ceiling_micro_usd = ceiling;
        let mut message = Message::user("negotiate");
        message.metadata = self.skill().and_then(|skill| JsonObject::single(SKILL_EXTENSION, &*skill).ok());
        let request = Box::new(SendMessageRequest::from(message));
        let request = match self.wanted.streaming && self.terms.streaming {
            true => Request::SendStreamingMessage(request),
            false => Request::SendMessage(request),
        };
        let pipeline = self.plain.regime().pipeline(self.agent())?;
        Some(pipeline.explain(Call { request, context }, self.now()))
    }

    fn end(self) -> NegotiateResponse {
        if !self.refused.is_empty() {
            let reasons = self.refused.into_iter().chain(self.less).collect();
            return refusal(Some(&self.seen.member.name), reasons);
        }
        let expires = self.now().0 + VALID_MS;
        let agreement = Agreement {
            realm: self.caller.principal.realm.to_string(),
            caller: self.caller.principal.id.to_string(),
            agent: self.agent().to_string(),
            skills: if self.wanted.skills.is_empty() { Vec::new() } else { self.terms.skills.clone() },
            budget_micro_usd: self.terms.budget_usd.map(|Usd(micro)| micro),
            timeout_ms: self.wanted.timeout_ms.and(self.terms.timeout_ms),
            expires,
        };
        let until = Timestamp::from_millis(i64::try_from(expires).unwrap_or(i64::MAX));
        NegotiateResponse {
            outcome: if self.less.is_empty() { Outcome::Agreed } else { Outcome::Degraded },
            agent: Some(agreement.agent.clone()),
            agreement_id: Some(self.plain.seal.id(&agreement)),
            expires_at: Some(until.to_string()),
            reasons: self.less,
            terms: Some(self.terms),
        }
    }
}

/// Which of what is wanted is there, why the rest is not, and whether nothing is.
fn offered(
    wanted: &[String],
    code: &str,
    what: &str,
    is_there: impl Fn(&str) -> bool,
) -> (Vec<String>, Vec<Reason>, bool) {
    let (found, missing): (Vec<_>, Vec<_>) = wanted.iter().cloned().partition(|wanted| is_there(wanted));
    let none = found.is_empty() && !missing.is_empty();
    let reasons =
        missing.iter().map(|missing| reason(code, format!("there is no {what} `{missing}` for you here")));
    (found, reasons.collect(), none)
}

fn refusal(agent: Option<&str>, reasons: Vec<Reason>) -> NegotiateResponse {
    NegotiateResponse {
        outcome: Outcome::Refused,
        agent: agent.map(str::to_owned),
        agreement_id: None,
        expires_at: None,
        reasons,
        terms: None,
    }
}

fn reason(code: &str, detail: impl Into<String>) -> Reason {
    Reason { reason: code.to_owned(), detail: detail.into(), retry_after_ms: None }
}

/// What a gate says.
fn denial(denied: &Denied) -> Reason {
    let hint = denied.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    Reason {
        reason: denied.reason.to_string(),
        detail: format!("{denied}{hint}"),
        retry_after_ms: denied.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
    }
}
