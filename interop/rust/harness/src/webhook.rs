//! A receiver of notifications: takes everything, and remembers it.

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// It closes when this is dropped.
pub struct Webhook {
    /// Where to post to.
    pub url: String,
    notices: mpsc::Receiver<Notice>,
    serving: JoinHandle<()>,
}

/// One notification as it came.
pub struct Notice {
    headers: HeaderMap,
    /// What it says.
    pub body: Value,
}

/// How many notifications may wait to be looked at.
const QUEUED: usize = 64;

impl Webhook {
    /// Listens on a free port.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let (tell, notices) = mpsc::channel(QUEUED);
        let router = Router::new().route("/hook", post(take)).with_state(tell);
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, notices, serving })
    }

    /// All notifications up to the one that `is_end` likes.
    pub async fn until(&mut self, is_end: impl Fn(&Value) -> bool) -> anyhow::Result<Vec<Notice>> {
        let mut seen = Vec::new();
        loop {
            let notice = self.notices.recv().await.context("the webhook is closed")?;
            let ends = is_end(&notice.body);
            seen.push(notice);
            if ends {
                return Ok(seen);
            }
        }
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Notice {
    /// A header, if it is there and readable.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

async fn take(State(tell): State<mpsc::Sender<Notice>>, headers: HeaderMap, body: String) -> StatusCode {
    match serde_json::from_str(&body) {
        Ok(body) => {
            let _ = tell.send(Notice { headers, body }).await;
            StatusCode::NO_CONTENT
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}
