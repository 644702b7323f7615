//! The gateway governed: the control plane made of the configuration, in front of every agent.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what the configuration says, in the words of the control plane |
//! | `access` | the log of calls |
//! | `clock` | the time that it decides by |
//! | `extended` | the card that a caller is shown who asks for its own |
//! | `hands` | what the control plane needs done |
//! | `restore` | what an earlier process had let through |
//! | `adjust` | budgets that an operator tops up or resets |

mod access;
mod adjust;
mod clock;
mod extended;
mod hands;
mod restore;
mod settings;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use chancery_control::identity::IdentityResolver;
use chancery_control::ledger::{Ledger, Limits, Prices};
use chancery_control::lineage::{Arrival, Basis, Keyring, Lineage, Open, Tokens};
use chancery_control::rate::{Counted, Rates};
use chancery_control::routing::{Peer, Pool};
use chancery_control::{Executor, Governed, Pipeline, Plane, Terms};
use chancery_protocol::{
    Admitted, BoxFuture, Call, Caller, Denied, DynEndpoint, Error, ErrorCode, Proof, Reply, Request,
    SendMessageRequest,
};
use chancery_sdk::{Guard, Rate, Restored, Service};
use chancery_store::Store;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::config::{AgentSection, Config};
use crate::limits::{AllLimits, LimitsGate};
use crate::metrics::{Meter, Metrics};
pub(crate) use adjust::{Adjustments, Change, Per, Whose};
use extended::{Cards, Extended};
use hands::{Helper, Worker};
use restore::Past;
pub(crate) use settings::LOCAL;

/// The control plane in front of every agent of a server.
pub(crate) struct Governor {
    plane: Arc<Plane>,
    helper: Arc<Helper>,
    agents: Mutex<HashMap<Arc<str>, Arc<Governed>>>,
    pipelines: Mutex<HashMap<Arc<str>, Arc<Pipeline>>>,
    /// Who answers behind the gates.
    behind: Behind,
    rates: Arc<ArcSwap<Rates>>,
    input: AllLimits,
    cards: Arc<Cards>,
    metrics: Arc<Metrics>,
    past: Mutex<Past>,
}

/// The agents behind the gates, by name.
type Behind = Arc<Mutex<HashMap<Arc<str>, Arc<dyn DynEndpoint>>>>;

/// What must be known to govern besides the configuration.
pub(crate) struct Foundations {
    pub(crate) store: Arc<Store>,
    /// What lineage tokens are for: the URL that the world sees.
    pub(crate) name: String,
    /// What they are sealed with.
    pub(crate) secret: Vec<u8>,
    /// Who may come in, if not everybody who is known.
    pub(crate) resolver: Option<Arc<dyn IdentityResolver>>,
    /// The agents.
    pub(crate) agents: Vec<Arc<Governed>>,
    /// Whether budgets are adjusted for good, and while it runs; else only for this process, as they are wanted now.
    pub(crate) adjusts: bool,
}

impl Governor {
    /// Makes the control plane. What an earlier process had let through counts on.
    pub(crate) async fn new(config: &Config, foundations: Foundations) -> anyhow::Result<Arc<Self>> {
        let Foundations { store, name, secret, resolver, agents, adjusts } = foundations;
        let metrics = Metrics::new();
        let (helper, worker) = Helper::new(store.clone(), metrics.clone());
        let helper = Arc::new(helper);
        let past = Past::read(&store).await.context("cannot read what was let through before")?;
        let keys = Keyring::try_new(&key_id(&secret), &secret)?;
        let (open, _) =
            Open::rebuild(chancery_control::lineage::DEFAULT_OPEN_CALLS, past.edges(), |_, caller| {
                config.agent.iter().find(|agent| agent.name == caller).map(|agent| agent.name.as_str().into())
            });
        let lineage = Lineage {
            rules: settings::rules(&config.recursion),
            tokens: Tokens::new(name, keys),
            open: Arc::new(open),
        };
        let plane = Plane::new(
            resolver,
            Ledger::new(limits(config)),
            Prices::new(settings::prices(config)),
            lineage,
            settings::policy(config),
            settings::plane(config),
            helper.clone(),
        );
        let input = AllLimits::default();
        input.set(config);
        let plane = Arc::new(plane.with_gate(LimitsGate(input.clone())));
        let mut adjustments = Adjustments::read(&config.store.data)?;
        let (past, changed) = past.restore(&plane, &mut adjustments);
        if adjusts {
            adjustments.watch(config.store.data.clone(), changed, plane.clone())?;
        }
        let agents = agents.into_iter().map(|agent| (agent.name.clone(), agent)).collect();
        let agents = Mutex::new(agents);
        tokio::spawn(Worker::run(worker, plane.clone()));
        let rates = Arc::new(ArcSwap::from_pointee(settings::rates(&config.rate)));
        let cards = Cards::new(plane.clone(), rates.clone());
        let (pipelines, behind, past) = (Mutex::default(), Behind::default(), Mutex::new(past));
        Ok(Arc::new(Self { plane, helper, agents, pipelines, behind, rates, input, cards, metrics, past }))
    }

    /// The agents under its rule, in the order of names.
    pub(crate) fn agents(&self) -> Vec<Arc<Governed>> {
        let mut agents: Vec<_> = self.agents.lock().values().cloned().collect();
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        agents
    }

    /// Takes agents under its rule that are about to be mounted. Gives back those whose names they have.
    pub(crate) fn enlist(&self, agents: Vec<Arc<Governed>>) -> Vec<Arc<Governed>> {
        let mut known = self.agents.lock();
        agents.into_iter().filter_map(|agent| known.insert(agent.name.clone(), agent)).collect()
    }

    /// Forgets agents that are mounted no more. What they have begun is settled as ever.
    pub(crate) fn dismiss(&self, names: &[&str]) {
        let (mut agents, mut pipelines) = (self.agents.lock(), self.pipelines.lock());
        let mut behind = self.behind.lock();
        for name in names {
            behind.remove(*name);
            agents.remove(*name);
            pipelines.remove(*name);
        }
    }

    /// Has another configuration hold for calls to come. What is held, spent and open stays.
    pub(crate) fn amend(
        &self,
        before: &Config,
        after: &Config,
        resolver: Option<Arc<dyn IdentityResolver>>,
    ) -> anyhow::Result<()> {
        let prices = settings::prices(after);
        let terms = Terms {
            resolver,
            limits: settings::limits(&after.budget),
            prices: (prices != settings::prices(before)).then(|| self.plane.prices.load().amended(prices)),
            rules: settings::rules(&after.recursion),
            policy: settings::policy(after),
            settings: settings::plane(after),
        };
        self.plane.amend(terms)?;
        if settings::is_other_rate(&before.rate, &after.rate) {
            self.rates.store(Arc::new(settings::rates(&after.rate)));
        }
        self.input.set(after);
        Ok(())
    }

    /// Says who serves, once that is known.
    pub(crate) fn serves(&self, service: Service) {
        self.cards.serves(service.clone());
        self.helper.serves(service);
    }

    /// Waits until the records of all calls that have been answered are written.
    pub(crate) async fn flush(&self) {
        self.helper.flush().await;
    }

    /// The gates in front of an agent.
    pub(crate) fn pipeline(&self, agent: &str) -> Option<Arc<Pipeline>> {
        self.pipelines.lock().get(agent).cloned()
    }

    /// What each agent takes in one message.
    pub(crate) fn input_limits(&self) -> &AllLimits {
        &self.input
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub(crate) fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }
}

impl Guard for Governor {
    fn protect(&self, agent: &str, endpoint: Arc<dyn DynEndpoint>) -> Arc<dyn DynEndpoint> {
        let Some(governed) = self.agents.lock().get(agent).cloned() else { return endpoint };
        let meter = Meter::new(self.metrics.clone(), governed.name.clone());
        self.behind.lock().insert(governed.name.clone(), endpoint.clone());
        let endpoint: Arc<dyn DynEndpoint> =
            Arc::new(Extended { agent: governed.clone(), inner: endpoint, cards: self.cards.clone() });
        let executor = match governed.is_local {
            true => Executor::Local(endpoint),
            false => Executor::Remote(endpoint),
        };
        let mut pipeline = Pipeline::new(self.plane.clone(), governed.clone(), executor);
        if let Some(name) = self.plane.settings.load().stand_ins.get(agent) {
            pipeline =
                pipeline.fallback(Arc::new(StandIn { name: name.clone(), behind: self.behind.clone() }));
        }
        let pipeline = Arc::new(pipeline);
        self.pipelines.lock().insert(governed.name.clone(), pipeline.clone());
        Arc::new(Front { pipeline, meter })
    }

    fn extends_cards(&self) -> bool {
        true
    }

    /// Agents of this fleet, and whoever has the token of a call that is open here.
    fn is_insider(&self, caller: &Caller, lineage: Option<&str>) -> bool {
        let arrival = Arrival {
            realm: &caller.principal.realm,
            agent: caller.identity.agent.as_ref(),
            anonymous: caller.identity.proof == Proof::Anonymous,
            token: lineage,
            trace: None,
        };
        let descent = self.plane.lineage.load().attribute(&arrival, self.plane.hands.now());
        descent.is_ok_and(|descent| !matches!(descent.basis, Basis::Fresh | Basis::Foreign(_)))
    }

    fn readmit(&self, agent: &str, call: Call<Box<SendMessageRequest>>) -> Option<Admitted> {
        let Call { request, context } = call;
        let call = Call { request: Request::SendMessage(request), context };
        Some(self.pipeline(agent)?.readmit(call))
    }

    fn restored(&self, agent: &str) -> Vec<Restored> {
        self.past.lock().take(agent)
    }

    fn count(&self, source: Option<IpAddr>, caller: Option<&Caller>) -> Result<Option<Rate>, Denied> {
        let now = self.plane.hands.now();
        let counted = match caller {
            None => self.rates.load().source(source, now)?,
            Some(caller) => self.rates.load().caller(&caller.principal, now)?,
        };
        Ok(counted.map(|Counted { limit, remaining, reset }| Rate { limit, remaining, reset }))
    }

    fn count_cancel(&self, source: Option<IpAddr>, caller: &Caller) -> Result<(), Denied> {
        self.rates.load().cancel(source, &caller.principal, self.plane.hands.now())
    }
}

/// A pipeline, and what counts and writes down the calls through it.
struct Front {
    pipeline: Arc<Pipeline>,
    meter: Meter,
}

impl DynEndpoint for Front {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let operation = call.request.operation();
        let visit = access::Visit::begin(&call);
        Box::pin(async move {
            let reply = self.pipeline.call(call).await;
            self.meter.count(operation, &reply, visit.took());
            visit.end(&self.pipeline.agent().name, operation, &reply);
            reply
        })
    }
}

/// Whoever answers here for a pool, as it is mounted when it is called.
struct StandIn {
    name: Arc<str>,
    behind: Behind,
}

impl DynEndpoint for StandIn {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        let answers = self.behind.lock().get(&self.name).cloned();
        Box::pin(async move {
            match answers {
                Some(answers) => answers.call(call).await,
                None => {
                    Err(Error::with_message(ErrorCode::Unavailable, "The agent that answers here is gone"))
                }
            }
        })
    }
}

/// What may be spent, as a configuration has it.
pub(crate) fn limits(config: &Config) -> Limits {
    settings::limits(&config.budget)
}

/// The pools of a configuration, by the name of the agent.
pub(crate) fn pools(config: &Config) -> anyhow::Result<HashMap<String, Arc<Pool>>> {
    let pools = config.agent.iter().filter(|agent| !agent.members.is_empty());
    pools.map(|agent| Ok((agent.name.clone(), Arc::new(pool(config, agent)?)))).collect()
}

fn pool(config: &Config, agent: &AgentSection) -> anyhow::Result<Pool> {
    let peers = agent.members.iter().map(|member| Peer {
        name: member.name.as_str().into(),
        price_micro_usd: member.price.map(|price| settings::price(&price).of(0)),
        skills: Vec::new(),
    });
    let chosen = settings::pool(&config.routing, agent.selector.as_deref())?;
    Ok(Pool::try_new(agent.name.as_str(), peers, chosen)?)
}

/// A name for a key by which no other gateway calls its own.
fn key_id(secret: &[u8]) -> String {
    Sha256::digest(secret)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
