//! Agents: which there are, how they stand, who is cut off.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use chancery_control::Governed;
use chancery_control::routing::Snapshot;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Problem;
use super::desk::{Desk, member};
use super::operator::Operator;
use crate::fleet::Health;

/// Why an agent is contained.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    reason: String,
}

/// How long a reason may be: it stands in every refusal.
const LONGEST_REASON: usize = 500;

pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Json<Value> {
    let (open, config) = (desk.open_calls(), desk.reloader.config().await);
    let sections: HashMap<_, _> = config.agent.iter().map(|agent| (agent.name.as_str(), agent)).collect();
    let health: HashMap<_, _> = desk.health().into_iter().collect();
    let agents = desk.governor.agents().into_iter().map(|agent| {
        let name = &*agent.name;
        json!({
            "name": name,
            "kind": sections.get(name).map(|section| section.kind.as_str()),
            "upstream": sections.get(name).and_then(|section| section.url.as_deref()),
            "discoveredIn": sections.get(name).and_then(|section| section.discovered_in.as_deref()),
            "health": health.get(&agent.name).map(Health::whole),
            "contained": desk.plane().containment.reason(name),
            "openCalls": open.get(name).copied().unwrap_or_default(),
            "reach": agent.reach.as_ref().map(|reach| member(&reach.snapshot(desk.now()), None)),
            "members": members(&desk, &agent),
        })
    });
    Json(json!({ "agents": agents.collect::<Vec<_>>(), "leftOut": desk.reloader.left_out() }))
}

pub(super) async fn breakers(State(desk): State<Arc<Desk>>) -> Json<Value> {
    let agents = desk.governor.agents();
    let pools = agents
        .iter()
        .filter(|agent| agent.pool.is_some())
        .map(|agent| json!({ "agent": &*agent.name, "members": members(&desk, agent) }));
    Json(json!({ "pools": pools.collect::<Vec<_>>() }))
}

fn members(desk: &Desk, agent: &Governed) -> Vec<Value> {
    let health = |one: &Snapshot| desk.reloader.fleet().health_in(&agent.name, &one.peer.name);
    desk.members(agent).iter().map(|one| member(one, health(one).as_ref())).collect()
}

/// Cuts an agent off: refuses what is new, stops what runs, which ends its streams.
pub(super) async fn contain(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    operator: Operator,
    Json(why): Json<Why>,
) -> Result<Json<Value>, Problem> {
    known(&desk, &name)?;
    let reason = why.reason.trim();
    if reason.is_empty() || reason.len() > LONGEST_REASON || reason.chars().any(char::is_control) {
        let what = format!("`reason` must be a line of at most {LONGEST_REASON} bytes; callers will read it");
        return Err(Problem(StatusCode::BAD_REQUEST, what));
    }
    let stopped = desk.plane().contain(&name, reason);
    tracing::warn!(agent = name, reason, stopped, "agent `{name}` is contained: {reason}");
    let act = operator
        .act("agent.contain")
        .target(&name)
        .detail("reason", reason)
        .detail("stopped", stopped as u64);
    let on_record = desk.put_on_record(act).await;
    record(&desk)?;
    on_record?;
    Ok(Json(json!({ "agent": name, "contained": reason, "stopped": stopped })))
}

pub(super) async fn release(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    operator: Operator,
) -> Result<Json<Value>, Problem> {
    // Also one that is no longer configured.
    if !desk.plane().containment.release(&name) {
        known(&desk, &name)?;
        return Err(Problem(StatusCode::CONFLICT, format!("agent `{name}` is not contained")));
    }
    tracing::warn!(agent = name, "agent `{name}` is released");
    let on_record = desk.put_on_record(operator.act("agent.release").target(&name)).await;
    record(&desk)?;
    on_record?;
    Ok(Json(json!({ "agent": name, "contained": null })))
}

fn known(desk: &Desk, name: &str) -> Result<(), Problem> {
    match desk.governor.agents().iter().any(|agent| &*agent.name == name) {
        true => Ok(()),
        false => Err(Problem(StatusCode::NOT_FOUND, format!("there is no agent `{name}`"))),
    }
}

fn record(desk: &Desk) -> Result<(), Problem> {
    desk.contained.write(&desk.plane().containment.all()).map_err(|error| {
        let what = format!("done, but it will not outlive this process: {error:#}");
        Problem(StatusCode::INTERNAL_SERVER_ERROR, what)
    })
}
