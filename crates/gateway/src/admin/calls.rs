//! Calls: those that are open with what they hold, and the whole tree under a call from outside.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use chancery_protocol::{Edge, HopId, Principal};
use chancery_store::{EdgeQuery, MOST_EDGES, Realms};
use http::StatusCode;
use serde_json::{Value, json};

use super::Problem;
use super::desk::Desk;
use super::operator::Operator;
use crate::rehearsal::{Supposed, to_json};

pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Json<Value> {
    let mut open = desk.plane().open_calls();
    open.sort_by_key(|call| (call.root, call.depth, call.hop));
    Json(json!({ "calls": open.iter().map(call).collect::<Vec<_>>() }))
}

/// What the gates would say to a call that nobody makes.
pub(super) async fn explain(
    State(desk): State<Arc<Desk>>,
    Json(supposed): Json<Supposed>,
) -> Result<Json<Value>, Problem> {
    let explained = supposed.explain(&desk.governor);
    let explanation = explained.map_err(|error| Problem(StatusCode::BAD_REQUEST, format!("{error:#}")))?;
    Ok(Json(json!({"text": explanation.to_string(), "explanation": to_json(&explanation)})))
}

/// The tree of a root: what is written, and what is open and may not be written yet.
pub(super) async fn tree(
    State(desk): State<Arc<Desk>>,
    Path(root): Path<String>,
) -> Result<Json<Value>, Problem> {
    let root = hop(&root)?;
    let mut query = EdgeQuery::of(Realms::All);
    (query.root, query.limit) = (Some(root), MOST_EDGES);
    let page = desk.store.edges(&query).await?;
    let is_cut = page.next.is_some();
    let mut calls: HashMap<HopId, Edge> = page.edges.into_iter().map(|edge| (edge.hop, edge)).collect();
    for open in desk.plane().open_calls().into_iter().filter(|call| call.root == root) {
        calls.entry(open.hop).or_insert(open);
    }
    if calls.is_empty() {
        return Err(Problem(StatusCode::NOT_FOUND, format!("no call of root {root} is known")));
    }
    let charged: u64 = calls.values().filter_map(|call| Some(call.settled.as_ref()?.charged.micro_usd)).sum();
    let mut children: HashMap<Option<HopId>, Vec<&Edge>> = HashMap::new();
    for edge in calls.values() {
        // One whose parent is no longer known stands at the top.
        let parent = edge.parent.filter(|parent| calls.contains_key(parent) && *parent != edge.hop);
        children.entry(parent).or_default().push(edge);
    }
    children.values_mut().for_each(|calls| calls.sort_by_key(|call| call.hop));
    let tree = branch(&children, None);
    Ok(Json(json!({ "root": root.to_string(), "chargedMicroUsd": charged, "cut": is_cut, "calls": tree })))
}

fn branch(children: &HashMap<Option<HopId>, Vec<&Edge>>, of: Option<HopId>) -> Value {
    let calls = children.get(&of).into_iter().flatten().map(|edge| {
        let mut shown = call(edge);
        shown["calls"] = branch(children, Some(edge.hop));
        shown
    });
    calls.collect()
}

/// Cancels an open task, whoever's it is, and with it what it has led to.
pub(super) async fn cancel(
    State(desk): State<Arc<Desk>>,
    Path(task): Path<String>,
    operator: Operator,
) -> Result<Json<Value>, Problem> {
    let open = desk.plane().open_calls();
    let found = open.into_iter().find(|call| call.task.as_ref().is_some_and(|id| id.as_str() == task));
    let Some((call, id)) = found.and_then(|call| call.task.clone().map(|id| (call, id))) else {
        return Err(Problem(StatusCode::NOT_FOUND, format!("no open call has a task `{task}`")));
    };
    let principal = Principal { realm: call.realm.clone(), id: call.caller.clone() };
    let canceled = desk.service.cancel_task(&call.agent, &principal, &id).await.map_err(|error| {
        Problem(StatusCode::BAD_GATEWAY, format!("task `{task}` is not canceled: {}", error.message()))
    })?;
    tracing::warn!(task.id = %id, agent = &*call.agent, canceled, "an operator cancels task {id}");
    let act = operator.act("task.cancel").target(id.as_str()).detail("agent", &*call.agent);
    let act = act.detail("caller", &*call.caller).detail("canceled", u64::from(canceled));
    desk.put_on_record(act).await?;
    Ok(Json(json!({ "task": task, "agent": &*call.agent, "canceled": canceled })))
}

fn hop(text: &str) -> Result<HopId, Problem> {
    HopId::parse(text).ok_or_else(|| Problem(StatusCode::BAD_REQUEST, format!("`{text}` is no id of a call")))
}

/// A call, to read.
fn call(edge: &Edge) -> Value {
    json!({
        "call": edge.hop.to_string(),
        "root": edge.root.to_string(),
        "parent": edge.parent.map(|parent| parent.to_string()),
        "depth": edge.depth,
        "trace": edge.trace.as_deref(),
        "realm": &*edge.realm,
        "caller": &*edge.caller,
        "agent": &*edge.agent,
        "skill": edge.skill.as_deref(),
        "member": edge.peer.as_deref(),
        "task": edge.task.as_ref().map(|task| task.as_str()),
        "opened": edge.opened.to_string(),
        "reserved": { "microUsd": edge.reserved.micro_usd, "tokens": edge.reserved.tokens },
        "settled": edge.settled.as_ref().map(|settled| json!({
            "at": settled.at.to_string(),
            "microUsd": settled.charged.micro_usd,
            "tokens": settled.charged.tokens,
            "overrunMicroUsd": settled.overrun.micro_usd,
            "overrunTokens": settled.overrun.tokens,
            "source": settled.source.as_str(),
            "state": settled.state.map(|state| state.as_str()),
        })),
    })
}
