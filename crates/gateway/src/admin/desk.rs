//! Who knows what can be asked.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use chancery_control::routing::{Snapshot, Standing};
use chancery_control::{Governed, Millis, Plane};
use chancery_protocol::Timestamp;
use chancery_sdk::Service;
use chancery_store::{AuditRecord, Store};
use http::StatusCode;
use serde_json::{Value, json};

use super::operator::Operator;
use super::{ContainedFile, Problem};
use crate::fleet::{Health, Reloader};
use crate::govern::Governor;
use crate::metrics::{Member, Metrics, Moment};
use crate::ready::Readiness;

/// What the desk has to go by.
pub(crate) struct Desk {
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) governor: Arc<Governor>,
    pub(crate) store: Arc<Store>,
    pub(crate) service: Service,
    pub(crate) contained: ContainedFile,
    pub(crate) readiness: Readiness,
}

impl Desk {
    pub(super) fn now(&self) -> Millis {
        self.plane().hands.now()
    }

    pub(super) fn plane(&self) -> &Plane {
        self.governor.plane()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        self.governor.metrics()
    }

    /// Writes down what an operator has done. It is done in any case: an agent that does harm must be stopped also when
    /// nothing can be written.
    pub(super) async fn put_on_record(&self, act: AuditRecord) -> Result<(), Problem> {
        self.governor.audit().act(act).await.map_err(|why| {
            let what = format!("done, but it is not in the audit log yet: {why}");
            Problem(StatusCode::INTERNAL_SERVER_ERROR, what)
        })
    }

    /// How many calls to each agent are open.
    pub(super) fn open_calls(&self) -> HashMap<Arc<str>, usize> {
        let mut open = HashMap::new();
        for call in self.plane().open_calls() {
            *open.entry(call.agent).or_default() += 1;
        }
        open
    }

    /// How each agent is.
    pub(super) fn health(&self) -> Vec<(Arc<str>, Health)> {
        self.reloader.fleet().healths()
    }

    /// The members of an agent that is a pool, as they stand.
    pub(super) fn members(&self, agent: &Governed) -> Vec<Snapshot> {
        agent.pool.as_ref().map(|pool| pool.members(self.now())).unwrap_or_default()
    }

    /// What stands at this moment. What the store cannot say is left out: metrics are wanted most when something is broken.
    pub(super) async fn moment(&self) -> Moment {
        let tasks = self.store.census().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "tasks cannot be counted");
            Vec::new()
        });
        let open = self.open_calls();
        let known = self.governor.agents();
        let agents = known.iter().map(|agent| {
            let calls = open.get(&agent.name).copied().unwrap_or_default();
            (agent.name.clone(), calls)
        });
        let members = known.iter().flat_map(|agent| {
            self.members(agent).into_iter().map(|member| Member {
                agent: agent.name.clone(),
                member: member.peer.name.clone(),
                standing: member.standing,
                open: member.open,
            })
        });
        let is_known = |health: &Health| health.status() != "unknown";
        let health = self.health().into_iter().filter(|(_, health)| is_known(health));
        Moment {
            tasks,
            agents: agents.collect(),
            up: health.map(|(agent, health)| (agent, !health.is_unhealthy())).collect(),
            contained: self.plane().containment.all().keys().cloned().collect(),
            waiting: self.plane().ledger.waiting(),
            streams: self.service.open_streams(),
            members: members.collect(),
            refused_connections: self.service.refused_connections(),
        }
    }
}

/// The configuration in force. There are no secrets in it: those have files and variables of their own.
pub(super) async fn config(State(desk): State<Arc<Desk>>) -> Json<Value> {
    Json(serde_json::to_value(&*desk.reloader.config().await).unwrap_or_default())
}

/// Has the configuration read again. If anything is wrong with it, the one from before stays.
pub(super) async fn reload(
    State(desk): State<Arc<Desk>>,
    operator: Operator,
) -> Result<Json<Value>, Problem> {
    match desk.reloader.clone().reload(operator.act("configuration.reload")).await {
        Ok(changes) => Ok(Json(serde_json::to_value(&changes).unwrap_or_default())),
        Err(error) => Err(Problem(StatusCode::CONFLICT, format!("{error:#}"))),
    }
}

/// A member of a pool, or an agent elsewhere that is none, to read.
pub(super) fn member(snapshot: &Snapshot, health: Option<&Health>) -> Value {
    let (standing, until) = match snapshot.standing {
        Standing::In => ("in", None),
        Standing::OnTrial => ("on trial", None),
        Standing::OutUntil(until) => ("out", Some(time(until))),
    };
    json!({
        "name": &*snapshot.peer.name,
        "health": health.map(Health::whole),
        "standing": standing,
        "until": until,
        "openCalls": snapshot.open,
        "failedPermille": snapshot.failed_permille,
        "latencyMs": snapshot.latency.map(|latency| latency.as_secs_f64() * 1e3),
        "costMicroUsd": snapshot.cost_micro_usd,
    })
}

pub(super) fn time(at: Millis) -> String {
    Timestamp::from_millis(i64::try_from(at.0).unwrap_or(i64::MAX)).to_string()
}
