//! Whether the gateway lives and can do its work, and what it has counted. For machines that ask all the time.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;

use super::desk::Desk;
use crate::metrics;

pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Ready is who can take a call and write it down.
pub(super) async fn readyz(State(desk): State<Arc<Desk>>) -> Response {
    let store = desk.store.census().await.err().map(|error| error.to_string());
    let stopping = desk.service.is_stopping();
    let status = match store.is_none() && !stopping {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let parts = json!({
        "store": store.unwrap_or_else(|| "ok".to_owned()),
        "server": if stopping { "stopping" } else { "ok" },
    });
    (status, Json(json!({ "ready": status == StatusCode::OK, "parts": parts }))).into_response()
}

pub(super) async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    match desk.metrics().render(&desk.moment().await) {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
