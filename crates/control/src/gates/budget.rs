//! Whether there is money, tokens and room for the call, at every level that limits any: held before it runs.

use std::sync::Arc;

use chancery_protocol::{BilledParty, BoxFuture, Caller, Denied, DeniedKind, Principal};

use crate::foreign;
use crate::gate::{Continue, Gate, Passage, Verdict};
use crate::identity::call_of;
use crate::ledger::{
    Account, Accounts, Admission, Cap, Limited, Metric, Scope, Standing, UNATTRIBUTED, check_by, exceeded,
};
use crate::lineage::{Descent, Payer};
use crate::policy::{self, Facts, Subject};

/// What was spent before cannot be read.
const SPENT_UNKNOWN: &str = "SPENT_UNKNOWN";

/// The third gate.
#[derive(Debug)]
pub struct BudgetGate;

impl Gate for BudgetGate {
    fn name(&self) -> &'static str {
        "budget"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        if let Some(recalled) = recalled(passage) {
            return Verdict::Wait(recalled);
        }
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
        let estimated = tariff.estimate(ceiling, limited(passage, &accounts));
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
        let caller = waits_as(passage).id.clone();
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

/// Whose turn it is when there is room: who acts for a call has no place in the line of its own.
fn waits_as(passage: &Passage) -> &Principal {
    let principal = &passage.call.context.principal;
    let payer = passage.given.payer.as_ref().filter(|_| call_of(principal).is_some());
    payer.map_or(principal, |payer| &payer.principal)
}

/// What was spent before for the call of another gateway that this one is made for, by the record, if nobody has it in memory.
fn recalled(passage: &Passage) -> Option<BoxFuture<'static, Continue>> {
    let (plane, descent) = (&passage.plane, passage.given.descent.as_ref()?);
    let (root, origin) = (descent.root_above()?, descent.origin()?);
    let cap = foreign::cap(passage.terms.settings.root_cap, origin);
    if cap.is_none() || passage.rehearsal || plane.foreign.find(root).is_some() {
        return None;
    }
    let charged = plane.hands.charged_under(root);
    Some(Box::pin(async move {
        let charged = charged.await;
        Box::new(move |passage: &mut Passage| {
            let Some(charged) = charged else { return Verdict::Deny(untold()) };
            let plane = passage.plane.clone();
            passage.now = plane.hands.now();
            plane.foreign.recall(&plane.ledger, root, cap, charged, passage.now);
            BudgetGate.admit(passage)
        }) as Continue
    }))
}

fn untold() -> Denied {
    Denied {
        observed: Some("what the call of the other gateway has cost here so far cannot be read".into()),
        hint: Some("try again later".into()),
        ..Denied::new(BudgetGate.name(), DeniedKind::Unavailable, SPENT_UNKNOWN)
    }
}

/// Why an agent gets no calls that has reported too much above what they could pay for.
fn overrun(passage: &Passage) -> Option<Denied> {
    let (agent, edition, now) = (&passage.agent.name, &passage.terms.edition, passage.now);
    let account = passage.plane.ledger.account_by(edition, &Scope::Overrun(agent.clone()), now)?;
    exceeded(&account, edition, now).map(|short| short.of_overruns(agent))
}

/// What the operator limits for a call, or that of another gateway that it is made for. What its caller limits itself asks
/// nothing of a price.
fn limited(passage: &Passage, accounts: &Accounts) -> Limited {
    let terms = &passage.terms;
    let is_own = |account: &Account| matches!(account.scope(), Scope::Root(_) | Scope::Hop(_));
    let shared = |metric| {
        let limits = |account: &Arc<Account>| !is_own(account) && account.limits(metric, &terms.edition);
        accounts.iter().any(limits)
    };
    let origin = passage.given.descent.as_ref().and_then(Descent::origin);
    let there = origin.map_or_else(Cap::default, |origin| foreign::cap(Cap::default(), origin));
    let caps = [terms.settings.root_cap, terms.settings.call_cap, there];
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
    let skills = passage.agent.skills.now();
    let mut facts = Facts::new(subject, &passage.agent.name, passage.operation());
    (facts.skills, facts.path_skill) = (&skills, context.skill.as_deref());
    facts.named_skill = named.as_deref();
    policy::skill(&facts).cloned()
}

/// Every account that the call is charged to.
fn accounts(passage: &mut Passage) -> Accounts {
    let (plane, terms) = (&passage.plane, &passage.terms);
    let context = &passage.call.context;
    let payer = passage.given.descent.as_ref().map_or(Payer::Caller, |descent| descent.payer());
    let parent = passage.given.descent.as_ref().and_then(|descent| descent.parent.as_ref());
    let continued = || context.continues.and_then(|hop| plane.parked(hop));
    let above = parent.and_then(|parent| plane.held(parent.hop)).or_else(continued);
    // What is done on somebody's behalf is at their expense, whoever does it.
    let payer = match (payer, &above) {
        (Payer::Unattributed(agent), _) => {
            let realm = context.principal.realm.clone();
            let principal = Principal { realm, id: format!("{UNATTRIBUTED}{agent}").into() };
            Caller { principal, identity: Arc::default() }
        }
        (Payer::Caller | Payer::Root(_), Some(above)) => above.payer.clone(),
        (Payer::Caller | Payer::Root(_), None) => {
            Caller { principal: context.principal.clone(), identity: context.identity.clone() }
        }
    };
    let now = passage.now;
    let ceiling = context.ceiling_micro_usd;
    let foreign = passage.given.descent.as_ref().filter(|descent| descent.origin().is_some());
    let root: Option<Arc<Account>> = match (&above, foreign.and_then(Descent::root_above)) {
        (Some(above), _) => above.root.clone(),
        (None, Some(root)) => plane.foreign.find(root),
        (None, None) => plane.ledger.root(passage.hop, terms.settings.root_cap.lowered(ceiling)),
    };
    let of_call = ceiling.filter(|_| above.is_some() || foreign.is_some());
    let call = plane.ledger.hop(passage.hop, terms.settings.call_cap.lowered(of_call));
    let billed = BilledParty {
        realm: &payer.principal.realm,
        name: Some(&payer.principal.id),
        groups: &payer.identity.groups,
    };
    let mut accounts = plane.ledger.accounts_charged(&terms.edition, billed, &passage.agent.name, now);
    accounts.extend(root.iter().cloned().chain(call));
    (passage.given.payer, passage.given.root) = (Some(payer), root);
    accounts
}
