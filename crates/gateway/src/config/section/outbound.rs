//! How agents elsewhere are called, how it is found out whether they are well, and where others are found.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use chancery_sdk::egress::Egress;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::push::egress_to;
use super::{Complaint, PriceSection};

/// How agents elsewhere are called.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OutboundSection {
    /// So long making a connection may take, in milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    pub(crate) connect_timeout_ms: u64,
    /// So long an answer may take, or a stream until it begins, in milliseconds. A message whose outcome is waited for may take as
    /// long as its caller waits.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) read_timeout_ms: u64,
    /// So many requests to one agent at a time, each over a connection of its own; others wait.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_calls: usize,
    /// So many streams from one agent at a time; tasks that find no place are looked at now and then instead.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_streams: usize,
    /// Ranges of addresses, such as `10.0.0.0/8`, that an agent's card may name besides those that the whole world can reach and the
    /// one that its card was fetched from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow_egress: Vec<String>,
    /// Files in PEM with certificates of authorities that are trusted beside those of the system, wherever the gateway calls by https:
    /// agents, other fleets, models, and receivers of notifications.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) extra_roots: Vec<PathBuf>,
}

/// How it is found out whether an agent elsewhere is well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HealthSection {
    /// A path of its host that is asked for, such as `/healthz`; its card if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The status that says that it is well, if a path is asked for; 200 unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub(crate) status: Option<u16>,
    /// How often, in milliseconds.
    #[schemars(range(min = 100, max = 86_400_000))]
    pub(crate) interval_ms: u64,
    /// How long the answer may take, in milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    pub(crate) timeout_ms: u64,
}

/// Another fleet, whose members are members here too, as agents that nobody trusts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiscoverSection {
    /// Its URL, or that of its card (`…/agent-card.json`) or of its catalogue (`…/agents/`).
    pub(crate) url: String,
    /// What their names begin with here: `echo` there is `PREFIX-echo`.
    pub(crate) prefix: String,
    /// Skills for which messages to this fleet may go there, if no agent of our own has them. What the cards of others say
    /// decides nothing else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skills: Vec<String>,
    /// What a call to one of them costs, since what they say of it is not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<PriceSection>,
    /// Whether anybody outside the fleet may see and call them.
    #[serde(default = "yes")]
    pub(crate) exposed: bool,
    /// How often to look who is there, in milliseconds.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 100, max = 86_400_000))]
    pub(crate) refresh_ms: u64,
    /// So many of them at most.
    #[serde(default = "a_hundred")]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) max_agents: usize,
}

fn yes() -> bool {
    true
}

fn five_minutes() -> u64 {
    300_000
}

fn a_hundred() -> usize {
    100
}

impl Default for OutboundSection {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 5_000,
            read_timeout_ms: 30_000,
            max_calls: 1024,
            max_streams: 4096,
            allow_egress: Vec::new(),
            extra_roots: Vec::new(),
        }
    }
}

impl OutboundSection {
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    /// What is dialled because a card names it.
    pub(crate) fn egress(&self) -> anyhow::Result<Egress> {
        self.trusting(egress_to(&self.allow_egress))
    }

    /// The same rules with the authorities that are trusted besides.
    pub(crate) fn trusting(&self, mut egress: Egress) -> anyhow::Result<Egress> {
        for path in &self.extra_roots {
            let named = || format!("`outbound.extra_roots` cannot be used: {}", path.display());
            let pem = std::fs::read(path).with_context(named)?;
            egress = egress.trust_pem(&pem).with_context(named)?;
        }
        Ok(egress)
    }

    pub(crate) fn read_timeout(&self) -> Duration {
        Duration::from_millis(self.read_timeout_ms)
    }
}

impl Default for HealthSection {
    fn default() -> Self {
        Self { path: None, status: None, interval_ms: 30_000, timeout_ms: 10_000 }
    }
}

impl HealthSection {
    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let is_path = |path: &String| {
            path.starts_with('/') && path.parse::<http::uri::PathAndQuery>().is_ok() && !path.contains('#')
        };
        if let Some(path) = self.path.as_ref().filter(|path| !is_path(path)) {
            complaints
                .push(("path", format!("`{path}` is no path; it begins with a slash, such as `/healthz`")));
        }
        if self.path.is_none() && self.status.is_some() {
            complaints.push(("status", "only of a path that is asked for; add `path`".to_owned()));
        }
        complaints
    }
}
