//! The gateway governed: the control plane made of the configuration, in front of every agent.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what the configuration says, in the words of the control plane |
//! | `access` | the log of calls |
//! | `clock` | the time that it decides by |
//! | `extended` | the card that a caller is shown who asks for its own |
//! | `hands` | what the control plane needs done |
//! | `regime` | one configuration in force, in front of every agent |
//! | `restore` | what an earlier process had let through |
//! | `adjust` | budgets that an operator tops up or resets |

mod access;
mod adjust;
mod clock;
mod extended;
mod hands;
mod regime;
mod restore;
mod settings;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use chancery_control::ledger::{Ledger, Limits, PriceSettings, Prices};
use chancery_control::lineage::{DEFAULT_OPEN_CALLS, Federation, Keyring, Lineage, Open, Rules, Tokens};
use chancery_control::policy::Policy;
use chancery_control::routing::{Peer, Pool};
use chancery_control::{Governed, Hands as _, Plane, PlaneSettings};
use chancery_sdk::Service;
use chancery_store::Store;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::audit::Audit;
use crate::config::{AgentSection, Config};
use crate::fleet::{Asked, Roster};
use crate::limits::AllLimits;
use crate::metrics::Metrics;
pub(crate) use adjust::{Adjustments, Change, Per, Whose};
use extended::Cards;
use hands::{Helper, Worker};
use regime::Lasting;
pub(crate) use regime::Regime;
use restore::Past;
pub(crate) use settings::{LOCAL, breaker};

/// The control plane in front of every agent of a server, and the configuration that it goes by.
pub(crate) struct Governor {
    lasting: Arc<Lasting>,
    helper: Arc<Helper>,
    /// The one in force, for whoever is no request: those have the one that they came with.
    regime: ArcSwap<Regime>,
}

/// What must be known to govern besides the configuration.
pub(crate) struct Foundations {
    pub(crate) store: Arc<Store>,
    /// What lineage tokens are for: the URL that the world sees.
    pub(crate) name: String,
    /// What they are sealed with.
    pub(crate) secret: Vec<u8>,
    /// The other gateways that read them; none if no tokens but its own say anything here.
    pub(crate) federation: Option<Arc<Federation>>,
    /// The agents.
    pub(crate) agents: Vec<Arc<Governed>>,
    /// The same as members of the fleet.
    pub(crate) roster: Roster,
    /// Where refusals are written down.
    pub(crate) audit: Arc<Audit>,
    /// Whether budgets are adjusted for good, and while it runs; else only for this process, as they are wanted now.
    pub(crate) adjusts: bool,
}

impl Governor {
    /// Makes the control plane. What an earlier process had let through counts on.
    pub(crate) async fn new(config: &Config, foundations: Foundations) -> anyhow::Result<Arc<Self>> {
        let Foundations { store, name, secret, federation, agents, roster, audit, adjusts } = foundations;
        let metrics = Metrics::new();
        let (helper, worker) = Helper::new(store.clone(), metrics.clone());
        let helper = Arc::new(helper);
        let past =
            Past::read(&store, helper.now()).await.context("cannot read what was let through before")?;
        let keys = Keyring::try_new(&key_id(&secret), &secret)?;
        let is_agent = |_: &str, caller: &str| {
            config.agent.iter().find(|agent| agent.name == caller).map(|agent| agent.name.as_str().into())
        };
        let (open, _) = Open::rebuild(DEFAULT_OPEN_CALLS, past.edges(), is_agent);
        let tokens = Tokens::new(name, keys);
        let tokens = federation.into_iter().fold(tokens, Tokens::shared_with);
        let plane = Arc::new(empty_plane(tokens, open, helper.clone()));
        let input = AllLimits::of(config);
        let terms = plane.prepare(settings::proposal(config, &input))?;
        plane.enact(terms.clone());
        let mut adjustments = Adjustments::read(&config.store.data)?;
        let (past, changed) = past.restore(&plane, &mut adjustments);
        if adjusts {
            adjustments.watch(config.store.data.clone(), changed, plane.clone())?;
        }
        tokio::spawn(Worker::run(worker, plane.clone()));
        let rates = Arc::new(settings::rates(&config.rate));
        let lasting = Arc::new(Lasting { plane, metrics, audit, past: Mutex::new(past) });
        let regime = Regime {
            cards: Cards::new(lasting.plane.clone(), terms.clone(), rates.clone()),
            lasting: lasting.clone(),
            terms,
            rates,
            input,
            about: config.fleet.clone(),
            roster,
            agents: by_name(agents),
            former: HashMap::new(),
            posts: Default::default(),
            behind: Default::default(),
        };
        Ok(Arc::new(Self { lasting, helper, regime: ArcSwap::from_pointee(regime) }))
    }

    /// Makes ready what is to take the place of the configuration in force: with agents that were made anew, and those that
    /// stay as they are. Nothing has happened until somebody goes by it.
    pub(crate) fn prepare(
        &self,
        before: &Config,
        after: &Config,
        made: Vec<Arc<Governed>>,
        asked: &HashMap<String, Arc<Asked>>,
    ) -> anyhow::Result<Arc<Regime>> {
        let (current, input) = (self.regime(), AllLimits::of(after));
        let terms = self.plane().prepare(settings::proposal(after, &input))?;
        let rates = match before.rate != after.rate {
            true => Arc::new(settings::rates(&after.rate)),
            false => current.rates.clone(),
        };
        let made = by_name(made);
        let staying = |agent: &AgentSection| current.agents.get(agent.name.as_str());
        let agents = after.agent.iter().filter_map(|agent| made.get(&*agent.name).or_else(|| staying(agent)));
        let agents = by_name(agents.cloned());
        // One of another kind has the name now; tasks that it had begun are still its own.
        let is_other = |name: &Arc<str>, known: &Governed| {
            agents.get(name).is_some_and(|agent| agent.is_local != known.is_local)
        };
        let known = current.former.iter().chain(&current.agents);
        let former = known.filter(|(name, known)| is_other(name, known));
        let former = former.map(|(name, known)| (name.clone(), known.clone())).collect();
        Ok(Arc::new(Regime {
            cards: Cards::new(self.plane().clone(), terms.clone(), rates.clone()),
            lasting: self.lasting.clone(),
            terms,
            rates,
            input,
            about: after.fleet.clone(),
            roster: current.roster.amended(&after.agent, asked),
            agents,
            former,
            posts: Default::default(),
            behind: Default::default(),
        }))
    }

    /// Requests go by it: now the rest does as well.
    pub(crate) fn enact(&self, regime: Arc<Regime>) {
        self.plane().enact(regime.terms.clone());
        self.regime.store(regime);
    }

    /// The configuration in force.
    pub(crate) fn regime(&self) -> Arc<Regime> {
        self.regime.load_full()
    }

    /// The agents under its rule, in the order of names.
    pub(crate) fn agents(&self) -> Vec<Arc<Governed>> {
        let mut agents: Vec<_> = self.regime().agents.values().cloned().collect();
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        agents
    }

    /// Says who serves, once that is known.
    pub(crate) fn serves(&self, service: Service) {
        self.helper.serves(service);
    }

    /// Waits until the records of all calls that have been answered are written.
    pub(crate) async fn flush(&self) {
        self.helper.flush().await;
    }

    pub(crate) fn audit(&self) -> &Arc<Audit> {
        &self.lasting.audit
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.lasting.metrics
    }

    pub(crate) fn plane(&self) -> &Arc<Plane> {
        &self.lasting.plane
    }
}

/// A plane on which nothing is set yet.
fn empty_plane(tokens: Tokens, open: Open, helper: Arc<Helper>) -> Plane {
    Plane::new(
        None,
        Ledger::new(Limits::default()),
        Prices::new(PriceSettings::default()),
        Lineage { rules: Rules::default(), tokens, open: Arc::new(open) },
        Policy::new([]),
        PlaneSettings::default(),
        helper,
    )
}

fn by_name(agents: impl IntoIterator<Item = Arc<Governed>>) -> HashMap<Arc<str>, Arc<Governed>> {
    agents.into_iter().map(|agent| (agent.name.clone(), agent)).collect()
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
