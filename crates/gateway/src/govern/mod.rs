//! The gateway governed: the control plane made of the configuration, in front of every agent.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what the configuration says, in the words of the control plane |
//! | `access` | the log of calls |
//! | `clock` | the time that it decides by |
//! | `hands` | what the control plane needs done |
//! | `restore` | what an earlier process had let through |
//! | `adjust` | budgets that an operator tops up or resets |

mod access;
mod adjust;
mod clock;
mod hands;
mod restore;
mod settings;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context as _;
use chancery_control::identity::IdentityResolver;
use chancery_control::ledger::{Ledger, Limits, Prices};
use chancery_control::lineage::{Keyring, Lineage, Open, Tokens};
use chancery_control::rate::{Counted, Rates};
use chancery_control::routing::{Peer, Pool};
use chancery_control::{Executor, Governed, Pipeline, Plane};
use chancery_protocol::{BoxFuture, Call, Caller, Denied, DynEndpoint, Error, Reply};
use chancery_sdk::{Guard, Rate, Restored, Service};
use chancery_store::Store;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::config::{AgentSection, Config};
use crate::metrics::{Meter, Metrics};
pub(crate) use adjust::{Adjustments, Change, Per, Whose};
use hands::{Helper, Worker};
use restore::Past;

/// The control plane in front of every agent of a server.
pub(crate) struct Governor {
    plane: Arc<Plane>,
    helper: Arc<Helper>,
    agents: HashMap<Arc<str>, Arc<Governed>>,
    pipelines: Mutex<HashMap<Arc<str>, Arc<Pipeline>>>,
    rates: Rates,
    metrics: Arc<Metrics>,
    past: Mutex<Past>,
}

/// What must be known to govern besides the configuration.
pub(crate) struct Foundations {
    pub(crate) store: Arc<Store>,
    /// What lineage tokens are for: the URL that the world sees.
    pub(crate) name: String,
    /// What they are sealed with.
    pub(crate) secret: Vec<u8>,
    /// Who may come in, if not everybody who is known.
    pub(crate) resolver: Option<Arc<dyn IdentityResolver>>,
    /// The skills of each agent, by its name.
    pub(crate) skills: HashMap<String, Vec<String>>,
    /// The pools, by the name of the agent.
    pub(crate) pools: HashMap<String, Arc<Pool>>,
    /// Whether budgets are adjusted for good, and while it runs; else only for this process, as they are wanted now.
    pub(crate) adjusts: bool,
}

impl Governor {
    /// Makes the control plane. What an earlier process had let through counts on.
    pub(crate) async fn new(config: &Config, foundations: Foundations) -> anyhow::Result<Arc<Self>> {
        let Foundations { store, name, secret, resolver, skills, pools, adjusts } = foundations;
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
        let plane = Arc::new(Plane::new(
            resolver,
            Ledger::new(limits(config)),
            Prices::new(settings::prices(config)),
            lineage,
            settings::policy(config),
            settings::plane(config),
            helper.clone(),
        ));
        let mut adjustments = Adjustments::read(&config.store.data)?;
        let (past, changed) = past.restore(&plane, &mut adjustments);
        if adjusts {
            adjustments.watch(config.store.data.clone(), changed, plane.clone())?;
        }
        let agents = config.agent.iter().map(|agent| {
            let name: Arc<str> = agent.name.as_str().into();
            let skills =
                skills.get(&agent.name).into_iter().flatten().map(|skill| skill.as_str().into()).collect();
            let (pool, is_local) = (pools.get(&agent.name).cloned(), !agent.kind.is_elsewhere());
            (name.clone(), Arc::new(Governed { name, skills, pool, is_local }))
        });
        let agents = agents.collect();
        tokio::spawn(Worker::run(worker, plane.clone()));
        let rates = settings::rates(&config.rate);
        let (pipelines, past) = (Mutex::default(), Mutex::new(past));
        Ok(Arc::new(Self { plane, helper, agents, pipelines, rates, metrics, past }))
    }

    /// Says who serves, once that is known.
    pub(crate) fn serves(&self, service: Service) {
        self.helper.serves(service);
    }

    /// The gates in front of an agent.
    pub(crate) fn pipeline(&self, agent: &str) -> Option<Arc<Pipeline>> {
        self.pipelines.lock().get(agent).cloned()
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
        let Some(governed) = self.agents.get(agent) else { return endpoint };
        let meter = Meter::new(self.metrics.clone(), governed.name.clone());
        let executor = match governed.is_local {
            true => Executor::Local(endpoint),
            false => Executor::Remote(endpoint),
        };
        let pipeline = Arc::new(Pipeline::new(self.plane.clone(), governed.clone(), executor));
        self.pipelines.lock().insert(governed.name.clone(), pipeline.clone());
        Arc::new(Front { pipeline, meter })
    }

    fn restored(&self, agent: &str) -> Vec<Restored> {
        self.past.lock().take(agent)
    }

    fn count(&self, source: Option<IpAddr>, caller: Option<&Caller>) -> Result<Option<Rate>, Denied> {
        let now = self.plane.hands.now();
        let counted = match caller {
            None => self.rates.source(source, now)?,
            Some(caller) => self.rates.caller(&caller.principal, now)?,
        };
        Ok(counted.map(|Counted { limit, remaining, reset }| Rate { limit, remaining, reset }))
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
