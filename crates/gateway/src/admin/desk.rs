//! Who knows what can be asked.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use chancery_control::routing::{Pool, Snapshot, Standing};
use chancery_control::{Millis, Plane};
use chancery_protocol::Timestamp;
use chancery_sdk::Service;
use chancery_store::Store;
use serde_json::{Value, json};

use super::ContainedFile;
use crate::config::Config;
use crate::metrics::{Member, Metrics, Moment};

/// What the desk has to go by.
pub(crate) struct Desk {
    pub(crate) config: Arc<Config>,
    pub(crate) plane: Arc<Plane>,
    pub(crate) pools: HashMap<String, Arc<Pool>>,
    pub(crate) store: Arc<Store>,
    pub(crate) service: Service,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) contained: ContainedFile,
}

impl Desk {
    pub(super) fn now(&self) -> Millis {
        self.plane.hands.now()
    }

    /// How many calls to each agent are open.
    pub(super) fn open_calls(&self) -> HashMap<Arc<str>, usize> {
        let mut open = HashMap::new();
        for call in self.plane.open_calls() {
            *open.entry(call.agent).or_default() += 1;
        }
        open
    }

    /// The members of a pool as they stand.
    pub(super) fn members(&self, agent: &str) -> Vec<Snapshot> {
        self.pools.get(agent).map(|pool| pool.members(self.now())).unwrap_or_default()
    }

    /// What stands at this moment. What the store cannot say is left out: metrics are wanted most when something is broken.
    pub(super) async fn moment(&self) -> Moment {
        let tasks = self.store.census().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "tasks cannot be counted");
            Vec::new()
        });
        let open = self.open_calls();
        let agents = self.config.agent.iter().map(|agent| {
            let name: Arc<str> = agent.name.as_str().into();
            let calls = open.get(&name).copied().unwrap_or_default();
            (name, calls)
        });
        let members = self.pools.iter().flat_map(|(agent, pool)| {
            pool.members(self.now()).into_iter().map(|member| Member {
                agent: agent.as_str().into(),
                member: member.peer.name.clone(),
                standing: member.standing,
                open: member.open,
            })
        });
        Moment {
            tasks,
            agents: agents.collect(),
            contained: self.plane.containment.all().keys().cloned().collect(),
            waiting: self.plane.ledger.waiting(),
            streams: self.service.open_streams(),
            members: members.collect(),
        }
    }
}

/// The configuration in force. There are no secrets in it: those have files and variables of their own.
pub(super) async fn config(State(desk): State<Arc<Desk>>) -> Json<Value> {
    Json(serde_json::to_value(&*desk.config).unwrap_or_default())
}

/// A member of a pool, to read.
pub(super) fn member(snapshot: &Snapshot) -> Value {
    let (standing, until) = match snapshot.standing {
        Standing::In => ("in", None),
        Standing::OnTrial => ("on trial", None),
        Standing::OutUntil(until) => ("out", Some(time(until))),
    };
    json!({
        "name": &*snapshot.peer.name,
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
