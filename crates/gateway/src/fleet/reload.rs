//! Another configuration takes the place of the one in force, while calls are open: as a whole, or not at all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use chancery_sdk::{Change, Routes};
use chancery_store::AuditRecord;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

use super::build::{Agents, build};
use super::{Discovered, Fleet, Formation, LeftOut};
use crate::audit;
use crate::config::{AgentKind, AgentSection, Config, Folders, Standing, directory};
use crate::govern::{Governor, breaker, pools};
use crate::kinds::Surroundings;

/// How often to look whether the file has changed.
const LOOK: Duration = Duration::from_millis(500);

/// Reads and checks a configuration. What is wrong is told at once.
pub(crate) type Load = Arc<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;

/// Who is asked first whose a request is, where a fleet is so configured.
pub(crate) type Beside = Box<dyn Fn(&Formation) -> Vec<Arc<dyn Routes>> + Send + Sync>;

/// Puts other configurations in force.
pub(crate) struct Reloader {
    load: Load,
    governor: Arc<Governor>,
    fleet: Arc<Fleet>,
    /// What agents are built in, but for their pools.
    surroundings: Surroundings,
    beside: Beside,
    discovered: Discovered,
    /// Held by whoever reads another: what was read later is put in force later.
    reading: Mutex<()>,
    /// Held by whoever changes it.
    current: Mutex<Current>,
}

/// What is in force.
struct Current {
    /// As it was read.
    configured: Config,
    /// The same with the agents that were found elsewhere.
    whole: Arc<Config>,
}

/// What a reload has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Sections that are not agents.
    pub(crate) sections: Vec<&'static str>,
}

impl Reloader {
    pub(crate) fn new(
        load: Load,
        config: Arc<Config>,
        governor: Arc<Governor>,
        fleet: Arc<Fleet>,
        surroundings: Surroundings,
        beside: Beside,
    ) -> Arc<Self> {
        let current = Mutex::new(Current { configured: Config::clone(&config), whole: config });
        let discovered = Discovered::default();
        let reading = Mutex::default();
        Arc::new(Self { load, governor, fleet, surroundings, beside, discovered, reading, current })
    }

    /// Reads the configuration again and puts it in force. If anything is wrong with it, the one from before stays, whole.
    pub(crate) async fn reload(self: Arc<Self>, act: AuditRecord) -> anyhow::Result<Changes> {
        let _reading = self.reading.lock().await;
        let configured = read(&self.load).await;
        let mut current = self.current.lock().await;
        let before = audit::digest(&current.whole);
        let changed = match configured {
            Ok(configured) => self.put_in_force(&mut current, configured).await,
            Err(error) => Err(error),
        };
        self.write_down(act, before, &current, &changed);
        changed
    }

    /// Another configuration was to be put in force: what it was, and what it is now.
    fn write_down(
        &self,
        act: AuditRecord,
        before: String,
        current: &Current,
        changed: &anyhow::Result<Changes>,
    ) {
        let act = act.detail("before", before).detail("after", audit::digest(&current.whole));
        self.governor.audit().note(match changed {
            Ok(Changes { added, changed, removed, sections }) => {
                let lists = [
                    ("added", added.join(",")),
                    ("changed", changed.join(",")),
                    ("removed", removed.join(",")),
                    ("sections", sections.join(",")),
                ];
                let told = lists.into_iter().filter(|(_, names)| !names.is_empty());
                told.fold(act, |act, (name, names)| act.detail(name, names))
            }
            Err(_) => act.detail("outcome", "failed"),
        });
    }

    /// Has those be members who were found in other fleets, beside what is configured.
    pub(super) async fn rediscovered(self: Arc<Self>) {
        let mut current = self.current.lock().await;
        let configured = current.configured.clone();
        let before = audit::digest(&current.whole);
        let changed = self.put_in_force(&mut current, configured).await;
        let act = AuditRecord::new("system", "configuration.discovered");
        self.write_down(act, before, &current, &changed);
        drop(current);
        say("the members of another fleet have changed", changed);
    }

    async fn put_in_force(&self, current: &mut Current, configured: Config) -> anyhow::Result<Changes> {
        let mut next = configured.clone();
        next.agent.extend(self.discovered.agents(&configured));
        let changes = self.exchange(&current.whole, &next).await?;
        *current = Current { configured, whole: Arc::new(next) };
        Ok(changes)
    }

    async fn exchange(&self, current: &Config, next: &Config) -> anyhow::Result<Changes> {
        let changes = Changes::between(current, next)?;
        let touched: HashSet<_> = changes.added.iter().chain(&changes.changed).map(String::as_str).collect();
        let touches = |agent: &&AgentSection| touched.contains(agent.name.as_str());
        let sections: Vec<_> = next.agent.iter().filter(touches).cloned().collect();
        let (pools, outbound) = (pools(next)?, next.outbound.clone());
        let breaker = breaker(&next.routing);
        let surroundings = Surroundings { pools, outbound, breaker, ..self.surroundings.clone() };
        let Agents { offers, governed, asked, absent } = build(sections, surroundings).await?;
        let Some(service) = self.fleet.service.get() else { bail!("the gateway does not serve yet") };
        // Everything is made ready beside what is in force, and requests find it by the one change of what is mounted.
        let regime = self.governor.prepare(current, next, governed, &asked)?;
        let formation = self.fleet.under(regime.clone());
        let change = Change {
            put: offers.into_iter().chain([formation.offer()]).collect(),
            remove: changes.removed.clone(),
            routes: Some((self.beside)(&formation)),
            guard: Some(regime.clone()),
        };
        service.change(change).await.context("the agents cannot be changed")?;
        self.governor.enact(regime);
        self.fleet.changed(touched.into_iter(), absent);
        Ok(changes)
    }

    /// The configuration in force.
    pub(crate) async fn config(&self) -> Arc<Config> {
        self.current.lock().await.whole.clone()
    }

    pub(crate) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Members of other fleets that cannot be members here.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.discovered.left_out()
    }

    pub(super) fn discovered(&self) -> &Discovered {
        &self.discovered
    }

    /// The same, for nobody in particular: what came of it is logged.
    async fn reload_and_say(self: Arc<Self>, why: &'static str) {
        let act = AuditRecord::new("act", "configuration.reload").detail("why", why);
        say(why, self.reload(act).await);
    }
}

/// Reads a configuration where nobody else waits for it: others write some of its files.
pub(crate) async fn read(load: &Load) -> anyhow::Result<Config> {
    let load = load.clone();
    tokio::task::spawn_blocking(move || load()).await.context("the configuration cannot be read")?
}

fn say(why: &'static str, changed: anyhow::Result<Changes>) {
    match changed {
        Ok(changes) if changes == Changes::default() => tracing::info!(why, "nothing has changed"),
        Ok(changes) => tracing::info!(
            why,
            added = changes.added.len(),
            changed = changes.changed.len(),
            removed = changes.removed.len(),
            sections = changes.sections.join(","),
            "another configuration is in force"
        ),
        Err(error) => tracing::error!(why, "the configuration from before stays in force: {error:#}"),
    }
}

/// Reloads on SIGHUP, and when the file changes, or one of those that describe agents.
pub(super) async fn watch(reloader: Arc<Reloader>, file: Option<PathBuf>) {
    let look = async || standing(reloader.config().await, file.clone()).await;
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => return tracing::error!(%error, "SIGHUP cannot be heard; nothing is reloaded"),
    };
    let mut seen = file.as_deref().and_then(written);
    // What was written while the gateway started is noticed at the first look.
    let mut described = Standing::new();
    loop {
        tokio::select! {
            heard = hangup.recv() => {
                if heard.is_none() {
                    return;
                }
                seen = file.as_deref().and_then(written);
                described = look().await;
                reloader.clone().reload_and_say("SIGHUP").await;
            }
            () = tokio::time::sleep(LOOK) => {
                let now = file.as_deref().and_then(written);
                // A file that is gone is on its way to be written.
                if now.is_some() && now != seen {
                    seen = now;
                    reloader.clone().reload_and_say("the file has changed").await;
                }
                let now = look().await;
                if now != described {
                    described = now;
                    reloader.clone().reload_and_say("what describes agents has changed").await;
                }
            }
        }
    }
}

/// When the files that describe agents were last written.
async fn standing(config: Arc<Config>, file: Option<PathBuf>) -> Standing {
    let look = move || Folders::standing(&config.markdown, directory(file.as_deref()));
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

/// When a file was last written, and how long it is.
fn written(file: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

// === impl Changes ===

impl Changes {
    /// What differs. Some of it can only be changed by starting again.
    fn between(before: &Config, after: &Config) -> anyhow::Result<Self> {
        let fixed = [
            ("server", differ(&before.server, &after.server)),
            ("store", differ(&before.store, &after.store)),
            ("admin", differ(&before.admin, &after.admin)),
            ("audit", differ(&before.audit, &after.audit)),
            ("push", differ(&before.push, &after.push)),
            ("cards", differ(&before.cards, &after.cards)),
            ("identity.agent", differ(&before.identity.agent, &after.identity.agent)),
            ("identity.gateway", differ(&before.identity.gateway, &after.identity.gateway)),
            ("identity.audience", differ(&before.identity.audience, &after.identity.audience)),
            ("agent.grpc_listen", own_ports(before) != own_ports(after)),
        ];
        let fixed: Vec<_> = fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
        if !fixed.is_empty() {
            bail!("`{}` cannot be changed while the gateway runs; restart it", fixed.join("`, `"));
        }
        let (routing, outbound) =
            (differ(&before.routing, &after.routing), before.outbound != after.outbound);
        let sections = [
            ("identity", differ(&before.identity, &after.identity)),
            ("rate", differ(&before.rate, &after.rate)),
            ("budget", differ(&before.budget, &after.budget)),
            ("recursion", differ(&before.recursion, &after.recursion)),
            ("routing", routing),
            ("policy", differ(&before.policy, &after.policy)),
            ("fleet", differ(&before.fleet, &after.fleet)),
            ("outbound", outbound),
            ("discover", differ(&before.discover, &after.discover)),
        ];
        let mut changes = Self {
            sections: sections.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect(),
            ..Self::default()
        };
        let known: HashMap<_, _> = before.agent.iter().map(|agent| (&agent.name, agent)).collect();
        for agent in &after.agent {
            // How members of a pool are chosen is part of the pool, and when an agent is out is part of it.
            let rebuilt = |known: &AgentSection| {
                let is_elsewhere = matches!(agent.kind, AgentKind::A2a | AgentKind::Model);
                let is_routed = agent.kind == AgentKind::A2a || !agent.members.is_empty();
                differ(known, agent) || routing && is_routed || outbound && is_elsewhere
            };
            match known.get(&agent.name) {
                None => changes.added.push(agent.name.clone()),
                Some(known) if rebuilt(known) => changes.changed.push(agent.name.clone()),
                Some(_) => {}
            }
        }
        let kept: HashSet<_> = after.agent.iter().map(|agent| &agent.name).collect();
        let gone = before.agent.iter().filter(|agent| !kept.contains(&agent.name));
        changes.removed = gone.map(|agent| agent.name.clone()).collect();
        if after.agent.is_empty() && after.discover.is_empty() {
            bail!("no agent is configured any more; add one with `[[agent]]`");
        }
        Ok(changes)
    }
}

/// The ports that agents have of their own.
fn own_ports(config: &Config) -> BTreeSet<(&str, SocketAddr)> {
    config.agent.iter().filter_map(|agent| Some((agent.name.as_str(), agent.grpc_listen?))).collect()
}

/// Whether two sections say different things.
fn differ<T: Serialize>(one: &T, other: &T) -> bool {
    let value = |section: &T| serde_json::to_value(section).unwrap_or_default();
    value(one) != value(other)
}
