//! Whether the gateway can do its work: take a call and write it down. For machines that ask all the time.

use std::sync::{Arc, OnceLock};

use chancery_sdk::{Body, Refused, Routes, Service, Way};
use chancery_store::Store;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

/// Who knows whether it can.
#[derive(Clone)]
pub(crate) struct Readiness {
    store: Arc<Store>,
    /// Who serves, once that is known.
    service: Arc<OnceLock<Service>>,
}

/// `/livez` and `/readyz` beside the agents, where the operator wants them there.
pub(crate) struct Probes(pub(crate) Readiness);

impl Readiness {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, service: Arc::default() }
    }

    /// Says who serves, once that is known.
    pub(crate) fn serves(&self, service: Service) {
        let _ = self.service.set(service);
    }

    /// Every part with `ok`, or with what is wrong.
    pub(crate) async fn parts(&self) -> [(&'static str, String); 2] {
        let store = self.store.census().await.err().map(|error| error.to_string());
        let server = match self.service.get() {
            None => "starting",
            Some(service) if service.is_stopping() => "stopping",
            Some(_) => "ok",
        };
        [("store", store.unwrap_or_else(|| "ok".to_owned())), ("server", server.to_owned())]
    }

    /// What is wrong.
    pub(crate) async fn problems(&self) -> Vec<String> {
        let parts = self.parts().await.into_iter().filter(|(_, how)| how != "ok");
        parts.map(|(part, how)| format!("{part}: {how}")).collect()
    }

    /// The answer to a probe.
    pub(crate) async fn report(&self) -> (StatusCode, Value) {
        let parts = self.parts().await;
        let ready = parts.iter().all(|(_, how)| how == "ok");
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let parts: serde_json::Map<_, _> =
            parts.into_iter().map(|(part, how)| (part.to_owned(), how.into())).collect();
        (status, json!({"ready": ready, "parts": parts}))
    }
}

impl Routes for Probes {
    fn is_probe(&self, head: &Parts) -> bool {
        matches!(head.uri.path(), "/livez" | "/readyz")
    }

    fn find(&self, head: &Parts) -> Option<Way> {
        if head.method != Method::GET && head.method != Method::HEAD {
            return None;
        }
        match head.uri.path() {
            "/livez" => Some(Way::answer(|_| async { Ok(Response::new(Body::from("ok\n".to_owned()))) })),
            "/readyz" => {
                let readiness = self.0.clone();
                Some(Way::answer(move |_| async move { ready(&readiness).await }))
            }
            _ => None,
        }
    }
}

async fn ready(readiness: &Readiness) -> Result<Response<Body>, Refused> {
    let (status, report) = readiness.report().await;
    let mut response = Response::new(Body::from(report.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
