//! Whether the gateway lives and can do its work, and what it has counted. For machines that ask all the time.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::desk::Desk;
use crate::metrics;

pub(super) async fn livez() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(State(desk): State<Arc<Desk>>) -> Response {
    let (status, report) = desk.readiness.report().await;
    (status, Json(report)).into_response()
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
