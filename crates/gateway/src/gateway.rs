//! The gateway: store, agents, control plane and server, put together from the configuration, top down.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use chancery_control::routing::Pool;
use chancery_sdk::Server;
use chancery_store::{Store, StoreLimits};

use crate::admin::{self, ContainedFile, Desk};
use crate::config::Config;
use crate::govern::{Foundations, Governor, pools};
use crate::identity::{Identities, Signatory};
use crate::kinds::{self, Built, InboxRoutes, Inboxes, Surroundings, TaskKeys};

/// The file in the data directory that holds the tasks.
const FILE: &str = "chancery.db";

/// A gateway that listens.
pub(crate) struct Gateway {
    server: Server,
    store: Arc<Store>,
    names: Vec<String>,
}

impl Gateway {
    /// Opens the store, finds the agents, puts the gates in front of them and listens.
    pub(crate) async fn start(config: Arc<Config>) -> anyhow::Result<Self> {
        if config.agent.is_empty() {
            bail!("no agent is configured; add one with `[[agent]]`, or look at `chancery demo`");
        }
        let identities = Identities::open(&config)?;
        let signatory = Signatory::open(&config)?;
        let store = Arc::new(open_store(&config)?);
        let mut server = Server::builder().store(store.clone());
        let (mut skills, pools) = (HashMap::new(), pools(&config)?);
        let keys = Arc::new(TaskKeys::default());
        let inboxes = Arc::new(Inboxes::new(store.clone()));
        let surroundings = Surroundings {
            pools: pools.clone(),
            keys: keys.clone(),
            store: store.clone(),
            inboxes: inboxes.clone(),
        };
        for agent in &config.agent {
            let built = kinds::build(agent, &surroundings).await?;
            skills.insert(agent.name.clone(), built.skills());
            server = match built {
                Built::Agent(spec) => server.fleet_agent(*spec),
                Built::Relay(relay) => server.fleet_relay(relay),
            };
        }
        let name = public_name(&config);
        let secret = identities.lineage_secret();
        let resolver = identities.resolver();
        let foundations =
            Foundations { store: store.clone(), name, secret, resolver, skills, pools, adjusts: true };
        let governor = Governor::new(&config, foundations).await?;
        server = identities.guard(server, keys.clone()).guard(governor.clone());
        server = server.routes(Arc::new(InboxRoutes(inboxes)));
        if let Some(signatory) = &signatory {
            server = server.sign_cards(signatory.clone());
        }
        if let Some(url) = &config.server.public_url {
            server = server.public_url(url);
        }
        if let Some(address) = config.server.grpc_listen {
            server = server.grpc_listen(address);
        }
        let listen = config.server.listen;
        let server = server.bind(listen).await.with_context(|| format!("cannot serve on {listen}"))?;
        keys.serves(server.local_addr()?);
        governor.serves(server.service().clone());
        if let Some(signatory) = &signatory {
            signatory.watch(server.service().clone());
        }
        look_after(&config, &governor, &surroundings.pools, &store, &server).await?;
        let names = config.agent.iter().map(|agent| agent.name.clone()).collect();
        Ok(Self { server, store, names })
    }

    /// What is served, for people.
    pub(crate) fn welcome(&self) -> String {
        let url = self.server.url();
        let mut text = format!("Chancery at {url}\n\n");
        let width = self.names.iter().map(String::len).max().unwrap_or_default();
        for name in &self.names {
            text.push_str(&format!("  {name:width$}  {url}/agents/{name}/\n"));
        }
        if self.server.recovered() > 0 {
            let ended = self.server.recovered();
            text.push_str(&format!(
                "\nThe last process had left {ended} tasks unfinished; they have failed, and say why\n"
            ));
        }
        text
    }

    /// Serves until SIGTERM or Ctrl-C.
    pub(crate) async fn run(self) {
        self.server.run().await;
        self.store.close();
    }
}

/// Has the gateway looked after; agents that were contained stay so.
async fn look_after(
    config: &Arc<Config>,
    governor: &Governor,
    pools: &HashMap<String, Arc<Pool>>,
    store: &Arc<Store>,
    server: &Server,
) -> anyhow::Result<()> {
    let data = &config.store.data;
    let contained = ContainedFile::of(data);
    for (agent, reason) in contained.read()? {
        tracing::warn!(agent, reason, "agent `{agent}` is still contained: {reason}");
        governor.plane().containment.contain(&agent, &reason);
    }
    let desk = Desk {
        config: config.clone(),
        plane: governor.plane().clone(),
        pools: pools.clone(),
        store: store.clone(),
        service: server.service().clone(),
        metrics: governor.metrics().clone(),
        contained,
    };
    admin::open(&config.admin, data, desk).await
}

/// Opens the store that the configuration names.
pub(crate) fn open_store(config: &Config) -> anyhow::Result<Store> {
    let url = store_url(config)?;
    if config.store.url.is_none() {
        let data = &config.store.data;
        std::fs::create_dir_all(data)
            .with_context(|| format!("cannot make the data directory {}", data.display()))?;
    }
    Store::open(&url, StoreLimits::for_url(&url)).context("cannot open the store")
}

/// The URL of the store.
pub(crate) fn store_url(config: &Config) -> anyhow::Result<String> {
    if let Some(url) = &config.store.url {
        return Ok(url.clone());
    }
    let path = config.store.data.join(FILE);
    let path = path.to_str().with_context(|| format!("{} is not valid UTF-8", path.display()))?;
    Ok(format!("sqlite:{path}"))
}

/// The name that lineage tokens are for.
pub(crate) fn public_name(config: &Config) -> String {
    let own = || format!("http://{}", config.server.listen);
    config.server.public_url.clone().unwrap_or_else(own)
}
