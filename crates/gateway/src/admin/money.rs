//! Budgets: every account that limits anything, and how its limits stand.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::desk::{Desk, time};

pub(super) async fn budgets(State(desk): State<Arc<Desk>>) -> Json<Value> {
    let now = desk.now();
    let mut accounts = desk.plane().ledger.accounts();
    accounts.sort_by_key(|account| account.scope().to_string());
    let accounts = accounts.iter().map(|account| {
        let limits = account.standings(now).into_iter().map(|standing| {
            json!({
                "metric": standing.metric.as_str(),
                "window": standing.window.as_str(),
                "cap": standing.cap,
                "held": standing.held,
                "charged": standing.charged,
                "remaining": standing.remaining,
                "freesAt": standing.frees_at.map(time),
            })
        });
        json!({ "account": account.scope().to_string(), "limits": limits.collect::<Vec<_>>() })
    });
    Json(json!({ "accounts": accounts.collect::<Vec<_>>(), "waiting": desk.plane().ledger.waiting() }))
}
