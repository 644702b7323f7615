//! Whether the gateway can do its work: take a call and write it down. For machines that ask all the time.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use chancery_sdk::{Body, Refused, Routes, Service, Way};
use chancery_store::Store;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::routes::{self, ProbeRoute};

/// Who knows whether it can.
#[derive(Clone)]
pub(crate) struct Readiness {
    store: Arc<Store>,
    /// Who serves, once that is known.
    service: Arc<OnceLock<Service>>,
    /// The directories that are written to.
    places: Arc<[PathBuf]>,
    /// What was found there, and when.
    looked: Arc<Mutex<Option<Looked>>>,
}

type Looked = (Instant, Result<(), String>);

/// For how long it counts that there is room.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// So much room there must be: a full disk has some for what is small, and none for a commit.
const ROOM_BYTES: usize = 256 << 10;

/// Writes into a file that nobody else sees, and that is gone at once. Only that knows of quotas, too.
fn has_room(place: &Path) -> Result<(), String> {
    let write = || tempfile::tempfile_in(place)?.write_all(&vec![1; ROOM_BYTES]);
    write().map_err(|error: std::io::Error| {
        tracing::error!(place = %place.display(), %error, "cannot write to {}", place.display());
        // Anybody may ask, and where it is is nobody's business.
        format!("cannot be written to: {error}")
    })
}

/// `/livez` and `/readyz` beside the agents, where the operator wants them there.
pub(crate) struct Probes(pub(crate) Readiness);

impl Readiness {
    /// With the directories that are written to.
    pub(crate) fn new(store: Arc<Store>, places: Vec<PathBuf>) -> Self {
        Self { store, service: Arc::default(), places: places.into(), looked: Arc::default() }
    }

    /// Says who serves, once that is known.
    pub(crate) fn serves(&self, service: Service) {
        let _ = self.service.set(service);
    }

    /// Every part with `ok`, or with what is wrong.
    pub(crate) async fn parts(&self) -> [(&'static str, String); 3] {
        let store = self.store.census().await.err().map(|error| error.to_string());
        let server = match self.service.get() {
            None => "starting",
            Some(service) if service.is_stopping() => "stopping",
            Some(_) => "ok",
        };
        let disk = self.disk().await.err().unwrap_or_else(|| "ok".to_owned());
        [("store", store.unwrap_or_else(|| "ok".to_owned())), ("disk", disk), ("server", server.to_owned())]
    }

    /// Whether there is room to write something down. It is looked at once in a while, however often it is asked for.
    async fn disk(&self) -> Result<(), String> {
        let mut looked = self.looked.lock().await;
        if let Some((at, found)) = &*looked
            && at.elapsed() < FRESH_FOR
        {
            return found.clone();
        }
        let places = self.places.clone();
        let looking =
            tokio::task::spawn_blocking(move || places.iter().try_for_each(|place| has_room(place)));
        let found = looking.await.unwrap_or_else(|error| Err(error.to_string()));
        *looked = Some((Instant::now(), found.clone()));
        found
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
        routes::find_path(&routes::PROBES, head.uri.path()).is_some()
    }

    fn find(&self, head: &Parts) -> Option<Way> {
        match routes::find(&routes::PROBES, &head.method, head.uri.path())?.route {
            ProbeRoute::Live => {
                Some(Way::answer(|_| async { Ok(Response::new(Body::from("ok\n".to_owned()))) }))
            }
            ProbeRoute::Ready => {
                let readiness = self.0.clone();
                Some(Way::answer(move |_| async move { ready(&readiness).await }))
            }
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
