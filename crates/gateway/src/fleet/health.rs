//! How the members are, as far as is known. Those that run here are well; those elsewhere are asked now and then, for a path
//! that is configured or for their cards, which costs them next to nothing where the card is the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use chancery_control::routing::PoolSettings;
use chancery_protocol::Timestamp;
use chancery_sdk::Client;
use parking_lot::RwLock;
use serde::Serialize;

use super::{Fleet, Member, peers};
use crate::config::{AgentKind, HealthSection};

/// How many are asked at a time.
pub(super) const AT_A_TIME: usize = 64;

/// The id of no task.
const NO_TASK: &str = "00000000-0000-0000-0000-000000000000";

/// How an agent elsewhere is asked how it is. It is for as long as there is such an agent.
#[derive(Debug)]
pub(crate) struct Asked {
    /// More than one if it is a pool.
    clients: Vec<Client>,
    how: HealthSection,
}

/// How a member is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Health {
    status: Status,
    /// Since when it has been like this.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

/// What was found out about the members elsewhere.
#[derive(Debug, Default)]
pub(super) struct Findings(RwLock<HashMap<Arc<str>, Health>>);

impl Fleet {
    /// How a member is.
    pub(crate) fn health(&self, member: &Member) -> Health {
        let found = self.findings.0.read().get(&member.name).cloned();
        let unseen = match member.kind {
            AgentKind::A2a => Status::Unknown,
            _ => Status::Healthy,
        };
        found.unwrap_or(Health { status: unseen, ..Health::default() })
    }

    /// How each member is.
    pub(crate) fn healths(&self) -> Vec<(Arc<str>, Health)> {
        let regime = self.governor.regime();
        regime.roster.all().map(|member| (member.name.clone(), self.health(member))).collect()
    }

    /// Members were made anew; some of them cannot answer, and why.
    pub(crate) fn changed<'a>(
        self: &Arc<Self>,
        made: impl Iterator<Item = &'a str>,
        absent: HashMap<Arc<str>, String>,
    ) {
        let (made, regime) = (made.collect::<HashSet<_>>(), self.governor.regime());
        let roster = &regime.roster;
        let loads = self.loads.replace(peers(roster), PoolSettings::default());
        loads.expect("no two members have the same name");
        self.findings.retain(|name| !made.contains(name) && roster.get(name).is_some());
        for (name, why) in absent {
            self.findings.note(&name, Err(why));
        }
        for member in made.into_iter().filter_map(|name| roster.get(name)) {
            if let Some(asked) = &member.asked {
                tokio::spawn(watch(Arc::downgrade(self), member.name.clone(), Arc::downgrade(asked)));
            }
        }
    }
}

/// Asks a member how it is, for as long as it is one.
async fn watch(fleet: Weak<Fleet>, name: Arc<str>, asked: Weak<Asked>) {
    loop {
        let pause = {
            let (Some(fleet), Some(asked)) = (fleet.upgrade(), asked.upgrade()) else { return };
            let _place = fleet.asking.acquire().await;
            let found = asked.ask().await;
            if Arc::strong_count(&asked) == 1 {
                return;
            }
            fleet.findings.note(&name, found);
            Duration::from_millis(asked.how.interval_ms)
        };
        tokio::time::sleep(pause).await;
    }
}

// === impl Asked ===

impl Asked {
    pub(super) fn new(clients: Vec<Client>, how: HealthSection) -> Self {
        Self { clients, how }
    }

    /// Whether it is well; of a pool, whether any of its members is.
    async fn ask(&self) -> Result<(), String> {
        let mut wrong = Err("it has no members".to_owned());
        for client in &self.clients {
            let limit = Duration::from_millis(self.how.timeout_ms);
            wrong = match tokio::time::timeout(limit, self.ask_one(client)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(why)) => Err(why),
                Err(_) => Err(format!("did not answer within {} ms", self.how.timeout_ms)),
            };
        }
        wrong
    }

    async fn ask_one(&self, client: &Client) -> Result<(), String> {
        self.probe(client).await?;
        if client.is_refused() {
            // Any answer but the same one shows that the credential is a good one by now.
            let _ = client.get(NO_TASK).await;
        }
        match client.is_refused() {
            true => {
                Err("it refuses the gateway's credential (HTTP 401); set or change `credential`".to_owned())
            }
            false => Ok(()),
        }
    }

    async fn probe(&self, client: &Client) -> Result<(), String> {
        let Some(path) = &self.how.path else {
            return client.refresh_card().await.map(drop).map_err(|error| error.to_string());
        };
        let status = client.probe(path).await.map_err(|error| error.to_string())?.as_u16();
        let wanted = self.how.status.unwrap_or(200);
        if status == wanted {
            Ok(())
        } else {
            Err(format!("{path} was answered with {status}, not {wanted}"))
        }
    }
}

impl Findings {
    /// Writes down what was found.
    pub(super) fn note(&self, member: &Arc<str>, found: Result<(), String>) {
        let status = if found.is_ok() { Status::Healthy } else { Status::Unhealthy };
        let mut all = self.0.write();
        let known = all.entry(member.clone()).or_default();
        if known.status != status {
            known.since = Some(Timestamp::now());
            match &found {
                Ok(()) => tracing::info!(agent = &**member, "agent {member} is well"),
                Err(reason) => {
                    tracing::warn!(agent = &**member, reason, "agent {member} is not well: {reason}");
                }
            }
        }
        known.status = status;
        known.reason = found.err();
    }

    /// Forgets those who are no members any more.
    pub(super) fn retain(&self, is_member: impl Fn(&str) -> bool) {
        self.0.write().retain(|name, _| is_member(name));
    }
}

impl Health {
    pub(crate) fn is_unhealthy(&self) -> bool {
        self.status == Status::Unhealthy
    }

    /// What is wrong.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(crate) fn status(&self) -> &'static str {
        match self.status {
            Status::Unknown => "unknown",
            Status::Healthy => "healthy",
            Status::Unhealthy => "unhealthy",
        }
    }
}
