//! How the members are, as far as is known. Those that run here are well; those elsewhere are asked now and then, for a path
//! that is configured or for their cards, which costs them next to nothing where the card is the same.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use chancery_control::routing::PoolSettings;
use chancery_control::{Governed, Millis};
use chancery_protocol::Timestamp;
use chancery_sdk::{Client, ClientError};
use parking_lot::RwLock;
use serde::Serialize;

use super::{Fleet, Member, peers};
use crate::config::{AgentKind, AgentSection, HealthSection, Trust};

/// How many are asked at a time.
pub(super) const AT_A_TIME: usize = 64;

/// What callers are told of what is wrong.
const UNREACHABLE: &str = "it cannot be reached";
const UNREADABLE: &str = "its card cannot be read";

/// The id of no task.
const NO_TASK: &str = "00000000-0000-0000-0000-000000000000";

/// How an agent elsewhere is asked how it is. It is for as long as there is such an agent.
#[derive(Debug)]
pub(crate) struct Asked {
    /// More than one if it is a pool.
    members: Vec<Ward>,
    how: HealthSection,
    /// The same as the gates know it, which learn from what is found.
    governed: Arc<Governed>,
    /// The skills that the operator says it has.
    vouched: Vec<Arc<str>>,
    /// Whether its own card is believed about skills.
    is_trusted: bool,
}

/// One that is asked.
#[derive(Debug)]
struct Ward {
    /// Its name in the pool; none if it is none.
    name: Option<Arc<str>>,
    client: Client,
}

/// What is found out about one.
#[derive(Clone, Debug)]
enum Found {
    Well,
    /// It is there and can be called, but something about it is not as it should be.
    Odd(Trouble),
    /// It cannot be called.
    Ill(Trouble),
    /// It cannot even be reached.
    Away(Trouble),
}

/// What is wrong with a member. Where it is, and why exactly, is the operator's to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// For callers: no address, no path, nothing that somebody else has written.
    pub(crate) public: Cow<'static, str>,
    pub(crate) whole: String,
}

/// How a member is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    status: Status,
    /// Since when it has been like this.
    since: Option<Timestamp>,
    trouble: Option<Trouble>,
}

/// The same as it is shown.
#[derive(Serialize)]
pub(crate) struct ShownHealth<'a> {
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

/// A pool, and one of its members.
type InPool = (Arc<str>, Arc<str>);

/// What was found out about the members elsewhere.
#[derive(Debug, Default)]
pub(super) struct Findings {
    agents: RwLock<HashMap<Arc<str>, Health>>,
    /// Those of pools, by agent and member.
    members: RwLock<HashMap<InPool, Health>>,
}

impl Fleet {
    /// How a member is.
    pub(crate) fn health(&self, member: &Member) -> Health {
        let found = self.findings.agents.read().get(&member.name).cloned();
        let unseen = match member.kind {
            AgentKind::A2a => Status::Unknown,
            _ => Status::Healthy,
        };
        found.unwrap_or(Health { status: unseen, ..Health::default() })
    }

    /// How a member of a pool is, if that has been found out.
    pub(crate) fn health_in(&self, pool: &Arc<str>, member: &Arc<str>) -> Option<Health> {
        self.findings.members.read().get(&(pool.clone(), member.clone())).cloned()
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
        absent: HashMap<Arc<str>, Trouble>,
    ) {
        let (made, regime) = (made.collect::<HashSet<_>>(), self.governor.regime());
        let roster = &regime.roster;
        let loads = self.loads.replace(peers(roster), PoolSettings::default());
        loads.expect("no two members have the same name");
        self.findings.retain(|name| !made.contains(name) && roster.get(name).is_some());
        for (name, why) in absent {
            self.findings.note(&name, Found::Ill(why));
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
            asked.tell(&found, fleet.governor.plane().hands.now());
            asked.learn();
            for (ward, found) in asked.members.iter().zip(&found) {
                if let Some(member) = &ward.name {
                    fleet.findings.note_member(&name, member, found.clone());
                }
            }
            fleet.findings.note(&name, best(found));
            Duration::from_millis(asked.how.interval_ms)
        };
        tokio::time::sleep(pause).await;
    }
}

/// How a pool is: as the best of its members.
fn best(found: Vec<Found>) -> Found {
    let nobody = || Found::Ill(Trouble::open("it has no members"));
    found.into_iter().min_by_key(Found::severity).unwrap_or_else(nobody)
}

// === impl Asked ===

impl Asked {
    pub(super) fn new(section: &AgentSection, clients: Vec<Client>, governed: Arc<Governed>) -> Self {
        let names = section.members.iter().map(|member| Some(Arc::from(member.name.as_str())));
        let names = names.chain(std::iter::repeat(None));
        let members = clients.into_iter().zip(names).map(|(client, name)| Ward { name, client }).collect();
        let vouched = section.skills.iter().map(|skill| skill.as_str().into()).collect();
        let is_trusted = section.trust != Trust::Untrusted;
        let how = section.health.clone().unwrap_or_default();
        let asked = Self { members, how, governed, vouched, is_trusted };
        asked.learn();
        asked
    }

    /// How each is, all asked at once.
    async fn ask(&self) -> Vec<Found> {
        let limit = Duration::from_millis(self.how.timeout_ms);
        let asking = self.members.iter().map(|ward| async move {
            let late = || {
                let whole = format!("did not answer within {} ms", self.how.timeout_ms);
                Found::Away(Trouble::new(UNREACHABLE, whole))
            };
            tokio::time::timeout(limit, self.ask_one(&ward.client)).await.unwrap_or_else(|_| late())
        });
        futures_util::future::join_all(asking).await
    }

    async fn ask_one(&self, client: &Client) -> Found {
        let found = self.probe(client).await;
        if client.is_refused() {
            // Any answer but the same one shows that the credential is a good one by now.
            let _ = client.get(NO_TASK).await;
        }
        if !client.is_refused() {
            return found;
        }
        const REFUSED: &str = "it refuses the gateway's credential (HTTP 401)";
        Found::Ill(Trouble::new(REFUSED, format!("{REFUSED}; set or change `credential`")))
    }

    async fn probe(&self, client: &Client) -> Found {
        let Some(path) = &self.how.path else {
            return match client.refresh_card().await {
                Ok(_) => Found::Well,
                Err(error) => Found::of_card(&error, client.known_card().is_some()),
            };
        };
        // Nobody waits for it: what is known of the skills may have changed.
        let _ = client.card().await;
        let status = match client.probe(path).await {
            Ok(status) => status.as_u16(),
            Err(error) => return Found::Away(Trouble::new(UNREACHABLE, error.to_string())),
        };
        match self.how.status.unwrap_or(200) {
            wanted if status == wanted => Found::Well,
            wanted => {
                let whole = format!("{path} was answered with {status}, not {wanted}");
                Found::Ill(Trouble::new("its probe is not answered as it should be", whole))
            }
        }
    }

    /// Tells the gates who is away.
    fn tell(&self, found: &[Found], now: Millis) {
        let wards = self.members.iter().zip(found);
        for (ward, _) in wards.filter(|(_, found)| matches!(found, Found::Away(_))) {
            match (&ward.name, &self.governed.pool, &self.governed.reach) {
                (Some(member), Some(pool), _) => pool.missed(member, now),
                (_, _, Some(reach)) => reach.missed(now),
                _ => {}
            }
        }
    }

    /// Tells the gates what the cards that are known say that the agents can do.
    fn learn(&self) {
        let mut skills = self.vouched.clone();
        for ward in &self.members {
            let known = if self.is_trusted { ward.client.known_card() } else { None };
            let own = known.iter().flat_map(|card| &card.skills).map(|skill| Arc::from(skill.id.as_str()));
            // What the operator vouches for, all of them can do.
            let mut all = self.vouched.clone();
            own.for_each(|id| add(&mut all, id));
            all.iter().for_each(|id| add(&mut skills, id.clone()));
            if let (Some(member), Some(pool)) = (&ward.name, &self.governed.pool) {
                pool.declares(member, &all);
            }
        }
        self.governed.skills.learn(skills);
    }
}

fn add(skills: &mut Vec<Arc<str>>, id: Arc<str>) {
    if !skills.contains(&id) {
        skills.push(id);
    }
}

// === impl Found ===

impl Found {
    /// What it says that a card cannot be had. Where another is known, calls go by that one.
    fn of_card(error: &ClientError, is_known: bool) -> Self {
        let why = error.to_string();
        match error {
            ClientError::Connect { .. } | ClientError::Cut { .. } | ClientError::TimedOut { .. } => {
                Self::Away(Trouble::new(UNREACHABLE, why))
            }
            ClientError::Status { status, .. } if status.is_server_error() => {
                Self::Away(Trouble::new(UNREACHABLE, why))
            }
            ClientError::BadAnswer(_) | ClientError::TooLarge { .. } | ClientError::Status { .. } => {
                match is_known {
                    true => Self::Odd(Trouble::new(UNREADABLE, format!("{UNREADABLE}: {why}"))),
                    false => Self::Ill(Trouble::new(UNREADABLE, why)),
                }
            }
            ClientError::Refused { .. } => {
                Self::Ill(Trouble::new("its card leads where the gateway may not call", why))
            }
            ClientError::Untrusted(_) => Self::Ill(Trouble::new("its card is not trusted", why)),
            ClientError::NoInterface { .. } => {
                Self::Ill(Trouble::new("its card names no interface that can be used", why))
            }
            _ => Self::Ill(Trouble::new("it cannot be called", why)),
        }
    }

    fn severity(&self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Odd(_) => 1,
            Self::Ill(_) => 2,
            Self::Away(_) => 3,
        }
    }

    /// Whether it can be called, and what is wrong.
    fn told(self) -> (Status, Option<Trouble>) {
        match self {
            Self::Well => (Status::Healthy, None),
            Self::Odd(why) => (Status::Healthy, Some(why)),
            Self::Ill(why) | Self::Away(why) => (Status::Unhealthy, Some(why)),
        }
    }
}

// === impl Trouble ===

impl Trouble {
    pub(crate) fn new(public: impl Into<Cow<'static, str>>, whole: String) -> Self {
        Self { public: public.into(), whole }
    }

    /// One of which everybody may know all.
    pub(crate) fn open(text: impl Into<String>) -> Self {
        let whole = text.into();
        Self { public: whole.clone().into(), whole }
    }
}

impl Findings {
    /// Writes down what was found.
    fn note(&self, agent: &Arc<str>, found: Found) {
        self.agents.write().entry(agent.clone()).or_default().note(agent, agent, found);
    }

    fn note_member(&self, pool: &Arc<str>, member: &Arc<str>, found: Found) {
        let mut members = self.members.write();
        let known = members.entry((pool.clone(), member.clone())).or_default();
        known.note(pool, &format!("{member} of {pool}"), found);
    }

    /// Forgets those who are no members any more.
    fn retain(&self, is_member: impl Fn(&str) -> bool) {
        self.agents.write().retain(|name, _| is_member(name));
        self.members.write().retain(|(name, _), _| is_member(name));
    }
}

impl Health {
    fn note(&mut self, agent: &str, who: &str, found: Found) {
        let (status, trouble) = found.told();
        if self.status != status {
            self.since = Some(Timestamp::now());
            match (status, &trouble) {
                (Status::Unhealthy, Some(Trouble { whole: reason, .. })) => {
                    tracing::warn!(agent, reason, "agent {who} is not well: {reason}");
                }
                _ => tracing::info!(agent, "agent {who} is well"),
            }
        }
        (self.status, self.trouble) = (status, trouble);
    }

    pub(crate) fn is_unhealthy(&self) -> bool {
        self.status == Status::Unhealthy
    }

    /// What callers are told is wrong.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| &*trouble.public)
    }

    /// As callers see it.
    pub(crate) fn public(&self) -> ShownHealth<'_> {
        ShownHealth { status: self.status, since: self.since, reason: self.reason() }
    }

    /// As the operator sees it.
    pub(crate) fn whole(&self) -> ShownHealth<'_> {
        let reason = self.trouble.as_ref().map(|trouble| &*trouble.whole);
        ShownHealth { reason, ..self.public() }
    }

    pub(crate) fn status(&self) -> &'static str {
        match self.status {
            Status::Unknown => "unknown",
            Status::Healthy => "healthy",
            Status::Unhealthy => "unhealthy",
        }
    }
}
