//! Whether there is money, tokens and room for the call, at every level that limits any: held before it runs.

use std::sync::Arc;

use chancery_protocol::{Denied, Principal};

use crate::gate::{Continue, Gate, Passage, Verdict};
use crate::ledger::{
    Account, Accounts, Admission, Limited, Metric, Scope, Standing, UNATTRIBUTED, check_by, exceeded,
};
use crate::lineage::Payer;
use crate::policy::{self, Facts, Subject};
use crate::terms::Terms;

/// The third gate.
#[derive(Debug)]
pub struct BudgetGate;

impl Gate for BudgetGate {
    fn name(&self) -> &'static str {
        "budget"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let (plane, terms) = (passage.plane.clone(), passage.terms.clone());
        passage.given.skill = skill(passage);
        let accounts = accounts(passage);
        if let Some(denied) = overrun(passage) {
            return Verdict::Deny(denied);
        }
        let tariff = terms.prices.tariff(&passage.agent.name, passage.given.skill.as_ref());
        let is_root = passage.given.descent.as_ref().is_none_or(|descent| descent.parent.is_none());
        // The account of the root keeps to the ceiling, for this call and for all that it leads to. Were all of it held for this
        // one, there would be nothing left for those.
        let ceiling = passage.call.context.ceiling_micro_usd.filter(|_| !is_root);
        let estimated = tariff.estimate(ceiling, limited(&terms, &accounts));
        passage.given.tariff = Some(tariff);
        let estimate = match estimated {
            Ok(estimate) => estimate,
            Err(denied) => return Verdict::Deny(denied),
        };
        passage.note("budget", || {
            format!("holds {} micro-USD and {} tokens", estimate.hold.micro_usd, estimate.hold.tokens)
        });
        passage.given.estimate = Some(estimate);
        if passage.rehearsal {
            accounts.iter().for_each(|account| note(passage, account));
            return check_by(&terms.edition, &accounts, estimate.hold, passage.now)
                .map_err(Denied::from)
                .into();
        }
        let caller = passage.call.context.principal.id.clone();
        let deadline = plane.until(passage.call.context.deadline, passage.now);
        match plane.ledger.admit(&terms.edition, &caller, accounts, estimate.hold, deadline, passage.now) {
            Ok(Admission::Reserved(reservation)) => {
                passage.given.reservation = Some(reservation);
                Verdict::Admit
            }
            Ok(Admission::Waiting(ticket)) => {
                plane.hands.wake();
                Verdict::Queue(Box::pin(async move {
                    let admitted = ticket.await;
                    Box::new(move |passage: &mut Passage| match admitted {
                        Ok(reservation) => {
                            passage.given.reservation = Some(reservation);
                            Verdict::Admit
                        }
                        Err(refusal) => Verdict::Deny(refusal.into()),
                    }) as Continue
                }))
            }
            Err(refusal) => Verdict::Deny(refusal.into()),
        }
    }
}

/// Why an agent gets no calls that has reported too much above what they could pay for.
fn overrun(passage: &Passage) -> Option<Denied> {
    let (agent, edition, now) = (&passage.agent.name, &passage.terms.edition, passage.now);
    let account = passage.plane.ledger.account_by(edition, &Scope::Overrun(agent.clone()), now)?;
    exceeded(&account, edition, now).map(|short| short.of_overruns(agent))
}

/// What the operator limits for a call. What its caller limits itself asks nothing of a price.
fn limited(terms: &Terms, accounts: &Accounts) -> Limited {
    let is_own = |account: &Account| matches!(account.scope(), Scope::Root(_) | Scope::Hop(_));
    let shared = |metric| {
        let limits = |account: &Arc<Account>| !is_own(account) && account.limits(metric, &terms.edition);
        accounts.iter().any(limits)
    };
    let caps = [terms.settings.root_cap, terms.settings.call_cap];
    Limited {
        money: caps.iter().any(|cap| cap.micro_usd.is_some()) || shared(Metric::MicroUsd),
        tokens: caps.iter().any(|cap| cap.tokens.is_some()) || shared(Metric::Tokens),
    }
}

/// Says what is left of each limit of an account.
fn note(passage: &mut Passage, account: &Account) {
    for standing in account.standings_by(&passage.terms.edition.clone(), passage.now) {
        let Standing { metric, window, cap, remaining, .. } = standing;
        let scope = account.scope();
        passage.note("budget", || {
            format!("{scope}: {} of {} left {}", metric.text(remaining), metric.text(cap), window.as_str())
        });
    }
}

/// The skill that the call is for, as policy will see it: what it costs depends on it.
fn skill(passage: &Passage) -> Option<Arc<str>> {
    let context = &passage.call.context;
    let named = policy::named_skill(passage.send()?);
    let subject = Subject { realm: &context.principal.realm, caller: &context.principal.id, groups: &[] };
    let mut facts = Facts::new(subject, &passage.agent.name, passage.operation());
    (facts.skills, facts.path_skill) = (&passage.agent.skills, context.skill.as_deref());
    facts.named_skill = named.as_deref();
    policy::skill(&facts).cloned()
}

/// Every account that the call is charged to.
fn accounts(passage: &mut Passage) -> Accounts {
    let (plane, terms) = (&passage.plane, &passage.terms);
    let context = &passage.call.context;
    let payer = passage.given.descent.as_ref().map_or(Payer::Caller, |descent| descent.payer());
    let parent = passage.given.descent.as_ref().and_then(|descent| descent.parent.as_ref());
    let above = parent.and_then(|parent| plane.held(parent.hop));
    // What is done on somebody's behalf is at their expense, whoever does it.
    let payer = match (payer, &above) {
        (Payer::Unattributed(agent), _) => {
            let realm = context.principal.realm.clone();
            Principal { realm, id: format!("{UNATTRIBUTED}{agent}").into() }
        }
        (Payer::Caller | Payer::Root(_), Some(above)) => above.payer.clone(),
        (Payer::Caller | Payer::Root(_), None) => context.principal.clone(),
    };
    let now = passage.now;
    let ceiling = context.ceiling_micro_usd;
    let root: Option<Arc<Account>> = match &above {
        Some(above) => above.root.clone(),
        None => plane.ledger.root(passage.hop, terms.settings.root_cap.lowered(ceiling)),
    };
    let of_call = if above.is_some() { ceiling } else { None };
    let call = plane.ledger.hop(passage.hop, terms.settings.call_cap.lowered(of_call));
    let mut accounts = terms.accounts(&plane.ledger, &payer.realm, &payer.id, &passage.agent.name, now);
    accounts.extend(root.iter().cloned().chain(call));
    (passage.given.payer, passage.given.root) = (Some(payer), root);
    accounts
}
