//! How the members are, as far as is known. Those that run here are well; those elsewhere are asked for their cards now
//! and then, which costs them next to nothing where the card is the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use chancery_protocol::Timestamp;
use futures_util::StreamExt as _;
use parking_lot::RwLock;
use serde::Serialize;

use super::{Fleet, Member};
use crate::config::AgentKind;

/// How often each is asked, how many at a time, and how long an answer may take.
const EVERY: Duration = Duration::from_secs(30);
const AT_A_TIME: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

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

    /// Members were made anew; some of them cannot answer, and why.
    pub(crate) fn changed<'a>(&self, made: impl Iterator<Item = &'a str>, absent: HashMap<Arc<str>, String>) {
        let made: HashSet<_> = made.collect();
        self.findings.retain(|name| !made.contains(name));
        for (name, why) in absent {
            self.findings.note(&name, Err(why));
        }
    }
}

/// Asks the members elsewhere how they are, for as long as there is a fleet.
pub(crate) async fn watch(fleet: Weak<Fleet>) {
    loop {
        let Some(now) = fleet.upgrade() else { return };
        let roster = now.roster.load_full();
        now.findings.retain(|name| roster.get(name).is_some());
        let members = roster.all().filter_map(|member| Some((&member.name, member.client.as_ref()?)));
        let asked = futures_util::stream::iter(members).for_each_concurrent(AT_A_TIME, |(name, client)| {
            let now = &now;
            async move {
                let found = match tokio::time::timeout(PATIENCE, client.refresh_card()).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err(format!("did not answer within {} s", PATIENCE.as_secs())),
                };
                now.findings.note(name, found);
            }
        });
        asked.await;
        drop(now);
        tokio::time::sleep(EVERY).await;
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
                    tracing::warn!(agent = &**member, reason, "agent {member} is not well: {reason}")
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

    pub(crate) fn status(&self) -> &'static str {
        match self.status {
            Status::Unknown => "unknown",
            Status::Healthy => "healthy",
            Status::Unhealthy => "unhealthy",
        }
    }
}
