//! A card for one caller: what it may use of the agent, within which limits, and what is left of them.

use std::sync::Arc;

use chancery_control::ledger::Scope;
use chancery_control::policy::{Facts, SlotKey, Subject};
use chancery_control::rate::Rates;
use chancery_control::{Governed, Plane, Terms};
use chancery_protocol::{
    AgentCard, AgentExtension, BoxFuture, Call, Caller, DynEndpoint, Error, ErrorCode, JsonObject, Operation,
    Queued, Reply, Request, TaskView, Timestamp, USAGE_EXTENSION,
};
use chancery_sdk::Ward;
use serde_json::{Map, Value, json};

use super::Regime;
use super::access::Visit;
use crate::audit::Audit;
use crate::fleet::sight::usable;

/// The extension by which a card says what its agent takes, and from whom how much.
const LIMITS_EXTENSION: &str = "urn:chancery:ext:limits:v1";

/// What agents answer that have nothing more to say to those they know.
const NONE: [ErrorCode; 2] = [ErrorCode::UnsupportedOperation, ErrorCode::ExtendedAgentCardNotConfigured];

/// An agent, for which it is answered here who asks for a card of their own.
pub(super) struct Extended {
    pub(super) agent: Arc<Governed>,
    pub(super) inner: Arc<dyn DynEndpoint>,
    pub(super) cards: Arc<Cards>,
    pub(super) audit: Arc<Audit>,
    /// As it is served, if it is.
    pub(super) ward: Option<Ward>,
}

/// What such a card is made of.
pub(crate) struct Cards {
    plane: Arc<Plane>,
    terms: Arc<Terms>,
    rates: Arc<Rates>,
}

impl DynEndpoint for Extended {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        if !matches!(call.request, Request::GetExtendedAgentCard(_)) {
            return self.inner.call(call);
        }
        Box::pin(async move {
            let principal = call.context.principal.clone();
            let caller = Caller { principal, identity: call.context.identity.clone() };
            let card = match self.inner.call(call).await {
                // The agent itself has more to say to those it knows.
                Ok(Reply::Card(card)) => Some(card),
                Ok(_) => None,
                Err(error) if NONE.contains(&error.code()) => None,
                Err(error) => return Err(error),
            };
            let shown = || self.ward.as_ref().map(Ward::card);
            let card = card.or_else(shown).ok_or_else(|| Error::new(ErrorCode::Unavailable))?;
            let mut card = AgentCard::clone(&card);
            card.skills = usable(&self.cards.terms, &caller, &self.agent.name, card.skills);
            self.cards.extend(&mut card, &caller, Some(&self.agent.name));
            Ok(Reply::Card(Arc::new(card)))
        })
    }

    fn has_queue(&self) -> bool {
        self.inner.has_queue()
    }

    fn enqueue(&self, mut queued: Box<Queued>) -> BoxFuture<'_, Result<TaskView, Error>> {
        let visit = Visit::begin(&queued.call.context);
        queued.admitted = visit.admitted(self.agent.name.clone(), self.audit.clone(), queued.admitted);
        self.inner.enqueue(queued)
    }
}

impl Cards {
    pub(super) fn new(plane: Arc<Plane>, terms: Arc<Terms>, rates: Arc<Rates>) -> Arc<Self> {
        Arc::new(Self { plane, terms, rates })
    }

    /// Writes into a card what its reader may do, and what of that is left.
    fn extend(&self, card: &mut AgentCard, caller: &Caller, agent: Option<&Arc<str>>) {
        let skills: Vec<_> = card.skills.iter().map(|skill| skill.id.clone()).collect();
        let mut limits = agent.map(|agent| self.limits(caller, agent)).unwrap_or_default();
        limits.insert("caller".to_owned(), json!(&*caller.principal.id));
        limits.insert("allowed_skills".to_owned(), json!(skills));
        if let Some(rate) = self.rate(caller) {
            limits.insert("rate".to_owned(), rate);
        }
        add(card, LIMITS_EXTENSION, "What this caller may do here", &limits);
        let usage = Map::from_iter([("budget".to_owned(), self.budget(caller))]);
        add(card, USAGE_EXTENSION, "What this caller has used, and what is left", &usage);
    }

    /// What policy allows one call, and how many at a time.
    fn limits(&self, caller: &Caller, agent: &Arc<str>) -> Map<String, Value> {
        let (realm, id) = (&caller.principal.realm, &caller.principal.id);
        let subject = Subject { realm, caller: id, groups: &caller.identity.groups };
        let enforced = self.terms.policy.decide(&Facts::new(subject, agent, Operation::SendMessage)).enforced;
        let key = SlotKey { realm: realm.clone(), caller: id.clone(), agent: agent.clone(), skill: None };
        let open = self.plane.slots.taken(&key);
        let mut limits = Map::from_iter([
            // Of calls that name no skill; for each skill there are as many.
            ("concurrency".to_owned(), json!({"max": enforced.concurrency(), "open": open})),
        ]);
        let said = [
            ("max_tokens", enforced.max_tokens.map(|set| json!(set.to))),
            ("max_cost_micro_usd", enforced.max_micro_usd.map(|set| json!(set.to))),
            ("max_duration_ms", enforced.max_duration.map(|set| json!(set.to.as_millis() as u64))),
            ("max_input_bytes", enforced.max_input_bytes.map(|set| json!(set.to))),
            ("input_modes", enforced.input_modes.map(|set| json!(set.to))),
        ];
        for (name, value) in said.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            limits.insert(name.to_owned(), value);
        }
        limits
    }

    fn rate(&self, caller: &Caller) -> Option<Value> {
        let now = self.plane.hands.now();
        let left = self.rates.left(&caller.principal, now)?;
        let reset = left.reset.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        Some(json!({"limit": left.limit, "remaining": left.remaining, "reset_ms": reset}))
    }

    /// The windows of the caller's own budget.
    fn budget(&self, caller: &Caller) -> Value {
        let now = self.plane.hands.now();
        let (realm, id) = (caller.principal.realm.clone(), caller.principal.id.clone());
        let account = self.plane.ledger.account_by(&self.terms.edition, &Scope::Caller { realm, id }, now);
        let standings =
            account.map(|account| account.standings_by(&self.terms.edition, now)).unwrap_or_default();
        let windows = standings.into_iter().map(|standing| {
            let frees = standing.frees_at.map(|at| i64::try_from(at.0).unwrap_or(i64::MAX));
            json!({
                "metric": standing.metric.as_str(),
                "window": standing.window.as_str(),
                "cap": standing.cap,
                "charged": standing.charged,
                "held": standing.held,
                "remaining": standing.remaining,
                "frees_at": frees.map(|at| Timestamp::from_millis(at).to_string()),
            })
        });
        windows.collect()
    }
}

impl Regime {
    /// Writes into the card of the fleet what its reader may do, and what of that is left.
    pub(crate) fn extend_card(&self, card: &mut AgentCard, caller: &Caller) {
        self.cards.extend(card, caller, None);
    }
}

/// Puts more under an extension of a card, over what is there.
fn add(card: &mut AgentCard, uri: &str, description: &str, params: &Map<String, Value>) {
    let Ok(params) = JsonObject::from_value(params) else { return };
    let extensions = &mut card.capabilities.extensions;
    match extensions.iter_mut().find(|known| known.uri == uri) {
        Some(known) => {
            let before = known.params.take();
            known.params = Some(before.map_or(params.clone(), |before| before.merged(&params)));
        }
        None => {
            let mut extension = AgentExtension::new(uri).params(params);
            extension.description = description.to_owned();
            extensions.push(extension);
        }
    }
}
