//! The gateway: store, agents, control plane and server, put together from the configuration, top down.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use chancery_sdk::{Cors, ForwardedBy, Routes, Server, ServerBuilder, Tls};
use chancery_store::{AuditRecord, Store};

use crate::admin::{self, ContainedFile, Desk};
use crate::audit::{self, Audit, Recorder, RecorderEnd};
use crate::config::{Config, JsonRpcStatus, Listen, ProxyHeader, StoreSection, secret_files};
use crate::fleet::{self, Addresses, Agents, Beside, Fleet, Formation, Load, Reloader, Roster};
use crate::govern::{Foundations, Governor, pools};
use crate::identity::{Identities, LiveKeys, RefusedCredentials, Signatory, federation, files};
use crate::kinds::{InboxRoutes, Inboxes, Surroundings};
use crate::no_dumps;
use crate::open_files;
use crate::plain::{Plain, PlainRoutes, Seal};
use crate::ready::{Probes, Readiness};

/// How often the certificate is looked at for a change, at most.
const RECHECK: Duration = Duration::from_secs(1);
/// The file in the data directory that holds the tasks.
const FILE: &str = "chancery.db";

/// A gateway that listens.
pub(crate) struct Gateway {
    server: Server,
    store: Arc<Store>,
    governor: Arc<Governor>,
    keys: Arc<LiveKeys>,
    recorder: RecorderEnd,
    names: Vec<String>,
}

impl Gateway {
    /// Opens the store, finds the agents, puts the gates in front of them and listens. What `load` reads is put in force when
    /// the file changes, and on SIGHUP.
    pub(crate) async fn start(load: Load, file: Option<PathBuf>) -> anyhow::Result<Self> {
        no_dumps::forbid();
        let config = Arc::new(first_read(&load).await?);
        let (identities, signatory) = (Identities::open(&config)?, Signatory::open(&config)?);
        let store = Arc::new(open_store(&config.store)?);
        let surroundings = Surroundings::new(pools(&config)?, store.clone(), &config);
        let (keys, inboxes) = (surroundings.keys.clone(), surroundings.inboxes.clone());
        let Agents { offers, governed, asked, absent } =
            fleet::build(config.agent.clone(), surroundings.clone()).await?;
        let foundations = Foundations {
            store: store.clone(),
            name: public_name(&config),
            secret: identities.lineage_secret(),
            federation: federation(&config)?,
            agents: governed,
            roster: Roster::of(&config.agent, &asked),
            audit: Arc::default(),
            adjusts: true,
        };
        let governor = Governor::new(&config, foundations).await?;
        let fleet = Fleet::new(governor.clone(), store.clone());
        fleet.changed(config.agent.iter().map(|agent| agent.name.as_str()), absent);
        let mut server =
            offers.into_iter().fold(Server::builder().store(store.clone()), ServerBuilder::offer);
        let formation = fleet.under(governor.regime());
        let refusals = RefusedCredentials::of(&governor);
        server = identities
            .guard(server, keys.clone(), governor.plane().clone(), refusals)
            .guard(formation.regime().clone());
        let readiness = Readiness::new(store.clone(), written_to(&config)?);
        let beside = beside(&config, &identities, inboxes, readiness.clone())?;
        server = beside(&formation).into_iter().fold(server.offer(formation.offer()), ServerBuilder::routes);
        let server = listening(server, &config, signatory.as_ref()).await?;
        let service = server.service().clone();
        keys.serves(within_reach(&config, &server));
        surroundings.neighbours.live_in(service.clone());
        governor.serves(service.clone());
        fleet.serves(service.clone());
        readiness.serves(service.clone());
        if let Some(signatory) = &signatory {
            signatory.watch(service.clone());
        }
        let names = config.agent.iter().map(|agent| agent.name.clone()).collect();
        let reloader = Reloader::new(load, config.clone(), governor.clone(), fleet, surroundings, beside);
        let contained = ContainedFile::of(&config.store.data);
        contained.put_in_force(&governor.plane().containment)?;
        let desk = Desk {
            reloader: reloader.clone(),
            governor: governor.clone(),
            store: store.clone(),
            service,
            contained,
            readiness,
        };
        admin::open(&config.admin, &config.store.data, desk).await?;
        fleet::keep_up(&reloader, file);
        let recorder = recorder(governor.audit(), &store, &config);
        Ok(Self { server, store, governor, keys: identities.keys().clone(), recorder, names })
    }

    /// Its own URL.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// What is served, for people.
    pub(crate) fn welcome(&self) -> String {
        let url = self.server.url();
        let mut text = format!("Chancery at {url}\n\n");
        let width = self.names.iter().map(String::len).max().unwrap_or_default();
        for name in &self.names {
            text.push_str(&format!("  {name:width$}  {url}/agents/{name}/\n"));
        }
        text.push_str(&self.recovered());
        text
    }

    /// What the last process had left undone.
    pub(crate) fn recovered(&self) -> String {
        match self.server.recovered() {
            0 => String::new(),
            ended => {
                format!(
                    "\nThe last process had left {ended} tasks unfinished; they have failed, and say why\n"
                )
            }
        }
    }

    /// Serves until SIGTERM or Ctrl-C.
    pub(crate) async fn run(self) {
        self.server.run().await;
        self.governor.flush().await;
        self.keys.write_uses();
        self.governor.audit().note(AuditRecord::new("system", "gateway.stop"));
        self.recorder.finish().await;
        self.store.close();
    }
}

/// Reads the configuration to start with, and says what it warns of.
async fn first_read(load: &Load) -> anyhow::Result<Config> {
    let config = fleet::read(load).await?;
    if config.agent.is_empty() && config.discover.is_empty() {
        bail!("no agent is configured; add one with `[[agent]]`, or look at `chancery demo`");
    }
    warn_of_open_secrets(&config);
    Ok(config)
}

/// Says which secrets others on this machine can read. It serves all the same: where files are handed in, their modes may not be the
/// operator's to choose.
fn warn_of_open_secrets(config: &Config) {
    for (path, file) in secret_files(config) {
        if let Some(mode) = files::mode_for_others(file) {
            let (path, file) = (path.join("."), file.display());
            tracing::warn!(
                %file,
                mode = format!("{mode:o}"),
                "others than its owner can read {file}, which `{path}` names; run `chmod 600 {file}`"
            );
        }
    }
}

/// Begins to write the audit log, with what it begins with.
fn recorder(audit: &Arc<Audit>, store: &Arc<Store>, config: &Config) -> RecorderEnd {
    audit.note(audit::started(config));
    let (data, keep) = (config.store.data.clone(), config.audit.clone());
    Recorder::new(audit.clone(), store.clone(), data, keep).start()
}

/// Where programs that the gateway runs reach it; nowhere if it has no address. By TLS they need the name that its certificate has.
fn within_reach(config: &Config, server: &Server) -> Option<String> {
    let address = server.local_addr().ok()?;
    if config.server.tls.is_some() {
        return Some(server.url().to_owned());
    }
    let ip = if address.ip().is_unspecified() { [127, 0, 0, 1].into() } else { address.ip() };
    Some(format!("http://{}", SocketAddr::new(ip, address.port())))
}

/// What is put beside the agents and is no agent: inboxes, the plain profile, the addresses of the fleet, probes.
fn beside(
    config: &Config,
    identities: &Identities,
    inboxes: Arc<Inboxes>,
    readiness: Readiness,
) -> anyhow::Result<Beside> {
    let (seal, has_probes) = (Seal::new(&identities.lineage_secret())?, config.server.probes);
    Ok(Box::new(move |formation: &Formation| {
        let plain = Plain::new(formation.clone(), readiness.clone(), seal.clone());
        let mut routes: Vec<Arc<dyn Routes>> = vec![
            Arc::new(InboxRoutes { inboxes: inboxes.clone(), terms: formation.regime().terms.clone() }),
            Arc::new(PlainRoutes(plain)),
            Arc::new(Addresses(formation.clone())),
        ];
        if has_probes {
            routes.push(Arc::new(Probes(readiness.clone())));
        }
        routes
    }))
}

/// Listens where the configuration says.
async fn listening(
    mut server: ServerBuilder,
    config: &Config,
    signatory: Option<&Arc<Signatory>>,
) -> anyhow::Result<Server> {
    if let Some(signatory) = signatory {
        server = server.sign_cards(signatory.clone());
    }
    if let Some(url) = &config.server.public_url {
        server = server.public_url(url);
    }
    if let Some(address) = config.server.grpc_listen {
        server = server.grpc_listen(address);
    }
    server = server.egress(config.outbound.trusting(config.push.egress())?);
    for agent in &config.agent {
        if let Some(address) = agent.grpc_listen {
            server = server.grpc_listen_for(agent.name.as_str(), address);
        }
    }
    let section = &config.server;
    server = section
        .without_versions
        .iter()
        .fold(server, |server, version| server.without_version(version.of_protocol()));
    server = section
        .without_bindings
        .iter()
        .fold(server, |server, binding| server.without_binding(binding.of_protocol()));
    if let Some(cors) = &section.cors {
        let lasting = Duration::from_secs(cors.max_age_s);
        server = server.cors(Cors::new(cors.origins.iter().map(String::as_str), lasting));
    }
    let header = match section.proxy_header {
        ProxyHeader::XForwardedFor => ForwardedBy::XForwardedFor,
        ProxyHeader::Forwarded => ForwardedBy::Forwarded,
    };
    if let Some(tls) = &section.tls {
        let read = Tls::from_files(&tls.cert, &tls.key).context("`server.tls` cannot be used")?;
        server = server.tls(read.recheck_every(RECHECK));
    } else if let Some(address) =
        section.in_the_clear(config.agent.iter().filter_map(|agent| agent.grpc_listen))
    {
        tracing::warn!(
            %address,
            "what is sent to {address} can be read on the way, keys included; add `tls` under `[server]`, or put a proxy \
             in front and name it in `trusted_proxies`"
        );
    }
    server = server.hosts(&section.hosts).limits(section.limits.of_server(open_files::raise_limit()));
    server = server.trust_proxies(section.proxies(), header);
    if section.trusts_socket() {
        server = server.trust_socket();
    }
    if section.jsonrpc_status == JsonRpcStatus::Http {
        server = server.jsonrpc_http_status();
    }
    let serving = match &section.listen {
        Listen::Tcp(address) => server.bind(address).await,
        Listen::Unix(path) => server.bind_unix(path, section.mode().unwrap_or(0o660)).await,
    };
    serving.with_context(|| format!("cannot serve on {}", section.listen))
}

/// Opens the store that the configuration names.
pub(crate) fn open_store(section: &StoreSection) -> anyhow::Result<Store> {
    let url = store_url(section)?;
    if section.url.is_none() {
        files::make_private(&section.data)?;
    }
    Store::open(&url, section.limits.of_store(&url)).context("cannot open the store")
}

/// The directories that are written to while calls are answered.
fn written_to(config: &Config) -> anyhow::Result<Vec<PathBuf>> {
    let url = store_url(&config.store)?;
    let file = url.strip_prefix("sqlite:").map(|rest| rest.split('?').next().unwrap_or(rest));
    let parent = file.and_then(|file| Path::new(file).parent());
    let parent = parent.map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let data = Some(&*config.store.data).filter(|data| data.is_dir() && Some(*data) != parent);
    Ok(parent.into_iter().chain(data).map(Path::to_owned).collect())
}

/// The URL of the store.
pub(crate) fn store_url(section: &StoreSection) -> anyhow::Result<String> {
    if let Some(url) = &section.url {
        return Ok(url.clone());
    }
    let path = section.data.join(FILE);
    let path = path.to_str().with_context(|| format!("{} is not valid UTF-8", path.display()))?;
    Ok(format!("sqlite:{path}"))
}

/// The name that lineage tokens are for.
pub(crate) fn public_name(config: &Config) -> String {
    config.server.public_url.clone().unwrap_or_else(|| config.server.own_url())
}
