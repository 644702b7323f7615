//! One configuration, as far as it decides about calls: never changed, and found as a whole by every request. What is exchanged
//! when another is put in force is this, and with it everything that a call meets.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use chancery_control::lineage::Arrival;
use chancery_control::rate::Rates;
use chancery_control::{Executor, GateReport, Governed, Pipeline, Plane, Terms};
use chancery_protocol::{
    Admitted, AgentCard, BoxFuture, Call, Caller, Denied, DynEndpoint, Endpoint, Error, ErrorCode, Principal,
    Proof, Quota, Reply, Request, SendMessageRequest,
};
use chancery_sdk::{Guard, Restored, Ward};
use http::request::Parts;
use parking_lot::{Mutex, RwLock};

use super::access;
use super::extended::{Cards, Extended};
use super::restore::Past;
use crate::audit::Audit;
use crate::config::FleetSection;
use crate::fleet::Roster;
use crate::limits::AllLimits;
use crate::metrics::{Meter, Metrics};

/// A configuration in force.
pub(crate) struct Regime {
    pub(super) lasting: Arc<Lasting>,
    /// What calls go by.
    pub(crate) terms: Arc<Terms>,
    pub(super) rates: Arc<Rates>,
    /// What each agent takes in one message.
    pub(crate) input: AllLimits,
    /// The fleet as a whole.
    pub(crate) about: FleetSection,
    /// Who is in it.
    pub(crate) roster: Roster,
    pub(super) agents: HashMap<Arc<str>, Arc<Governed>>,
    /// Those whose names belong to agents of another kind now.
    pub(super) former: HashMap<Arc<str>, Arc<Governed>>,
    /// What is shown to those who ask for a card of their own.
    pub(super) cards: Arc<Cards>,
    /// What stands in front of each agent.
    pub(super) posts: RwLock<HashMap<Arc<str>, Post>>,
    /// Who answers behind the gates.
    pub(super) behind: Behind,
}

/// What outlasts every configuration.
pub(super) struct Lasting {
    pub(super) plane: Arc<Plane>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) audit: Arc<Audit>,
    pub(super) past: Mutex<Past>,
}

/// An agent and what stands in front of it.
pub(super) struct Post {
    pipeline: Arc<Pipeline>,
    front: Arc<dyn DynEndpoint>,
    ward: Option<Ward>,
}

/// The agents behind the gates, by name.
pub(super) type Behind = Arc<RwLock<HashMap<Arc<str>, Arc<dyn DynEndpoint>>>>;

// === impl Regime ===

impl Regime {
    pub(crate) fn plane(&self) -> &Arc<Plane> {
        &self.lasting.plane
    }

    /// By whose rules somebody may do anything: its own, unless it acts for a call.
    pub(crate) fn judged_as<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        self.plane().root_caller(&caller.principal).map_or(Cow::Borrowed(caller), Cow::Owned)
    }

    /// The gates in front of an agent.
    pub(crate) fn pipeline(&self, agent: &str) -> Option<Arc<Pipeline>> {
        self.posts.read().get(agent).map(|post| post.pipeline.clone())
    }

    /// What would become of a request of a caller, if it is limited how often it may ask.
    pub(crate) fn foretell_rate(&self, caller: &Principal) -> Option<GateReport> {
        self.rates.foretell(caller, self.plane().hands.now())
    }

    /// An agent behind its gates.
    pub(crate) fn endpoint(&self, agent: &str) -> Option<Arc<dyn DynEndpoint>> {
        self.posts.read().get(agent).map(|post| post.front.clone())
    }

    /// The card of an agent as it is shown now.
    pub(crate) fn card(&self, agent: &str) -> Option<Arc<AgentCard>> {
        self.posts.read().get(agent)?.ward.as_ref().map(Ward::card)
    }

    /// Puts the gates in front of an agent that nobody serves.
    pub(crate) fn rehearse(&self, agent: &str, endpoint: Arc<dyn DynEndpoint>) {
        if let Some(governed) = self.agents.get(agent) {
            self.posts.write().insert(governed.name.clone(), self.post(governed, endpoint, None));
        }
    }

    fn post(&self, governed: &Arc<Governed>, endpoint: Arc<dyn DynEndpoint>, ward: Option<Ward>) -> Post {
        let Lasting { plane, metrics, audit, .. } = &*self.lasting;
        let meter = Meter::new(metrics.clone(), governed.name.clone());
        let (agent, cards) = (governed.clone(), self.cards.clone());
        let endpoint: Arc<dyn DynEndpoint> =
            Arc::new(Extended { agent, inner: endpoint, cards, ward: ward.clone(), audit: audit.clone() });
        let executor = match governed.is_local {
            true => Executor::Local(endpoint),
            false => Executor::Remote(endpoint),
        };
        let mut pipeline = Pipeline::new(plane.clone(), governed.clone(), executor).under(self.terms.clone());
        if let Some(name) = self.terms.settings.stand_ins.get(&governed.name) {
            let (name, behind) = (name.clone(), self.behind.clone());
            pipeline = pipeline.fallback(Arc::new(StandIn { name, behind }));
        }
        let pipeline = Arc::new(pipeline);
        Post {
            front: Arc::new(Front { pipeline: pipeline.clone(), meter, audit: audit.clone() }),
            pipeline,
            ward,
        }
    }
}

impl Guard for Regime {
    fn protect(&self, ward: &Ward) -> Arc<dyn DynEndpoint> {
        let former = self.former.get(&ward.name).filter(|_| ward.is_retired);
        let Some(governed) = former.or_else(|| self.agents.get(&ward.name)) else {
            // The fleet itself is no agent. One that is gone is not asked for.
            return if ward.is_retired { Arc::new(Gone) } else { ward.endpoint.clone() };
        };
        let post = self.post(governed, ward.endpoint.clone(), Some(ward.clone()));
        let front = post.front.clone();
        if !ward.is_retired {
            self.behind.write().insert(governed.name.clone(), ward.endpoint.clone());
            self.posts.write().insert(governed.name.clone(), post);
        }
        front
    }

    fn extends_cards(&self) -> bool {
        true
    }

    fn acting(&self, caller: Caller, lineage: Option<&str>) -> Caller {
        let within = self.terms.lineage.caller_within(&arrival(&caller, lineage), self.plane().hands.now());
        within.unwrap_or(caller)
    }

    /// Whoever has the token of a call that is open here.
    fn is_insider(&self, caller: &Caller, lineage: Option<&str>) -> bool {
        let lineage = lineage.or(caller.identity.lineage.as_deref());
        self.terms.lineage.is_insider(&arrival(caller, lineage), self.plane().hands.now())
    }

    fn readmit(&self, agent: &str, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        let Call { request, context } = call;
        let visit = access::Visit::begin(&context);
        let call = Call { request: Request::SendMessage(request), context };
        match self.pipeline(agent) {
            Some(pipeline) => Some(visit.admitted(
                pipeline.agent().name.clone(),
                self.lasting.audit.clone(),
                pipeline.readmit(call),
            )),
            None => Some(Box::pin(std::future::ready(Err(gone())))),
        }
    }

    fn restored(&self, agent: &str) -> Vec<Restored> {
        self.lasting.past.lock().take(agent)
    }

    fn count(&self, source: Option<IpAddr>, caller: Option<&Caller>) -> Result<Option<Quota>, Denied> {
        let now = self.plane().hands.now();
        match caller {
            None => self.rates.source(source, now),
            Some(caller) if caller.principal.is_anonymous() => {
                // The address first: what it has used up must not come off what all of them share.
                let of_address = self.rates.anonymous(source, now)?;
                let of_all = self.rates.caller(&caller.principal, now)?;
                Ok(of_address.into_iter().chain(of_all).min_by_key(|quota| quota.remaining))
            }
            Some(caller) => self.rates.caller(&self.judged_as(caller).principal, now),
        }
    }

    fn refused(&self, head: &Parts, caller: Option<&Caller>, denied: &Denied) {
        self.lasting.audit.turned_away(head, caller, denied);
    }

    fn count_cancel(&self, source: Option<IpAddr>, caller: &Caller) -> Result<(), Denied> {
        self.rates.cancel(source, &self.judged_as(caller).principal, self.plane().hands.now())
    }
}

/// Somebody, as far as it is asked on whose behalf it comes.
fn arrival<'a>(caller: &'a Caller, lineage: Option<&'a str>) -> Arrival<'a> {
    Arrival {
        realm: &caller.principal.realm,
        agent: caller.identity.agent.as_ref(),
        anonymous: caller.identity.proof == Proof::Anonymous,
        token: lineage,
        trace: None,
    }
}

/// A pipeline, and what counts and writes down the calls through it.
struct Front {
    pipeline: Arc<Pipeline>,
    meter: Meter,
    audit: Arc<Audit>,
}

impl DynEndpoint for Front {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let operation = call.request.operation();
        let visit = access::Visit::begin(&call.context);
        Box::pin(async move {
            let reply = self.pipeline.call(call).await;
            self.meter.count(operation, &visit.caller, &reply, visit.took());
            visit.end(&self.pipeline.agent().name, operation, &reply, &self.audit);
            reply
        })
    }
}

fn gone() -> Error {
    Error::with_message(ErrorCode::Unavailable, "The agent that answers here is gone")
}

/// In front of an agent that is gone, and that only those know of who watch its tasks.
struct Gone;

impl Endpoint for Gone {}

/// Whoever answers here for a pool.
struct StandIn {
    name: Arc<str>,
    behind: Behind,
}

impl DynEndpoint for StandIn {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let answers = self.behind.read().get(&self.name).cloned();
        Box::pin(async move {
            match answers {
                Some(answers) => answers.call(call).await,
                None => Err(gone()),
            }
        })
    }
}
