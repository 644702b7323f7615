//! What the gates would say to a call that nobody makes: those of a gateway that runs, or the control plane of a configuration
//! without a server, given what has been spent. Nothing is taken for it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use chancery_control::ledger::{Account, Scope};
use chancery_control::lineage::{Arrival, Departure, Open, OpenHop};
use chancery_control::routing::Reach;
use chancery_control::{Explanation, GateReport, Governed, Millis};
use chancery_protocol::{
    Call, CallContext, Endpoint, HopId, Identity, Message, OPERATIONS, Principal, Proof, Request,
    SendMessageRequest, parse_usd,
};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::ContainedFile;
use crate::config::{AgentKind, AgentSection, Config};
use crate::fleet::Roster;
use crate::gateway::public_name;
use crate::govern::{Foundations, Governor, breaker, pools};
use crate::{kinds, records};

/// A call that nobody makes.
#[derive(Clone, Debug, Args, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Supposed {
    /// Who calls
    #[arg(long, value_name = "NAME")]
    caller: String,

    /// The realm of the caller
    #[arg(long, default_value = "default", value_name = "NAME")]
    realm: String,

    /// A group that the caller belongs to; may be repeated
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,

    /// The caller is the agent of the fleet that has this name, and shows no lineage token
    #[arg(long, conflicts_with = "depth")]
    as_agent: bool,

    /// Which agent is called
    #[arg(long, value_name = "NAME")]
    agent: String,

    /// What is asked of it, by the operation's name in the protocol
    #[arg(long, default_value = "SendMessage", value_name = "OPERATION")]
    op: String,

    /// For which of its skills
    #[arg(long, value_name = "ID")]
    skill: Option<String>,

    /// How many calls have led to this one
    #[arg(long, default_value_t = 0, value_name = "N")]
    depth: u16,

    /// What the caller wants it to cost at most, in US dollars
    #[arg(long, value_name = "AMOUNT")]
    usd: Option<String>,
}

/// What would be decided, without a server.
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
            let skills = kinds::declared_skills(agent)?.into_iter().collect();
            let (pool, is_local) = (pools.get(&agent.name).cloned(), agent.kind != AgentKind::A2a);
            let name: Arc<str> = agent.name.as_str().into();
            let is_alone = !is_local && pool.is_none();
            let reach = is_alone.then(|| Reach::new(name.clone(), breaker(&config.routing)));
            anyhow::Ok(Arc::new(Governed { name, skills, pool, reach, is_local }))
        };
        let agents = config.agent.iter().map(governed).collect::<anyhow::Result<_>>()?;
        // It seals nothing that leaves this process.
        let secret = vec![0; 32];
        let (store, name) = (Arc::new(store), public_name(config));
        let roster = Roster::default();
        let foundations = Foundations {
            store,
            name,
            secret,
            federation: None,
            agents,
            roster,
            audit: Arc::default(),
            adjusts: false,
        };
        let governor = Governor::new(config, foundations).await?;
        for agent in &config.agent {
            governor.regime().rehearse(&agent.name, Arc::new(Nobody));
        }
        ContainedFile::of(&config.store.data).put_in_force(&governor.plane().containment)?;
        Ok(Self { governor, _copy: copy })
    }

    pub(crate) fn governor(&self) -> &Governor {
        &self.governor
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
}

// === impl Supposed ===

impl Supposed {
    /// What the gates would say.
    pub(crate) fn explain(&self, governor: &Governor) -> anyhow::Result<Explanation> {
        let (regime, now) = (governor.regime(), governor.plane().hands.now());
        let pipeline = regime.pipeline(&self.agent);
        let pipeline =
            pipeline.with_context(|| format!("there is no agent `{}` in the configuration", self.agent))?;
        let mut call = self.call()?;
        let rate = regime.foretell_rate(&call.context.principal);
        let mut chain = None;
        if self.depth > 0 {
            let made = Chain::make(governor, &call, self.depth)?;
            call.context.lineage = Some(made.token.clone());
            call.context.identity = Arc::new(Identity {
                proof: Proof::AgentToken,
                groups: call.context.identity.groups.clone(),
                agent: Some(step(self.depth).into()),
                ..Identity::default()
            });
            chain = Some(made);
        }
        let mut explanation = pipeline.explain(call, now);
        drop(chain);
        if let Some(rate) = rate {
            if rate.refuses() {
                explanation.gates.clear();
            }
            explanation.gates.insert(0, rate);
        }
        Ok(explanation)
    }

    fn call(&self) -> anyhow::Result<Call> {
        let row = OPERATIONS.iter().find(|row| row.method == self.op);
        let Some(row) = row else { bail!("there is no operation `{}`", self.op) };
        let message = Box::new(SendMessageRequest {
            tenant: String::new(),
            message: Message::user("explain"),
            configuration: None,
            metadata: None,
        });
        let request = match self.op.as_str() {
            "SendMessage" => Request::SendMessage(message),
            "SendStreamingMessage" => Request::SendStreamingMessage(message),
            _ => Request::decode(row.operation, br#"{"id":"x","taskId":"x","url":"https://x"}"#)
                .with_context(|| format!("cannot make a call of `{}`", self.op))?,
        };
        let principal = Principal::new(self.realm.as_str(), self.caller.as_str());
        let mut context = CallContext::new(principal, self.agent.as_str().into());
        context.identity = Arc::new(Identity {
            proof: Proof::ApiKey,
            groups: self.group.iter().map(|group| group.as_str().into()).collect(),
            agent: self.as_agent.then(|| self.caller.as_str().into()),
            ..Identity::default()
        });
        context.skill = self.skill.as_deref().map(Into::into);
        context.ceiling_micro_usd = match &self.usd {
            Some(text) => {
                Some(parse_usd(text).with_context(|| format!("`{text}` is no amount of US dollars"))?)
            }
            None => None,
        };
        Ok(Call { request, context })
    }
}

/// What the gates would say, for programs.
pub(crate) fn to_json(explanation: &Explanation) -> Value {
    let gates = explanation.gates.iter().map(|report: &GateReport| {
        let denied = report.denied.as_ref().map(|denied| {
            json!({"reason": denied.reason, "limit": denied.limit, "observed": denied.observed,
                "remaining": denied.remaining, "hint": denied.hint,
                "retryAfterMs": denied.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))})
        });
        json!({"gate": report.gate, "mode": format!("{:?}", report.mode).to_lowercase(), "denied": denied,
            "waits": report.waits, "notes": report.notes})
    });
    json!({"agent": explanation.agent, "operation": explanation.operation.method(),
        "admitted": explanation.denied().is_none(), "gates": gates.collect::<Vec<_>>()})
}

/// So many calls that lead to one another, by agents that nobody knows. They are open for as long as this is there.
struct Chain {
    /// That of the last of them.
    token: String,
    open: Arc<Open>,
    hops: Vec<Arc<OpenHop>>,
}

impl Chain {
    fn make(governor: &Governor, call: &Call, depth: u16) -> anyhow::Result<Self> {
        let (regime, now) = (governor.regime(), governor.plane().hands.now());
        let lineage = &regime.terms.lineage;
        let Principal { realm, id } = &call.context.principal;
        let mut chain = Self { token: String::new(), open: lineage.open.clone(), hops: Vec::new() };
        for place in 1..=depth {
            let (before, agent): (Arc<str>, Arc<str>) = (step(place - 1).into(), step(place).into());
            let caller = (place > 1).then_some(&before);
            let token = Some(chain.token.as_str()).filter(|token| !token.is_empty());
            let arrival = Arrival { realm, agent: caller, anonymous: false, token, trace: None };
            let descent = lineage.attribute(&arrival, now).map_err(chancery_protocol::Error::from)?;
            // A chain that is too long is refused as it is, however much longer it was to be.
            let departure = Departure::new(HopId::generate(), realm, id, &agent);
            let Ok(opened) = lineage.dispatch(&descent, departure) else { break };
            chain.token = lineage.tokens.mint(&opened, now + A_MINUTE);
            chain.hops.push(opened);
        }
        Ok(chain)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for hop in self.hops.iter().rev() {
            self.open.remove(hop);
        }
    }
}

fn step(place: u16) -> String {
    format!("caller-{place}")
}
