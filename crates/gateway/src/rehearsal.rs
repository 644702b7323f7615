//! The control plane of a configuration without a server: to say what it would decide, given what has been spent.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chancery_control::ledger::{Account, Scope};
use chancery_control::lineage::{Arrival, Departure};
use chancery_control::{Explanation, Governed, Millis, Pipeline};
use chancery_protocol::{Call, Endpoint, HopId, Identity, Principal, Proof};

use crate::config::{AgentKind, AgentSection, Config};
use crate::fleet::Roster;
use crate::gateway::public_name;
use crate::govern::{Foundations, Governor, pools};
use crate::{kinds, records};

/// What would be decided.
pub(crate) struct Rehearsal {
    governor: Arc<Governor>,
    /// A copy of the store, since a gateway may be using it.
    _copy: Option<tempfile::TempDir>,
}

const A_MINUTE: Duration = Duration::from_secs(60);

/// Nobody answers in a rehearsal.
struct Nobody;

impl Endpoint for Nobody {}

impl Rehearsal {
    pub(crate) async fn new(config: &Config) -> anyhow::Result<Self> {
        let (store, copy) = records::copy(config)?;
        let pools = pools(config)?;
        let governed = |agent: &AgentSection| {
            let skills = kinds::declared_skills(agent)?.iter().map(|skill| skill.as_str().into()).collect();
            let (pool, is_local) = (pools.get(&agent.name).cloned(), agent.kind != AgentKind::A2a);
            anyhow::Ok(Arc::new(Governed { name: agent.name.as_str().into(), skills, pool, is_local }))
        };
        let agents = config.agent.iter().map(governed).collect::<anyhow::Result<_>>()?;
        // It seals nothing that leaves this process.
        let secret = vec![0; 32];
        let (store, name) = (Arc::new(store), public_name(config));
        let roster = Roster::default();
        let foundations =
            Foundations { store, name, secret, federation: None, agents, roster, adjusts: false };
        let governor = Governor::new(config, foundations).await?;
        for agent in &config.agent {
            governor.regime().rehearse(&agent.name, Arc::new(Nobody));
        }
        Ok(Self { governor, _copy: copy })
    }

    /// What the gates would say to a call to an agent, so many calls deep.
    pub(crate) fn explain(&self, agent: &str, mut call: Call, depth: u16) -> anyhow::Result<Explanation> {
        let pipeline = self.pipeline(agent)?;
        if depth > 0 {
            call.context.lineage = Some(self.chain(&call, depth)?);
            call.context.identity = Arc::new(Identity {
                proof: Proof::AgentToken,
                groups: call.context.identity.groups.clone(),
                agent: Some(step(depth).into()),
                ..Identity::default()
            });
        }
        Ok(pipeline.explain(call, self.governor.plane().hands.now()))
    }

    /// How every account stands that anything was charged to.
    pub(crate) fn accounts(&self) -> Vec<Arc<Account>> {
        self.governor.plane().ledger.accounts()
    }

    /// How one account stands; none if nothing limits it.
    pub(crate) fn account(&self, scope: &Scope) -> Option<Arc<Account>> {
        self.governor.plane().ledger.account(scope, self.now())
    }

    pub(crate) fn now(&self) -> Millis {
        self.governor.plane().hands.now()
    }

    fn pipeline(&self, agent: &str) -> anyhow::Result<Arc<Pipeline>> {
        self.governor
            .regime()
            .pipeline(agent)
            .with_context(|| format!("there is no agent `{agent}` in the configuration"))
    }

    /// The token of the last of so many calls that lead to one another, by agents that nobody knows.
    fn chain(&self, call: &Call, depth: u16) -> anyhow::Result<String> {
        let regime = self.governor.regime();
        let lineage = &regime.terms.lineage;
        let now = self.governor.plane().hands.now();
        let Principal { realm, id } = &call.context.principal;
        let mut token = None;
        for place in 1..=depth {
            let (before, agent): (Arc<str>, Arc<str>) = (step(place - 1).into(), step(place).into());
            let caller = (place > 1).then_some(&before);
            let arrival =
                Arrival { realm, agent: caller, anonymous: false, token: token.as_deref(), trace: None };
            let descent = lineage.attribute(&arrival, now).map_err(chancery_protocol::Error::from)?;
            // A chain that is too long is refused as it is, however much longer it was to be.
            let departure = Departure::new(HopId::generate(), realm, id, &agent);
            let Ok(opened) = lineage.dispatch(&descent, departure) else { break };
            token = Some(lineage.tokens.mint(&opened, now + A_MINUTE));
        }
        token.context("a chain has at least one call")
    }
}

fn step(place: u16) -> String {
    format!("caller-{place}")
}
